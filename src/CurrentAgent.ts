/**
 * Says who delegates: the small identity on whose behalf a tool handler or a model call runs.
 *
 * It is required, never defaulted: a program that delegates without saying for whom does not compile.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Schema from "effect/Schema"
import type * as Session from "./Session.ts"

/**
 * Which tools an agent may see and run: `allow` first, then `deny` (S158, S160). At least one of the two lists is
 * given; `allow: []` hides every tool. Restrictions only ever intersect on the way down a tree of agents.
 *
 * `remote: "allow"` lets a restricted agent start children of providers that cannot carry a restriction.
 *
 * @category schemas
 * @since 0.1.0
 */
export const ToolRestriction = Schema.Struct({
  allow: Schema.optional(Schema.Array(Schema.String)),
  deny: Schema.optional(Schema.Array(Schema.String)),
  remote: Schema.optional(Schema.Literal("allow"))
})

/**
 * @category models
 * @since 0.1.0
 */
export type ToolRestriction = typeof ToolRestriction.Type

/**
 * Limits on the tree below an agent. They are carried by `CurrentAgent` and only ever narrowed. All are natural numbers.
 *
 * - `maxDepth`: the deepest a child may be (a root has depth 0)
 * - `maxChildren`: children of one parent running at once; more wait in a fair queue
 * - `maxWait`: milliseconds a child may wait in that queue
 * - `maxRunning`: children running at once in the whole tree; more fail at once
 *
 * @category models
 * @since 0.1.0
 */
export interface Limits {
  readonly maxDepth: number
  readonly maxChildren: number
  readonly maxWait: number
  readonly maxRunning: number
}

/**
 * Says for how long somebody delegates, and tells who listens when that is over. Unlike an `AbortSignal` it takes any
 * number of listeners, and costs nothing until the first one comes.
 *
 * @category models
 * @since 0.1.0
 */
export class Lifetime {
  #ended: "interrupted" | "closed" | undefined
  #listeners: Set<() => void> | undefined

  /** How it ended, if it has: the agent's turn was interrupted, or the agent closed for good. */
  get ended(): "interrupted" | "closed" | undefined {
    return this.#ended
  }

  /** Whether somebody listens. */
  get observed(): boolean {
    return this.#listeners !== undefined && this.#listeners.size > 0
  }

  /** Ends it and tells the listeners. Only the first call counts. */
  end(how: "interrupted" | "closed"): void {
    if (this.#ended !== undefined) return
    this.#ended = how
    const listeners = this.#listeners
    this.#listeners = undefined
    if (listeners !== undefined) { for (const listener of listeners) listener() }
  }

  /** Calls `listener` once, when it ends or at once if it has. Returns what takes the listener back. */
  onEnd(listener: () => void): () => void {
    if (this.#ended !== undefined) {
      listener()
      return () => {}
    }
    this.#listeners ??= new Set()
    const listeners = this.#listeners.add(listener)
    return () => void listeners.delete(listener)
  }
}

/**
 * The agent that delegates.
 *
 * - `sessionId`: its session
 * - `depth`: delegations above it
 * - `cwd`: its working directory
 * - `model`: the name of the model it uses; `undefined` for the default model
 * - `maxTokens`: output tokens a model call of it may use; `undefined` for the model's own limit
 * - `restrictions`: what is hidden from it; every one of them applies
 * - `limits`: what it may start
 * - `lifetime`: ends when its turn is interrupted or it closes; everything that it delegated ends then
 *
 * @category services
 * @since 0.1.0
 */
export class CurrentAgent extends Context.Service<CurrentAgent, {
  readonly sessionId: Session.SessionId
  readonly depth: number
  readonly cwd: string
  readonly model: string | undefined
  readonly maxTokens: number | undefined
  readonly restrictions: ReadonlyArray<ToolRestriction>
  readonly limits: Limits
  readonly lifetime: Lifetime
}>()("effect-subagent/CurrentAgent") {}

/**
 * The limits that hold where nobody set others: depth 3, 10 running children a parent with 5 minutes of patience in
 * the queue, 256 running children a tree.
 *
 * @category constants
 * @since 0.1.0
 */
export const defaultLimits: Limits = { maxDepth: 3, maxChildren: 10, maxWait: 300_000, maxRunning: 256 }

/**
 * The narrower of two limits, each by each: what a child inherits can only shrink.
 *
 * @category combinators
 * @since 0.1.0
 */
export const narrow = (limits: Limits, by: Partial<Limits> | undefined): Limits =>
  by === undefined ? limits : {
    maxDepth: Math.min(limits.maxDepth, by.maxDepth ?? limits.maxDepth),
    maxChildren: Math.min(limits.maxChildren, by.maxChildren ?? limits.maxChildren),
    maxWait: Math.min(limits.maxWait, by.maxWait ?? limits.maxWait),
    maxRunning: Math.min(limits.maxRunning, by.maxRunning ?? limits.maxRunning)
  }

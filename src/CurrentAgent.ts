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
 * number of listeners, and costs nothing until the first one comes. One that lies `within` a longer one ends with it at
 * the latest.
 *
 * @category models
 * @since 0.1.0
 */
export class Lifetime {
  readonly #within: Lifetime | undefined
  #ended: "interrupted" | "closed" | undefined
  #listeners: Set<() => void> | undefined
  #unfollow: (() => void) | undefined
  #holds = 0
  #free: Set<() => void> | undefined

  constructor(within?: Lifetime) {
    this.#within = within
  }

  /** How it ended, if it has: the agent's turn was interrupted, or the agent closed for good. */
  get ended(): "interrupted" | "closed" | undefined {
    return this.#ended ?? this.#within?.ended
  }

  /** Whether something that was delegated in it is not over yet. */
  get held(): boolean {
    return this.#holds > 0
  }

  /**
   * Says that something is delegated in it, which ends with it within bounds of its own. Whoever waits for the end of
   * the delegating turn is patient as long as that takes. Returns what says that it is over.
   */
  hold(): () => void {
    this.#holds++
    let held = true
    return () => {
      if (!held) return
      held = false
      if (--this.#holds > 0) return
      const free = this.#free
      this.#free = undefined
      if (free !== undefined) { for (const listener of free) listener() }
    }
  }

  /** Calls `listener`, which must not throw, once nothing holds it any more. Returns what takes it back. */
  onFree(listener: () => void): () => void {
    if (this.#holds === 0) {
      listener()
      return () => {}
    }
    const free = this.#free ??= new Set()
    free.add(listener)
    return () => void free.delete(listener)
  }

  /** Ends it, runs `first`, and then tells the listeners. Only the first call counts. */
  end(how: "interrupted" | "closed", first?: () => void): void {
    if (this.#ended !== undefined) return
    this.#ended = this.#within?.ended ?? how
    first?.()
    this.#unfollow?.()
    const listeners = this.#listeners
    this.#listeners = this.#unfollow = undefined
    if (listeners !== undefined) { for (const listener of listeners) listener() }
  }

  /** Calls `listener`, which must not throw, once: when it ends, or at once if it has. Returns what takes it back. */
  onEnd(listener: () => void): () => void {
    if (this.ended !== undefined) {
      listener()
      return () => {}
    }
    const entry = () => listener()
    const listeners = this.#listeners ??= new Set()
    listeners.add(entry)
    // the longer one is only watched while somebody listens: it may see many shorter ones come and go
    if (this.#within !== undefined) this.#unfollow ??= this.#within.onEnd(() => this.end(this.#within!.ended!))
    return () => {
      listeners.delete(entry)
      if (listeners.size > 0 || this.#listeners !== listeners) return
      this.#unfollow?.()
      this.#unfollow = undefined
    }
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

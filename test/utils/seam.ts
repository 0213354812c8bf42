/**
 * Providers made by hand, for tests of the seam alone: no agent, no model, no store.
 */
import { Deferred, Effect, type Exit, Logger, Option, type Scope, Stream } from "effect"
import * as Prompt from "effect/ai/Prompt"
import { CurrentAgent, defaultLimits, Lifetime, type Limits } from "../../src/CurrentAgent.ts"
import { noUsage } from "../../src/Session.ts"
import type { SessionId } from "../../src/Session.ts"
import type * as Subagent from "../../src/Subagent.ts"

/** All that a request may ask for. */
export const able = {
  outputSchema: true,
  depthLimit: true,
  toolFilter: true,
  persona: true,
  model: true,
  maxTokens: true,
  steer: false,
  resume: false
} as const

/** None of it. */
export const unable = {
  outputSchema: false,
  depthLimit: false,
  toolFilter: false,
  persona: false,
  model: false,
  maxTokens: false,
  steer: false,
  resume: false
} as const

/** Somebody who delegates. */
export const agent = (
  options: Partial<Omit<CurrentAgent["Service"], "sessionId" | "limits">> & {
    readonly id?: string
    readonly limits?: Partial<Limits>
  } = {}
): CurrentAgent["Service"] => {
  const { id = "parent", limits, ...rest } = options
  return {
    sessionId: id as SessionId,
    depth: 0,
    cwd: "/work",
    model: undefined,
    maxTokens: undefined,
    restrictions: [],
    lifetime: new Lifetime(),
    ...rest,
    limits: { ...defaultLimits, ...limits }
  }
}

/** Runs an effect on somebody's behalf. */
export const on = (parent: CurrentAgent["Service"]) => Effect.provideService(CurrentAgent, parent)

/** A completed result that says `text`. */
export const says = (text: string, structured?: unknown): Subagent.Result<unknown> => ({
  _tag: "Completed",
  text,
  output: text === "" ? [] : [Prompt.makePart("text", { text })],
  usage: noUsage,
  structured
})

let ids = 0

/** What a provider gives back for a remote child that has completed, unless the options say otherwise. */
export const child = (options: Partial<Subagent.ProviderRun<typeof able>> = {}): Subagent.ProviderRun<typeof able> => ({
  id: `child-${++ids}`,
  localAgent: Option.none(),
  result: Effect.succeed(says("done")),
  progress: Stream.empty,
  ...options
})

type Resolved = Subagent.ResolvedStart<typeof able>

/** A child that does what the test tells it. */
export interface Puppet {
  readonly id: string
  readonly request: Resolved
  readonly settle: (exit: Exit.Exit<Subagent.Result<unknown>, Subagent.RunFailed>) => void
  /** Settles it with a completed result. */
  readonly say: (text: string, structured?: unknown) => void
  /** Whether the provider's scope is closed. */
  released: boolean
}

/** A provider of puppets; `started` has them in the order in which the provider was called. */
export const puppeteer = (options: {
  /** Has to succeed before a child is published. */
  readonly opening?: (request: Resolved) => Effect.Effect<unknown, Subagent.StartFailed, Scope.Scope>
  /** Runs when the scope closes, before the child counts as released. */
  readonly closing?: Effect.Effect<unknown>
  /** What the child has said when it is cancelled. */
  readonly partial?: string
  readonly id?: string
} = {}) => {
  const started: Array<Puppet> = []
  let calls = 0
  const start = (request: Resolved) =>
    Effect.gen(function*() {
      calls++
      if (options.opening !== undefined) yield* options.opening(request)
      const settled = Deferred.makeUnsafe<Subagent.Result<unknown>, Subagent.RunFailed>()
      const puppet: Puppet = {
        id: options.id ?? `puppet-${++ids}`,
        request,
        settle: (exit) => void Deferred.doneUnsafe(settled, exit),
        say: (text, structured) => void Deferred.doneUnsafe(settled, Effect.succeed(says(text, structured))),
        released: false
      }
      yield* Effect.addFinalizer(() =>
        Effect.gen(function*() {
          if (options.closing !== undefined) yield* options.closing
          puppet.released = true
          const cause = Option.getOrElse(yield* request.abortCause, () => "disposed" as const)
          const { _tag: _, ...partial } = says(options.partial ?? "")
          Deferred.doneUnsafe(settled, Effect.succeed({ _tag: "Aborted", ...partial, cause }))
        })
      )
      started.push(puppet)
      return child({ id: puppet.id, result: Deferred.await(settled) })
    })
  return {
    started,
    /** How often the provider was asked. */
    get calls() {
      return calls
    },
    implementation: { start } satisfies Subagent.Implementation<typeof able>
  }
}

/** What a subscriber has seen so far. */
export const watching = <A>(stream: Stream.Stream<A>) =>
  Effect.gen(function*() {
    const seen: Array<A> = []
    yield* Effect.forkScoped(Stream.runForEach(stream, (value) => Effect.sync(() => seen.push(value))), {
      startImmediately: true
    })
    return seen
  })

/** Lets everything that is ready have its turn. */
export const settled = Effect.gen(function*() {
  for (let i = 0; i < 20; i++) yield* Effect.yieldNow
})

/** What is logged as an error. */
export const logging = () => {
  const errors: Array<string> = []
  const layer = Logger.layer([
    Logger.make(({ logLevel, message }) => void (logLevel === "Error" && errors.push(String(message))))
  ])
  return { errors, layer }
}

/** A defect that refuses to be shown. */
export const unprintable = {
  toString(): string {
    throw new Error("no")
  },
  toJSON() {
    throw new Error("no")
  }
}

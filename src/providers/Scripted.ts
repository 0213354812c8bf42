/**
 * Plays children from a script, so that a program that delegates can be tested without any model or agent.
 *
 * The provider {@link Scripted} can do everything; {@link layerFor} plays any other provider's children, with the
 * capabilities that its class says. What was asked of them, sent into them and released of them is recorded.
 *
 * ```ts
 * Scripted.delegate({ prompt: "Audit a.ts" }).pipe(
 *   Effect.provide(Scripted.layer([[Scripted.text("Looks fine")]])),
 *   Effect.provide([Subagent.layer(), Scripted.layerCaller()])
 * )
 * ```
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { CurrentAgent, defaultLimits, Lifetime } from "../CurrentAgent.ts"
import { boundText } from "../internal/session/bounded.ts"
import * as Session from "../Session.ts"
import * as Subagent from "../Subagent.ts"
import { implement, type Journal } from "./internal/scripted.ts"
import type {
  Act,
  Ending,
  Message,
  Play,
  Reaction,
  Release,
  Request,
  Script,
  Steering
} from "./internal/scriptedPlay.ts"

export type { Act, Ending, Message, Play, Reaction, Release, Request, Script, Steering }

// -----------------------------------------------------------------------------
// the provider
// -----------------------------------------------------------------------------

/**
 * Children that play a script. They are no agents of this process: a run has no `localAgent`, and no session is stored.
 *
 * @category services
 * @since 0.1.0
 */
export class Scripted extends Subagent.Provider<Scripted>()("scripted", {
  outputSchema: true,
  depthLimit: true,
  toolFilter: true,
  persona: true,
  model: true,
  maxTokens: true,
  steer: true,
  resume: false
}) {}

/**
 * Starts a scripted child.
 *
 * @category accessors
 * @since 0.1.0
 */
export const start: typeof Scripted.start = Scripted.start

/**
 * Starts a scripted child, waits for its result and for its release.
 *
 * @category accessors
 * @since 0.1.0
 */
export const delegate: typeof Scripted.delegate = Scripted.delegate

/**
 * What happened to the scripted children of a program so far, in order, whatever their providers.
 *
 * - `starts`: what their providers were asked for, also where the start failed or was cancelled
 * - `steers`: the messages that were sent into them
 * - `releases`: the children that are gone
 *
 * @category services
 * @since 0.1.0
 */
export class Recording extends Context.Service<Recording, {
  readonly starts: Effect.Effect<ReadonlyArray<Request>>
  readonly steers: Effect.Effect<ReadonlyArray<Steering>>
  readonly releases: Effect.Effect<ReadonlyArray<Release>>
}>()("effect-subagent/providers/Scripted/Recording") {}

class Writer extends Context.Service<Writer, Journal>()("effect-subagent/providers/Scripted/Writer") {}

// one constant: providers whose layers are built together share it, as a layer is built once
const recording: Layer.Layer<Recording | Writer> = Layer.effectContext(Effect.sync(() => {
  const journal: Journal = { starts: [], steers: [], releases: [] }
  return Context.make(Writer, journal).pipe(
    Context.add(Recording, {
      starts: Effect.sync(() => journal.starts.slice()),
      steers: Effect.sync(() => journal.steers.slice()),
      releases: Effect.sync(() => journal.releases.slice())
    })
  )
}))

/**
 * Registers a provider whose children play a script, and records what happens to them. Providers whose layers are built
 * together share one {@link Recording}.
 *
 * ```ts
 * class Reviewer extends Subagent.Provider<Reviewer>()("reviewer", { ...nothing, persona: true }) {}
 *
 * const layer = Scripted.layerFor(Reviewer, [
 *   [Scripted.text("LGTM")],
 *   Scripted.refuse("AuthRequired", "log in first"),
 *   { run: [Scripted.text("Hm"), Scripted.hang], release: Effect.sleep("1 second") }
 * ])
 * ```
 *
 * @category layers
 * @since 0.1.0
 */
export const layerFor = <Self, Name extends string, C extends Subagent.Capabilities>(
  provider: Subagent.Provider<Self, Name, C>,
  script: Script
): Layer.Layer<
  Self | Recording,
  Subagent.DuplicateProvider | Subagent.InvalidProvider,
  Subagent.Subagents
> =>
  Layer.provideMerge(
    provider.toLayer(Effect.map(Writer, (journal) => implement(provider, journal, script))),
    recording
  )

/**
 * Registers {@link Scripted} as `scripted`; see {@link layerFor}.
 *
 * @category layers
 * @since 0.1.0
 */
export const layer = (
  script: Script
): Layer.Layer<
  Scripted | Recording,
  Subagent.DuplicateProvider | Subagent.InvalidProvider,
  Subagent.Subagents
> => layerFor(Scripted, script)

/**
 * Somebody to delegate for where there are no agents: a root with the session id `caller`, the working directory `/`
 * and the default limits, unless `identity` says otherwise.
 *
 * @category layers
 * @since 0.1.0
 */
export const layerCaller = (identity: Partial<CurrentAgent["Service"]> = {}): Layer.Layer<CurrentAgent> =>
  Layer.sync(CurrentAgent, () => ({
    sessionId: Session.SessionId.make("caller"),
    depth: 0,
    cwd: "/",
    model: undefined,
    maxTokens: undefined,
    restrictions: [],
    limits: defaultLimits,
    lifetime: new Lifetime(),
    ...identity
  }))

// -----------------------------------------------------------------------------
// what a child does
// -----------------------------------------------------------------------------

/**
 * Says a text, piece by piece, as one message. The last message that is not empty, or what has been said of it, is the
 * text of the result, whatever that is.
 *
 * @category constructors
 * @since 0.1.0
 */
export const text = (...deltas: ReadonlyArray<string>): Act => ({ _tag: "Say", deltas })

/**
 * Shows progress of any other kind.
 *
 * @category constructors
 * @since 0.1.0
 */
export const progress = (event: Subagent.Progress): Act => ({ _tag: "Show", progress: event })

/**
 * Thinks aloud.
 *
 * @category constructors
 * @since 0.1.0
 */
export const reasoning = (delta: string): Act => progress({ _tag: "Reasoning", delta })

/**
 * Shows a tool call: its start, then whatever the child does `during` it, then its end. The id is made up from the name
 * when it is not given.
 *
 * @category constructors
 * @since 0.1.0
 */
export const tool = (name: string, options: {
  readonly params?: unknown
  readonly id?: string | undefined
  readonly isFailure?: boolean | undefined
  readonly during?: ReadonlyArray<Act> | undefined
} = {}): Act => ({
  _tag: "Tool",
  name,
  params: options.params ?? {},
  id: options.id ?? `call-${name}`,
  isFailure: options.isFailure === true,
  during: options.during ?? []
})

/**
 * Uses tokens, model calls or money, on top of what was used before. The service measures the time itself.
 *
 * @category constructors
 * @since 0.1.0
 */
export const spend = (usage: Partial<Omit<Session.Usage, "elapsed">>): Act => ({ _tag: "Spend", usage })

/**
 * Waits for an effect: a latch of the test, for example, or one that tells the test how far the child is. A child
 * whose effect dies is a broken provider: the run fails `RunFailed` with `ProviderFault`. To ignore being cancelled,
 * wait for an uninterruptible effect.
 *
 * @category constructors
 * @since 0.1.0
 */
export const wait = (effect: Effect.Effect<unknown>): Act => ({ _tag: "Wait", effect })

/**
 * Pauses.
 *
 * @category constructors
 * @since 0.1.0
 */
export const delay = (duration: Duration.Input): Act => wait(Effect.sleep(duration))

/**
 * Never goes on.
 *
 * @category constants
 * @since 0.1.0
 */
export const hang: Act = wait(Effect.never)

/**
 * Waits until one more message has been steered in.
 *
 * @category constants
 * @since 0.1.0
 */
export const steered: Act = { _tag: "Steered" }

/**
 * Goes on as the messages say that were steered in so far.
 *
 * @category constructors
 * @since 0.1.0
 */
export const decide = (acts: (heard: ReadonlyArray<Message>) => ReadonlyArray<Act>): Act => ({ _tag: "Decide", acts })

// -----------------------------------------------------------------------------
// how it ends; what comes after that is not played
// -----------------------------------------------------------------------------

const settle = (ending: Ending): Act => ({ _tag: "Settle", ending })

/**
 * Completes, with a structured value as plain JSON where one was asked for. One that does not fit the schema becomes a
 * `Failed` result, as with any provider.
 *
 * @category constructors
 * @since 0.1.0
 */
export const complete = (structured?: unknown): Act => settle({ _tag: "Completed", structured })

/**
 * Fails; `diagnostic` is cut to 4096 UTF-8 bytes.
 *
 * @category constructors
 * @since 0.1.0
 */
export const fail = (reason: string, options: {
  readonly diagnostic?: string | undefined
  readonly retryable?: boolean | undefined
} = {}): Act =>
  settle({
    _tag: "Failed",
    reason,
    retryable: options.retryable === true,
    diagnostic: boundText(options.diagnostic ?? reason)
  })

/**
 * Is cut off at its output limit.
 *
 * @category constants
 * @since 0.1.0
 */
export const maxTokens: Act = settle({ _tag: "MaxTokens" })

/**
 * Declines.
 *
 * @category constants
 * @since 0.1.0
 */
export const refusal: Act = settle({ _tag: "Refusal" })

/**
 * Is aborted from its own side, by a person who sits there, or by a budget.
 *
 * @category constructors
 * @since 0.1.0
 */
export const abort = (cause: Session.AbortCause): Act => settle({ _tag: "Aborted", cause })

/**
 * Ends for a reason of its backend's own.
 *
 * @category constructors
 * @since 0.1.0
 */
export const other = (reason: string): Act => settle({ _tag: "Other", reason })

/**
 * Ends without a result: the run fails `RunFailed`.
 *
 * @category constructors
 * @since 0.1.0
 */
export const runFailed = (reason: Subagent.RunFailed["reason"], diagnostic: string = reason): Act =>
  settle({ _tag: "RunFailed", reason, diagnostic: boundText(diagnostic) })

/**
 * A child that cannot be started; `diagnostic` is cut to 4096 UTF-8 bytes.
 *
 * @category constructors
 * @since 0.1.0
 */
export const refuse = (reason: Subagent.StartFailed["reason"], diagnostic: string = reason): Play => ({
  start: Effect.fail(new Subagent.StartFailed({ provider: "", reason, diagnostic })),
  run: []
})

/**
 * Builds a world for one case of the conformance suite, and looks at what is left of it.
 */
import * as Deferred from "effect/Deferred"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import type * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type { CurrentAgent } from "../../CurrentAgent.ts"
import * as Subagent from "../../Subagent.ts"

/**
 * How every child of one world behaves.
 *
 * - `Answer`: works until `until` is done, then completes with the text of the last message that reached it: its prompt,
 *   or what was steered in meanwhile
 * - `Hang`: waits until `after` is done, says `text`, then nothing more, and never ends by itself
 * - `Structured`: gives this JSON as its structured output, once, and then gives up
 * - `Fail`: fails, as it would when its model or its transport did
 *
 * Several children may wait for `until` and `after`; a child that runs elsewhere may wait for half a second instead.
 *
 * @category models
 * @since 0.1.0
 */
export type Behaviour =
  | { readonly _tag: "Answer"; readonly until: Effect.Effect<void> }
  | { readonly _tag: "Hang"; readonly after: Effect.Effect<void>; readonly text: string }
  | { readonly _tag: "Structured"; readonly json: Schema.Json }
  | { readonly _tag: "Fail" }

/**
 * A provider, and worlds to try it in.
 *
 * - `layer`: registers it; built and closed within its `environment`
 * - `environment`: the service, somebody to delegate for, and whatever else the provider needs
 * - `leftovers`: asked when all runs are over and the provider is closed, before the environment is: a line for each
 *   thing that is still alive, such as agents, processes or connections
 * - `streams`: whether what a child says shows in `progress` while it says it; `true` by default. Without it, the text
 *   that a cancelled child leaves is not checked
 * - `timeout`: how long one case may take, 10 seconds by default
 *
 * @category models
 * @since 0.1.0
 */
export interface Options<R> {
  readonly provider: Subagent.Provider.Named<Subagent.Capabilities>
  readonly layer: (behaviour: Behaviour) => Layer.Layer<never, unknown, R | Subagent.Subagents>
  readonly environment: (behaviour: Behaviour) => Layer.Layer<R | Subagent.Subagents | CurrentAgent, unknown>
  readonly leftovers?: Effect.Effect<ReadonlyArray<string>, never, R> | undefined
  readonly streams?: boolean | undefined
  readonly timeout?: Duration.Input | undefined
}

/** @internal */
export type Run = Subagent.Run<unknown> & Subagent.Steerable<Subagent.Unchecked>
type Asked = Subagent.Request<Subagent.Unchecked>

/** @internal */
export type Body<E = unknown> = Effect.Effect<void, E, CurrentAgent | Scope.Scope>

/** @internal What a case works with. */
export interface World {
  readonly name: string
  readonly subagents: Subagent.Subagents["Service"]
  readonly start: (request: Asked) => Effect.Effect<Run, unknown, CurrentAgent | Scope.Scope>
  readonly events: ReadonlyArray<Subagent.SubagentEvent>
  /** What its children wait for. */
  readonly gate: Deferred.Deferred<void>
  /** Closes the provider's layer. */
  readonly close: Effect.Effect<void>
  /** What a child that hangs says; nothing is expected of one that does not stream. */
  readonly text: string | undefined
  /** Lets a child that hangs speak, and waits until it has. */
  readonly speaks: (run: Run) => Effect.Effect<void, unknown, Scope.Scope>
}

/** @internal */
export class Seen {
  readonly issue: string
  constructor(issue: string) {
    this.issue = issue
  }
}

/** @internal */
export const expect = (holds: boolean, issue: () => string): Effect.Effect<void, Seen> =>
  holds ? Effect.void : Effect.suspend(() => Effect.fail(new Seen(issue())))

/** @internal */
export const show = (value: unknown): string => JSON.stringify(value) ?? String(value)

/** @internal The error that an effect has to fail with. */
export const refused = <E, R>(effect: Effect.Effect<unknown, E, R>, what: string): Effect.Effect<E, Seen, R> =>
  Effect.matchEffect(effect, {
    onFailure: Effect.succeed,
    onSuccess: () => Effect.fail(new Seen(`${what} succeeds`))
  })

const unpaired = (events: ReadonlyArray<Subagent.SubagentEvent>): ReadonlyArray<string> => {
  const open = new Map<string, string>()
  const issues: Array<string> = []
  const known = new Set<string>()
  for (const event of events) {
    if (event._tag !== "RunStarted" && event._tag !== "RunEnded") continue
    const { id, local, parent, provider, runId } = event
    const told = show([provider, id, parent, local])
    if (event._tag === "RunStarted") {
      if (known.has(runId)) issues.push(`run ${runId} starts twice`)
      known.add(runId)
      open.set(runId, told)
    } else {
      if (!open.has(runId)) issues.push(`run ${runId} ends without a start, or twice`)
      else if (open.get(runId) !== told) issues.push(`run ${runId} starts as ${open.get(runId)} and ends as ${told}`)
      open.delete(runId)
    }
  }
  for (const runId of open.keys()) issues.push(`run ${runId} starts and never ends`)
  return issues
}

const settles = (issues: () => ReadonlyArray<string>): Effect.Effect<void, Seen> =>
  Effect.gen(function*() {
    // whoever listens hears of it a moment later
    for (let i = 0; i < 20 && issues().length > 0; i++) yield* Effect.yieldNow
    const left = issues()
    yield* expect(left.length === 0, () => left.join("; "))
  })

const hears = (run: Run, text: string): Effect.Effect<void, Seen> =>
  Effect.gen(function*() {
    let heard = ""
    yield* Stream.runDrain(Stream.takeUntil(run.progress, (event) => {
      if (event._tag === "StepRestarted") heard = ""
      if (event._tag === "Text") heard += event.delta
      return heard.includes(text)
    }))
    yield* expect(heard.includes(text), () => `its progress ended with ${show(heard)}, without ${show(text)}`)
  })

/** @internal */
export const inWorld = <R>(
  options: Options<R>,
  behave: (gate: Effect.Effect<void>) => Behaviour,
  body: (world: World) => Body
): Effect.Effect<void, unknown> =>
  Effect.scoped(Effect.gen(function*() {
    const gate = yield* Deferred.make<void>()
    const behaviour = behave(Deferred.await(gate))
    const environment = yield* Layer.build(Layer.fresh(options.environment(behaviour)))
    const name = options.provider.providerName
    const check = Effect.gen(function*() {
      const subagents = yield* Subagent.Subagents
      const events: Array<Subagent.SubagentEvent> = []
      yield* Stream.runForEach(subagents.events, (event) => Effect.sync(() => events.push(event))).pipe(
        Effect.forkScoped({ startImmediately: true })
      )
      const scope = yield* Scope.fork(yield* Effect.scope)
      yield* Layer.buildWithScope(options.layer(behaviour), scope)
      const close = Scope.close(scope, Exit.void)
      const text = options.streams === false ? undefined : "so far"
      const start = (request: Asked) => subagents.start(name, request)
      const speaks = (run: Run) =>
        text === undefined ? Effect.void : Effect.gen(function*() {
          const fiber = yield* Effect.forkScoped(hears(run, text), { startImmediately: true })
          yield* Deferred.succeed(gate, undefined)
          yield* Fiber.join(fiber)
        })
      yield* Effect.scoped(body({ name, subagents, start, events, gate, close, text, speaks }))
      yield* close
      const running = yield* subagents.running
      yield* expect(running.length === 0, () => `still running: ${running.map((run) => run.runId).join(", ")}`)
      yield* settles(() => unpaired(events))
      if (options.leftovers !== undefined) {
        const left = yield* options.leftovers
        yield* expect(left.length === 0, () => `left behind: ${left.join("; ")}`)
      }
    })
    yield* Effect.provideContext(check, environment)
  }))

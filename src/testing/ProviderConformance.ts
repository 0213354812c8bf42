/**
 * Checks that a provider keeps what the service promises to its callers, whatever the provider is made of.
 *
 * The suite is a list of named effects, for any test runner. The author says how a child is made to behave: by a scripted
 * model, a fake agent or a fake server. Each case gets a world of its own, runs on the real clock, and fails with a
 * sentence that says what was seen.
 *
 * ```ts
 * for (const { effect, name } of ProviderConformance.suite({ provider: Mine, layer, environment })) {
 *   it.effect(name, () => effect)
 * }
 * ```
 *
 * @since 0.1.0
 */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { awaitWithin } from "../internal/session/bounded.ts"
import * as cases from "./internal/conformanceCases.ts"
import {
  type Behaviour,
  type Body,
  inWorld,
  type Options,
  Seen,
  show,
  type World
} from "./internal/conformanceWorld.ts"

export type { Behaviour, Options }

/**
 * One thing that a provider has to do.
 *
 * @category models
 * @since 0.1.0
 */
export interface Case {
  readonly name: string
  readonly effect: Effect.Effect<void, NotConforming>
}

/**
 * A provider does not do what it has to: what was seen, and in which case.
 *
 * @category errors
 * @since 0.1.0
 */
export class NotConforming extends Schema.TaggedError<NotConforming>("effect-subagent/NotConforming")("NotConforming", {
  case: Schema.String,
  issue: Schema.String
}) {
  override get message(): string {
    return `${this.case}: ${this.issue}`
  }
}

// whatever clock the runner brings: providers sleep and wait for others, and nobody would move it on
const liveClock = Context.get(Context.empty(), Clock.Clock)

const describe = (error: unknown): string => {
  if (error instanceof Seen) return error.issue
  return error instanceof Error ? `${error.name}: ${error.message}` : show(error)
}

const toCase = (name: string, timeout: Duration.Input, effect: Effect.Effect<void, unknown>): Case => ({
  name,
  effect: Effect.gen(function*() {
    const fiber = yield* Effect.forkDetach(effect, { startImmediately: true })
    const exit = yield* Effect.onInterrupt(awaitWithin(fiber, timeout), () => Fiber.interrupt(fiber))
    if (exit === undefined) {
      // told to go and not waited for: it may be what hangs
      fiber.interruptUnsafe()
      const limit = Duration.format(Duration.fromInputUnsafe(timeout))
      return yield* new NotConforming({ case: name, issue: `not done within ${limit}` })
    }
    if (Exit.isSuccess(exit)) return
    const error = Option.getOrUndefined(Cause.findErrorOption(exit.cause))
    const issue = error === undefined ? Cause.pretty(exit.cause) : describe(error)
    return yield* new NotConforming({ case: name, issue })
  }).pipe(Effect.provideService(Clock.Clock, liveClock))
})

type Behave = (gate: Effect.Effect<void>) => Behaviour

const answers: Behave = () => ({ _tag: "Answer", until: Effect.void })
const answersLater: Behave = (until) => ({ _tag: "Answer", until })
const hangs: Behave = () => ({ _tag: "Hang", after: Effect.void, text: "so far" })
const hangsLater: Behave = (after) => ({ _tag: "Hang", after, text: "so far" })
const fails: Behave = () => ({ _tag: "Fail" })
const counts = (count: string): Behave => () => ({ _tag: "Structured", json: { answer: "yes", count } })

/**
 * The cases for a provider. What its capabilities exclude is left out.
 *
 * @category testing
 * @since 0.1.0
 */
export const suite = <R>(options: Options<R>): ReadonlyArray<Case> => {
  const { provider } = options
  const make = (name: string, behave: Behave, body: (world: World) => Body): Case =>
    toCase(name, options.timeout ?? "10 seconds", inWorld(options, behave, body))
  return [
    make("publishes a child that is what it says it is", answers, cases.published),
    make("gives each run an id of its own", answers, cases.distinct),
    make("starts nothing for a signal that is aborted already", hangs, cases.abortedBefore),
    make("leaves nothing, or an aborted run, whenever its signal is aborted", hangs, cases.abortedAnytime),
    make("leaves nothing whenever its start is interrupted", hangs, cases.interruptedAnytime),
    make("is aborted by its signal, with what it had said", hangsLater, cases.signalled),
    make("is aborted when its parent's turn ends, with what it had said", hangsLater, cases.orphaned),
    make("is aborted by a person, with what it had said", hangsLater, cases.cancelled("user", (run) => run.interrupt)),
    make("is aborted when it takes too long", hangs, cases.overdue),
    make("is released when its scope closes, with what it had said", hangsLater, cases.disposed),
    make("can be interrupted any number of times", hangs, cases.idempotent),
    make("keeps its result when it is gone", answers, cases.lasting),
    make("goes on when somebody gives up waiting for it", answersLater, cases.patient),
    make("turns its child's failure into a result", fails, cases.failing),
    make("keeps twenty children apart that run at once", answersLater, cases.isolated),
    make("goes on when its provider closes", answersLater, cases.outliving),
    ...(provider.capabilities.outputSchema === false ? [] : [
      make("gives a structured value, decoded", counts("7"), cases.negotiable(provider, cases.structured)),
      make("does not complete with an invalid value", counts("many"), cases.negotiable(provider, cases.invalid))
    ]),
    ...(provider.capabilities.steer === false ? [] : [
      make("takes messages while it runs, and none afterwards", answersLater, cases.steering)
    ])
  ]
}

/**
 * Watches over a run, and takes it down in the one order that loses nothing: the child settles, its provider's
 * finalizers run, the result is known with all partial output, the place in the queue is free, the end is told, and
 * only then does whoever waits for the result go on.
 *
 * What its provider wrote is never waited for without bound, and whatever it does the run has an end.
 */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import type * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { awaitWithin, boundText, runWithin } from "../session/bounded.ts"
import type { Broadcast } from "../session/broadcast.ts"
import { type AbortCause, noUsage } from "../session/events.ts"
import { attempt, flatMapNow, fromTop } from "../session/now.ts"
import { type Claim, closeScope, over, report, silence } from "./claim.ts"
import { ReleaseFailed, RunFailed } from "./errors.ts"
import type { RunInfo, SubagentEvent } from "./events.ts"
import type { Gate } from "./gate.ts"
import { progressOf } from "./progress.ts"
import type { Unchecked } from "./request.ts"
import { ownSurvivors, Result as ResultSchema } from "./result.ts"
import type { Result } from "./result.ts"
import type { ProviderRun, ResolvedOutput, Run, Steerable } from "./run.ts"

/** @internal What the runs of one service share. */
export interface Shared {
  readonly gate: Gate
  readonly events: Broadcast<SubagentEvent>
  readonly running: Map<string, { readonly info: RunInfo; readonly at: number }>
  /** How long each step of a release may take before what is left of it is given up. */
  readonly grace: Duration.Duration
}

/** @internal */
export type AnyRun = Run<unknown> & Steerable<Unchecked>

/** @internal A start that succeeded. */
export interface Accepted {
  readonly shared: Shared
  readonly context: Context.Context<never>
  readonly claim: Claim
  readonly handle: ProviderRun<Unchecked>
  readonly output: Option.Option<ResolvedOutput>
  readonly timeout: Duration.Duration | undefined
  readonly startedAt: number
  readonly depth: number
  readonly info: RunInfo
}

type ChildExit = Exit.Exit<Result<unknown>, RunFailed>

interface Live extends Accepted {
  readonly result: Deferred.Deferred<Result<unknown>, RunFailed>
  child: Fiber.Fiber<Result<unknown>, RunFailed> | undefined
  /** Whether it has settled or been cancelled, whichever came first. */
  ending: boolean
}

/** @internal Makes the run known, and lets its child go. */
export const publish = (accepted: Accepted): AnyRun => {
  const { claim, context, handle, info, shared, startedAt, timeout } = accepted
  const { canceller } = claim
  const fork = Effect.runForkWith(context)
  const live: Live = Object.assign(accepted, {
    result: Deferred.makeUnsafe<Result<unknown>, RunFailed>(),
    child: undefined,
    ending: false
  })
  claim.place.joins(info.id)
  shared.running.set(info.runId, { info, at: startedAt })
  if (shared.events.observed) shared.events.publish({ _tag: "RunStarted", ...info, at: startedAt })
  if (timeout !== undefined) {
    const timer = fork(Effect.andThen(Effect.sleep(timeout), Effect.sync(() => canceller.cancel("timeout"))))
    claim.unlisten.push(() => timer.interruptUnsafe())
  }
  live.child = fork(settle(live), { uninterruptible: true })
  // the child may have settled, or made somebody cancel it, before it waited for the first time
  if (!live.ending) {
    canceller.onCancel(() => {
      live.ending = true
      const ended = end(live, undefined)
      fork(fromTop(live.depth) ? Effect.andThen(Effect.yieldNow, ended) : ended, { uninterruptible: true })
    })
  }
  const result = Deferred.await(live.result)
  return {
    id: info.id,
    runId: info.runId,
    provider: info.provider,
    localAgent: handle.localAgent,
    result,
    interrupt: Effect.suspend(() => {
      canceller.cancel("user")
      return result
    }),
    progress: Stream.suspend(() => progressOf(info.provider, () => handle.progress, live.result, shared.grace)),
    released: Deferred.await(claim.released),
    steer: handle.steer
  }
}

const settle = (live: Live): Effect.Effect<Result<unknown>, RunFailed> =>
  Effect.flatMap(Effect.exit(Effect.interruptible(live.handle.result)), (exit) => {
    if (live.ending) return exit
    live.ending = true
    // at once: the fiber may yield before the end has begun, and a cancellation would begin a second one
    live.claim.canceller.settle()
    return Effect.andThen(end(live, exit), exit)
  })

// once its provider's finalizers ran a cancelled child has a result, the partial output, if only after some turns of the
// event loop. What is at work even then is told to go, and has the grace for it
const lastWord = Effect.fnUntraced(function*({ child, info, shared: { grace } }: Live, survivors: Array<string>) {
  // sound: a run is cancelled when its child was forked
  const fiber = child as Fiber.Fiber<Result<unknown>, RunFailed>
  const done = fiber.pollUnsafe()
  if (done !== undefined) return done
  yield* Effect.forkDetach(Effect.andThen(lastTurns, Effect.sync(() => fiber.interruptUnsafe())))
  const exit = yield* awaitWithin(fiber, grace)
  if (exit === undefined) survivors.push(`the child of run ${info.runId} of provider ${info.provider}`)
  return exit
})

const lastTurns = Effect.repeat(Effect.yieldNow, { times: 9 })

const end = (live: Live, first: ChildExit | undefined): Effect.Effect<void> =>
  Effect.suspend(() => {
    const { claim, info, shared: { grace } } = live
    claim.canceller.settle()
    silence(claim)
    const problems: Array<string> = []
    const survivors: Array<string> = []
    const whose = () => `a run of provider ${JSON.stringify(info.provider)}`
    return flatMapNow(closeScope(claim, Exit.void, grace, whose), (failed) => {
      if (failed !== undefined) problems.push(failed.problem)
      if (failed?.closing === true) survivors.push(`run ${info.runId} of provider ${info.provider}`)
      const known: Effect.Effect<ChildExit | undefined> = first === undefined
        ? lastWord(live, survivors)
        : Effect.succeed(first)
      return flatMapNow(known, (exit) =>
        flatMapNow(counted(live, problems, survivors), () => {
          if (survivors.length > 0 && problems.length === 0) problems.push("some of it is still alive")
          const rest = concluded(live, exit, problems, survivors)
          return fromTop(live.depth) ? Effect.andThen(Effect.yieldNow, rest) : rest
        }))
    })
  })

const nobody = Effect.succeed<ReadonlyArray<string>>([])

// asks the provider what is still alive
const counted = (
  { handle, shared: { grace } }: Live,
  problems: Array<string>,
  survivors: Array<string>
): Effect.Effect<void> => {
  const known = ownSurvivors(handle)
  if (known !== undefined) {
    survivors.push(...known)
    return Effect.void
  }
  const asked = attempt(() => handle.survivors ?? nobody)
  return asked === nobody ? Effect.void : Effect.map(runWithin(asked, grace), (exit) => {
    if (exit !== undefined && Exit.isSuccess(exit) && isNames(exit.value)) survivors.push(...exit.value)
    else problems.push("its provider could not say what is still alive")
  })
}

const concluded = (
  live: Live,
  exit: ChildExit | undefined,
  problems: ReadonlyArray<string>,
  survivors: ReadonlyArray<string>
): Effect.Effect<void> =>
  Effect.withFiber((fiber) => {
    const at = fiber.getRef(Clock.Clock).currentTimeMillisUnsafe()
    return Effect.map(
      settledResult(live, exit, at - live.startedAt),
      (settled) => told(live, settled, at, problems, survivors)
    )
  })

const told = (
  { claim, info, result: waiting, shared }: Live,
  settled: ChildExit,
  at: number,
  problems: ReadonlyArray<string>,
  survivors: ReadonlyArray<string>
): void => {
  claim.place.leave()
  shared.running.delete(info.runId)
  const result = Exit.isSuccess(settled) ? settled.value : undefined
  const released = problems.length === 0
  if (shared.events.observed) {
    shared.events.publish({
      _tag: "RunEnded",
      ...info,
      at,
      outcome: result?._tag ?? "RunFailed",
      text: result?.text ?? "",
      output: result?.output ?? [],
      usage: result?.usage ?? noUsage,
      released
    })
  }
  Deferred.doneUnsafe(waiting, settled)
  if (released) return over(claim, Exit.void)
  const run = Exit.isFailure(settled) ? Option.getOrUndefined(Cause.findErrorOption(settled.cause)) : undefined
  over(
    claim,
    Exit.fail(
      new ReleaseFailed({
        provider: info.provider,
        result,
        ...(run === undefined ? undefined : { run }),
        survivors,
        diagnostic: boundText(problems.join("; "))
      })
    )
  )
}

// -----------------------------------------------------------------------------
// the result
// -----------------------------------------------------------------------------

const isStrictResult: (value: unknown) => boolean = Schema.is(ResultSchema(Schema.Unknown))

// types alone do not hold a provider to what it gives back, and a malformed result would break whoever holds it. Only the
// structured value may be left out where there is none
const isResult = (value: Result<unknown>): boolean =>
  isStrictResult(value) || isStrictResult({ structured: undefined, ...value })

const isNames = Schema.is(Schema.Array(Schema.String))

const aborted = (cause: AbortCause, partial: Result<unknown> | undefined): Result<unknown> => ({
  _tag: "Aborted",
  cause,
  text: partial?.text ?? "",
  output: partial?.output ?? [],
  usage: partial?.usage ?? noUsage
})

const invalidStructured = (result: Result<unknown>, diagnostic: string): Result<unknown> => ({
  _tag: "Failed",
  reason: "InvalidStructuredOutput",
  retryable: false,
  diagnostic: boundText(diagnostic),
  text: result.text,
  output: result.output,
  usage: result.usage
})

// the structured value is only believed after a decode on this side; without a schema there is none
const decoded = Effect.fnUntraced(function*(
  live: Live,
  { decode }: ResolvedOutput,
  result: Result<unknown> & { readonly _tag: "Completed" }
) {
  const exit = yield* runWithin(decode(result.structured), live.shared.grace)
  if (exit === undefined) return invalidStructured(result, "the value could not be decoded in time")
  if (Exit.isSuccess(exit)) return { ...result, structured: exit.value }
  const error = Option.getOrUndefined(Cause.findErrorOption(exit.cause))
  if (error !== undefined) return invalidStructured(result, error.message)
  yield* report("the decoder of an output schema died", exit.cause)
  return invalidStructured(result, "the decoder of the output schema died; see the log")
})

const resultOf = (live: Live, result: Result<unknown>): Effect.Effect<Result<unknown>> => {
  if (result._tag === "Completed") {
    return Option.isNone(live.output)
      ? Effect.succeed({ ...result, structured: undefined })
      : decoded(live, live.output.value, result)
  }
  const { cause } = live.claim.canceller
  if (cause !== undefined) return Effect.succeed(aborted(cause, result))
  return Effect.succeed(result._tag === "Failed" ? { ...result, diagnostic: boundText(result.diagnostic) } : result)
}

const judged = (live: Live, exit: ChildExit | undefined, elapsed: number): Effect.Effect<ChildExit> => {
  const { claim: { canceller: { cause } }, info: { provider } } = live
  if (exit !== undefined && Exit.isSuccess(exit)) {
    const { value } = exit
    return ownSurvivors(live.handle) !== undefined || isResult(value)
      ? flatMapNow(resultOf(live, value), (result) => Effect.succeed(measured(result, elapsed)))
      : faulty(provider, Cause.die(new TypeError("what the provider gave back is no result")))
  }
  if (cause !== undefined) return Effect.succeed(measured(aborted(cause, undefined), elapsed))
  const error = exit === undefined ? undefined : Option.getOrUndefined(Cause.findErrorOption(exit.cause))
  if (error === undefined) return faulty(provider, exit?.cause ?? Cause.empty)
  const { diagnostic, reason } = error
  return Effect.succeed(
    Exit.fail(new RunFailed({ provider: error.provider, reason, diagnostic: boundText(diagnostic) }))
  )
}

// what it fails with may be anything too
const settledResult = (live: Live, exit: ChildExit | undefined, elapsed: number): Effect.Effect<ChildExit> =>
  Effect.catchCause(
    Effect.suspend(() => judged(live, exit, elapsed)),
    (cause) => faulty(live.info.provider, cause)
  )

const measured = (result: Result<unknown>, elapsed: number): ChildExit =>
  Exit.succeed({ ...result, usage: { ...result.usage, elapsed } })

const faulty = (provider: string, cause: Cause.Cause<unknown>): Effect.Effect<ChildExit> =>
  Effect.as(
    report(`a run of provider ${JSON.stringify(provider)} died`, cause),
    Exit.fail(
      new RunFailed({ provider, reason: "ProviderFault", diagnostic: "the provider gave no result; see the log" })
    )
  )

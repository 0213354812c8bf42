/**
 * Drives one turn of an agent: from the message that opens it, through what the agent does, to its end in the log.
 *
 * A turn that began always ends in the log, with every tool call answered, whatever interrupted it.
 */
import * as Prompt from "effect/ai/Prompt"
import * as Cause from "effect/Cause"
import type * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import type { CurrentAgent } from "../../CurrentAgent.ts"
import type * as Session from "../../Session.ts"
import type { AppendError } from "../../SessionStore.ts"
import { attempt, exitOf, flatMapNow } from "../session/now.ts"
import { causeOf } from "./ask.ts"
import type { TurnOutcome } from "./model.ts"
import { appended, commitNow, flushed, nowUnsafe, writeEnd } from "./record.ts"
import type { State, Turn } from "./state.ts"
import { failed, type StepError, steps } from "./steps.ts"

const causeOfExit = (
  state: State,
  turn: Turn,
  exit: Exit.Exit<void, StepError>
): Effect.Effect<Session.TurnCause> => {
  if (turn.concluded !== undefined) return Effect.succeed({ _tag: "Completed" })
  // what completed stays completed, even when a cancellation came in the same moment (S77)
  if (Exit.isSuccess(exit) && (turn.cause._tag === "Completed" || turn.abort === undefined)) {
    return Effect.succeed(turn.cause)
  }
  if (turn.abort !== undefined) return Effect.succeed({ _tag: "Aborted", cause: turn.abort })
  if (Exit.isSuccess(exit)) return Effect.succeed(turn.cause)
  const error = Option.getOrUndefined(Cause.findErrorOption(exit.cause))
  if (error === undefined) {
    return Cause.hasInterruptsOnly(exit.cause)
      ? Effect.succeed({ _tag: "Aborted", cause: "user" })
      : Effect.as(
        Effect.logError("a turn died", exit.cause),
        failed("Defect", "the agent failed unexpectedly; the cause is in the log")
      )
  }
  return Effect.succeed(
    error._tag === "AiError" ? causeOf(error, state.maxRetryAfter) : failed(error._tag, error.message)
  )
}

/** @internal */
export const outcomeOf = (
  turn: Pick<Turn, "number" | "cause" | "text" | "output" | "streamed" | "usage" | "concluded">
): TurnOutcome => ({
  turn: turn.number,
  cause: turn.cause,
  text: turn.text === "" ? turn.streamed : turn.text,
  output: turn.text === "" && turn.streamed !== ""
    ? [Prompt.makePart("text", { text: turn.streamed })]
    : turn.output,
  usage: turn.usage,
  concluded: Option.fromNullishOr(turn.concluded)
})

// a message that was steered into the turn before is acknowledged when it opens this one, and is as safe then (S91)
const begin = (
  context: Context.Context<never>,
  state: State,
  turn: Turn
): Effect.Effect<void, AppendError> => {
  const { receipt } = turn.queued
  const committed = attempt(() =>
    commitNow(context, state, turn, () => {
      turn.number = state.transcript.turns
      return [{ _tag: "TurnStarted", turn: turn.number }, appended(turn.queued)]
    })
  )
  const begun = (exit: Exit.Exit<void, AppendError>): void => {
    if (Exit.isFailure(exit)) turn.number = undefined
    else if (turn.phase === "opening") turn.phase = "open"
  }
  const done = exitOf(committed)
  if (done !== undefined) begun(done)
  const started = done ?? Effect.onExit(committed, (exit) => Effect.sync(() => begun(exit)))
  return receipt === undefined ? started : Effect.map(
    Effect.andThen(started, state.log.flush),
    () => void Deferred.doneUnsafe(receipt, Exit.void)
  )
}

// In a fiber of its own: whatever a model forks as its child has ended when the turn ends. The fiber is known from the
// first moment: what the agent does may cancel the turn before it waits for the first time.
const acting = (
  context: Context.Context<never>,
  state: State,
  turn: Turn,
  identity: CurrentAgent["Service"]
): Effect.Effect<Exit.Exit<void, StepError>> => {
  const fiber = Effect.runForkWith(context)(Effect.withFiber((fiber) => {
    turn.fiber = fiber
    return turn.abort === undefined ? steps(state, turn, identity, fiber) : Effect.interrupt
  }))
  const exit = fiber.pollUnsafe()
  return exit === undefined ? Fiber.await(fiber) : Effect.succeed(exit)
}

/**
 * @internal The whole turn, as far as it can be done at once; the effect is the rest, to be run without interruption in
 * `context`, which holds `identity`: only what the agent does between the turn's first and last record can be
 * interrupted. Never fails. `finish` is called last, unless the turn was given up meanwhile.
 */
export const runTurn = (
  context: Context.Context<never>,
  state: State,
  turn: Turn,
  identity: CurrentAgent["Service"],
  finish: (state: State, turn: Turn) => void
): Effect.Effect<void> => {
  const over = () => {
    if (!turn.fenced) finish(state, turn)
    return Effect.void
  }
  const end = (cause: Session.TurnCause): Effect.Effect<void> => {
    turn.cause = cause
    turn.phase = "flushing"
    return flatMapNow(
      writeEnd(context, state, turn),
      () => turn.fenced || turn.number === undefined ? over() : flatMapNow(flushed(state), over)
    )
  }
  turn.startedAt = nowUnsafe(context)
  // cancelled before it began: nothing of it is in the log (S78)
  if (turn.abort !== undefined) return end({ _tag: "Aborted", cause: turn.abort })
  const act = () => acting(context, state, turn, identity)
  const begun = begin(context, state, turn)
  const done = exitOf(begun)
  const acted: Effect.Effect<Exit.Exit<void, StepError>> = done === undefined
    ? Effect.matchCauseEffect(begun, {
      onFailure: (cause) => Effect.succeed(Exit.failCause(cause)),
      onSuccess: act
    })
    : Exit.isSuccess(done)
    ? act()
    : Effect.succeed(done)
  return flatMapNow(
    acted,
    (exit) => turn.fenced ? Effect.void : flatMapNow(causeOfExit(state, turn, exit), end)
  )
}

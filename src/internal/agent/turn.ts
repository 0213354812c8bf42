/**
 * Drives one turn of an agent: from the message that opens it, through model calls and tools, to its end in the log.
 *
 * A turn that began always ends in the log, with every tool call answered, whatever interrupted it.
 */
import type * as AiError from "effect/ai/AiError"
import * as Prompt from "effect/ai/Prompt"
import * as Cause from "effect/Cause"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import type { CurrentAgent } from "../../CurrentAgent.ts"
import * as Session from "../../Session.ts"
import type { AppendError } from "../../SessionStore.ts"
import type { UnknownVariable } from "../../SystemPrompt.ts"
import { boundText } from "../session/bounded.ts"
import { type Answer, ask, causeOf } from "./ask.ts"
import { Calls, dispatch, notExecuted } from "./dispatch.ts"
import type { OutputPart, TurnOutcome } from "./model.ts"
import { appended, commit, type Draft, flushed, newMessageId, now, said, writeEnd } from "./record.ts"
import type { State, Turn } from "./state.ts"

const failed = (reason: string, diagnostic: string, retryable = false): Session.TurnCause => ({
  _tag: "Failed",
  reason,
  retryable,
  diagnostic: boundText(diagnostic)
})

// what was sent into the turn joins it between two steps, durably before it is acknowledged (S88)
const admit = Effect.fnUntraced(function*(state: State, turn: Turn) {
  if (state.injected.length > 0) yield* commit(state, turn, () => state.injected.splice(0).map(appended))
  if (state.steering.length > 0) {
    yield* Effect.uninterruptible(Effect.suspend(() => {
      const steering = turn.admitting = state.steering.splice(0)
      const admitted = () => {
        turn.unconfirmed = true
        return steering.map(({ message, messageId, source }): Draft => ({
          _tag: "SteeringAdmitted",
          message,
          source,
          messageId
        }))
      }
      const written = Effect.onError(commit(state, turn, admitted), () =>
        Effect.sync(() => {
          turn.unconfirmed = false
        }))
      return Effect.map(Effect.andThen(written, state.log.flush), () => {
        turn.admitting = []
        turn.unconfirmed = false
        for (const { receipt } of steering) if (receipt !== undefined) Deferred.doneUnsafe(receipt, Exit.void)
      })
    }))
  }
})

const ended = ({ calls, error, reason }: Answer): Session.TurnCause | undefined => {
  switch (reason) {
    case "length":
      return { _tag: "MaxTokens" }
    case "content-filter":
      return { _tag: "Refusal" }
    case "error":
      return failed("ModelError", `the model ended its answer with an error${error === "" ? "" : `: ${error}`}`, true)
    case "pause":
      return undefined
    default:
      return calls.length > 0 ? undefined : { _tag: "Completed" }
  }
}

const reminder = (tool: string): Prompt.UserMessage =>
  Prompt.makeMessage("user", {
    content: [Prompt.makePart("text", {
      text: `Your answer only counts when you give it by calling the tool "${tool}". Call it now.`
    })]
  })

const answerParts = (answer: Answer): ReadonlyArray<OutputPart> =>
  answer.message === undefined
    ? []
    : answer.message.content.filter((part): part is OutputPart => part.type === "text" || part.type === "file")

const steps = Effect.fnUntraced(function*(state: State, turn: Turn, identity: CurrentAgent["Service"]) {
  const { progress, transcript } = state
  const publish = (value: Parameters<typeof progress.publish>[0]) => progress.publish(value)
  const observed = () => progress.observed
  let forced = false
  let force = false
  for (let step = 0;; step++) {
    if (step >= state.maxSteps) {
      turn.cause = { _tag: "MaxSteps" }
      return
    }
    if (state.injected.length > 0 || state.steering.length > 0) yield* admit(state, turn)
    const resolved = state.tools()
    const system = yield* state.systemPrompt.assemble({
      sections: state.sections,
      variables: { cwd: identity.cwd, model: identity.model ?? "default", session: identity.sessionId }
    })
    const messages: ReadonlyArray<Prompt.Message> = system === undefined
      ? transcript.messages.slice()
      : [Prompt.makeMessage("system", { content: system }), ...transcript.messages]
    turn.streamed = ""
    const answer = yield* ask({
      model: state.model,
      modelName: identity.model,
      messages,
      toolkit: resolved.toolkit,
      hasTools: resolved.names.length > 0,
      forced: force ? state.output : undefined,
      maxTokens: identity.maxTokens,
      retry: state.retry,
      maxRetryAfter: state.maxRetryAfter,
      step,
      observed,
      publish,
      onText: (delta) => {
        turn.streamed = delta === undefined ? "" : turn.streamed + delta
      },
      onCall: () => {
        turn.usage = { ...turn.usage, steps: turn.usage.steps + 1 }
      }
    })
    force = false
    turn.usage = Session.addUsage(turn.usage, answer.usage)
    if (answer.text.trim() !== "") {
      turn.text = answer.text
      turn.output = answerParts(answer)
    }
    if (answer.message !== undefined) {
      const { message } = answer
      yield* commit(state, turn, () => [said(message)])
    }
    if (progress.observed) progress.publish({ _tag: "StepEnded", usage: turn.usage })
    const cause = ended(answer)
    if (answer.calls.length > 0) {
      if (cause !== undefined) {
        // a response that was cut off may hold half a call: none of it runs
        const denied = answer.calls.map((call) => notExecuted(call, `the response ended with "${answer.reason}"`))
        yield* commit(state, turn, () => [said(Prompt.makeMessage("tool", { content: denied }))])
        turn.cause = cause
        return
      }
      const { concluded, parts } = yield* dispatch({
        calls: answer.calls,
        messages: transcript.messages,
        tools: resolved,
        agent: identity,
        observed: progress.observed,
        publish,
        known: turn.calls = new Calls()
      })
      // from here to the log nothing may come between: a result that is logged is a result that counts
      yield* Effect.uninterruptible(Effect.suspend(() => {
        if (concluded !== undefined) {
          turn.phase = "concluded"
          turn.captured = concluded.tool === state.output
        }
        return Effect.map(
          commit(state, turn, () => [said(Prompt.makeMessage("tool", { content: [...parts] }))]),
          () => {
            turn.calls = undefined
            turn.concluded = concluded
          }
        )
      }))
      if (concluded !== undefined) {
        turn.cause = { _tag: "Completed" }
        return
      }
      continue
    }
    if (cause === undefined) continue
    if (cause._tag !== "Completed") {
      turn.cause = cause
      return
    }
    // a message that came while the model finished is answered in this turn
    if (state.steering.length > 0 && step + 1 < state.maxSteps) continue
    if (state.output !== undefined) {
      if (forced) {
        turn.cause = failed("NoStructuredOutput", `the agent ended without a valid call of "${state.output}"`)
        return
      }
      forced = true
      force = true
      const message = reminder(state.output)
      const id = yield* Effect.withFiber((fiber) => Effect.succeed(newMessageId(state, fiber)))
      yield* commit(state, turn, () => [{ ...said(message), source: { kind: "notice" }, messageId: id }])
      continue
    }
    turn.cause = cause
    return
  }
})

const causeOfExit = (
  state: State,
  turn: Turn,
  exit: Exit.Exit<void, AiError.AiError | AppendError | UnknownVariable>
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
const begin = (state: State, turn: Turn): Effect.Effect<void, AppendError> => {
  const { receipt } = turn.queued
  const started = Effect.onExit(
    commit(state, turn, () => {
      turn.number = state.transcript.turns
      return [{ _tag: "TurnStarted", turn: turn.number }, appended(turn.queued)]
    }),
    (exit) =>
      Effect.sync(() => {
        if (Exit.isFailure(exit)) turn.number = undefined
        else if (turn.phase === "opening") turn.phase = "open"
      })
  )
  return receipt === undefined ? started : Effect.map(
    Effect.andThen(started, state.log.flush),
    () => void Deferred.doneUnsafe(receipt, Exit.void)
  )
}

// In a fiber of its own: whatever a model forks as its child has ended when the turn ends. The fiber is known from the
// first moment: what the agent does may cancel the turn before it waits for the first time.
const acting = (state: State, turn: Turn, identity: CurrentAgent["Service"]) =>
  Effect.flatMap(
    Effect.forkChild(
      Effect.withFiber((fiber) => {
        turn.fiber = fiber
        return turn.abort === undefined ? steps(state, turn, identity) : Effect.interrupt
      }),
      { startImmediately: true }
    ),
    Fiber.join
  )

/**
 * @internal The whole turn, to be run without interruption in a context that holds `identity`: only what the agent
 * does between the turn's first and last record can be interrupted. Never fails. `finish` is called last, unless the
 * turn was given up meanwhile.
 */
export const runTurn = Effect.fnUntraced(function*(
  state: State,
  turn: Turn,
  identity: CurrentAgent["Service"],
  finish: (state: State, turn: Turn) => void
) {
  turn.startedAt = yield* now
  if (turn.abort === undefined) {
    const exit = yield* Effect.exit(
      Effect.andThen(begin(state, turn), () => acting(state, turn, identity))
    )
    if (turn.fenced) return
    turn.cause = yield* causeOfExit(state, turn, exit)
  } else {
    // cancelled before it began: nothing of it is in the log (S78)
    turn.cause = { _tag: "Aborted", cause: turn.abort }
  }
  turn.phase = "flushing"
  yield* writeEnd(state, turn)
  if (turn.fenced) return
  if (turn.number !== undefined) yield* flushed(state)
  if (turn.fenced) return
  finish(state, turn)
})

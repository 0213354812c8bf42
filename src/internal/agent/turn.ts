/**
 * Drives one turn of an agent: from the message that opens it, through model calls and tools, to its end in the log.
 *
 * A turn that began always ends in the log, with every tool call answered, whatever interrupted it.
 */
import type * as AiError from "effect/ai/AiError"
import * as Prompt from "effect/ai/Prompt"
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import { CurrentAgent } from "../../CurrentAgent.ts"
import * as Session from "../../Session.ts"
import type { AppendError } from "../../SessionStore.ts"
import type { UnknownVariable } from "../../SystemPrompt.ts"
import { boundText } from "../session/bounded.ts"
import { messageId } from "../session/ids.ts"
import { type Answer, ask, causeOf } from "./ask.ts"
import { dispatch, interruptedResult, notExecuted } from "./dispatch.ts"
import { type OutputPart, SteerRejected, type TurnOutcome } from "./model.ts"
import type { State, Turn, Waiting } from "./state.ts"

type Draft = Session.KnownEvent extends infer E ? E extends unknown ? Omit<E, "seq" | "at"> : never : never

/** @internal Appends events to the log and folds them; a fenced turn can no longer. */
export const commit = (
  state: State,
  turn: Turn | undefined,
  drafts: ReadonlyArray<Draft>
): Effect.Effect<void, AppendError> =>
  Effect.flatMap(Clock.currentTimeMillis, (at) => {
    if (turn?.fenced === true) return Effect.interrupt
    const { transcript } = state
    // sound: a draft is an event without exactly these two fields
    const events = drafts.map((draft, i) => ({ ...draft, seq: transcript.next + i, at }) as Session.KnownEvent)
    return Effect.map(state.log.append(events), () => {
      for (const event of events) Session.advance(transcript, event)
    })
  })

const appended = (waiting: Waiting): Draft => ({
  _tag: "MessageAppended",
  message: waiting.message,
  source: waiting.source,
  messageId: waiting.messageId
})

const failed = (reason: string, diagnostic: string, retryable = false): Session.TurnCause => ({
  _tag: "Failed",
  reason,
  retryable,
  diagnostic: boundText(diagnostic)
})

// what was sent into the turn joins it between two steps, durably before it is acknowledged (S88)
const admit = Effect.fnUntraced(function*(state: State, turn: Turn) {
  if (state.injected.length > 0) {
    const injected = state.injected.splice(0)
    yield* commit(state, turn, injected.map(appended))
  }
  if (state.steering.length > 0) {
    const steering = state.steering.splice(0)
    yield* Effect.uninterruptible(
      Effect.andThen(
        commit(
          state,
          turn,
          steering.map((one): Draft => ({
            _tag: "SteeringAdmitted",
            message: one.message,
            source: one.source,
            messageId: one.messageId
          }))
        ),
        state.log.flush
      ).pipe(
        Effect.onExit((exit) =>
          Effect.sync(() => {
            for (const { receipt } of steering) {
              if (receipt !== undefined) {
                Deferred.doneUnsafe(
                  receipt,
                  Exit.isSuccess(exit) ? Exit.void : Exit.fail(new SteerRejected({ reason: "cancelled" }))
                )
              }
            }
          })
        )
      )
    )
  }
})

const ended = (reason: Answer["reason"], hasCalls: boolean): Session.TurnCause | undefined => {
  switch (reason) {
    case "length":
      return { _tag: "MaxTokens" }
    case "content-filter":
      return { _tag: "Refusal" }
    case "error":
      return failed("ModelError", "the model ended its answer with an error", true)
    case "pause":
      return undefined
    default:
      return hasCalls ? undefined : { _tag: "Completed" }
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
    yield* admit(state, turn)
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
      messages,
      toolkit: resolved.toolkit,
      hasTools: resolved.names.length > 0,
      forced: force ? state.output : undefined,
      maxTokens: identity.maxTokens,
      retry: state.retry,
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
      yield* commit(state, turn, [{ _tag: "MessageAppended", message: answer.message }])
    }
    if (progress.observed) progress.publish({ _tag: "StepEnded", usage: turn.usage })
    const cause = ended(answer.reason, answer.calls.length > 0)
    if (answer.calls.length > 0) {
      if (cause !== undefined) {
        // a response that was cut off may hold half a call: none of it runs
        yield* commit(state, turn, [{
          _tag: "MessageAppended",
          message: Prompt.makeMessage("tool", {
            content: answer.calls.map((call) => notExecuted(call, `the response ended with "${answer.reason}"`))
          })
        }])
        turn.cause = cause
        return
      }
      const { concluded, parts } = yield* dispatch({
        calls: answer.calls,
        messages: transcript.messages,
        toolkit: resolved.toolkit,
        agent: identity,
        observed: progress.observed,
        publish,
        results: turn.results,
        interrupted: turn.interrupted
      })
      // from here to the log nothing may come between: a result that is logged is a result that counts
      yield* Effect.uninterruptible(Effect.suspend(() => {
        if (concluded !== undefined) {
          turn.phase = "concluded"
          turn.captured = concluded.tool === state.output
        }
        return Effect.map(
          commit(state, turn, [{
            _tag: "MessageAppended",
            message: Prompt.makeMessage("tool", { content: [...parts] })
          }]),
          () => {
            turn.results.clear()
            turn.interrupted.clear()
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
    if (state.steering.length > 0) continue
    if (state.output !== undefined) {
      if (forced) {
        turn.cause = failed("NoStructuredOutput", `the agent ended without a valid call of "${state.output}"`)
        return
      }
      forced = true
      force = true
      yield* commit(state, turn, [{
        _tag: "MessageAppended",
        message: reminder(state.output),
        source: { kind: "notice" },
        messageId: yield* messageId
      }])
      continue
    }
    turn.cause = cause
    return
  }
})

const causeOfExit = (
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
  return Effect.succeed(error._tag === "AiError" ? causeOf(error) : failed(error._tag, error.message))
}

const rejection = (turn: Turn): SteerRejected["reason"] =>
  turn.concluded !== undefined
    ? turn.captured ? "captured" : "concluded"
    : turn.abort !== undefined
    ? "cancelled"
    : "settled"

/** @internal Why a message cannot be steered into a turn that runs, if so. */
export const steerable = (turn: Turn): SteerRejected["reason"] | undefined =>
  turn.phase === "concluded" || turn.abort !== undefined
    ? turn.phase === "concluded" ? turn.captured ? "captured" : "concluded" : "cancelled"
    : undefined

/** @internal Writes the end of a turn that has begun: every call answered, then why it ended. */
export const writeEnd = Effect.fnUntraced(function*(state: State, turn: Turn, cause: Session.TurnCause) {
  const { transcript } = state
  const now = yield* Clock.currentTimeMillis
  turn.cause = cause
  turn.usage = { ...turn.usage, elapsed: now - turn.startedAt }
  for (const { receipt } of state.steering.splice(0)) {
    if (receipt !== undefined) Deferred.doneUnsafe(receipt, Exit.fail(new SteerRejected({ reason: rejection(turn) })))
  }
  const drafts: Array<Draft> = []
  if (transcript.pending.size > 0) {
    drafts.push({
      _tag: "MessageAppended",
      message: Prompt.makeMessage("tool", {
        content: Array.from(transcript.pending, ([id, name]) =>
          turn.results.get(id) ?? interruptedResult(
            id,
            name,
            turn.interrupted.get(id)?.() ??
              { type: "execution-interrupted", reason: "the turn was interrupted: the outcome is unknown" }
          ))
      })
    })
  }
  if (transcript.openTurn !== undefined) {
    drafts.push({ _tag: "TurnEnded", turn: transcript.openTurn, cause, usage: turn.usage })
  }
  yield* Effect.catch(commit(state, undefined, drafts), (error) =>
    Effect.logWarning(`the end of a turn of session ${state.header.id} could not be written`, error))
})

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

/**
 * @internal The whole turn. Never fails; runs to its end in the log also when it is interrupted. `finish` is called
 * last, unless the turn was given up meanwhile.
 */
export const runTurn = (state: State, turn: Turn, finish: Effect.Effect<void>): Effect.Effect<void> =>
  Effect.uninterruptibleMask((restore) =>
    Effect.gen(function*() {
      // the sender goes on first: whoever starts an agent learns so before the agent acts
      yield* Effect.yieldNow
      turn.startedAt = yield* Clock.currentTimeMillis
      if (turn.abort !== undefined) {
        // cancelled before it began: nothing of it is in the log (S78)
        turn.cause = { _tag: "Aborted", cause: turn.abort }
      } else {
        const identity: CurrentAgent["Service"] = { ...state.identity, lifetime: turn.lifetime }
        turn.number = state.transcript.turns
        const exit = yield* Effect.exit(
          Effect.andThen(
            commit(state, turn, [{ _tag: "TurnStarted", turn: state.transcript.turns }, appended(turn.queued)]),
            () => {
              turn.phase = "open"
              const { receipt } = turn.queued
              if (receipt !== undefined) Deferred.doneUnsafe(receipt, Exit.void)
              return restore(Effect.provideService(steps(state, turn, identity), CurrentAgent, identity))
            }
          )
        )
        if (turn.fenced) return
        yield* writeEnd(state, turn, yield* causeOfExit(turn, exit))
        turn.phase = "flushing"
        yield* Effect.catch(state.log.flush, (error) =>
          Effect.logWarning(`session ${state.header.id} could not be flushed at the end of a turn`, error))
        if (turn.fenced) return
      }
      yield* finish
    })
  )

/**
 * Drives what an agent does in a turn: model calls, the tools that they call, and what is sent in between.
 */
import type * as AiError from "effect/ai/AiError"
import * as Prompt from "effect/ai/Prompt"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Fiber from "effect/Fiber"
import type { Resolved } from "../../AgentTools.ts"
import type { CurrentAgent } from "../../CurrentAgent.ts"
import * as Session from "../../Session.ts"
import type { AppendError } from "../../SessionStore.ts"
import type { UnknownVariable } from "../../SystemPrompt.ts"
import { boundText } from "../session/bounded.ts"
import { flatMapNow } from "../session/now.ts"
import { type Answer, ask } from "./ask.ts"
import { Calls, dispatch, notExecuted } from "./dispatch.ts"
import type { OutputPart } from "./model.ts"
import { appended, commit, commitNow, type Draft, newMessageId, said } from "./record.ts"
import type { State, Turn } from "./state.ts"

/** @internal */
export const failed = (reason: string, diagnostic: string, retryable = false): Session.TurnCause => ({
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

/** @internal */
export type StepError = AiError.AiError | AppendError | UnknownVariable

// One model call after the other, each with what follows from it. Written without a generator: most of a turn's time that
// is not the model's is spent here.
class Steps {
  readonly #state: State
  readonly #turn: Turn
  readonly #identity: CurrentAgent["Service"]
  readonly #fiber: Fiber.Fiber<unknown, unknown>
  #step = 0
  /** Whether the model was reminded of its tool already, and is forced to call it. */
  #reminded = false
  #force = false

  constructor(state: State, turn: Turn, identity: CurrentAgent["Service"], fiber: Fiber.Fiber<unknown, unknown>) {
    this.#state = state
    this.#turn = turn
    this.#identity = identity
    this.#fiber = fiber
  }

  get run(): Effect.Effect<void, StepError> {
    const state = this.#state
    if (this.#step >= state.maxSteps) return this.#end({ _tag: "MaxSteps" })
    return state.injected.length > 0 || state.steering.length > 0
      ? Effect.andThen(admit(state, this.#turn), Effect.suspend(() => this.#ask))
      : this.#ask
  }

  get #ask(): Effect.Effect<void, StepError> {
    const { progress, sections, systemPrompt, tools } = this.#state
    const { cwd, model = "default", sessionId: session } = this.#identity
    const resolved = tools()
    return Effect.flatMap(systemPrompt.assemble({ sections, variables: { cwd, model, session } }), (system) => {
      const { transcript } = this.#state
      const turn = this.#turn
      const messages: ReadonlyArray<Prompt.Message> = system === undefined
        ? transcript.messages.slice()
        : [Prompt.makeMessage("system", { content: system }), ...transcript.messages]
      turn.streamed = ""
      const asked = ask({
        model: this.#state.model,
        modelName: this.#identity.model,
        messages,
        toolkit: resolved.toolkit,
        hasTools: resolved.names.length > 0,
        forced: this.#force ? this.#state.output : undefined,
        maxTokens: this.#identity.maxTokens,
        retry: this.#state.retry,
        maxRetryAfter: this.#state.maxRetryAfter,
        step: this.#step,
        observed: () => progress.observed,
        publish: (value) => progress.publish(value),
        onText: (delta) => {
          turn.streamed = delta === undefined ? "" : turn.streamed + delta
        },
        onCall: () => {
          turn.usage = { ...turn.usage, steps: turn.usage.steps + 1 }
        }
      })
      return Effect.flatMap(asked, (answer) => this.#answered(resolved, answer))
    })
  }

  #answered(resolved: Resolved, answer: Answer): Effect.Effect<void, StepError> {
    const turn = this.#turn
    this.#force = false
    turn.usage = Session.addUsage(turn.usage, answer.usage)
    if (answer.text.trim() !== "") {
      turn.text = answer.text
      turn.output = answerParts(answer)
    }
    const { message } = answer
    return flatMapNow(message === undefined ? Effect.void : this.#commit(() => [said(message)]), () => {
      const { progress } = this.#state
      if (progress.observed) progress.publish({ _tag: "StepEnded", usage: turn.usage })
      const cause = ended(answer)
      if (answer.calls.length === 0) return this.#silent(cause)
      if (cause === undefined) return this.#act(resolved, answer)
      // a response that was cut off may hold half a call: none of it runs
      const denied = answer.calls.map((call) => notExecuted(call, `the response ended with "${answer.reason}"`))
      return flatMapNow(
        this.#commit(() => [said(Prompt.makeMessage("tool", { content: denied }))]),
        () => this.#end(cause)
      )
    })
  }

  // runs the tools that the model called
  #act(resolved: Resolved, answer: Answer): Effect.Effect<void, StepError> {
    const { output, progress, transcript } = this.#state
    const turn = this.#turn
    const known = turn.calls = new Calls()
    const dispatched = dispatch({
      calls: answer.calls,
      messages: transcript.messages,
      tools: resolved,
      agent: this.#identity,
      observed: progress.observed,
      publish: (value) => progress.publish(value),
      known
    })
    return Effect.flatMap(dispatched, ({ concluded, parts }) => {
      // from here to the log nothing may come between: a result that is logged is a result that counts
      const logged = Effect.uninterruptible(Effect.suspend(() => {
        if (concluded !== undefined) {
          turn.phase = "concluded"
          turn.captured = concluded.tool === output
        }
        return flatMapNow(this.#commit(() => [said(Prompt.makeMessage("tool", { content: [...parts] }))]), () => {
          turn.calls = undefined
          turn.concluded = concluded
          return Effect.void
        })
      }))
      return Effect.flatMap(logged, () => concluded === undefined ? this.#next : this.#end({ _tag: "Completed" }))
    })
  }

  // the model called no tool
  #silent(cause: Session.TurnCause | undefined): Effect.Effect<void, StepError> {
    const { maxSteps, output, steering } = this.#state
    if (cause === undefined) return this.#next
    if (cause._tag !== "Completed") return this.#end(cause)
    // a message that came while the model finished is answered in this turn
    if (steering.length > 0 && this.#step + 1 < maxSteps) return this.#next
    if (output === undefined) return this.#end(cause)
    if (this.#reminded) {
      return this.#end(failed("NoStructuredOutput", `the agent ended without a valid call of "${output}"`))
    }
    this.#reminded = true
    this.#force = true
    const messageId = newMessageId(this.#state, this.#fiber)
    return flatMapNow(
      this.#commit(() => [{ ...said(reminder(output)), source: { kind: "notice" }, messageId }]),
      () => this.#next
    )
  }

  get #next(): Effect.Effect<void, StepError> {
    this.#step++
    return this.run
  }

  #end(cause: Session.TurnCause): Effect.Effect<void> {
    this.#turn.cause = cause
    return Effect.void
  }

  #commit(make: () => ReadonlyArray<Draft>): Effect.Effect<void, AppendError> {
    return commitNow(this.#fiber.context, this.#state, this.#turn, make)
  }
}

/** @internal What the agent does in a turn, run in `fiber`. */
export const steps = (
  state: State,
  turn: Turn,
  identity: CurrentAgent["Service"],
  fiber: Fiber.Fiber<unknown, unknown>
): Effect.Effect<void, StepError> => new Steps(state, turn, identity, fiber).run

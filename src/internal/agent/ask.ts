/**
 * Makes one model call of a turn and folds what it streams into one assistant message.
 *
 * A failure that may pass is tried again as the schedule says; what was streamed before it is void then, so a step
 * reaches the log as a whole or not at all.
 */
import * as AiError from "effect/ai/AiError"
import type * as LanguageModel from "effect/ai/LanguageModel"
import * as Prompt from "effect/ai/Prompt"
import type * as Response from "effect/ai/Response"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Schedule from "effect/Schedule"
import * as Stream from "effect/Stream"
import { CostOf, MaxOutputTokens } from "../../AgentModels.ts"
import type { AnyToolkit } from "../../AgentTools.ts"
import * as Session from "../../Session.ts"
import { toDiagnostic } from "../session/redact.ts"
import type { Progress } from "./model.ts"

/** @internal */
export interface Question {
  readonly model: LanguageModel.LanguageModel
  /** The model's name; `undefined` for the default model. */
  readonly modelName: string | undefined
  readonly messages: ReadonlyArray<Prompt.Message>
  readonly toolkit: AnyToolkit
  readonly hasTools: boolean
  /** Forces a call of this tool. */
  readonly forced: string | undefined
  readonly maxTokens: number | undefined
  readonly retry: Schedule.Schedule<unknown, AiError.AiError>
  readonly maxRetryAfter: Duration.Duration
  readonly step: number
  readonly observed: () => boolean
  readonly publish: (progress: Progress) => void
  /** Told of each piece of text, and of each restart with `undefined`. */
  readonly onText: (delta: string | undefined) => void
  /** Told of each call made, also of one that fails. */
  readonly onCall: () => void
}

/** @internal */
export interface Answer {
  readonly message: Prompt.AssistantMessage | undefined
  readonly text: string
  readonly calls: ReadonlyArray<Prompt.ToolCallPart>
  readonly reason: Response.FinishReason
  readonly usage: Session.Usage
  /** What the model said of an error, `""` without one. */
  readonly error: string
}

type AnyPart = Response.AnyPart

const errorText = (parts: ReadonlyArray<AnyPart>): string => {
  const error = parts.findLast((part) => part.type === "error")?.error
  if (typeof error === "string") return toDiagnostic(error)
  return typeof error === "object" && error !== null && "message" in error && typeof error.message === "string"
    ? toDiagnostic(error.message)
    : ""
}

// without its finish an answer is a part of one: a connection that broke may leave half a sentence that looks whole
const brokenOff = (parts: ReadonlyArray<AnyPart>): AiError.AiError => {
  const text = errorText(parts)
  return AiError.make({
    module: "LanguageModel",
    method: "streamText",
    reason: new AiError.InternalProviderError({
      description: text === "" ? "the answer broke off: it has no finish part" : text
    })
  })
}

const attempt = (question: Question): Effect.Effect<Array<AnyPart>, AiError.AiError> =>
  Effect.suspend(() => {
    const parts: Array<AnyPart> = []
    question.onCall()
    if (question.observed()) question.publish({ _tag: "StepStarted", step: question.step })
    const common = {
      prompt: Prompt.fromMessages(question.messages),
      disableToolCallResolution: true,
      toolCallValidation: "deferred"
    } as const
    const stream = question.hasTools
      ? question.model.streamText({
        ...common,
        toolkit: question.toolkit,
        ...(question.forced === undefined ? undefined : { toolChoice: { tool: question.forced } })
      })
      : question.model.streamText(common)
    return Effect.andThen(
      Stream.runForEachArray(
        // sound: with deferred validation no tool runs here, so no service of a tool is needed
        stream as Stream.Stream<AnyPart, AiError.AiError>,
        (some) => {
          for (const part of some) {
            parts.push(part)
            if (part.type === "text-delta") {
              question.onText(part.delta)
              if (question.observed()) question.publish({ _tag: "Text", delta: part.delta })
            } else if (part.type === "reasoning-delta" && question.observed()) {
              question.publish({ _tag: "Reasoning", delta: part.delta })
            }
          }
          return Effect.void
        }
      ),
      () => parts.some((part) => part.type === "finish") ? Effect.succeed(parts) : Effect.fail(brokenOff(parts))
    )
  })

const limited = (question: Question): Effect.Effect<Array<AnyPart>, AiError.AiError> =>
  question.maxTokens === undefined
    ? attempt(question)
    : Effect.provideService(attempt(question), MaxOutputTokens, question.maxTokens)

// a server that wishes for longer than anybody waits
const isTooLong = ({ retryAfter }: AiError.AiError, max: Duration.Duration): boolean =>
  retryAfter !== undefined && Duration.isGreaterThan(retryAfter, max)

// only entered after a first failure: the usual call pays nothing for it
const again = Effect.fnUntraced(function*(question: Question, first: AiError.AiError) {
  let error = first
  const next = yield* Schedule.toStep(question.retry)
  while (error.isRetryable && !isTooLong(error, question.maxRetryAfter)) {
    const step = yield* Effect.exit(next(yield* Clock.currentTimeMillis, error))
    if (Exit.isFailure(step)) break
    const [, pause] = step.value
    // before the pause: whoever watches wants to know why nothing happens
    question.publish({ _tag: "StepRestarted", step: question.step, reason: toDiagnostic(error.message) })
    // never sooner than the server wishes
    yield* Effect.sleep(error.retryAfter === undefined ? pause : Duration.max(pause, error.retryAfter))
    // what was streamed is all there is of a turn that is cancelled meanwhile (S556)
    question.onText(undefined)
    const exit = yield* Effect.result(limited(question))
    if (exit._tag === "Success") return exit.success
    error = exit.failure
  }
  return yield* Effect.fail(error)
})

const toAnswer = (
  parts: ReadonlyArray<AnyPart>,
  modelName: string | undefined,
  costOf: typeof CostOf.Service
): Answer => {
  let reason: Response.FinishReason = "unknown"
  let usage = Session.noUsage
  for (const part of parts) {
    if (part.type !== "finish") continue
    reason = part.reason
    const cost = costOf(part, modelName)
    usage = {
      inputTokens: part.usage.inputTokens.total ?? 0,
      outputTokens: part.usage.outputTokens.total ?? 0,
      steps: 0,
      elapsed: 0,
      ...(cost === undefined ? undefined : { cost })
    }
  }
  const message = distinct(Prompt.fromResponseParts(parts).content.find((one) => one.role === "assistant"))
  let text = ""
  const calls: Array<Prompt.ToolCallPart> = []
  if (message !== undefined) {
    for (const part of message.content) {
      if (part.type === "text") text += part.text
      else if (part.type === "tool-call" && !part.providerExecuted) calls.push(part)
    }
  }
  return { message, text, calls, reason, usage, error: errorText(parts) }
}

// a result finds its call by the id, and some models give all calls of a response the same
const distinct = (message: Prompt.AssistantMessage | undefined): Prompt.AssistantMessage | undefined => {
  if (message === undefined) return undefined
  const ids = new Set<string>()
  let changed = false
  const content = message.content.map((part) => {
    if (part.type !== "tool-call" || part.providerExecuted) return part
    let id = part.id
    for (let n = 2; ids.has(id); n++) id = `${part.id}-${n}`
    ids.add(id)
    if (id === part.id && part.params !== undefined) return part
    changed = true
    return Prompt.makePart("tool-call", { ...part, id, params: part.params ?? {} })
  })
  return changed ? Prompt.makeMessage("assistant", { ...message, content }) : message
}

const answered = ({ modelName }: Question, parts: ReadonlyArray<AnyPart>): Effect.Effect<Answer> =>
  Effect.withFiber((fiber) => Effect.succeed(toAnswer(parts, modelName, fiber.getRef(CostOf))))

/** @internal Asks the model once, with retries. */
export const ask = (question: Question): Effect.Effect<Answer, AiError.AiError> =>
  Effect.matchEffect(limited(question), {
    onSuccess: (parts) => answered(question, parts),
    onFailure: (error) => Effect.flatMap(again(question, error), (parts) => answered(question, parts))
  })

/** @internal The default schedule of retries: four, after 1, 2, 4 and 8 seconds, each shortened or stretched by chance. */
export const defaultRetry: Schedule.Schedule<unknown, AiError.AiError> = Schedule.exponential(Duration.seconds(1)).pipe(
  Schedule.jittered,
  Schedule.upTo({ times: 4 })
)

/** @internal Why a turn ends when its model call failed for good. */
export const causeOf = (error: AiError.AiError, maxRetryAfter: Duration.Duration): Session.TurnCause => {
  if (error.reason._tag === "ContentPolicyError") return { _tag: "Refusal" }
  const { isRetryable, message, retryAfter } = error
  const wish = retryAfter !== undefined && isTooLong(error, maxRetryAfter)
    ? `the server asks to wait ${Duration.format(retryAfter)}, which is more than ${Duration.format(maxRetryAfter)}: `
    : ""
  return {
    _tag: "Failed",
    reason: error.reason._tag,
    retryable: isRetryable,
    diagnostic: toDiagnostic(wish + message)
  }
}

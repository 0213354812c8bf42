/**
 * Makes an `effect/ai` `LanguageModel` out of any AI SDK model, so that an agent can run on every provider the AI SDK
 * has.
 *
 * What a provider attached to its answer goes back with the next request: keep the parts of a response as they came,
 * with their metadata, and reasoning stays signed. Nothing is retried here; `AiError.isRetryable` says what may be.
 *
 * Models of OpenAI's Responses API store each answer at OpenAI and afterwards refer to it by its id. A session that
 * must outlive that storage, or move to another account, needs `providerOptions: { openai: { store: false } }`.
 *
 * @since 0.1.0
 */
import type {
  LanguageModelV4,
  LanguageModelV4CallOptions,
  LanguageModelV4StreamPart,
  LanguageModelV4StreamResult,
  SharedV4ProviderOptions,
  SharedV4Warning
} from "@ai-sdk/provider"
import * as AiError from "effect/ai/AiError"
import * as AnthropicStructuredOutput from "effect/ai/AnthropicStructuredOutput"
import * as LanguageModel from "effect/ai/LanguageModel"
import * as OpenAiStructuredOutput from "effect/ai/OpenAiStructuredOutput"
import type * as Response from "effect/ai/Response"
import * as Telemetry from "effect/ai/Telemetry"
import * as Tool from "effect/ai/Tool"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Stream from "effect/Stream"
import type * as Tracer from "effect/Tracer"
import * as AgentModels from "../AgentModels.ts"
import * as Errors from "./internal/aiSdkError.ts"
import { toPrompt } from "./internal/aiSdkPrompt.ts"
import { fromResult, fromStreamPart } from "./internal/aiSdkResponse.ts"
import { toResponseFormat, toTools } from "./internal/aiSdkTools.ts"

/**
 * How to use an AI SDK model.
 *
 * @category options
 * @since 0.1.0
 */
export interface Options {
  /**
   * Sampling settings and HTTP headers, sent with every request. A `maxOutputTokens` here counts only while
   * `AgentModels.MaxOutputTokens` is not set.
   */
  readonly settings?:
    | Pick<
      LanguageModelV4CallOptions,
      | "frequencyPenalty"
      | "headers"
      | "maxOutputTokens"
      | "presencePenalty"
      | "reasoning"
      | "seed"
      | "stopSequences"
      | "temperature"
      | "topK"
      | "topP"
    >
    | undefined
  /**
   * Options of the provider, by its name, sent with every request: `{ anthropic: { thinking: { … } } }`. Those of a
   * message or of a part of it are its `options` in the prompt.
   */
  readonly providerOptions?: SharedV4ProviderOptions | undefined
  /**
   * Fits the schema of `generateObject` to what the provider accepts. By default chosen by the model's provider:
   * Anthropic's for `anthropic`, OpenAI's for `openai` and `azure`, none otherwise.
   */
  readonly codecTransformer?: LanguageModel.CodecTransformer | undefined
  /**
   * Whether the provider takes files in tool results. Where it does not they are replaced by a short note. By default
   * `false` for chat completion models, whose protocol has no place for them, and `true` otherwise.
   */
  readonly filesInToolResults?: boolean | undefined
  /**
   * Values that must not appear in an error, the API key above all; those of `settings.headers` need not be repeated.
   * Without them a key that a server repeats is still recognized by its looks, if it looks like one.
   */
  readonly secrets?: ReadonlyArray<string | Redacted.Redacted<string>> | undefined
}

/**
 * The `constraint` of the `InvalidRequestError` that says the prompt does not fit the model's context window. Such a
 * request fails again however often it is sent; a shorter one may pass.
 *
 * @see {@link isContextTooLong}
 * @category errors
 * @since 0.1.0
 */
export const ContextTooLong: string = Errors.contextTooLong

/**
 * Whether an error says that the prompt does not fit the model's context window.
 *
 * @category guards
 * @since 0.1.0
 */
export const isContextTooLong = (error: unknown): error is AiError.AiError =>
  AiError.isAiError(error) && error.reason._tag === "InvalidRequestError" && error.reason.constraint === ContextTooLong

/**
 * Makes a `LanguageModel` that sends its requests through an AI SDK model.
 *
 * - `AgentModels.MaxOutputTokens` is read at each request and sent as the most tokens to answer with.
 * - A tool call whose arguments are not JSON comes back with the text as `params`. Sent again, such arguments are
 *   `{ rawInvalidInput: … }`, because providers take objects only.
 * - A provider-defined tool is sent by its `id`, which must be the AI SDK's, with its arguments as the AI SDK names
 *   them. Calls that the provider runs itself of a tool that the toolkit does not declare are dropped: `effect/ai`
 *   cannot carry them.
 * - Interrupting the request aborts it at once.
 *
 * Every failure is an `AiError`. What the provider said of it is in `reason.metadata.aiSdk`, for the reasons that have
 * metadata: `{ provider, modelId, message, status?, code?, type?, requestId?, retryAfterMs? }`. `RateLimitError` has
 * `retryAfter` if the response named a time, in seconds, as a date or in milliseconds. An answer that breaks off is a
 * `NetworkError`, also when the server ended it in good order. No error holds a header of the request or its body, and
 * texts of the server are freed of credentials.
 *
 * @category constructors
 * @since 0.1.0
 */
export const make = (
  model: LanguageModelV4,
  options?: Options | undefined
): Effect.Effect<LanguageModel.LanguageModel> => {
  const transformer = options?.codecTransformer ?? defaultTransformer(model.provider)
  const errorContext: Errors.ErrorContext = {
    provider: model.provider,
    modelId: model.modelId,
    secrets: [
      ...(options?.secrets ?? []).map((secret) => Redacted.isRedacted(secret) ? Redacted.value(secret) : secret),
      ...Object.entries(options?.settings?.headers ?? {}).flatMap(([name, value]) =>
        value !== undefined && value.length >= 8 && /auth|cookie|key|secret|token/i.test(name) ? [value] : []
      )
    ]
  }

  const failWith = (method: string) => (error: unknown): Effect.Effect<never, AiError.AiError> =>
    Effect.flatMap(Clock.currentTimeMillis, (now) =>
      Effect.fail(
        AiError.make({
          module: "AiSdkModel",
          method,
          reason: AiError.isAiErrorReason(error) ? error : Errors.toReason(error, errorContext, now)
        })
      ))

  const prepare = Effect.fnUntraced(function*(request: LanguageModel.ProviderOptions) {
    const maxOutputTokens = (yield* AgentModels.MaxOutputTokens) ?? options?.settings?.maxOutputTokens
    const prompt = yield* Effect.try({
      try: () =>
        toPrompt(request.prompt, {
          providerTools: new Set(request.tools.filter(Tool.isProviderDefined).map((tool) => tool.name)),
          filesInToolResults: options?.filesInToolResults ?? !model.provider.endsWith(".chat")
        }),
      catch: (error) => new AiError.InvalidUserInputError({ description: String(error) })
    })
    const responseFormat = yield* Effect.try({
      try: () => toResponseFormat(request.responseFormat, transformer),
      catch: (error) => new AiError.UnsupportedSchemaError({ description: String(error) })
    })
    annotateRequest(request.span, model, options, maxOutputTokens)
    return {
      ...options?.settings,
      prompt,
      ...toTools(request),
      ...responseFormat,
      ...(maxOutputTokens === undefined ? undefined : { maxOutputTokens }),
      ...(options?.providerOptions === undefined ? undefined : { providerOptions: options.providerOptions })
    } satisfies LanguageModelV4CallOptions
  })

  return LanguageModel.make({
    codecTransformer: transformer,

    generateText: Effect.fnUntraced(
      function*(request) {
        const callOptions = yield* prepare(request)
        const result = yield* Effect.tryPromise({
          try: (abortSignal) => model.doGenerate({ ...callOptions, abortSignal }),
          catch: (error) => error
        })
        yield* logWarnings(result.warnings)
        if (result.finishReason.unified === "interrupted") return yield* Effect.fail(Errors.truncated(errorContext))
        const parts = yield* fromResult(result, request)
        parts.forEach((part) => annotateResponse(request.span, part))
        return parts
      },
      Effect.catch(failWith("generateText"))
    ),

    streamText: (request) =>
      Effect.gen(function*() {
        const callOptions = yield* prepare(request)
        const { stream } = yield* openStream(model, callOptions)
        let finished = false
        const convert = (
          part: LanguageModelV4StreamPart
        ): Effect.Effect<ReadonlyArray<Response.StreamPartEncoded>, unknown> => {
          if (part.type === "error") return Effect.fail(part.error)
          if (part.type === "finish") {
            if (part.finishReason.unified === "interrupted") return Effect.fail(Errors.truncated(errorContext))
            finished = true
          }
          const parts = fromStreamPart(part, request)
          return part.type === "stream-start" ? Effect.andThen(logWarnings(part.warnings), parts) : parts
        }
        return Stream.fromReadableStream({
          evaluate: () => stream,
          onError: (error) => error,
          releaseLockOnEnd: true
        }).pipe(
          Stream.mapEffect(convert),
          Stream.flattenIterable,
          Stream.tap((part) => Effect.sync(() => annotateResponse(request.span, part))),
          Stream.concat(Stream.suspend(() => finished ? Stream.empty : Stream.fail(Errors.truncated(errorContext))))
        )
      }).pipe(
        Stream.unwrap,
        Stream.catch((error) => Stream.fromEffect(failWith("streamText")(error)))
      )
  })
}

/**
 * Provides a `LanguageModel` that sends its requests through an AI SDK model. See {@link make} for what it does and how
 * it fails.
 *
 * @category layers
 * @since 0.1.0
 */
export const layer = (
  model: LanguageModelV4,
  options?: Options | undefined
): Layer.Layer<LanguageModel.LanguageModel> => Layer.effect(LanguageModel.LanguageModel, make(model, options))

const defaultTransformer = (provider: string): LanguageModel.CodecTransformer => {
  switch (provider.split(".")[0]) {
    case "anthropic":
      return AnthropicStructuredOutput.toCodecAnthropic
    case "azure":
    case "openai":
      return OpenAiStructuredOutput.toCodecOpenAI
    default:
      return LanguageModel.defaultCodecTransformer
  }
}

// The request is aborted before the stream is let go and neither is waited for: cancelling a stream can take as long as
// its source likes.
const openStream = Effect.fnUntraced(function*(model: LanguageModelV4, callOptions: LanguageModelV4CallOptions) {
  let opened: LanguageModelV4StreamResult | undefined
  const cancel = (result: LanguageModelV4StreamResult) => result.stream.cancel().catch(() => {})
  const controller = yield* Effect.acquireRelease(
    Effect.sync(() => new AbortController()),
    (controller) =>
      Effect.sync(() => {
        controller.abort()
        if (opened !== undefined) void cancel(opened)
      })
  )
  const result = yield* Effect.tryPromise({
    try: async () => {
      const result = await model.doStream({ ...callOptions, abortSignal: controller.signal })
      // A model that does not heed the signal may answer after everyone has left.
      if (controller.signal.aborted) void cancel(result)
      return result
    },
    catch: (error) => error
  })
  opened = result
  return result
})

const logWarnings = (warnings: ReadonlyArray<SharedV4Warning>): Effect.Effect<void> =>
  Effect.forEach(warnings, (warning) => Effect.logDebug("The model provider warns", warning), { discard: true })

const annotateRequest = (
  span: Tracer.Span,
  model: LanguageModelV4,
  options: Options | undefined,
  maxTokens: number | undefined
): void =>
  Telemetry.addGenAIAnnotations(span, {
    provider: { name: model.provider },
    operation: { name: "chat" },
    request: {
      model: model.modelId,
      temperature: options?.settings?.temperature,
      topK: options?.settings?.topK,
      topP: options?.settings?.topP,
      frequencyPenalty: options?.settings?.frequencyPenalty,
      presencePenalty: options?.settings?.presencePenalty,
      seed: options?.settings?.seed,
      stopSequences: options?.settings?.stopSequences,
      maxTokens
    }
  })

const annotateResponse = (span: Tracer.Span, part: Response.PartEncoded | Response.StreamPartEncoded): void => {
  if (part.type === "response-metadata") {
    Telemetry.addGenAIAnnotations(span, { response: { id: part.id, model: part.modelId } })
  } else if (part.type === "finish") {
    Telemetry.addGenAIAnnotations(span, {
      response: { finishReasons: [part.reason] },
      usage: { inputTokens: part.usage.inputTokens.total, outputTokens: part.usage.outputTokens.total }
    })
  }
}

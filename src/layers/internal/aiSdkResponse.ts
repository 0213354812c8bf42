/**
 * Converts what an AI SDK model answers to `effect/ai` response parts. The arguments of a tool call are parsed here,
 * and text that is not JSON is passed on as it is: a model's typing error is for the tool to refuse, never the end of
 * the turn.
 *
 * @since 0.1.0
 */
import type {
  LanguageModelV4Content,
  LanguageModelV4CustomContent,
  LanguageModelV4File,
  LanguageModelV4FinishReason,
  LanguageModelV4GenerateResult,
  LanguageModelV4ReasoningFile,
  LanguageModelV4ResponseMetadata,
  LanguageModelV4Source,
  LanguageModelV4StreamPart,
  LanguageModelV4ToolCall,
  LanguageModelV4ToolResult,
  LanguageModelV4Usage,
  SharedV4ProviderMetadata
} from "@ai-sdk/provider"
import * as AiError from "effect/ai/AiError"
import type * as LanguageModel from "effect/ai/LanguageModel"
import type * as Response from "effect/ai/Response"
import * as Tool from "effect/ai/Tool"
import * as Effect from "effect/Effect"
import * as Base64 from "effect/encoding/Base64"
import * as Result from "effect/Result"
import { markerKey, toJsonValue } from "./aiSdkJson.ts"

type Encoded = Response.PartEncoded & Response.StreamPartEncoded

/** What both kinds of answer consist of, apart from text and reasoning. */
type Common = Exclude<LanguageModelV4Content, { type: "text" | "reasoning" | "custom" }>

/**
 * The parts of an answer that was not streamed.
 *
 * @internal
 */
export const fromResult = (
  result: LanguageModelV4GenerateResult,
  options: LanguageModel.ProviderOptions
): Effect.Effect<Array<Response.PartEncoded>, AiError.AiErrorReason> =>
  Effect.map(
    Effect.forEach(
      selectText(result, options),
      (part): Effect.Effect<ReadonlyArray<Response.PartEncoded>, AiError.AiErrorReason> => {
        switch (part.type) {
          case "text":
            return Effect.succeed([{ type: "text", text: part.text, ...metadata(part.providerMetadata) }])
          case "reasoning":
            return Effect.succeed([{ type: "reasoning", text: part.text, ...metadata(part.providerMetadata) }])
          case "custom":
            return Effect.succeed(
              isReplayed(part) ? [{ type: "reasoning", text: "", ...metadata(part.providerMetadata, part.kind) }] : []
            )
          default:
            return fromCommon(part, options)
        }
      }
    ),
    (parts) => [
      ...(result.response === undefined ? [] : [fromResponseMetadata(result.response)]),
      ...parts.flat(),
      fromFinish(result)
    ]
  )

// A model may draft before it answers in JSON, and then says which text the answer is.
const selectText = (
  result: LanguageModelV4GenerateResult,
  options: LanguageModel.ProviderOptions
): ReadonlyArray<LanguageModelV4Content> =>
  options.responseFormat.type === "json" && result.structuredOutputText !== undefined
    ? [...result.content.filter((part) => part.type !== "text"), { type: "text", text: result.structuredOutputText }]
    : result.content

/**
 * The parts that one part of a stream stands for. Error parts and the end of the stream are the caller's to judge.
 *
 * @internal
 */
export const fromStreamPart = (
  part: Exclude<LanguageModelV4StreamPart, { type: "error" }>,
  options: LanguageModel.ProviderOptions
): Effect.Effect<ReadonlyArray<Response.StreamPartEncoded>, AiError.AiErrorReason> => {
  switch (part.type) {
    case "text-start":
    case "text-end":
    case "reasoning-start":
    case "reasoning-end":
      return Effect.succeed([{ type: part.type, id: part.id, ...metadata(part.providerMetadata) }])
    case "text-delta":
    case "reasoning-delta":
      return Effect.succeed([{ type: part.type, id: part.id, delta: part.delta, ...metadata(part.providerMetadata) }])
    case "tool-input-start":
      return Effect.succeed([{
        type: "tool-params-start",
        id: part.id,
        name: part.toolName,
        providerExecuted: part.providerExecuted === true,
        ...metadata(part.providerMetadata)
      }])
    case "tool-input-delta":
      return Effect.succeed([{
        type: "tool-params-delta",
        id: part.id,
        delta: part.delta,
        ...metadata(part.providerMetadata)
      }])
    case "tool-input-end":
      return Effect.succeed([{ type: "tool-params-end", id: part.id, ...metadata(part.providerMetadata) }])
    case "custom": {
      const id = `${markerKey}:${part.kind}`
      return Effect.succeed(
        isReplayed(part)
          ? [{ type: "reasoning-start", id, ...metadata(part.providerMetadata, part.kind) }, {
            type: "reasoning-end",
            id
          }]
          : []
      )
    }
    case "response-metadata":
      return Effect.succeed([fromResponseMetadata(part)])
    case "finish":
      return Effect.succeed([fromFinish(part)])
    case "stream-start":
    case "ping":
    case "raw":
      return Effect.succeed([])
    default:
      return fromCommon(part, options)
  }
}

// Of the parts that only a provider understands, these must be sent back to it. They travel as reasoning without text;
// the others inform of what is known already.
const isReplayed = (part: LanguageModelV4CustomContent): boolean => /\.(?:compaction|fallback)$/.test(part.kind)

const fromCommon = (
  part: Common,
  options: LanguageModel.ProviderOptions
): Effect.Effect<ReadonlyArray<Encoded>, AiError.AiErrorReason> => {
  switch (part.type) {
    case "tool-call":
      return fromToolCall(part, options)
    case "tool-result":
      return fromToolResult(part, options)
    case "tool-approval-request":
      return Effect.succeed([{
        type: "tool-approval-request",
        approvalId: part.approvalId,
        toolCallId: part.toolCallId,
        ...metadata(part.providerMetadata)
      }])
    case "file":
      return Effect.succeed([fromFile(part)])
    case "reasoning-file":
      return Effect.succeed([fromFile(part)])
    case "source":
      return Effect.succeed(fromSource(part))
  }
}

const fromToolCall = (
  part: LanguageModelV4ToolCall,
  options: LanguageModel.ProviderOptions
): Effect.Effect<ReadonlyArray<Encoded>, AiError.AiErrorReason> => {
  const providerExecuted = part.providerExecuted === true
  if (!isDeclared(part.toolName, options)) {
    if (providerExecuted) return dropUndeclared(part)
    if (options.toolCallValidation !== "deferred") {
      return Effect.fail(
        new AiError.ToolNotFoundError({
          toolName: part.toolName,
          availableTools: options.tools.map((tool) => tool.name)
        })
      )
    }
  }
  return Effect.succeed([{
    type: "tool-call",
    id: part.toolCallId,
    name: part.toolName,
    params: parseParams(part.input),
    providerExecuted,
    ...metadata(part.providerMetadata)
  }])
}

const parseParams = (input: string): unknown => {
  // A call without arguments is streamed as no text at all by some providers.
  if (input.trim() === "") return {}
  return Result.getOrElse(Result.try((): unknown => Tool.unsafeSecureJsonParse(input)), () => input)
}

const fromToolResult = (
  part: LanguageModelV4ToolResult,
  options: LanguageModel.ProviderOptions
): Effect.Effect<ReadonlyArray<Encoded>> =>
  isDeclared(part.toolName, options)
    ? Effect.succeed([{
      type: "tool-result",
      id: part.toolCallId,
      name: part.toolName,
      result: toJsonValue(part.result),
      isFailure: part.isError === true,
      providerExecuted: true,
      preliminary: part.preliminary === true,
      ...metadata(part.providerMetadata)
    }])
    : dropUndeclared(part)

const isDeclared = (name: string, options: LanguageModel.ProviderOptions): boolean =>
  options.tools.some((tool) => tool.name === name)

// `effect/ai` decodes results by the schema of their tool, so one that it does not know cannot be carried. The provider
// ran it already.
const dropUndeclared = (part: { readonly type: string; readonly toolName: string }) =>
  Effect.as(
    Effect.logDebug(
      `Dropped a ${part.type} of "${part.toolName}", which the provider ran and the toolkit does not declare`
    ),
    []
  )

const fromFile = (part: LanguageModelV4File | LanguageModelV4ReasoningFile): Encoded => {
  const marker = part.type === "reasoning-file" ? part.type : undefined
  if (part.data.type === "url") {
    const url = part.data.url.href
    return {
      type: "source",
      sourceType: "url",
      id: url,
      url,
      title: part.mediaType,
      ...metadata(part.providerMetadata)
    }
  }
  return {
    type: "file",
    mediaType: part.mediaType,
    data: typeof part.data.data === "string" ? part.data.data : Base64.encode(part.data.data),
    ...metadata(part.providerMetadata, marker)
  }
}

const fromSource = (part: LanguageModelV4Source): ReadonlyArray<Encoded> => {
  if (part.sourceType === "document") {
    return [{
      type: "source",
      sourceType: "document",
      id: part.id,
      mediaType: part.mediaType,
      title: part.title,
      ...(part.filename === undefined ? undefined : { fileName: part.filename }),
      ...metadata(part.providerMetadata)
    }]
  }
  // A reference that is no URL would fail the decoding of the whole answer.
  return URL.canParse(part.url)
    ? [{
      type: "source",
      sourceType: "url",
      id: part.id,
      url: part.url,
      title: part.title ?? part.url,
      ...metadata(part.providerMetadata)
    }]
    : []
}

const fromResponseMetadata = (response: LanguageModelV4ResponseMetadata): Response.ResponseMetadataPartEncoded => ({
  type: "response-metadata",
  ...(response.id === undefined ? undefined : { id: response.id }),
  ...(response.modelId === undefined ? undefined : { modelId: response.modelId }),
  ...(response.timestamp === undefined || Number.isNaN(response.timestamp.getTime())
    ? undefined
    : { timestamp: response.timestamp.toISOString() })
})

const fromFinish = (finish: {
  readonly finishReason: LanguageModelV4FinishReason
  readonly usage: LanguageModelV4Usage
  readonly providerMetadata?: SharedV4ProviderMetadata | undefined
}): Response.FinishPartEncoded => ({
  type: "finish",
  reason: fromFinishReason(finish.finishReason),
  usage: {
    inputTokens: {
      total: count(finish.usage.inputTokens.total),
      uncached: count(finish.usage.inputTokens.noCache),
      cacheRead: count(finish.usage.inputTokens.cacheRead),
      cacheWrite: count(finish.usage.inputTokens.cacheWrite)
    },
    outputTokens: {
      total: count(finish.usage.outputTokens.total),
      text: count(finish.usage.outputTokens.text),
      reasoning: count(finish.usage.outputTokens.reasoning)
    }
  },
  ...metadata(finish.providerMetadata)
})

// Servers that compute their counts can send anything; a bad count must not cost the answer.
const count = (tokens: number | undefined): number | undefined =>
  typeof tokens === "number" && Number.isFinite(tokens) ? Math.max(0, Math.round(tokens)) : undefined

const fromFinishReason = (reason: LanguageModelV4FinishReason): Response.FinishReason => {
  switch (reason.unified) {
    case "stop":
      return reason.raw === "pause_turn" ? "pause" : "stop"
    case "length":
    case "content-filter":
    case "tool-calls":
    case "error":
      return reason.unified
    default:
      return reason.raw === undefined ? "unknown" : "other"
  }
}

const metadata = (
  provider: SharedV4ProviderMetadata | undefined,
  marker?: string | undefined
): { readonly metadata?: Response.ProviderMetadata } =>
  provider === undefined && marker === undefined ? {} : {
    metadata: {
      // The SDK's metadata is a record of JSON objects, and stays one when it is rid of `undefined`.
      ...toJsonValue(provider ?? {}) as Response.ProviderMetadata,
      ...(marker === undefined ? undefined : { [markerKey]: { kind: marker } })
    }
  }

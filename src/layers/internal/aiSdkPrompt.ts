/**
 * Converts an `effect/ai` prompt to the prompt of an AI SDK model. What a provider attached to a part of an earlier
 * answer (a reasoning signature, an item id) comes back as that part's options and is sent again unchanged.
 *
 * Nothing is fetched: a file given as a URL stays a URL, and it is the provider that downloads it.
 *
 * @since 0.1.0
 */
import type {
  LanguageModelV4FilePart,
  LanguageModelV4Message,
  LanguageModelV4Prompt,
  LanguageModelV4ToolResultOutput,
  LanguageModelV4ToolResultPart,
  SharedV4ProviderOptions
} from "@ai-sdk/provider"
import * as Prompt from "effect/ai/Prompt"
import * as Predicate from "effect/Predicate"
import { isPlainObject, markerKey, toJsonValue } from "./aiSdkJson.ts"

type Assistant = Extract<LanguageModelV4Message, { role: "assistant" }>
type ToolMessage = Extract<LanguageModelV4Message, { role: "tool" }>
type FileData = Extract<LanguageModelV4FilePart["data"], { type: "data" | "url" }>

/**
 * What the conversion of a prompt depends on.
 *
 * @internal
 */
export interface PromptContext {
  /** Names of the tools whose input format is the provider's own, and may therefore be a bare string. */
  readonly providerTools: ReadonlySet<string>
  /** Whether the provider takes files inside tool results; otherwise they are replaced by a note. */
  readonly filesInToolResults: boolean
}

/** @internal */
export const toPrompt = (prompt: Prompt.Prompt, context: PromptContext): LanguageModelV4Prompt => {
  const approvals = providerApprovals(prompt)
  return prompt.content.flatMap((message): Array<LanguageModelV4Message> => {
    const options = toProviderOptions(message.options)
    switch (message.role) {
      case "system":
        return [{ role: "system", content: message.content, ...options }]
      case "user":
        return [{ role: "user", content: message.content.map(userPart), ...options }]
      case "assistant":
        return assistantMessages(message, context, options)
      case "tool": {
        const content = message.content.flatMap((part): ToolMessage["content"] =>
          part.type === "tool-result"
            ? [toolResult(part, context)]
            : approvals.has(part.approvalId)
            ? [{
              type: "tool-approval-response",
              approvalId: part.approvalId,
              approved: part.approved,
              ...(part.reason === undefined ? undefined : { reason: part.reason }),
              ...toProviderOptions(part.options)
            }]
            : []
        )
        return content.length === 0 ? [] : [{ role: "tool", content, ...options }]
      }
    }
  })
}

// Approvals of our own tools are settled before a request is made; a provider only understands those that it asked for
// itself.
const providerApprovals = (prompt: Prompt.Prompt): ReadonlySet<string> => {
  const parts = prompt.content.flatMap((message) => message.role === "assistant" ? message.content : [])
  const executed = new Set(parts.flatMap((part) => part.type === "tool-call" && part.providerExecuted ? [part.id] : []))
  return new Set(
    parts.flatMap((part) =>
      part.type === "tool-approval-request" && executed.has(part.toolCallId) ? [part.approvalId] : []
    )
  )
}

const userPart = (part: Prompt.UserMessagePart) =>
  part.type === "text"
    ? { type: "text" as const, text: part.text, ...toProviderOptions(part.options) }
    : filePart(part)

const assistantMessages = (
  message: Prompt.AssistantMessage,
  context: PromptContext,
  options: { readonly providerOptions?: SharedV4ProviderOptions }
): Array<LanguageModelV4Message> => {
  const content: Assistant["content"] = []
  const local: ToolMessage["content"] = []
  for (const part of message.content) {
    const partOptions = toProviderOptions(part.options)
    const marker = readMarker(part.options)
    switch (part.type) {
      case "text":
        content.push({ type: "text", text: part.text, ...partOptions })
        break
      case "reasoning":
        content.push(
          marker !== undefined
            ? { type: "custom", kind: marker as `${string}.${string}`, ...partOptions }
            : { type: "reasoning", text: part.text, ...partOptions }
        )
        break
      case "file":
        content.push(
          marker === "reasoning-file"
            ? { type: "reasoning-file", mediaType: part.mediaType, data: fileData(part.data), ...partOptions }
            : filePart(part)
        )
        break
      case "tool-call":
        content.push({
          type: "tool-call",
          toolCallId: part.id,
          toolName: part.name,
          input: toolInput(part, context),
          ...(part.providerExecuted ? { providerExecuted: true } : undefined),
          ...partOptions
        })
        break
      case "tool-result":
        if (part.providerExecuted) content.push(toolResult(part, context))
        else local.push(toolResult(part, context))
        break
      case "tool-approval-request":
        break
    }
  }
  return [
    ...(content.length === 0 ? [] : [{ role: "assistant" as const, content, ...options }]),
    ...(local.length === 0 ? [] : [{ role: "tool" as const, content: local }])
  ]
}

// Models are only ever sent objects as input of a function tool: providers refuse a request that has anything else, and
// the whole session with it. The model still sees what it wrote.
const toolInput = (part: Prompt.ToolCallPart, context: PromptContext): unknown => {
  if (part.params === undefined || part.params === null) return {}
  return isPlainObject(part.params) || part.providerExecuted || context.providerTools.has(part.name)
    ? part.params
    : { rawInvalidInput: toJsonValue(part.params) }
}

const toolResult = (part: Prompt.ToolResultPart, context: PromptContext): LanguageModelV4ToolResultPart => ({
  type: "tool-result",
  toolCallId: part.id,
  toolName: part.name,
  output: toolOutput(part, context),
  ...toProviderOptions(part.options)
})

const toolOutput = (part: Prompt.ToolResultPart, context: PromptContext): LanguageModelV4ToolResultOutput => {
  if (part.providerExecuted) {
    return { type: part.isFailure ? "error-json" : "json", value: toJsonValue(part.result) }
  }
  if (part.isFailure) {
    if (Predicate.hasProperty(part.result, "type") && part.result.type === "execution-denied") {
      const reason = Predicate.hasProperty(part.result, "reason") ? part.result.reason : undefined
      return { type: "execution-denied", ...(typeof reason === "string" ? { reason } : undefined) }
    }
    return typeof part.result === "string"
      ? { type: "error-text", value: part.result }
      : { type: "error-json", value: toJsonValue(part.result) }
  }
  if (part.modelOutput !== undefined) {
    return context.filesInToolResults && part.modelOutput.some((output) => output.type === "file")
      ? { type: "content", value: part.modelOutput.map(userPart) }
      : { type: "text", value: Prompt.toolModelOutputToText(part.modelOutput) }
  }
  return typeof part.result === "string"
    ? { type: "text", value: part.result }
    : { type: "json", value: toJsonValue(part.result) }
}

const filePart = (part: Prompt.FilePart): LanguageModelV4FilePart => ({
  type: "file",
  mediaType: part.mediaType,
  data: fileData(part.data),
  ...(part.fileName === undefined ? undefined : { filename: part.fileName }),
  ...toProviderOptions(part.options)
})

const fileData = (data: Prompt.FilePart["data"]): FileData => {
  if (data instanceof Uint8Array) return { type: "data", data }
  // Neither prefix can start a base64 text: both hold a colon.
  const href = data instanceof URL ? data.href : /^(?:data:|https?:\/\/)/i.test(data) ? data : undefined
  if (href === undefined) return { type: "data", data: data as string } // not a URL, hence a string
  return /^data:/i.test(href) ? inlineData(href) : { type: "url", url: new URL(href) }
}

const inlineData = (href: string): FileData => {
  const comma = href.indexOf(",")
  const payload = decodeURIComponent(href.slice(comma + 1))
  return {
    type: "data",
    data: /;\s*base64\s*$/i.test(href.slice(0, comma)) ? payload : new TextEncoder().encode(payload)
  }
}

const readMarker = (options: Prompt.ProviderOptions): string | undefined => {
  const marker = options[markerKey]
  return Predicate.hasProperty(marker, "kind") && typeof marker.kind === "string" ? marker.kind : undefined
}

/**
 * The entries of a part's options that are a provider's, as the field that the AI SDK expects; nothing when there are
 * none.
 *
 * @internal
 */
export const toProviderOptions = (
  options: Prompt.ProviderOptions
): { readonly providerOptions?: SharedV4ProviderOptions } => {
  const entries = Object.entries(options).filter(([key, value]) => key !== markerKey && isPlainObject(value))
  // The filter leaves JSON objects only, which is what the SDK's record holds.
  return entries.length === 0 ? {} : { providerOptions: Object.fromEntries(entries) as SharedV4ProviderOptions }
}

/** The AI SDK's models of each protocol, set up to talk to a fake model server. */
import { createAnthropic } from "@ai-sdk/anthropic"
import { createOpenAI } from "@ai-sdk/openai"
import { createOpenAICompatible } from "@ai-sdk/openai-compatible"
import type { LanguageModelV4 } from "@ai-sdk/provider"
import type { Protocol } from "./wire.ts"

export const protocols: ReadonlyArray<Protocol> = ["anthropic", "responses", "chat"]

/** Looks like no provider's key, so that it is only kept out of errors by a rule that would keep out any. */
export const apiKey = "open-sesame-42"

export const modelId = "fake-1"

export const makeModel = (protocol: Protocol, baseURL: string, key: string = apiKey): LanguageModelV4 => {
  switch (protocol) {
    case "anthropic":
      return createAnthropic({ baseURL, apiKey: key }).languageModel(modelId)
    case "responses":
      return createOpenAI({ baseURL, apiKey: key }).responses(modelId)
    case "chat":
      return createOpenAICompatible({
        name: "fake",
        baseURL,
        apiKey: key,
        includeUsage: true,
        supportsStructuredOutputs: true
      }).chatModel(modelId)
  }
}

/**
 * Converts the tools, the tool choice and the response format of a request to those of an AI SDK model. A choice of
 * several tools is already applied to the tools that arrive here: an AI SDK model knows one tool or all.
 *
 * @since 0.1.0
 */
import type {
  JSONSchema7,
  LanguageModelV4CallOptions,
  LanguageModelV4FunctionTool,
  LanguageModelV4ProviderTool,
  LanguageModelV4ToolChoice
} from "@ai-sdk/provider"
import * as LanguageModel from "effect/ai/LanguageModel"
import * as Tool from "effect/ai/Tool"
import type * as JsonSchema from "effect/JsonSchema"
import { isPlainObject } from "./aiSdkJson.ts"

/** @internal */
export const toTools = (
  options: LanguageModel.ProviderOptions
): Pick<LanguageModelV4CallOptions, "tools" | "toolChoice"> =>
  options.tools.length === 0
    ? {}
    : { tools: options.tools.map(toTool), toolChoice: toToolChoice(options.toolChoice) }

const toTool = (tool: Tool.Any): LanguageModelV4FunctionTool | LanguageModelV4ProviderTool => {
  if (Tool.isProviderDefined(tool)) {
    return { type: "provider", id: tool.id, name: tool.name, args: providerArgs(tool.args) }
  }
  const description = Tool.getDescription(tool)
  const strict = Tool.getStrictMode(tool)
  return {
    type: "function",
    name: tool.name,
    inputSchema: toJsonSchema7(withProperties(
      Tool.getJsonSchema(tool, { transformer: LanguageModel.defaultCodecTransformer })
    )),
    ...(description === undefined ? undefined : { description }),
    ...(strict === undefined ? undefined : { strict })
  }
}

// `failureMode` travels in the same record as the arguments but is not one of the provider's.
const providerArgs = (args: unknown): Record<string, unknown> => {
  if (!isPlainObject(args)) return {}
  const { failureMode: _, ...rest } = args
  return rest
}

// Some providers refuse an object schema that does not list its properties, even when it has none.
const withProperties = (schema: JsonSchema.JsonSchema): JsonSchema.JsonSchema =>
  schema.type === "object" && schema.properties === undefined ? { ...schema, properties: {} } : schema

// Both are JSON Schema documents; the SDK's type lists the keywords of draft 7, effect's allows any, and providers read
// 2020-12.
const toJsonSchema7 = (schema: JsonSchema.JsonSchema): JSONSchema7 => schema as JSONSchema7

const toToolChoice = (choice: LanguageModel.ToolChoice<string>): LanguageModelV4ToolChoice =>
  typeof choice === "string"
    ? { type: choice }
    : "tool" in choice
    ? { type: "tool", toolName: choice.tool }
    : { type: choice.mode ?? "auto" }

/**
 * The response format of a request. Throws what the transformer throws for a schema that the provider cannot express.
 *
 * @internal
 */
export const toResponseFormat = (
  format: LanguageModel.ProviderOptions["responseFormat"],
  transformer: LanguageModel.CodecTransformer
): Pick<LanguageModelV4CallOptions, "responseFormat"> =>
  format.type === "text" ? {} : {
    responseFormat: {
      type: "json",
      name: format.objectName,
      schema: toJsonSchema7(transformer(format.schema).jsonSchema)
    }
  }

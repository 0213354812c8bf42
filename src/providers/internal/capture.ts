/**
 * Captures a structured result: a tool of the child's own whose parameters are the schema that was asked for (S181).
 */
import * as Tool from "effect/ai/Tool"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { type AnyToolkit, Concludes } from "../../AgentTools.ts"
import { boundText } from "../../internal/session/bounded.ts"
import type { ResolvedOutput } from "../../Subagent.ts"
import type { Section } from "../../SystemPrompt.ts"

/** @internal */
export const toolName = "structured_output"

/** @internal Comes last among the tool guidance of a system prompt (S181, S422). */
export const section: Section = {
  name: toolName,
  order: 190,
  text: `When your work is done, give your answer by calling the tool "${toolName}" exactly once. ` +
    `Only that call counts: text that you write does not reach whoever asked.`
}

const make = (jsonSchema: ResolvedOutput["jsonSchema"]) =>
  Tool.dynamic(toolName, {
    description: "Records your final answer and ends your work.",
    parameters: jsonSchema,
    success: Schema.Struct({ recorded: Schema.Boolean })
  }).annotate(Concludes, true)

// one tool for each schema: what models derive from a tool is kept by its identity
const tools = new WeakMap<ResolvedOutput["jsonSchema"], ReturnType<typeof make>>()

const toolFor = (jsonSchema: ResolvedOutput["jsonSchema"]): ReturnType<typeof make> => {
  let tool = tools.get(jsonSchema)
  if (tool === undefined) {
    tool = make(jsonSchema)
    tools.set(jsonSchema, tool)
  }
  return tool
}

/** @internal */
export interface Capture {
  readonly toolkit: AnyToolkit
  /** The JSON of the call with this id, if its arguments were valid. */
  readonly captured: (toolCallId: string) => { readonly json: unknown } | undefined
}

const recorded = { recorded: true }

/** @internal The capture of one child: valid arguments are staged by call, and the log decides which call counts. */
export const capture = (output: ResolvedOutput): Capture => {
  const staged = new Map<string, { readonly json: unknown }>()
  const handle: AnyToolkit["handle"] = (_name, params, toolCallId) =>
    Effect.match(output.decode(params), {
      onSuccess: () => {
        staged.set(toolCallId ?? "", { json: params })
        return Stream.succeed({ result: recorded, encodedResult: recorded, isFailure: false, preliminary: false })
      },
      onFailure: (error) => {
        const failure = { error: { code: "invalid_arguments", message: boundText(error.message) } }
        return Stream.succeed({ result: failure, encodedResult: failure, isFailure: true, preliminary: false })
      }
    })
  return {
    toolkit: { tools: { [toolName]: toolFor(output.jsonSchema) }, handle },
    captured: (toolCallId) => staged.get(toolCallId)
  }
}

/**
 * A language model that needs no network: a program that knows one task and does it with the tools it is given.
 *
 * It sees what any model sees, the prompt and the results of its calls, and nothing else; the same request always gets
 * the same answer. Four characters count as one token.
 *
 * @since 0.1.0
 */
import * as AiError from "effect/ai/AiError"
import * as LanguageModel from "effect/ai/LanguageModel"
import type * as Response from "effect/ai/Response"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import { folderOf, planFolder } from "./folder.ts"
import type { Plan } from "./plan.ts"
import { defaultPrompt, planSurvey } from "./survey.ts"
import { charactersOf, readTranscript } from "./transcript.ts"

const introduction =
  "I am the offline model of the `subagent` command: a small deterministic program, not a language " +
  "model. I can do one thing: without a prompt, I find the three largest source folders of the working directory, have " +
  "a child read each of them, and report their files, lines, bytes and exported names. I cannot work on your prompt, " +
  "and I have delegated nothing. For a language model, run `subagent run --model provider/name`; `subagent run --help` " +
  "tells which."

const needed = ["delegate", "list_files", "read_file"]

/** @internal What the offline model says to a request. */
export const plan = (request: Pick<LanguageModel.ProviderOptions, "prompt" | "tools">): Plan & {
  readonly made: number
} => {
  const transcript = readTranscript(request.prompt)
  const tools = new Set(request.tools.map((tool) => tool.name))
  const { made } = transcript
  const folder = folderOf(transcript.request)
  if (folder !== undefined && tools.has("structured_output")) return { ...planFolder(folder, transcript), made }
  if (transcript.request.trim() === defaultPrompt && needed.every((name) => tools.has(name))) {
    return { ...planSurvey(transcript), made }
  }
  return { text: introduction, calls: [], made }
}

const charactersPerToken = 4

const tokens = (characters: number): number => Math.ceil(characters / charactersPerToken)

const respond = (request: LanguageModel.ProviderOptions): ReadonlyArray<Response.StreamPartEncoded> => {
  const { calls, made, text } = plan(request)
  const spoken = (text ?? "").length + calls.reduce((sum, call) => sum + JSON.stringify(call.params).length, 0)
  return [
    ...(text === undefined ? [] : [
      { type: "text-start", id: "text" } as const,
      ...Array.from(text.matchAll(/.*\n|.+/g), ([delta]) => ({ type: "text-delta", id: "text", delta }) as const),
      { type: "text-end", id: "text" } as const
    ]),
    ...calls.map(({ name, params }, i) =>
      ({ type: "tool-call", id: `call-${made + i + 1}`, name, params, providerExecuted: false }) as const
    ),
    {
      type: "finish",
      reason: calls.length > 0 ? "tool-calls" : "stop",
      usage: {
        inputTokens: {
          total: tokens(charactersOf(request.prompt)),
          uncached: undefined,
          cacheRead: undefined,
          cacheWrite: undefined
        },
        outputTokens: { total: tokens(spoken), text: undefined, reasoning: undefined }
      },
      response: undefined
    }
  ]
}

const whole = (parts: ReadonlyArray<Response.StreamPartEncoded>): Array<Response.PartEncoded> => {
  const text = parts.map((part) => part.type === "text-delta" ? part.delta : "").join("")
  return [
    ...(text === "" ? [] : [{ type: "text", text } as const]),
    ...parts.filter((part) => part.type === "tool-call" || part.type === "finish")
  ]
}

const textOnly = (request: LanguageModel.ProviderOptions): Effect.Effect<void, AiError.AiError> =>
  request.responseFormat.type === "text" ? Effect.void : Effect.fail(AiError.make({
    module: "OfflineModel",
    method: "generateObject",
    reason: new AiError.InvalidRequestError({ description: "the offline model answers in text only" })
  }))

/**
 * The offline model.
 *
 * @category layers
 * @since 0.1.0
 */
export const layer: Layer.Layer<LanguageModel.LanguageModel> = Layer.effect(
  LanguageModel.LanguageModel,
  LanguageModel.make({
    generateText: (request) => Effect.map(textOnly(request), () => whole(respond(request))),
    streamText: (request) => Stream.unwrap(Effect.map(textOnly(request), () => Stream.fromIterable(respond(request))))
  })
)

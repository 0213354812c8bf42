/**
 * An instant model that is all program: what it answers is written in the last message of the conversation.
 *
 * It keeps no state, so any number of conversations share it and its cost does not grow with a transcript. Prompts:
 *
 * - `say`: answers
 * - `hang`: never answers
 * - `work 3`: calls the tool `work` three times, one call a response, then answers
 * - `delegate <prompt>`: delegates that prompt, then answers
 * - `fan 100 <prompt>`: delegates that prompt a hundred times in one response, then answers
 * - `chain 5`: delegates `chain 4`, and so on down to `chain 0`, which answers
 */
import { Effect, Layer, Schema, Stream } from "effect"
import { LanguageModel, type Prompt, type Response, Tool } from "effect/ai"

export type Part = Response.StreamPartEncoded

const usage = {
  inputTokens: { total: 1, uncached: 1, cacheRead: undefined, cacheWrite: undefined },
  outputTokens: { total: 1, text: 1, reasoning: undefined }
}

const saying = (text: string): ReadonlyArray<Part> => [
  { type: "text-start", id: "t" },
  { type: "text-delta", id: "t", delta: text },
  { type: "text-end", id: "t" },
  { type: "finish", reason: "stop", usage, response: undefined }
]

const answer = saying("done")

/** What it says when a tool failed, so that nobody measures how fast that is. */
const complaint = saying("a tool failed")

let ids = 0
const call = (name: string, params: unknown): Part => ({ type: "tool-call", id: `call_${++ids}`, name, params })

const calls = (...parts: Array<Part>): ReadonlyArray<Part> => {
  parts.push({ type: "finish", reason: "tool-calls", usage, response: undefined })
  return parts
}

const delegation = (prompt: string): Part => call("delegate", { description: "a task", prompt })

/** What the model says to a prompt; `undefined` when it never says anything. */
export const respondToText = (prompt: string): ReadonlyArray<Part> | undefined => {
  const [verb, ...words] = prompt.split(" ")
  switch (verb) {
    case "hang":
      return undefined
    case "work":
      return words[0] === "0" ? answer : calls(call("work", { input: words[0] }))
    case "delegate":
      return calls(delegation(words.join(" ")))
    case "fan": {
      const [count, ...rest] = words
      return calls(...Array.from({ length: Number(count) }, () => delegation(rest.join(" "))))
    }
    case "chain":
      return words[0] === "0" ? answer : calls(delegation(`chain ${Number(words[0]) - 1}`))
    default:
      return answer
  }
}

/** What the model says to the result of a tool. */
export const respondToResult = (name: string, result: unknown): ReadonlyArray<Part> =>
  name === "work" && result !== "0" ? calls(call("work", { input: result })) : answer

const respond = (prompt: Prompt.Prompt): ReadonlyArray<Part> | undefined => {
  const message = prompt.content[prompt.content.length - 1]
  if (typeof message.content === "string") return complaint
  const last = message.content[message.content.length - 1]
  if (last.type === "text") return respondToText(last.text)
  if (last.type !== "tool-result" || last.isFailure) return complaint
  return respondToResult(last.name, last.result)
}

/** What the tool `work` does: one step less is left. */
export const work = (input: string): string => String(Number(input) - 1)

export const Work = Tool.make("work", { parameters: Schema.Struct({ input: Schema.String }), success: Schema.String })

/** How many answers nobody will ever get are being waited for. */
export const hanging = { count: 0 }

const never = Stream.fromEffect(Effect.callback<never>(() => {
  hanging.count++
  return Effect.sync(() => {
    hanging.count--
  })
}))

export const layer: Layer.Layer<LanguageModel.LanguageModel> = Layer.effect(
  LanguageModel.LanguageModel,
  LanguageModel.make({
    generateText: () => Effect.die(new Error("everything here streams")),
    streamText: ({ prompt }) =>
      Stream.suspend(() => {
        const parts = respond(prompt)
        return parts === undefined ? never : Stream.fromArray(parts)
      })
  })
)

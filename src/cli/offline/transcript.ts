/**
 * Reads a request as the offline model sees it: what it was asked last, and what has come of the calls it made since.
 *
 * @since 0.1.0
 */
import type * as Prompt from "effect/ai/Prompt"

/** @internal A call that was made, and its result once there is one. */
export interface Call {
  readonly name: string
  readonly params: unknown
  readonly result: { readonly isFailure: boolean; readonly value: unknown } | undefined
}

/** @internal */
export interface Transcript {
  /** The last message of the user. */
  readonly request: string
  /** The calls since then, in the order in which they were made. */
  readonly calls: ReadonlyArray<Call>
  /** How many calls there were before and since: what makes the next id unique. */
  readonly made: number
}

/** @internal */
export const readTranscript = (prompt: Prompt.Prompt): Transcript => {
  let request = ""
  let made = 0
  let calls = new Map<string, Call>()
  for (const message of prompt.content) {
    switch (message.role) {
      case "user":
        request = message.content.map((part) => part.type === "text" ? part.text : "").join("")
        calls = new Map()
        break
      case "assistant":
        for (const part of message.content) {
          if (part.type !== "tool-call") continue
          made++
          calls.set(part.id, { name: part.name, params: part.params, result: undefined })
        }
        break
      case "tool":
        for (const part of message.content) {
          const call = part.type === "tool-result" ? calls.get(part.id) : undefined
          if (part.type !== "tool-result" || call === undefined) continue
          calls.set(part.id, { ...call, result: { isFailure: part.isFailure, value: part.result } })
        }
        break
    }
  }
  return { request, calls: Array.from(calls.values()), made }
}

const sizes = new WeakMap<Prompt.Message, number>()

/** @internal The characters of a prompt, each message measured once however often it is sent. */
export const charactersOf = (prompt: Prompt.Prompt): number => {
  let sum = 0
  for (const message of prompt.content) {
    let size = sizes.get(message)
    if (size === undefined) {
      size = typeof message.content === "string" ? message.content.length : JSON.stringify(message.content).length
      sizes.set(message, size)
    }
    sum += size
  }
  return sum
}

/** Writes answers as Anthropic Messages. */
import type { Finish, Part, ProviderFault, SseEvent, Usage, Wire } from "./wire.ts"
import { halves, joined } from "./wire.ts"

export const anthropic: Wire = (() => {
  const stopReasons: Record<Finish, string> = {
    stop: "end_turn",
    length: "max_tokens",
    "content-filter": "refusal",
    "tool-calls": "tool_use",
    pause: "pause_turn",
    other: "an_unheard_of_reason"
  }
  const input = (usage: Usage) => ({
    input_tokens: usage.input - (usage.cacheRead ?? 0) - (usage.cacheWrite ?? 0),
    cache_read_input_tokens: usage.cacheRead ?? 0,
    cache_creation_input_tokens: usage.cacheWrite ?? 0
  })
  const output = (usage: Usage) => ({
    output_tokens: usage.output,
    ...(usage.reasoning === undefined ? undefined : { output_tokens_details: { thinking_tokens: usage.reasoning } })
  })
  const citation = (part: Extract<Part, { type: "citation" }>) => ({
    type: "web_search_result_location",
    url: part.url,
    title: part.title,
    encrypted_index: "i",
    cited_text: "cited"
  })
  const block = (part: Part) => {
    switch (part.type) {
      case "text":
        return { type: "text", text: joined(part) }
      case "citation":
        return { type: "text", text: "", citations: [citation(part)] }
      case "reasoning":
        return { type: "thinking", thinking: joined(part), signature: part.signature }
      case "redacted":
        return { type: "redacted_thinking", data: part.data }
      case "call":
        return { type: "tool_use", id: part.id, name: part.name, input: parsed(part.args) }
    }
  }
  const start = (part: Part) => {
    switch (part.type) {
      case "text":
      case "citation":
        return { type: "text", text: "" }
      case "reasoning":
        return { type: "thinking", thinking: "" }
      case "redacted":
        return { type: "redacted_thinking", data: part.data }
      case "call":
        return { type: "tool_use", id: part.id, name: part.name, input: {} }
    }
  }
  const deltas = (part: Part): Array<unknown> => {
    switch (part.type) {
      case "text":
        return part.deltas.map((text) => ({ type: "text_delta", text }))
      case "citation":
        return [{ type: "citations_delta", citation: citation(part) }]
      case "reasoning":
        return [
          ...part.deltas.map((thinking) => ({ type: "thinking_delta", thinking })),
          { type: "signature_delta", signature: part.signature }
        ]
      case "redacted":
        return []
      case "call":
        return halves(part.args).map((partial_json) => ({ type: "input_json_delta", partial_json }))
    }
  }
  const fault = (fault: ProviderFault) => ({
    type: "error",
    error: { type: fault.type ?? "api_error", message: fault.message }
  })
  return {
    body: ({ answer, finish, model, usage }) => ({
      id: "msg_1",
      type: "message",
      role: "assistant",
      model,
      content: answer.parts.map(block),
      stop_reason: stopReasons[finish],
      stop_sequence: null,
      usage: { ...input(usage), ...output(usage) }
    }),
    events: ({ answer, finish, model, usage }) => ({
      body: [
        {
          type: "message_start",
          message: {
            id: "msg_1",
            type: "message",
            role: "assistant",
            model,
            content: [],
            stop_reason: null,
            usage: { ...input(usage), output_tokens: 1 }
          }
        },
        ...answer.parts.flatMap((part, index): Array<SseEvent> => [
          { type: "content_block_start", index, content_block: start(part) },
          ...deltas(part).map((delta) => ({ type: "content_block_delta", index, delta })),
          { type: "content_block_stop", index }
        ])
      ],
      tail: [
        {
          type: "message_delta",
          delta: { stop_reason: stopReasons[finish], stop_sequence: null },
          usage: output(usage)
        },
        { type: "message_stop" }
      ]
    }),
    fault,
    faultEvent: fault
  }
})()

// A document cannot hold arguments that are not JSON, only a stream can.
const parsed = (args: string): unknown => {
  try {
    return JSON.parse(args)
  } catch {
    return args
  }
}

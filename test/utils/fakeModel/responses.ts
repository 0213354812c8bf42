/** Writes answers as OpenAI Responses. */
import type { Finish, Part, SseEvent, Usage, Wire } from "./wire.ts"
import { createdAt, halves, joined } from "./wire.ts"

export const responses: Wire = (() => {
  const incomplete: Partial<Record<Finish, string>> = {
    length: "max_output_tokens",
    "content-filter": "content_filter",
    other: "an_unheard_of_reason"
  }
  const usageOf = (usage: Usage) => ({
    input_tokens: usage.input,
    input_tokens_details: { cached_tokens: usage.cacheRead ?? 0 },
    output_tokens: usage.output,
    output_tokens_details: { reasoning_tokens: usage.reasoning ?? 0 },
    total_tokens: usage.input + usage.output
  })
  const annotation = (part: Extract<Part, { type: "citation" }>) => ({
    type: "url_citation",
    start_index: 0,
    end_index: 1,
    url: part.url,
    title: part.title
  })
  const item = (part: Part, index: number) => {
    switch (part.type) {
      case "text":
      case "citation":
        return {
          type: "message",
          id: `msg_${index}`,
          role: "assistant",
          status: "completed",
          content: [{
            type: "output_text",
            text: part.type === "text" ? joined(part) : "",
            annotations: part.type === "citation" ? [annotation(part)] : []
          }]
        }
      case "reasoning":
        return {
          type: "reasoning",
          id: `rs_${index}`,
          summary: [{ type: "summary_text", text: joined(part) }],
          encrypted_content: part.signature
        }
      case "redacted":
        return { type: "reasoning", id: `rs_${index}`, summary: [], encrypted_content: part.data }
      case "call":
        return {
          type: "function_call",
          id: `fc_${index}`,
          call_id: part.id,
          name: part.name,
          arguments: part.args,
          status: "completed"
        }
    }
  }
  const deltas = (part: Part, output_index: number): Array<SseEvent> => {
    switch (part.type) {
      case "text":
        return part.deltas.map((delta) => ({
          type: "response.output_text.delta",
          item_id: `msg_${output_index}`,
          output_index,
          content_index: 0,
          delta
        }))
      case "citation":
        return [{ type: "response.output_text.annotation.added", output_index, annotation: annotation(part) }]
      case "reasoning": {
        const summary = { item_id: `rs_${output_index}`, output_index, summary_index: 0 }
        return [
          { type: "response.reasoning_summary_part.added", ...summary },
          ...part.deltas.map((delta) => ({ type: "response.reasoning_summary_text.delta", ...summary, delta })),
          { type: "response.reasoning_summary_part.done", ...summary }
        ]
      }
      case "call":
        return halves(part.args).map((delta) => ({
          type: "response.function_call_arguments.delta",
          item_id: `fc_${output_index}`,
          output_index,
          delta
        }))
      case "redacted":
        return []
    }
  }
  const started = (part: Part, index: number) =>
    part.type === "call" ? { ...item(part, index), arguments: "", status: "in_progress" } : item(part, index)
  return {
    body: ({ answer, finish, model, usage }) => ({
      id: "resp_1",
      object: "response",
      created_at: createdAt,
      model,
      status: incomplete[finish] === undefined ? "completed" : "incomplete",
      incomplete_details: incomplete[finish] === undefined ? null : { reason: incomplete[finish] },
      output: answer.parts.map(item),
      usage: usageOf(usage)
    }),
    events: ({ answer, finish, model, usage }) => {
      const response = { id: "resp_1", object: "response", created_at: createdAt, model }
      const reason = incomplete[finish]
      return {
        body: [
          { type: "response.created", response },
          { type: "response.in_progress", response },
          ...answer.parts.flatMap((part, output_index): Array<SseEvent> => [
            { type: "response.output_item.added", output_index, item: started(part, output_index) },
            ...deltas(part, output_index),
            { type: "response.output_item.done", output_index, item: item(part, output_index) }
          ])
        ],
        tail: [{
          type: reason === undefined ? "response.completed" : "response.incomplete",
          response: {
            ...response,
            incomplete_details: reason === undefined ? null : { reason },
            usage: usageOf(usage)
          }
        }]
      }
    },
    fault: (fault) => ({
      error: { message: fault.message, type: fault.type ?? "api_error", param: null, code: fault.code ?? null }
    }),
    faultEvent: (fault) => ({
      type: "response.failed",
      sequence_number: 99,
      response: { id: "resp_1", error: { code: fault.code ?? fault.type ?? "server_error", message: fault.message } }
    })
  }
})()

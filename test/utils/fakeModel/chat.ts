/** Writes answers as OpenAI chat completions. */
import type { Finish, ProviderFault, SseEvent, Usage, Wire } from "./wire.ts"
import { createdAt, halves, joined, of } from "./wire.ts"

export const chat: Wire = (() => {
  const finishReasons: Record<Finish, string> = {
    stop: "stop",
    length: "length",
    "content-filter": "content_filter",
    "tool-calls": "tool_calls",
    pause: "an_unheard_of_reason",
    other: "an_unheard_of_reason"
  }
  const usageOf = (usage: Usage) => ({
    prompt_tokens: usage.input,
    completion_tokens: usage.output,
    total_tokens: usage.input + usage.output,
    prompt_tokens_details: { cached_tokens: usage.cacheRead ?? 0 },
    completion_tokens_details: { reasoning_tokens: usage.reasoning ?? 0 }
  })
  const fault = (fault: ProviderFault) => ({
    error: { message: fault.message, type: fault.type ?? null, param: null, code: fault.code ?? null }
  })
  return {
    body: ({ answer, finish, model, usage }) => ({
      id: "chatcmpl-1",
      object: "chat.completion",
      created: createdAt,
      model,
      choices: [{
        index: 0,
        finish_reason: finishReasons[finish],
        message: {
          role: "assistant",
          content: of(answer, "text").map(joined).join("") || null,
          ...(of(answer, "reasoning").length === 0
            ? undefined
            : { reasoning_content: of(answer, "reasoning").map(joined).join("") }),
          ...(of(answer, "call").length === 0 ? undefined : {
            tool_calls: of(answer, "call").map((part) => ({
              id: part.id,
              type: "function",
              function: { name: part.name, arguments: part.args }
            }))
          })
        }
      }],
      usage: usageOf(usage)
    }),
    events: ({ answer, finish, includeUsage, model, usage }) => {
      const chunk = (fields: Record<string, unknown>) => ({
        id: "chatcmpl-1",
        object: "chat.completion.chunk",
        created: createdAt,
        model,
        ...fields
      })
      const delta = (delta: unknown, finish_reason: string | null = null) =>
        chunk({ choices: [{ index: 0, delta, finish_reason }] })
      const calls = of(answer, "call")
      return {
        body: [
          delta({ role: "assistant", content: "" }),
          ...answer.parts.flatMap((part): Array<SseEvent> => {
            switch (part.type) {
              case "text":
                return part.deltas.map((content) => delta({ content }))
              case "reasoning":
                return part.deltas.map((reasoning_content) => delta({ reasoning_content }))
              case "call": {
                const index = calls.indexOf(part)
                return halves(part.args).map((args, piece) =>
                  delta({
                    tool_calls: [
                      piece === 0
                        ? { index, id: part.id, type: "function", function: { name: part.name, arguments: args } }
                        : { index, function: { arguments: args } }
                    ]
                  })
                )
              }
              case "redacted":
              case "citation":
                return []
            }
          })
        ],
        tail: [
          delta({}, finishReasons[finish]),
          ...(includeUsage ? [chunk({ choices: [], usage: usageOf(usage) })] : []),
          "[DONE]"
        ]
      }
    },
    fault,
    faultEvent: fault
  }
})()

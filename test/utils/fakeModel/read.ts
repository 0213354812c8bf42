/** Finds in the body of a request what each protocol keeps in a place of its own. */
import type { Protocol } from "./wire.ts"

export const toolsOf = (
  protocol: Protocol,
  body: any
): ReadonlyArray<{ readonly name: string; readonly description: string; readonly schema: any }> =>
  body.tools.map((tool: any) =>
    protocol === "anthropic"
      ? { name: tool.name, description: tool.description, schema: tool.input_schema }
      : protocol === "chat"
      ? { name: tool.function.name, description: tool.function.description, schema: tool.function.parameters }
      : { name: tool.name, description: tool.description, schema: tool.parameters }
  )

export const callsOf = (protocol: Protocol, body: any): ReadonlyArray<{ id: string; name: string; args: unknown }> =>
  protocol === "anthropic"
    ? body.messages.flatMap((message: any) => Array.isArray(message.content) ? message.content : [])
      .filter((block: any) => block.type === "tool_use")
      .map((block: any) => ({ id: block.id, name: block.name, args: block.input }))
    : protocol === "chat"
    ? body.messages.flatMap((message: any) => message.tool_calls ?? [])
      .map((call: any) => ({ id: call.id, name: call.function.name, args: JSON.parse(call.function.arguments) }))
    : body.input.filter((item: any) => item.type === "function_call")
      .map((item: any) => ({ id: item.call_id, name: item.name, args: JSON.parse(item.arguments) }))

export const resultsOf = (
  protocol: Protocol,
  body: any
): ReadonlyArray<{ readonly id: string; readonly output: string; readonly isError: boolean }> =>
  protocol === "anthropic"
    ? body.messages.flatMap((message: any) => Array.isArray(message.content) ? message.content : [])
      .filter((block: any) => block.type === "tool_result")
      .map((block: any) => ({ id: block.tool_use_id, output: block.content, isError: block.is_error === true }))
    : protocol === "chat"
    ? body.messages.filter((message: any) => message.role === "tool")
      .map((message: any) => ({ id: message.tool_call_id, output: message.content, isError: false }))
    : body.input.filter((item: any) => item.type === "function_call_output")
      .map((item: any) => ({ id: item.call_id, output: item.output, isError: false }))

export const reasoningOf = (protocol: Protocol, body: any): { text: string; signature?: string } => {
  switch (protocol) {
    case "anthropic": {
      const block = body.messages[1].content.find((block: any) => block.type === "thinking")
      return { text: block.thinking, signature: block.signature }
    }
    case "chat":
      return { text: body.messages[1].reasoning_content }
    case "responses": {
      const item = body.input.find((item: any) => item.type === "reasoning")
      return { text: item.summary[0].text, signature: item.encrypted_content }
    }
  }
}

export const imagesOf = (protocol: Protocol, body: any): ReadonlyArray<string> => {
  switch (protocol) {
    case "anthropic":
      return body.messages[0].content.filter((block: any) => block.type === "image").map(({ source }: any) =>
        source.type === "url" ? source.url : `data:${source.media_type};base64,${source.data}`
      )
    case "chat":
      return body.messages[1].content.filter((part: any) => part.type === "image_url")
        .map((part: any) => part.image_url.url)
    case "responses":
      return body.input[1].content.filter((part: any) => part.type === "input_image").map((part: any) => part.image_url)
  }
}

export const formatOf = (protocol: Protocol, body: any): any => {
  switch (protocol) {
    case "anthropic":
      return body.tools.find((tool: any) => tool.name === "json").input_schema
    case "chat":
      return body.response_format.json_schema.schema
    case "responses":
      return body.text.format.schema
  }
}

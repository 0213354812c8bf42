/**
 * What a fake model answers, and what it takes to write that in a protocol: as one JSON document, and as the events of
 * a stream.
 */

export type Protocol = "anthropic" | "responses" | "chat"

export type Finish = "stop" | "length" | "content-filter" | "tool-calls" | "pause" | "other"

export type Part =
  | { readonly type: "text"; readonly deltas: ReadonlyArray<string> }
  | { readonly type: "reasoning"; readonly deltas: ReadonlyArray<string>; readonly signature: string }
  | { readonly type: "redacted"; readonly data: string }
  | { readonly type: "call"; readonly id: string; readonly name: string; readonly args: string }
  | { readonly type: "citation"; readonly url: string; readonly title: string }

/** Tokens. `input` includes what was read from and written to the cache, `output` includes reasoning. */
export interface Usage {
  readonly input: number
  readonly output: number
  readonly cacheRead?: number | undefined
  readonly cacheWrite?: number | undefined
  readonly reasoning?: number | undefined
}

export interface ProviderFault {
  readonly message: string
  readonly type?: string | undefined
  readonly code?: string | number | undefined
}

export interface Answer {
  readonly parts: ReadonlyArray<Part>
  /** By default `tool-calls` when there is a call, `stop` otherwise. */
  readonly finish?: Finish | undefined
  readonly usage?: Usage | undefined
  /**
   * What happens once the parts are sent: the answer is finished (the default), the connection is closed in good order
   * without a finish, the socket is dropped, nothing at all until the client hangs up, or the provider reports a fault.
   */
  readonly end?: "finish" | "close" | "drop" | "hang" | ProviderFault | undefined
  /** Milliseconds between two events of a stream. */
  readonly delay?: number | undefined
}

export const text = (...deltas: ReadonlyArray<string>): Part => ({ type: "text", deltas })

export const reasoning = (signature: string, ...deltas: ReadonlyArray<string>): Part => ({
  type: "reasoning",
  deltas,
  signature
})

export const redacted = (data: string): Part => ({ type: "redacted", data })

export const citation = (url: string, title: string): Part => ({ type: "citation", url, title })

/** `args` that are a string are sent as they are, so that they need not be JSON. */
export const call = (id: string, name: string, args: unknown): Part => ({
  type: "call",
  id,
  name,
  args: typeof args === "string" ? args : JSON.stringify(args)
})

export const answer = (...parts: ReadonlyArray<Part>): Answer => ({ parts })

export type SseEvent = { readonly type?: string; readonly [key: string]: unknown } | "[DONE]"

export interface Exchange {
  readonly model: string
  readonly includeUsage: boolean
  readonly answer: Answer
  readonly finish: Finish
  readonly usage: Usage
}

export interface Wire {
  readonly body: (exchange: Exchange) => unknown
  /** The events of the parts, and those that finish the answer. */
  readonly events: (exchange: Exchange) => { readonly body: Array<SseEvent>; readonly tail: Array<SseEvent> }
  readonly fault: (fault: ProviderFault) => unknown
  readonly faultEvent: (fault: ProviderFault) => SseEvent
}

/** When every answer was made, in seconds. */
export const createdAt = 1_700_000_000

export const joined = (part: { readonly deltas: ReadonlyArray<string> }): string => part.deltas.join("")

// Arguments arrive in pieces, and no piece but the whole is JSON.
export const halves = (args: string): ReadonlyArray<string> =>
  args.length < 2 ? [args] : [args.slice(0, args.length / 2), args.slice(args.length / 2)]

export const of = <Type extends Part["type"]>(
  answer: Answer,
  type: Type
): ReadonlyArray<Extract<Part, { type: Type }>> =>
  answer.parts.filter((part): part is Extract<Part, { type: Type }> => part.type === type)

/**
 * The least that the same conversations can cost: (a) without effect at all, (b) with nothing but `effect/ai`.
 *
 * Neither keeps a log, knows limits, can be steered or cancelled, or survives a tool that fails.
 */
import { Effect, Schema, Stream } from "effect"
import { LanguageModel, Prompt, Tool, Toolkit } from "effect/ai"
import { type Part, respondToResult, respondToText, Work, work } from "./model.ts"

// ----- (a) a plain async loop

interface Call {
  readonly id: string
  readonly name: string
  readonly params: unknown
}

type Message =
  | { readonly role: "user" | "assistant"; readonly text: string }
  | { readonly role: "assistant"; readonly calls: ReadonlyArray<Call> }
  | { readonly role: "tool"; readonly results: ReadonlyArray<Omit<Call, "params"> & { readonly result: string }> }

const streamAsync = async function*(messages: ReadonlyArray<Message>): AsyncGenerator<Part> {
  const last = messages[messages.length - 1]
  if ("text" in last) yield* respondToText(last.text)!
  else if ("results" in last) {
    const { name, result } = last.results[last.results.length - 1]
    yield* respondToResult(name, result)
  }
}

const executeAsync = async ({ name, params }: Call): Promise<string> =>
  name === "work"
    ? work((params as { readonly input: string }).input)
    : promptAsync([], (params as { readonly prompt: string }).prompt)

/** Answers one message of a conversation, which grows by it. */
export const promptAsync = async (messages: Array<Message>, prompt: string): Promise<string> => {
  messages.push({ role: "user", text: prompt })
  for (;;) {
    let text = ""
    const calls: Array<Call> = []
    for await (const part of streamAsync(messages)) {
      if (part.type === "text-delta") text += part.delta
      else if (part.type === "tool-call") calls.push(part)
    }
    if (calls.length === 0) {
      messages.push({ role: "assistant", text })
      return text
    }
    messages.push({ role: "assistant", calls })
    const results = calls.length === 1
      ? [await executeAsync(calls[0])]
      : await Promise.all(calls.map((call) => executeAsync(call)))
    messages.push({ role: "tool", results: calls.map(({ id, name }, i) => ({ id, name, result: results[i] })) })
  }
}

// ----- (b) a bare effect/ai loop

const Kit = Toolkit.make(
  Tool.make("delegate", {
    parameters: Schema.Struct({ description: Schema.String, prompt: Schema.String }),
    success: Schema.String
  }),
  Work
)

/** A conversation of the bare loop. */
export type Bare = (messages: Array<Prompt.Message>, prompt: string) => Effect.Effect<string>

/**
 * Makes the bare loop: streamed, with deferred validation, and a child that is a call of the loop itself, or what
 * `child` makes of the loop.
 */
export const makeBare = Effect.fnUntraced(function*(
  child: (bare: Bare, prompt: string) => Effect.Effect<string> = (bare, prompt) => bare([], prompt)
): Effect.fn.Return<Bare, never, LanguageModel.LanguageModel> {
  const model = yield* LanguageModel.LanguageModel
  const handlers = Kit.toLayer({
    delegate: ({ prompt }) => Effect.suspend(() => child(bare, prompt)),
    work: ({ input }) => Effect.succeed(work(input))
  })
  const kit = yield* Kit.pipe(Effect.provide(handlers), Effect.scoped)
  // sound: handlers of both tools are in place, and the model only calls these
  const handle = kit.handle as unknown as (
    name: string,
    params: unknown,
    id: string
  ) => Effect.Effect<Stream.Stream<{ readonly encodedResult: unknown }>>

  const execute = (call: Call): Effect.Effect<Prompt.ToolResultPart> =>
    Effect.flatMap(
      handle(call.name, call.params, call.id),
      (results) =>
        Effect.map(Stream.runLast(results), (last) =>
          Prompt.makePart("tool-result", {
            id: call.id,
            name: call.name,
            isFailure: false,
            result: last._tag === "Some" ? last.value.encodedResult : undefined,
            providerExecuted: false
          }))
    )

  const bare: Bare = (messages, prompt) =>
    Effect.gen(function*() {
      messages.push(Prompt.makeMessage("user", { content: [Prompt.makePart("text", { text: prompt })] }))
      for (;;) {
        let text = ""
        const calls: Array<Call> = []
        yield* Stream.runForEachArray(
          model.streamText({
            prompt: Prompt.fromMessages(messages),
            toolkit: kit,
            disableToolCallResolution: true,
            toolCallValidation: "deferred"
          }),
          (parts) => {
            for (const part of parts) {
              if (part.type === "text-delta") text += part.delta
              else if (part.type === "tool-call") calls.push(part)
            }
            return Effect.void
          }
        )
        if (calls.length === 0) {
          messages.push(Prompt.makeMessage("assistant", { content: [Prompt.makePart("text", { text })] }))
          return text
        }
        messages.push(Prompt.makeMessage("assistant", {
          content: calls.map(({ id, name, params }) =>
            Prompt.makePart("tool-call", { id, name, params, providerExecuted: false })
          )
        }))
        const content = calls.length === 1
          ? [yield* execute(calls[0])]
          : yield* Effect.forEach(calls, execute, { concurrency: "unbounded" })
        messages.push(Prompt.makeMessage("tool", { content }))
      }
    }) as Effect.Effect<string>

  return bare
})

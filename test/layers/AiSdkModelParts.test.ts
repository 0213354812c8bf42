import type {
  LanguageModelV4,
  LanguageModelV4CallOptions,
  LanguageModelV4Content,
  LanguageModelV4FinishReason,
  LanguageModelV4GenerateResult,
  LanguageModelV4StreamPart,
  LanguageModelV4Usage
} from "@ai-sdk/provider"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Option, References, Schema, Stream, Tracer } from "effect"
import { Prompt, type Response, Tool, Toolkit } from "effect/ai"
import * as AiSdkModel from "../../src/layers/AiSdkModel.ts"

// What no provider at hand sends over HTTP is answered by a model written against the SDK's interface.

const usage: LanguageModelV4Usage = {
  inputTokens: { total: 10, noCache: 10, cacheRead: undefined, cacheWrite: undefined },
  outputTokens: { total: 5, text: undefined, reasoning: undefined }
}

const stop: LanguageModelV4FinishReason = { unified: "stop", raw: "stop" }

const makeForeign = (
  content: ReadonlyArray<LanguageModelV4Content>,
  result: Partial<LanguageModelV4GenerateResult> = {},
  stream?: ReadonlyArray<LanguageModelV4StreamPart>
) => {
  const requests: Array<LanguageModelV4CallOptions> = []
  const model: LanguageModelV4 = {
    specificationVersion: "v4",
    provider: "foreign.messages",
    modelId: "foreign-1",
    supportedUrls: {},
    doGenerate: (options) => {
      requests.push(options)
      return Promise.resolve({ content: [...content], finishReason: stop, usage, warnings: [], ...result })
    },
    doStream: (options) => {
      requests.push(options)
      const parts = stream ??
        [...content as ReadonlyArray<LanguageModelV4StreamPart>, { type: "finish", finishReason: stop, usage }]
      return Promise.resolve({
        stream: new ReadableStream({
          start: (controller) => {
            parts.forEach((part) => controller.enqueue(part))
            controller.close()
          }
        })
      })
    }
  }
  return { model, requests }
}

const Search = Tool.providerDefined({
  id: "foreign.search",
  customName: "search",
  providerName: "search",
  parameters: Schema.Struct({ query: Schema.String }),
  success: Schema.Struct({ hits: Schema.Int }),
  failure: Schema.Struct({ problem: Schema.String })
})(undefined)
const toolkit = Toolkit.make(Search)

const bytes = Uint8Array.from([1, 2, 3])

const content: ReadonlyArray<LanguageModelV4Content> = [
  {
    type: "reasoning-file",
    mediaType: "image/png",
    data: { type: "data", data: "AQID" },
    providerMetadata: { f: { s: 1 } }
  },
  { type: "file", mediaType: "image/png", data: { type: "data", data: bytes } },
  { type: "file", mediaType: "image/png", data: { type: "url", url: new URL("https://example.com/a.png") } },
  { type: "source", sourceType: "document", id: "d1", mediaType: "application/pdf", title: "Paper", filename: "p.pdf" },
  { type: "source", sourceType: "url", id: "u1", url: "not a url" },
  { type: "source", sourceType: "url", id: "u2", url: "https://example.com/b" },
  { type: "custom", kind: "openai.compaction", providerMetadata: { openai: { encryptedContent: "C" } } },
  { type: "custom", kind: "anthropic.message_start", providerMetadata: { anthropic: { id: "x" } } },
  {
    type: "tool-call",
    toolCallId: "s1",
    toolName: "search",
    input: `{"query":"q"}`,
    providerExecuted: true,
    providerMetadata: { foreign: { caller: { type: "direct", toolId: undefined } } }
  },
  { type: "tool-result", toolCallId: "s1", toolName: "search", result: { hits: 3 } },
  { type: "tool-call", toolCallId: "s2", toolName: "search", input: `{"query":"r"}`, providerExecuted: true },
  { type: "tool-result", toolCallId: "s2", toolName: "search", result: { problem: "down" }, isError: true },
  { type: "tool-call", toolCallId: "m1", toolName: "mcp_thing", input: "{}", providerExecuted: true, dynamic: true },
  { type: "tool-result", toolCallId: "m1", toolName: "mcp_thing", result: "x", dynamic: true },
  { type: "tool-approval-request", approvalId: "a1", toolCallId: "s1" }
]

const summary = (part: Response.AnyPart): unknown => {
  switch (part.type) {
    case "file":
      return [part.type, part.mediaType, [...part.data]]
    case "source":
      return [part.type, part.sourceType === "url" ? part.url.href : part.fileName, part.title]
    case "tool-call":
      return [part.type, part.id, part.name, part.params, part.providerExecuted]
    case "tool-result":
      return [part.type, part.id, part.isFailure, part.result, part.providerExecuted]
    case "tool-approval-request":
      return [part.type, part.approvalId, part.toolCallId]
    default:
      return [part.type]
  }
}

const expected = [
  ["file", "image/png", [1, 2, 3]],
  ["file", "image/png", [1, 2, 3]],
  ["source", "https://example.com/a.png", "image/png"],
  ["source", "p.pdf", "Paper"],
  ["source", "https://example.com/b", "https://example.com/b"],
  ["tool-call", "s1", "search", { query: "q" }, true],
  ["tool-result", "s1", false, { hits: 3 }, true],
  ["tool-call", "s2", "search", { query: "r" }, true],
  ["tool-result", "s2", true, { problem: "down" }, true],
  ["tool-approval-request", "a1", "s1"],
  ["finish"]
]

describe("AiSdkModel parts", () => {
  it.effect.each(["generate", "stream"] as const)(
    "%s: carries every kind of part, and sends it back",
    (mode) =>
      Effect.gen(function*() {
        const { model: foreign, requests } = makeForeign(content)
        const model = yield* AiSdkModel.make(foreign)
        const options = {
          prompt: "go",
          toolkit,
          disableToolCallResolution: true,
          toolCallValidation: "deferred"
        } as const
        const parts: ReadonlyArray<Response.AnyPart> = mode === "generate"
          ? (yield* model.generateText(options)).content
          : yield* Stream.runCollect(model.streamText(options))
        assert.deepStrictEqual(parts.map(summary).filter((part) => !String(part).startsWith("reasoning")), expected)

        // What is stored and read again is sent back like what never left the process.
        const answer = Prompt.fromResponseParts(parts)
        const stored = Schema.decodeSync(Prompt.Prompt)(
          JSON.parse(JSON.stringify(Schema.encodeSync(Prompt.Prompt)(answer)))
        )
        const [, assistant] = yield* Effect.gen(function*() {
          yield* model.generateText({
            prompt: Prompt.concat(
              Prompt.concat(Prompt.make("go"), stored),
              Prompt.make([{
                role: "tool",
                content: [
                  { type: "tool-approval-response", approvalId: "a1", approved: false, reason: "no" },
                  { type: "tool-result", id: "s1", name: "search", isFailure: true, result: "denied" }
                ]
              }])
            ),
            toolkit,
            disableToolCallResolution: true
          })
          return requests[1].prompt
        })
        assert.deepStrictEqual(assistant, {
          role: "assistant",
          content: [
            {
              type: "reasoning-file",
              mediaType: "image/png",
              data: { type: "data", data: "AQID" },
              providerOptions: { f: { s: 1 } }
            },
            { type: "file", mediaType: "image/png", data: { type: "data", data: "AQID" } },
            { type: "custom", kind: "openai.compaction", providerOptions: { openai: { encryptedContent: "C" } } },
            {
              type: "tool-call",
              toolCallId: "s1",
              toolName: "search",
              input: { query: "q" },
              providerExecuted: true,
              providerOptions: { foreign: { caller: { type: "direct" } } }
            },
            { type: "tool-result", toolCallId: "s1", toolName: "search", output: { type: "json", value: { hits: 3 } } },
            { type: "tool-call", toolCallId: "s2", toolName: "search", input: { query: "r" }, providerExecuted: true },
            {
              type: "tool-result",
              toolCallId: "s2",
              toolName: "search",
              output: { type: "error-json", value: { problem: "down" } }
            }
          ]
        })
      })
  )

  it.effect("sends the answer to an approval that the provider asked for, and no other", () =>
    Effect.gen(function*() {
      const { model: foreign, requests } = makeForeign([{ type: "text", text: "ok" }])
      const model = yield* AiSdkModel.make(foreign)
      // Without a result the approvals would be effect's to resolve.
      const result = (id: string) => ({ type: "tool-result" as const, id, name: "t", isFailure: true, result: "no" })
      yield* model.generateText({
        prompt: [
          { role: "user", content: "go" },
          {
            role: "assistant",
            content: [
              { type: "tool-call", id: "p1", name: "t", params: {}, providerExecuted: true },
              { type: "tool-call", id: "l1", name: "t", params: {} },
              { type: "tool-approval-request", approvalId: "ap", toolCallId: "p1" },
              { type: "tool-approval-request", approvalId: "al", toolCallId: "l1" }
            ]
          },
          {
            role: "tool",
            content: [
              { type: "tool-approval-response", approvalId: "ap", approved: false, reason: "no" },
              { type: "tool-approval-response", approvalId: "al", approved: false },
              result("p1"),
              result("l1")
            ]
          }
        ]
      })
      const last = requests[0].prompt.at(-1)
      assert.deepStrictEqual(
        Array.isArray(last?.content) ? last.content.filter((part) => part.type === "tool-approval-response") : [],
        [{ type: "tool-approval-response", approvalId: "ap", approved: false, reason: "no" }]
      )
    }))

  it.effect("moves a local tool's result out of the assistant's message", () =>
    Effect.gen(function*() {
      const { model: foreign, requests } = makeForeign([{ type: "text", text: "ok" }])
      const model = yield* AiSdkModel.make(foreign)
      yield* model.generateText({
        prompt: [
          { role: "user", content: "go" },
          {
            role: "assistant",
            content: [
              { type: "tool-call", id: "c1", name: "t", params: {} },
              { type: "tool-result", id: "c1", name: "t", isFailure: false, result: "fine" }
            ]
          }
        ]
      })
      assert.deepStrictEqual(requests[0].prompt.map((message) => message.role), ["user", "assistant", "tool"])
    }))

  it.effect("survives counts and dates that make no sense", () =>
    Effect.gen(function*() {
      const { model: foreign } = makeForeign([], {
        usage: {
          inputTokens: { total: Number.NaN, noCache: -3, cacheRead: 1.4, cacheWrite: undefined },
          outputTokens: { total: Number.POSITIVE_INFINITY, text: 2, reasoning: undefined }
        },
        response: { id: "r1", timestamp: new Date(Number.NaN) },
        providerMetadata: { foreign: { tier: undefined, cost: 0.5 } }
      })
      const model = yield* AiSdkModel.make(foreign)
      const response = yield* model.generateText({ prompt: "go" })
      const { inputTokens, outputTokens } = response.usage
      assert.strictEqual(inputTokens.total, undefined)
      assert.strictEqual(inputTokens.uncached, 0)
      assert.strictEqual(inputTokens.cacheRead, 1)
      assert.strictEqual(outputTokens.total, undefined)
      assert.strictEqual(outputTokens.text, 2)
      const finish = response.content.find((part) => part.type === "finish")
      assert.deepStrictEqual(finish?.metadata, { foreign: { cost: 0.5 } })
    }))

  it.effect("decodes the text that the model says its object is", () =>
    Effect.gen(function*() {
      const { model: foreign, requests } = makeForeign(
        [{ type: "text", text: "Let me see." }, { type: "text", text: `{"n":1}` }],
        { structuredOutputText: `{"n":2}` }
      )
      const model = yield* AiSdkModel.make(foreign)
      const response = yield* model.generateObject({
        prompt: "go",
        schema: Schema.Struct({ n: Schema.Int }),
        objectName: "x"
      })
      assert.deepStrictEqual(response.value, { n: 2 })
      assert.strictEqual(requests[0].responseFormat?.type === "json" && requests[0].responseFormat.name, "x")
    }))

  it.effect.each(
    [
      [{ unified: "error", raw: "boom" }, "error"],
      [{ unified: "other", raw: undefined }, "unknown"],
      [{ unified: "tool-calls", raw: "x" }, "tool-calls"]
    ] as const
  )("finish reason %j", ([finishReason, reason]) =>
    Effect.gen(function*() {
      const { model: foreign } = makeForeign([], { finishReason })
      const model = yield* AiSdkModel.make(foreign)
      assert.strictEqual((yield* model.generateText({ prompt: "go" })).finishReason, reason)
    }))

  it.effect("an interrupted answer, and one without a finish, is a NetworkError", () =>
    Effect.gen(function*() {
      const interrupted = { unified: "interrupted", raw: undefined } as const
      const { model: generating } = makeForeign([{ type: "text", text: "a" }], { finishReason: interrupted })
      const { model: interruptedStream } = makeForeign([], {}, [{ type: "finish", finishReason: interrupted, usage }])
      const { model: silentStream } = makeForeign([], {}, [])
      const errors = [
        yield* Effect.flip(
          Effect.flatMap(AiSdkModel.make(generating), (model) => model.generateText({ prompt: "go" }))
        ),
        ...(yield* Effect.forEach([interruptedStream, silentStream], (foreign) =>
          Effect.flip(
            Effect.flatMap(AiSdkModel.make(foreign), (model) => Stream.runDrain(model.streamText({ prompt: "go" })))
          )))
      ]
      for (const error of errors) {
        assert.strictEqual(error.reason._tag, "NetworkError")
        assert.isTrue(error.isRetryable)
      }
    }))

  it.effect.each(
    [
      ["it broke", "InternalProviderError"],
      [{ message: "no", code: 429 }, "RateLimitError"],
      [{ error: { message: "no", code: "503" } }, "InternalProviderError"],
      [{ type: "error", error: { type: "authentication_error", message: "no" } }, "AuthenticationError"],
      [new DOMException("too late", "TimeoutError"), "NetworkError"],
      [undefined, "InternalProviderError"]
    ] as const
  )("an error part of %j", ([error, tag]) =>
    Effect.gen(function*() {
      const { model: foreign } = makeForeign([], {}, [{ type: "error", error }])
      const model = yield* AiSdkModel.make(foreign)
      const failure = yield* Effect.flip(Stream.runDrain(model.streamText({ prompt: "go" })))
      assert.strictEqual(failure.reason._tag, tag)
    }))

  it.effect("annotates the span of the request", () =>
    Effect.gen(function*() {
      const spans: Array<Tracer.Span> = []
      const tracer = Tracer.make({
        span: (options) => {
          const span = new Tracer.NativeSpan(options)
          spans.push(span)
          return span
        }
      })
      const { model: foreign } = makeForeign([{ type: "text", text: "a" }], { response: { id: "r1", modelId: "m2" } })
      const model = yield* AiSdkModel.make(foreign, { settings: { temperature: 0.3 } })
      yield* model.generateText({ prompt: "go" }).pipe(
        Effect.withTracer(tracer),
        Effect.provideService(References.TracerEnabled, true)
      )
      const attributes = Object.fromEntries(Option.getOrThrow(Option.fromUndefinedOr(spans[0])).attributes)
      assert.strictEqual(attributes["gen_ai.request.model"], "foreign-1")
      assert.strictEqual(attributes["gen_ai.request.temperature"], 0.3)
      assert.strictEqual(attributes["gen_ai.response.model"], "m2")
      assert.strictEqual(attributes["gen_ai.usage.input_tokens"], 10)
    }))
})

import { assert, describe, it } from "@effect/vitest"
import { Effect, type Layer, Logger, References, Schema, Stream } from "effect"
import { LanguageModel, Prompt, type Response, Tool, Toolkit } from "effect/ai"
import { MaxOutputTokens } from "../../src/AgentModels.ts"
import * as AiSdkModel from "../../src/layers/AiSdkModel.ts"
import { makeModel, modelId, protocols } from "../utils/fakeModel/models.ts"
import * as Fake from "../utils/fakeModelServer.ts"

const setup = (protocol: Fake.Protocol, replies: ReadonlyArray<Fake.Reply>, options?: AiSdkModel.Options) =>
  Effect.gen(function*() {
    const server = yield* Fake.make(...replies)
    const model = yield* AiSdkModel.make(makeModel(protocol, server.baseURL), options)
    return { server, model }
  })

type Part = Response.StreamPart<{}, "deferred">

const ofType = <Type extends Part["type"]>(parts: ReadonlyArray<Part>, type: Type) =>
  parts.filter((part): part is Extract<Part, { type: Type }> => part.type === type)

const streamAll = (
  model: LanguageModel.LanguageModel,
  prompt: Prompt.RawInput
): Effect.Effect<Array<Part>, unknown> =>
  Stream.runCollect(model.streamText({ prompt, disableToolCallResolution: true, toolCallValidation: "deferred" }))

const Add = Tool.make("add", {
  description: "Adds two integers",
  parameters: Schema.Struct({ a: Schema.Int, b: Schema.Int }),
  success: Schema.Struct({ sum: Schema.Int })
})
const Fail = Tool.make("fail", {
  parameters: Schema.Struct({}),
  success: Schema.String,
  failure: Schema.Struct({ problem: Schema.String }),
  failureMode: "return"
})
const toolkit = Toolkit.make(Add, Fail)
const handlers = toolkit.toLayer({
  add: ({ a, b }) => Effect.succeed({ sum: a + b }),
  fail: () => Effect.fail({ problem: "disk full" })
})

const png = Uint8Array.from(atob("iVBORw0KGgo="), (char) => char.charCodeAt(0))

describe("AiSdkModel", () => {
  describe.each(protocols)("%s", (protocol) => {
    it.live("answers with text, metadata, usage and a finish", () =>
      Effect.gen(function*() {
        const usage = { input: 100, output: 20, cacheRead: 60, reasoning: 5 }
        const { model, server } = yield* setup(protocol, [{ ...Fake.answer(Fake.text("Hello, ", "world")), usage }])
        const response = yield* model.generateText({ prompt: "Hi" })

        assert.strictEqual(response.text, "Hello, world")
        assert.strictEqual(response.finishReason, "stop")
        assert.strictEqual(response.usage.inputTokens.total, 100)
        assert.strictEqual(response.usage.inputTokens.cacheRead, 60)
        assert.strictEqual(response.usage.inputTokens.uncached, 40)
        assert.strictEqual(response.usage.outputTokens.total, 20)
        assert.strictEqual(response.usage.outputTokens.reasoning, 5)
        assert.strictEqual(response.usage.outputTokens.text, 15)
        const metadata = response.content.find((part) => part.type === "response-metadata")
        assert.strictEqual(metadata?.modelId, modelId)
        assert.isString(metadata?.id)
        // Anthropic sends no time.
        if (protocol !== "anthropic") assert.strictEqual(metadata?.timestamp?.epochMilliseconds, 1_700_000_000_000)
        const [request] = yield* server.requests
        assert.isFalse(request.stream)
        assert.strictEqual(request.body.model, modelId)
      }))

    it.live("streams text deltas in order, then usage and a finish", () =>
      Effect.gen(function*() {
        const usage = { input: 100, output: 20, cacheRead: 60, reasoning: 5 }
        const deltas = ["one ", "two ", "three"]
        const { model, server } = yield* setup(protocol, [{ ...Fake.answer(Fake.text(...deltas)), usage, delay: 2 }])
        const parts = yield* streamAll(model, "Hi")

        assert.deepStrictEqual(ofType(parts, "text-delta").map((part) => part.delta), deltas)
        const types = parts.map((part) => part.type).filter((type) => type !== "text-delta")
        assert.deepStrictEqual(types, ["response-metadata", "text-start", "text-end", "finish"])
        const [finish] = ofType(parts, "finish")
        assert.strictEqual(finish.reason, "stop")
        assert.strictEqual(finish.usage.inputTokens.total, 100)
        assert.strictEqual(finish.usage.inputTokens.cacheRead, 60)
        assert.strictEqual(finish.usage.outputTokens.total, 20)
        assert.strictEqual(finish.usage.outputTokens.reasoning, 5)
        assert.strictEqual(ofType(parts, "response-metadata")[0].modelId, modelId)
        assert.isTrue((yield* server.requests)[0].stream)
      }))

    it.live("sends a tool's schema, runs the call, and sends its result back", () =>
      Effect.gen(function*() {
        const { model, server } = yield* setup(protocol, [
          Fake.answer(Fake.call("call_1", "add", { a: 2, b: 3 })),
          Fake.answer(Fake.text("5"))
        ])
        const first = yield* model.generateText({ prompt: "2 + 3?", toolkit })
        assert.strictEqual(first.finishReason, "tool-calls")
        assert.deepStrictEqual(first.toolCalls.map((call) => call.params), [{ a: 2, b: 3 }])
        assert.deepStrictEqual(first.toolResults.map((result) => result.result), [{ sum: 5 }])

        const second = yield* model.generateText({
          prompt: Prompt.concat(Prompt.make("2 + 3?"), Prompt.fromResponseParts(first.content)),
          toolkit
        })
        assert.strictEqual(second.text, "5")

        const [one, two] = yield* server.requests
        const tool = toolsOf(protocol, one.body).find((tool) => tool.name === "add")
        assert.strictEqual(tool?.description, "Adds two integers")
        assert.strictEqual(tool?.schema.type, "object")
        assert.deepStrictEqual(Object.keys(tool?.schema.properties), ["a", "b"])
        assert.deepStrictEqual(callsOf(protocol, two.body), [{ id: "call_1", name: "add", args: { a: 2, b: 3 } }])
        assert.deepStrictEqual(resultsOf(protocol, two.body), [
          { id: "call_1", output: `{"sum":5}`, isError: false }
        ])
      }).pipe(Effect.provide(handlers)))

    it.live("runs parallel calls and tells the model which of them failed", () =>
      Effect.gen(function*() {
        const { model, server } = yield* setup(protocol, [
          Fake.answer(
            Fake.text("Both at once."),
            Fake.call("call_1", "add", { a: 1, b: 1 }),
            Fake.call("call_2", "fail", {})
          ),
          Fake.answer(Fake.text("done"))
        ])
        const parts = yield* Stream.runCollect(model.streamText({ prompt: "go", toolkit }))
        const calls = parts.filter((part) => part.type === "tool-call")
        assert.deepStrictEqual(calls.map((part) => part.id), ["call_1", "call_2"])
        const results = parts.filter((part) => part.type === "tool-result")
        assert.deepStrictEqual(results.map((part) => [part.name, part.isFailure]).sort(), [["add", false], [
          "fail",
          true
        ]])

        yield* model.generateText({
          prompt: Prompt.concat(Prompt.make("go"), Prompt.fromResponseParts(parts)),
          toolkit
        })
        const [, second] = yield* server.requests
        const sent = resultsOf(protocol, second.body)
        assert.deepStrictEqual(sent.map((result) => result.id).sort(), ["call_1", "call_2"])
        const failed = sent.find((result) => result.id === "call_2")
        assert.include(failed?.output, "disk full")
        // Only Anthropic has a field for it.
        assert.strictEqual(failed?.isError, protocol === "anthropic")
      }).pipe(Effect.provide(handlers)))

    it.live("hands over calls unresolved, unknown tools and broken arguments included", () =>
      Effect.gen(function*() {
        const { model, server } = yield* setup(protocol, [
          Fake.answer(
            Fake.call("call_1", "add", { a: 1, b: 2 }),
            Fake.call("call_2", "nobody", { x: 1 }),
            Fake.call("call_3", "add", `{"a": 1, "b`),
            Fake.call("call_4", "fail", "")
          ),
          Fake.answer(Fake.text("sorry"))
        ])
        const parts = yield* Stream.runCollect(model.streamText({
          prompt: "go",
          toolkit,
          disableToolCallResolution: true,
          toolCallValidation: "deferred"
        }))
        const calls = parts.filter((part) => part.type === "tool-call")
        assert.deepStrictEqual(
          calls.map((part) => [part.id, part.name, part.params]),
          [
            ["call_1", "add", { a: 1, b: 2 }],
            ["call_2", "nobody", { x: 1 }],
            ["call_3", "add", `{"a": 1, "b`],
            ["call_4", "fail", {}]
          ]
        )
        const streamed = parts.filter((part) => part.type === "tool-params-delta" && part.id === "call_1")
        assert.strictEqual(
          streamed.map((part) => part.type === "tool-params-delta" ? part.delta : "").join(""),
          `{"a":1,"b":2}`
        )
        assert.strictEqual(parts.at(-1)?.type, "finish")

        // A session with such a call in it can go on.
        const history = Prompt.concat(Prompt.make("go"), Prompt.fromResponseParts(parts))
        const results = Prompt.make([{
          role: "tool",
          content: calls.map((part) => ({
            type: "tool-result" as const,
            id: part.id,
            name: part.name,
            isFailure: true,
            result: "refused"
          }))
        }])
        yield* model.generateText({ prompt: Prompt.concat(history, results), toolkit })
        const [, second] = yield* server.requests
        assert.deepStrictEqual(callsOf(protocol, second.body).map((call) => call.args), [
          { a: 1, b: 2 },
          { x: 1 },
          { rawInvalidInput: `{"a": 1, "b` },
          {}
        ])
      }).pipe(Effect.provide(handlers)))

    it.live("keeps broken arguments when it does not stream", () =>
      Effect.gen(function*() {
        const { model } = yield* setup(protocol, [Fake.answer(Fake.call("call_1", "add", `{"a": 1, "b`))])
        const response = yield* model.generateText({
          prompt: "go",
          toolkit,
          disableToolCallResolution: true,
          toolCallValidation: "deferred"
        })
        assert.deepStrictEqual(response.toolCalls.map((call) => call.params), [`{"a": 1, "b`])
      }).pipe(Effect.provide(handlers)))

    it.live("fails for an unknown tool unless validation is deferred", () =>
      Effect.gen(function*() {
        const { model } = yield* setup(protocol, [Fake.answer(Fake.call("call_1", "nobody", {}))])
        const error = yield* Effect.flip(model.generateText({ prompt: "go", toolkit }))
        assert.strictEqual(error.reason._tag, "ToolNotFoundError")
      }).pipe(Effect.provide(handlers)))

    it.live.each(
      [
        { choice: "auto", anthropic: { type: "auto" }, openai: "auto" },
        { choice: "required", anthropic: { type: "any" }, openai: "required" },
        { choice: { tool: "add" }, anthropic: { type: "tool", name: "add" }, openai: "named" },
        { choice: { oneOf: ["add"] }, anthropic: { type: "auto" }, openai: "auto" },
        { choice: { mode: "required", oneOf: ["add"] }, anthropic: { type: "any" }, openai: "required" }
      ] as const
    )("tool choice $choice", ({ anthropic, choice, openai }) =>
      Effect.gen(function*() {
        const { model, server } = yield* setup(protocol, [Fake.answer(Fake.text("ok"))])
        yield* model.generateText({ prompt: "go", toolkit, toolChoice: choice })
        const [{ body }] = yield* server.requests
        const names = toolsOf(protocol, body).map((tool) => tool.name)
        assert.deepStrictEqual(names, typeof choice === "object" && "oneOf" in choice ? ["add"] : ["add", "fail"])
        const named = protocol === "chat"
          ? { type: "function", function: { name: "add" } }
          : { type: "function", name: "add" }
        assert.deepStrictEqual(
          body.tool_choice,
          protocol === "anthropic" ? anthropic : openai === "named" ? named : openai
        )
      }).pipe(Effect.provide(handlers)))

    it.live("sends what the provider attached to its reasoning back with it", () =>
      Effect.gen(function*() {
        const replies = [
          Fake.answer(Fake.reasoning("SIGNED", "Let me ", "think."), Fake.text("42")),
          Fake.answer(Fake.text("sure"))
        ]
        const { model, server } = yield* setup(protocol, [...replies, ...replies], {
          providerOptions: { openai: { store: false } }
        })
        const parts = yield* streamAll(model, "why?")
        assert.strictEqual(ofType(parts, "reasoning-delta").map((part) => part.delta).join(""), "Let me think.")
        yield* model.generateText({
          prompt: Prompt.concat(Prompt.concat(Prompt.make("why?"), Prompt.fromResponseParts(parts)), "sure?")
        })
        const response = yield* model.generateText({ prompt: "why?" })
        assert.strictEqual(response.reasoningText, "Let me think.")
        yield* model.generateText({
          prompt: Prompt.concat(Prompt.concat(Prompt.make("why?"), Prompt.fromResponseParts(response.content)), "sure?")
        })
        const requests = yield* server.requests
        for (const { body } of [requests[1], requests[3]]) {
          assert.deepStrictEqual(
            reasoningOf(protocol, body),
            protocol === "chat"
              ? { text: "Let me think." }
              : { text: "Let me think.", signature: "SIGNED" }
          )
        }
      }))

    it.live("passes a prompt's whole variety of parts through", () =>
      Effect.gen(function*() {
        const { model, server } = yield* setup(protocol, [Fake.answer(Fake.text("ok"))])
        yield* model.generateText({
          prompt: Prompt.make([
            { role: "system", content: "Be brief." },
            {
              role: "user",
              content: [
                { type: "text", text: "What is this?" },
                { type: "file", mediaType: "image/png", data: png },
                { type: "file", mediaType: "image/png", data: "iVBORw0KGgo=" },
                { type: "file", mediaType: "image/png", data: new URL("data:image/png;base64,iVBORw0KGgo=") },
                { type: "file", mediaType: "image/png", data: new URL("https://example.com/a.png") }
              ]
            },
            { role: "assistant", content: [{ type: "text", text: "A picture." }] },
            { role: "user", content: "And now?" }
          ])
        })
        const [{ body }] = yield* server.requests
        assert.deepStrictEqual(imagesOf(protocol, body), [
          "data:image/png;base64,iVBORw0KGgo=",
          "data:image/png;base64,iVBORw0KGgo=",
          "data:image/png;base64,iVBORw0KGgo=",
          "https://example.com/a.png"
        ])
        const sent = JSON.stringify(body)
        for (const text of ["Be brief.", "What is this?", "A picture.", "And now?"]) assert.include(sent, text)
      }))

    const finishes: ReadonlyArray<[Fake.Finish, Partial<Record<Fake.Protocol, Response.FinishReason>>]> = [
      ["stop", { anthropic: "stop", responses: "stop", chat: "stop" }],
      ["length", { anthropic: "length", responses: "length", chat: "length" }],
      ["content-filter", { anthropic: "content-filter", responses: "content-filter", chat: "content-filter" }],
      ["pause", { anthropic: "pause" }],
      ["other", { anthropic: "other", responses: "other", chat: "other" }]
    ]
    for (const [finish, expected] of finishes) {
      if (expected[protocol] === undefined) continue
      it.live(`finish reason ${finish}`, () =>
        Effect.gen(function*() {
          const reply = { ...Fake.answer(Fake.text("text")), finish }
          const { model } = yield* setup(protocol, [reply, reply])
          const response = yield* model.generateText({ prompt: "go" })
          assert.strictEqual(response.finishReason, expected[protocol])
          assert.strictEqual(response.text, "text")
          const [part] = ofType(yield* streamAll(model, "go"), "finish")
          assert.strictEqual(part.reason, expected[protocol])
        }))
    }

    it.live("generates an object by its schema", () =>
      Effect.gen(function*() {
        const Person = Schema.Struct({ name: Schema.String, age: Schema.optionalKey(Schema.Int) })
        const { model, server } = yield* setup(protocol, [
          Fake.answer(
            protocol === "anthropic"
              ? Fake.call("call_1", "json", { name: "Ada", age: 36 })
              : Fake.text(`{"name":"Ada",`, `"age":36}`)
          )
        ])
        const response = yield* model.generateObject({ prompt: "Who?", schema: Person, objectName: "person" })
        assert.deepStrictEqual(response.value, { name: "Ada", age: 36 })
        const [{ body }] = yield* server.requests
        assert.deepStrictEqual(Object.keys(formatOf(protocol, body).properties), ["name", "age"])
      }))

    it.live("reads the most tokens to answer with at each request", () =>
      Effect.gen(function*() {
        const reply = Fake.answer(Fake.text("ok"))
        const { model, server } = yield* setup(protocol, [reply, reply, reply], { settings: { maxOutputTokens: 77 } })
        yield* model.generateText({ prompt: "go" })
        yield* model.generateText({ prompt: "go" }).pipe(Effect.provideService(MaxOutputTokens, 1234))
        yield* streamAll(model, "go").pipe(Effect.provideService(MaxOutputTokens, 4321))
        const sent = (yield* server.requests).map(({ body }) => body.max_tokens ?? body.max_output_tokens)
        assert.deepStrictEqual(sent, [77, 1234, 4321])
      }))
  })

  it.live("keeps redacted reasoning of Anthropic", () =>
    Effect.gen(function*() {
      const { model, server } = yield* setup("anthropic", [
        Fake.answer(Fake.redacted("BLOB"), Fake.text("42")),
        Fake.answer(Fake.text("ok"))
      ])
      const parts = yield* streamAll(model, "why?")
      yield* model.generateText({
        prompt: Prompt.concat(Prompt.concat(Prompt.make("why?"), Prompt.fromResponseParts(parts)), "sure?")
      })
      const [, { body }] = yield* server.requests
      assert.deepStrictEqual(body.messages[1].content[0], { type: "redacted_thinking", data: "BLOB" })
    }))

  it.live("passes options of the request, of messages and of parts to the provider", () =>
    Effect.gen(function*() {
      const { model, server } = yield* setup("anthropic", [Fake.answer(Fake.text("ok"))], {
        settings: { temperature: 0.5, headers: { "x-tenant": "t1" } },
        providerOptions: { anthropic: { metadata: { userId: "u1" } } }
      })
      const cached = { anthropic: { cacheControl: { type: "ephemeral" } }, ignored: null }
      yield* model.generateText({
        prompt: Prompt.make([
          { role: "system", content: "Be brief.", options: cached },
          { role: "user", content: [{ type: "text", text: "Hi", options: cached }] }
        ])
      })
      const [{ body, headers }] = yield* server.requests
      assert.deepStrictEqual(body.system[0].cache_control, { type: "ephemeral" })
      assert.deepStrictEqual(body.messages[0].content[0].cache_control, { type: "ephemeral" })
      assert.deepStrictEqual(body.metadata, { user_id: "u1" })
      assert.strictEqual(body.temperature, 0.5)
      assert.strictEqual(headers["x-tenant"], "t1")
      assert.strictEqual(headers["x-api-key"], "<present>")
    }))

  it.live("carries sources", () =>
    Effect.gen(function*() {
      for (const protocol of ["anthropic", "responses"] as const) {
        const reply = Fake.answer(Fake.text("As seen."), Fake.citation("https://example.com/", "Example"))
        const { model } = yield* setup(protocol, [reply, reply])
        const response = yield* model.generateText({ prompt: "go" })
        const streamed = ofType(yield* streamAll(model, "go"), "source")
        for (const sources of [response.content.filter((part) => part.type === "source"), streamed]) {
          assert.strictEqual(sources.length, 1)
          assert.strictEqual(sources[0].title, "Example")
          assert.strictEqual(sources[0].sourceType === "url" ? sources[0].url.href : "", "https://example.com/")
        }
      }
    }))

  it.live("sends the content that a tool made for the model", () =>
    Effect.gen(function*() {
      const history = Prompt.make([
        { role: "user", content: "look" },
        { role: "assistant", content: [{ type: "tool-call", id: "call_1", name: "look", params: {} }] },
        {
          role: "tool",
          content: [{
            type: "tool-result",
            id: "call_1",
            name: "look",
            isFailure: false,
            result: { path: "a.png" },
            modelOutput: [{ type: "text", text: "A screenshot" }, { type: "file", mediaType: "image/png", data: png }]
          }]
        }
      ])
      const sent = (protocol: Fake.Protocol) =>
        Effect.gen(function*() {
          const { model, server } = yield* setup(protocol, [Fake.answer(Fake.text("ok"))])
          yield* model.generateText({ prompt: history })
          return (yield* server.requests)[0].body
        })
      const anthropic = yield* sent("anthropic")
      assert.deepStrictEqual(anthropic.messages.at(-1).content[0].content, [
        { type: "text", text: "A screenshot" },
        { type: "image", source: { type: "base64", media_type: "image/png", data: "iVBORw0KGgo=" } }
      ])
      const responses = yield* sent("responses")
      assert.deepStrictEqual(responses.input.at(-1).output, [
        { type: "input_text", text: "A screenshot" },
        { type: "input_image", image_url: "data:image/png;base64,iVBORw0KGgo=" }
      ])
      // Chat completions have no place for a file there, and its bytes as text would fill the context.
      const chat = yield* sent("chat")
      assert.strictEqual(chat.messages.at(-1).content, "A screenshot\n[image/png omitted]")
    }))

  it.live("tells the model of a denied call", () =>
    Effect.gen(function*() {
      const { model, server } = yield* setup("chat", [Fake.answer(Fake.text("ok"))])
      yield* model.generateText({
        prompt: Prompt.make([
          { role: "user", content: "rm" },
          { role: "assistant", content: [{ type: "tool-call", id: "call_1", name: "rm", params: {} }] },
          {
            role: "tool",
            content: [{
              type: "tool-result",
              id: "call_1",
              name: "rm",
              isFailure: true,
              result: { type: "execution-denied", reason: "not on my watch" }
            }]
          }
        ])
      })
      assert.strictEqual((yield* server.requests)[0].body.messages.at(-1).content, "not on my watch")
    }))

  it.live("sends provider-defined tools by their id", () =>
    Effect.gen(function*() {
      const Search = Tool.providerDefined({
        id: "anthropic.web_search_20250305",
        customName: "search",
        providerName: "web_search",
        args: Schema.Struct({ maxUses: Schema.Int }),
        parameters: Schema.Unknown,
        success: Schema.Unknown
      })({ maxUses: 3 })
      const { model, server } = yield* setup("anthropic", [Fake.answer(Fake.text("ok"))])
      yield* model.generateText({ prompt: "go", toolkit: Toolkit.make(Search) })
      const [{ body }] = yield* server.requests
      assert.deepStrictEqual(body.tools, [{ type: "web_search_20250305", name: "web_search", max_uses: 3 }])
    }))

  it.live("logs what the provider warns of, at debug level only", () =>
    Effect.gen(function*() {
      const logged: Array<string> = []
      const logger = Logger.make((options) => {
        logged.push(`${options.logLevel} ${JSON.stringify(options.message)}`)
      })
      const reply = Fake.answer(Fake.text("ok"))
      const { model } = yield* setup("anthropic", [reply, reply], { settings: { seed: 1, maxOutputTokens: 5 } })
      yield* Effect.andThen(model.generateText({ prompt: "go" }), streamAll(model, "go")).pipe(
        Effect.provide(Logger.layer([logger])),
        Effect.provideService(References.MinimumLogLevel, "Debug")
      )
      assert.strictEqual(logged.length, 2)
      for (const line of logged) assert.match(line, /^Debug .*seed/)
    }))

  it.live("is a layer", () =>
    Effect.gen(function*() {
      const server = yield* Fake.make(Fake.answer(Fake.text("ok")))
      const layer: Layer.Layer<LanguageModel.LanguageModel> = AiSdkModel.layer(makeModel("chat", server.baseURL))
      const response = yield* LanguageModel.generateText({ prompt: "go" }).pipe(Effect.provide(layer))
      assert.strictEqual(response.text, "ok")
    }))
})

// ============================================================================
// Where each protocol keeps it
// ============================================================================

const toolsOf = (
  protocol: Fake.Protocol,
  body: any
): ReadonlyArray<{ readonly name: string; readonly description: string; readonly schema: any }> =>
  body.tools.map((tool: any) =>
    protocol === "anthropic"
      ? { name: tool.name, description: tool.description, schema: tool.input_schema }
      : protocol === "chat"
      ? { name: tool.function.name, description: tool.function.description, schema: tool.function.parameters }
      : { name: tool.name, description: tool.description, schema: tool.parameters }
  )

const callsOf = (protocol: Fake.Protocol, body: any): ReadonlyArray<{ id: string; name: string; args: unknown }> =>
  protocol === "anthropic"
    ? body.messages.flatMap((message: any) => Array.isArray(message.content) ? message.content : [])
      .filter((block: any) => block.type === "tool_use")
      .map((block: any) => ({ id: block.id, name: block.name, args: block.input }))
    : protocol === "chat"
    ? body.messages.flatMap((message: any) => message.tool_calls ?? [])
      .map((call: any) => ({ id: call.id, name: call.function.name, args: JSON.parse(call.function.arguments) }))
    : body.input.filter((item: any) => item.type === "function_call")
      .map((item: any) => ({ id: item.call_id, name: item.name, args: JSON.parse(item.arguments) }))

const resultsOf = (
  protocol: Fake.Protocol,
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

const reasoningOf = (protocol: Fake.Protocol, body: any): { text: string; signature?: string } => {
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

const imagesOf = (protocol: Fake.Protocol, body: any): ReadonlyArray<string> => {
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

const formatOf = (protocol: Fake.Protocol, body: any): any => {
  switch (protocol) {
    case "anthropic":
      return body.tools.find((tool: any) => tool.name === "json").input_schema
    case "chat":
      return body.response_format.json_schema.schema
    case "responses":
      return body.text.format.schema
  }
}

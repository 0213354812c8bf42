import { assert, describe, it } from "@effect/vitest"
import { Effect, Schema, Stream } from "effect"
import { Prompt, Tool, Toolkit } from "effect/ai"
import * as AiSdkModel from "../../src/layers/AiSdkModel.ts"
import { makeModel, protocols } from "../utils/fakeModel/models.ts"
import { callsOf, resultsOf, toolsOf } from "../utils/fakeModel/read.ts"
import * as Fake from "../utils/fakeModelServer.ts"

const setup = (protocol: Fake.Protocol, replies: ReadonlyArray<Fake.Reply>) =>
  Effect.gen(function*() {
    const server = yield* Fake.make(...replies)
    const model = yield* AiSdkModel.make(makeModel(protocol, server.baseURL))
    return { server, model }
  })

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

describe("AiSdkModel tools", () => {
  describe.each(protocols)("%s", (protocol) => {
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
        assert.deepStrictEqual(results.map((part) => [part.name, part.isFailure]).toSorted(), [["add", false], [
          "fail",
          true
        ]])

        yield* model.generateText({
          prompt: Prompt.concat(Prompt.make("go"), Prompt.fromResponseParts(parts)),
          toolkit
        })
        const [, second] = yield* server.requests
        const sent = resultsOf(protocol, second.body)
        assert.deepStrictEqual(sent.map((result) => result.id).toSorted(), ["call_1", "call_2"])
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
  })

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
})

import { assert, describe, it } from "@effect/vitest"
import { Effect, type Layer, Logger, References, Schema, Stream } from "effect"
import { LanguageModel, Prompt, type Response } from "effect/ai"
import { MaxOutputTokens } from "../../src/AgentModels.ts"
import * as AiSdkModel from "../../src/layers/AiSdkModel.ts"
import { makeModel, modelId, protocols } from "../utils/fakeModel/models.ts"
import { formatOf, imagesOf, reasoningOf } from "../utils/fakeModel/read.ts"
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

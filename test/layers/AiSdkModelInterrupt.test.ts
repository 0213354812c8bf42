import type { LanguageModelV4, LanguageModelV4StreamPart, LanguageModelV4StreamResult } from "@ai-sdk/provider"
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Exit, Fiber, Stream } from "effect"
import type { LanguageModel } from "effect/ai"
import * as AiSdkModel from "../../src/layers/AiSdkModel.ts"
import { makeModel, protocols } from "../utils/fakeModel/models.ts"
import * as Fake from "../utils/fakeModelServer.ts"

const bound = "2 seconds"

const hanging: Fake.Answer = { ...Fake.answer(Fake.text("some ", "text")), end: "hang" }

const setup = (protocol: Fake.Protocol, ...replies: ReadonlyArray<Fake.Reply>) =>
  Effect.gen(function*() {
    const server = yield* Fake.make(...replies)
    const model = yield* AiSdkModel.make(makeModel(protocol, server.baseURL))
    return { server, model }
  })

/** Runs the stream and says when its first text has arrived. */
const runUntilText = (model: LanguageModel.LanguageModel) =>
  Effect.gen(function*() {
    const started = yield* Deferred.make<void>()
    const fiber = yield* model.streamText({ prompt: "go" }).pipe(
      Stream.runForEach((part) => part.type === "text-delta" ? Deferred.succeed(started, undefined) : Effect.void),
      Effect.forkChild({ startImmediately: true })
    )
    yield* Deferred.await(started)
    return fiber
  })

describe("AiSdkModel interruption", () => {
  describe.each(protocols)("%s", (protocol) => {
    it.live("hangs up while the provider has not answered", () =>
      Effect.gen(function*() {
        const { model, server } = yield* setup(protocol, "hang", "hang")
        const runs = [model.generateText({ prompt: "go" }), Stream.runDrain(model.streamText({ prompt: "go" }))]
        for (const [index, effect] of runs.entries()) {
          const fiber = yield* Effect.forkChild(Effect.asVoid(effect), { startImmediately: true })
          yield* server.arrived(index)
          yield* Fiber.interrupt(fiber).pipe(Effect.timeout(bound))
          yield* server.hungUp(index).pipe(Effect.timeout(bound))
          assert.isTrue(Exit.hasInterrupts(yield* Fiber.await(fiber)))
        }
      }))

    it.live("hangs up in the middle of an answer", () =>
      Effect.gen(function*() {
        const { model, server } = yield* setup(protocol, hanging, hanging)
        const streaming = yield* runUntilText(model)
        yield* Fiber.interrupt(streaming).pipe(Effect.timeout(bound))
        yield* server.hungUp(0).pipe(Effect.timeout(bound))

        const generating = yield* Effect.forkChild(model.generateText({ prompt: "go" }), { startImmediately: true })
        yield* server.arrived(1)
        yield* Fiber.interrupt(generating).pipe(Effect.timeout(bound))
        yield* server.hungUp(1).pipe(Effect.timeout(bound))
      }))

    it.live("hangs up when nobody wants the rest", () =>
      Effect.gen(function*() {
        const { model, server } = yield* setup(protocol, hanging)
        const parts = yield* model.streamText({ prompt: "go" }).pipe(
          Stream.filter((part) => part.type === "text-delta"),
          Stream.take(1),
          Stream.runCollect,
          Effect.timeout(bound)
        )
        assert.strictEqual(parts.length, 1)
        yield* server.hungUp(0).pipe(Effect.timeout(bound))
      }))

    it.live("times out by interruption, and the next request is served", () =>
      Effect.gen(function*() {
        const { model, server } = yield* setup(protocol, "hang", Fake.answer(Fake.text("here")))
        const slow = yield* model.generateText({ prompt: "go" }).pipe(Effect.timeoutOption("100 millis"))
        assert.isTrue(slow._tag === "None")
        yield* server.hungUp(0).pipe(Effect.timeout(bound))
        assert.strictEqual((yield* model.generateText({ prompt: "go" })).text, "here")
      }))
  })

  // A model that heeds no signal, with a stream that never moves and whose cancellation never ends.
  const deaf = (open: (result: LanguageModelV4StreamResult) => Promise<LanguageModelV4StreamResult>) => {
    const seen = { aborted: false, cancelled: false }
    const model: LanguageModelV4 = {
      specificationVersion: "v4",
      provider: "deaf",
      modelId: "deaf-1",
      supportedUrls: {},
      doGenerate: () => new Promise(() => {}),
      doStream: ({ abortSignal }) => {
        abortSignal?.addEventListener("abort", () => {
          seen.aborted = true
        })
        const stream = new ReadableStream<LanguageModelV4StreamPart>({
          start: (controller) => controller.enqueue({ type: "text-start", id: "t" }),
          cancel: () => {
            seen.cancelled = true
            return new Promise(() => {})
          }
        })
        return open({ stream })
      }
    }
    return { model, seen }
  }

  it.live("does not wait for a stream that cannot be cancelled", () =>
    Effect.gen(function*() {
      const { model: foreign, seen } = deaf((result) => Promise.resolve(result))
      const model = yield* AiSdkModel.make(foreign)
      const started = yield* Deferred.make<void>()
      const fiber = yield* model.streamText({ prompt: "go" }).pipe(
        Stream.runForEach(() => Deferred.succeed(started, undefined)),
        Effect.forkChild({ startImmediately: true })
      )
      yield* Deferred.await(started)
      yield* Fiber.interrupt(fiber).pipe(Effect.timeout(bound))
      assert.deepStrictEqual(seen, { aborted: true, cancelled: true })
    }))

  it.live("lets go of a stream that is opened after everyone has left", () =>
    Effect.gen(function*() {
      let open = () => {}
      const { model: foreign, seen } = deaf((result) =>
        new Promise((resolve) => {
          open = () => resolve(result)
        })
      )
      const model = yield* AiSdkModel.make(foreign)
      const fiber = yield* Effect.forkChild(Stream.runDrain(model.streamText({ prompt: "go" })), {
        startImmediately: true
      })
      yield* Effect.sleep("10 millis")
      yield* Fiber.interrupt(fiber).pipe(Effect.timeout(bound))
      assert.deepStrictEqual(seen, { aborted: true, cancelled: false })
      open()
      yield* Effect.sleep("10 millis")
      assert.deepStrictEqual(seen, { aborted: true, cancelled: true })
    }))
})

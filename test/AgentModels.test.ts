import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { LanguageModel } from "effect/ai"
import * as AgentModels from "../src/AgentModels.ts"
import * as Spawn from "../src/providers/Spawn.ts"
import { ScriptedModel, text } from "../src/testing/ScriptedModel.ts"
import * as Scripted from "../src/testing/ScriptedModel.ts"
import { agentTest, create } from "./utils/agentTest.ts"
import { leakCheck } from "./utils/leaks.ts"

leakCheck()

const saying = (words: string) =>
  Layer.effect(
    LanguageModel.LanguageModel,
    Effect.map(Layer.build(Scripted.layer(() => [text(words)])), (context) =>
      LanguageModel.LanguageModel.of(
        // the record of another script would shadow the test's own
        context.mapUnsafe.get(LanguageModel.LanguageModel.key)
      ))
  )

const named = { fast: saying("fast"), wise: saying("wise") }

describe("AgentModels", () => {
  it.effect("knows the default model and the named ones", () =>
    Effect.gen(function*() {
      const models = yield* AgentModels.AgentModels
      assert.deepStrictEqual(models.names, ["fast", "wise"])
      const standard = yield* models.get(undefined)
      assert.strictEqual(standard, yield* LanguageModel.LanguageModel)
      const wise = yield* models.get("wise")
      assert.notStrictEqual(wise, standard)
      assert.strictEqual((yield* wise.generateText({ prompt: "?" })).text, "wise")
      const error = yield* Effect.flip(models.get("none"))
      assert.deepStrictEqual([error._tag, error.model, error.known], ["UnknownModel", "none", ["fast", "wise"]])
      assert.strictEqual(error.message, "no model \"none\" is registered; known models: fast, wise")
      // not a name of Object's either
      assert.strictEqual((yield* Effect.flip(models.get("constructor")))._tag, "UnknownModel")
    }).pipe(Effect.provide(AgentModels.layer(named).pipe(Layer.provideMerge(Scripted.layer([]))))))

  agentTest("S195 an agent uses the model it names, and no session is left when there is none", () => ({
    script: [[text("standard")]],
    models: named,
    body: Effect.gen(function*() {
      assert.strictEqual((yield* (yield* create("a")).prompt("go")).text, "standard")
      assert.strictEqual((yield* (yield* create("b", { model: "fast" })).prompt("go")).text, "fast")
      const error = yield* Effect.flip(create("c", { model: "none" }))
      assert.strictEqual(error._tag, "UnknownModel")
      // the id is free
      assert.strictEqual((yield* (yield* create("c", { model: "wise" })).prompt("go")).text, "wise")
    })
  }))

  agentTest("S593 what a call costs may depend on the model that was asked, by its name", () => ({
    script: [[text("standard")]],
    models: named,
    body: Effect.gen(function*() {
      const costs = Effect.fnUntraced(function*(id: string, model?: string) {
        return (yield* (yield* create(id, { model })).prompt("go")).usage.cost
      })
      assert.strictEqual(yield* costs("a"), 3)
      assert.strictEqual(yield* costs("b", "fast"), 1)
      assert.strictEqual(yield* costs("c", "wise"), undefined)
      assert.strictEqual((yield* Spawn.delegate({ prompt: "go", model: "fast" })).usage.cost, 1)
    }).pipe(Effect.provideService(
      AgentModels.CostOf,
      ({ usage }, model) => model === "wise" ? undefined : (usage.inputTokens.total ?? 0) * (model === "fast" ? 1 : 3)
    ))
  }))

  agentTest("S13 S147 S391 a child uses its parent's model, or the one it is given", () => ({
    script: [[text("standard")]],
    models: named,
    root: { model: "wise" },
    body: Effect.gen(function*() {
      assert.strictEqual((yield* Spawn.delegate({ prompt: "go" })).text, "wise")
      assert.strictEqual((yield* Spawn.delegate({ prompt: "go", model: "fast" })).text, "fast")
      const error = yield* Effect.flip(Spawn.delegate({ prompt: "go", model: "none" }))
      assert.strictEqual(error._tag, "UnknownModel")
      assert.deepStrictEqual(yield* (yield* ScriptedModel).requests, [])
    })
  }))

  agentTest("S13 S150 S363 a child's model sees its parent's ceiling of output tokens, or its own", () => ({
    script: () => [text("done")],
    root: { maxTokens: 111 },
    body: Effect.gen(function*() {
      const first = yield* Spawn.start({ prompt: "go" })
      const second = yield* Spawn.start({ prompt: "go", maxTokens: 222 })
      yield* first.result
      yield* second.result
      const model = yield* ScriptedModel
      assert.deepStrictEqual((yield* model.requestsOf(first.id)).map(({ maxTokens }) => maxTokens), [111])
      assert.deepStrictEqual((yield* model.requestsOf(second.id)).map(({ maxTokens }) => maxTokens), [222])
      // a ceiling is the child's own: the one that called it has none here
      assert.isUndefined(yield* AgentModels.MaxOutputTokens)
      for (const maxTokens of [0, -1, 1.5, Number.NaN, Number.POSITIVE_INFINITY]) {
        const error = yield* Effect.flip(Spawn.start({ prompt: "go", maxTokens }))
        assert.deepStrictEqual([error._tag, "field" in error && error.field], ["InvalidRequest", "maxTokens"])
        const direct = yield* Effect.flip(create("x", { maxTokens }))
        assert.deepStrictEqual([direct._tag, "field" in direct && direct.field], ["InvalidAgent", "maxTokens"])
      }
    })
  }))

  agentTest("a model has no ceiling when nobody set one", () => ({
    script: () => [text("done")],
    body: Effect.gen(function*() {
      const run = yield* Spawn.start({ prompt: "go" })
      yield* run.result
      const [request] = yield* (yield* ScriptedModel).requestsOf(run.id)
      assert.isUndefined(request.maxTokens)
    })
  }))
})

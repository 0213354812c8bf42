import { assert, describe, it } from "@effect/vitest"
import { Effect, Schema, Stream } from "effect"
import * as Session from "../../src/Session.ts"
import { SessionStore } from "../../src/SessionStore.ts"
import * as Spawn from "../../src/providers/Spawn.ts"
import { call, hang, ScriptedModel, text } from "../../src/testing/ScriptedModel.ts"
import { rooted } from "../utils/agents.ts"

const Finding = Schema.Struct({ file: Schema.String, risk: Schema.Literals(["low", "high"]) })

describe("Spawn", () => {
  it.effect("S381 one scripted answer completes with its text", () =>
    Effect.gen(function*() {
      const result = yield* Spawn.delegate({ prompt: "Say hello" })
      assert.strictEqual(result._tag, "Completed")
      assert.strictEqual(result.text, "hello")
    }).pipe(Effect.provide(rooted([[text("hel", "lo")]]))))

  it.effect("S407 a valid structured call is captured", () =>
    Effect.gen(function*() {
      const run = yield* Spawn.start({ prompt: "Audit", outputSchema: Finding })
      const result = yield* run.result
      assert.strictEqual(result._tag, "Completed")
      if (result._tag === "Completed") assert.deepStrictEqual(result.structured, { file: "a.ts", risk: "high" })
      const store = yield* SessionStore
      const events = yield* Stream.runCollect(store.read(run.id))
      assert.deepStrictEqual(Session.validate(yield* store.header(run.id), events), [])
      assert.strictEqual((yield* (yield* ScriptedModel).requests).length, 1)
    }).pipe(Effect.provide(rooted([[call("structured_output", { file: "a.ts", risk: "high" })]]))))

  it.effect("S370 closing the scope of a hanging run aborts it with its partial text", () =>
    Effect.gen(function*() {
      const run = yield* Effect.scoped(Effect.tap(Spawn.start({ prompt: "Hang" }), Effect.yieldNow))
      const result = yield* run.result
      assert.strictEqual(result._tag, "Aborted")
      yield* run.released
    }).pipe(Effect.provide(rooted([[text("partial"), hang]]))))
})

import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber, Layer, Stream } from "effect"
import * as Agent from "../../src/Agent.ts"
import { layerNode } from "../../src/layers/FileSessionStore.ts"
import * as Memory from "../../src/layers/Memory.ts"
import * as Spawn from "../../src/providers/Spawn.ts"
import { layerMemory, SessionStore } from "../../src/SessionStore.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import { leakCheck, makeTempDir } from "../utils/leaks.ts"

leakCheck()

const ids = Effect.gen(function*() {
  const entries = yield* Stream.runCollect((yield* SessionStore).list)
  return entries.map((entry) => entry._tag === "Session" ? String(entry.header.id) : entry.id)
})

/** A store whose `create` of a child cannot be interrupted, and takes a moment when it is done. */
const held = (inner: Layer.Layer<SessionStore, unknown>, created: Deferred.Deferred<void>) =>
  Layer.effect(
    SessionStore,
    Effect.map(SessionStore, (store) => ({
      ...store,
      create: (header, seed, options) =>
        header.parent === undefined
          ? store.create(header, seed, options)
          : Effect.tap(
            store.create(header, seed, options),
            Effect.andThen(Deferred.succeed(created, undefined), Effect.yieldNow)
          )
    }))
  ).pipe(Layer.provide(inner))

const stores = [
  ["in memory", () => layerMemory],
  ["in files", () => layerNode({ directory: makeTempDir() })]
] as const

describe("a child whose start is cancelled", () => {
  it.live.each(stores)("S69 S72 S73 S74 leaves no session %s", ([, store]) =>
    Effect.gen(function*() {
      const created = yield* Deferred.make<void>()
      const program = Agent.layerRoot({ cwd: "/", id: "root" }).pipe(
        Layer.provideMerge(Memory.layerWith(held(store(), created))),
        Layer.provide(ScriptedModel.layer([[ScriptedModel.text("fine")]]))
      )
      yield* Effect.gen(function*() {
        const abort = new AbortController()
        const fiber = yield* Effect.forkChild(
          Effect.scoped(Effect.flip(Spawn.start({ prompt: "go", signal: abort.signal }))),
          { startImmediately: true }
        )
        yield* Deferred.await(created)
        abort.abort()
        assert.deepInclude(yield* Fiber.join(fiber), { _tag: "Cancelled", cause: "parent" })
        assert.deepStrictEqual(yield* ids, ["root"])
        assert.deepStrictEqual((yield* Agent.Agents.use((agents) => agents.list)).map(({ id }) => String(id)), ["root"])
        // one that has begun is kept, whatever becomes of it
        const result = yield* Spawn.delegate({ prompt: "go" })
        assert.strictEqual(result._tag, "Completed")
        assert.strictEqual((yield* ids).length, 2)
      }).pipe(Effect.provide(program))
    }))
})

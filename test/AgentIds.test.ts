import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Random, Stream } from "effect"
import * as Agent from "../src/Agent.ts"
import * as AgentModels from "../src/AgentModels.ts"
import * as AgentTools from "../src/AgentTools.ts"
import { CurrentAgent } from "../src/CurrentAgent.ts"
import * as FileSessionStore from "../src/layers/FileSessionStore.ts"
import * as Spawn from "../src/providers/Spawn.ts"
import { SessionExists, SessionStore } from "../src/SessionStore.ts"
import * as Subagent from "../src/Subagent.ts"
import * as SystemPrompt from "../src/SystemPrompt.ts"
import { text } from "../src/testing/ScriptedModel.ts"
import * as Scripted from "../src/testing/ScriptedModel.ts"
import { agentOf, agentTest, checkLogs, create } from "./utils/agentTest.ts"
import { leakCheck, tempDir } from "./utils/leaks.ts"

leakCheck()

const layer = (directory: string) =>
  Agent.layerRoot({ cwd: "/work" }).pipe(
    Layer.provideMerge(Spawn.layer),
    Layer.provideMerge(Subagent.layer()),
    Layer.provideMerge(Agent.layer()),
    Layer.provideMerge(Layer.mergeAll(
      AgentModels.layer().pipe(Layer.provideMerge(Scripted.layer(() => [text("done")]))),
      AgentTools.layerRegistry,
      SystemPrompt.layer,
      FileSessionStore.layerNode({ directory })
    ))
  )

describe("the id of a session", () => {
  it.live("is new to the store, however often the same chance repeats itself over it", () =>
    Effect.gen(function*() {
      const directory = yield* tempDir
      // more often than a new id is tried
      for (let run = 1; run <= 10; run++) {
        const sessions = yield* Effect.gen(function*() {
          const root = yield* agentOf((yield* CurrentAgent).sessionId)
          yield* root.prompt("go")
          for (let n = 0; n < 2; n++) {
            assert.strictEqual((yield* Spawn.delegate({ prompt: "go" }))._tag, "Completed")
          }
          const store = yield* SessionStore
          yield* checkLogs(store, true)
          const children = yield* Stream.runCollect(store.children(root.id))
          assert.strictEqual(children.length, 2)
          return yield* Stream.runCollect(store.list)
        }).pipe(Effect.provide(layer(directory)), Effect.scoped, Random.withSeed("same"))
        assert.strictEqual(sessions.length, 3 * run)
      }
    }))

  agentTest("S195 is not made up when the caller gave one", () => ({
    script: [],
    body: Effect.gen(function*() {
      const error = yield* Effect.flip(create("root"))
      assert.deepStrictEqual([error._tag, error.message], ["SessionExists", new SessionExists({ id: "root" }).message])
    })
  }))

  let tries = 0
  agentTest("is tried a few times, and then the store is believed", () => ({
    script: [],
    store: (store) =>
      SessionStore.of({
        ...store,
        create: (header, seed, options) =>
          Effect.suspend(() =>
            header.id === "root"
              ? store.create(header, seed, options)
              : Effect.fail(new SessionExists({ id: `${header.id}:${++tries}` }))
          )
      }),
    body: Effect.gen(function*() {
      const agents = yield* Agent.Agents
      const error = yield* Effect.flip(agents.create({ cwd: "/work" }))
      assert.strictEqual(error._tag, "SessionExists")
      assert.strictEqual(tries, 8)
      assert.strictEqual((yield* agents.list).length, 1)
    })
  }))
})

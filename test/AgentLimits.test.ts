import { assert, describe } from "@effect/vitest"
import { Effect, Layer, Stream } from "effect"
import * as Agent from "../src/Agent.ts"
import { CurrentAgent, defaultLimits, type Limits } from "../src/CurrentAgent.ts"
import * as Spawn from "../src/providers/Spawn.ts"
import { SessionStore } from "../src/SessionStore.ts"
import { text } from "../src/testing/ScriptedModel.ts"
import { agentTest, create, eventsOf } from "./utils/agentTest.ts"
import { leakCheck } from "./utils/leaks.ts"

leakCheck()

const names = ["maxDepth", "maxChildren", "maxWait", "maxRunning"] as const

const malformed: ReadonlyArray<readonly [field: string, limits: unknown]> = [
  ...names.flatMap((name) =>
    [Number.NaN, -1, -0, 1.5, 2 ** 53, Number.POSITIVE_INFINITY, "3", null].map((value) =>
      [`limits.${name}`, { [name]: value }] as const
    )
  ),
  ["limits.maxDeph", { maxDeph: 1 }],
  ["limits", null],
  ["limits", 3]
]

describe("limits of an agent", () => {
  agentTest("S195 that are malformed are refused before a session exists", () => ({
    script: [],
    body: Effect.gen(function*() {
      const agents = yield* Agent.Agents
      const store = yield* SessionStore
      yield* Effect.scoped(create("stored"))
      for (const [field, given] of malformed) {
        // what a program without types may pass
        const limits = given as Partial<Limits>
        for (
          const refused of [
            Effect.asVoid(agents.create({ cwd: "/work", id: "a", limits })),
            Effect.asVoid(agents.open("stored", { limits })),
            Effect.asVoid(Layer.build(Agent.layerRoot({ cwd: "/work", limits }))),
            Effect.asVoid(Layer.build(Agent.layerRoot({ cwd: "/work", id: "a", limits }))),
            Effect.asVoid(Layer.build(Agent.layerRoot({ cwd: "/work", id: "stored", limits })))
          ]
        ) {
          const error = yield* Effect.flip(Effect.scoped(refused))
          assert.deepStrictEqual([error._tag, "field" in error && error.field], ["InvalidAgent", field])
        }
      }
      assert.strictEqual((yield* Stream.runCollect(store.list)).length, 2)
      assert.deepStrictEqual(yield* eventsOf("stored"), [])
      // and nothing is held
      yield* agents.open("stored", { limits: { maxDepth: 0, maxWait: 2 ** 53 - 1 } })
    })
  }))

  agentTest("hold by default where they are undefined", () => ({
    script: () => [text("done")],
    body: Effect.gen(function*() {
      // what a program with looser types may pass
      const undefineds: unknown = {
        maxDepth: undefined,
        maxChildren: undefined,
        maxWait: undefined,
        maxRunning: undefined
      }
      const limits = undefineds as Partial<Limits>
      const agents = yield* Agent.Agents
      yield* Effect.scoped(create("stored"))
      for (
        const agent of [
          yield* create("a", { limits }),
          yield* agents.open("stored", { limits })
        ]
      ) {
        assert.deepStrictEqual(agent.identity.limits, defaultLimits)
        const result = yield* Effect.provideService(Spawn.delegate({ prompt: "go" }), CurrentAgent, agent.identity)
        assert.strictEqual(result._tag, "Completed")
      }
      const some = yield* create("b", { limits: { ...limits, maxDepth: 0 } })
      assert.deepStrictEqual(some.identity.limits, { ...defaultLimits, maxDepth: 0 })
    })
  }))
})

import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Fiber, Layer, Schema, Stream } from "effect"
import * as Agent from "../src/Agent.ts"
import * as AgentModels from "../src/AgentModels.ts"
import * as AgentTools from "../src/AgentTools.ts"
import { CurrentAgent } from "../src/CurrentAgent.ts"
import * as FileSessionStore from "../src/layers/FileSessionStore.ts"
import * as Fork from "../src/providers/Fork.ts"
import * as Spawn from "../src/providers/Spawn.ts"
import * as Session from "../src/Session.ts"
import { SessionStore } from "../src/SessionStore.ts"
import * as Subagent from "../src/Subagent.ts"
import * as SystemPrompt from "../src/SystemPrompt.ts"
import { call, hang, type Script, ScriptedModel, text, wait } from "../src/testing/ScriptedModel.ts"
import * as Scripted from "../src/testing/ScriptedModel.ts"
import { agentOf, checkLogs, eventsOf, moment, spoken, textsOf, tool } from "./utils/agentTest.ts"
import { leakCheck, tempDir } from "./utils/leaks.ts"

leakCheck()

/** A program over files: each time its layers are built is like a new process. */
const program = (directory: string, script: Script) =>
  Agent.layerRoot({ cwd: "/work", id: "root" }).pipe(
    Layer.provideMerge(tool("void", () => Effect.void, { success: Schema.Void })),
    Layer.provideMerge(Layer.mergeAll(Spawn.layer, Fork.layer)),
    Layer.provideMerge(Subagent.layer()),
    Layer.provideMerge(Agent.layer({ grace: "200 millis" })),
    Layer.provideMerge(Layer.mergeAll(
      AgentModels.layer().pipe(Layer.provideMerge(Scripted.layer(script))),
      AgentTools.layerRegistry,
      SystemPrompt.layer,
      FileSessionStore.layerNode({ directory })
    ))
  )

/** What files say that nobody writes any more. */
const check = (directory: string) =>
  Effect.gen(function*() {
    const store = Context.get(yield* Layer.build(FileSessionStore.layerNode({ directory })), SessionStore)
    yield* checkLogs(store, true)
    return yield* Stream.runCollect(store.list)
  })

describe("agents over files", () => {
  it.live("a root that is opened again goes on where it was, and so do its tools' results", () =>
    Effect.gen(function*() {
      const directory = yield* tempDir
      yield* Effect.gen(function*() {
        const root = yield* agentOf("root")
        const outcome = yield* root.prompt("first")
        assert.strictEqual(outcome.text, "one")
        yield* root.inject("a note")
      }).pipe(Effect.provide(program(directory, [[call("void", {})], [text("one")]])))
      yield* Effect.gen(function*() {
        const root = yield* agentOf("root")
        assert.strictEqual((yield* root.prompt("second")).turn, 1)
        const [request] = yield* (yield* ScriptedModel).requests
        assert.deepStrictEqual(textsOf(request), [
          "user: first",
          "assistant: one",
          "user: a note",
          "user: second"
        ])
        assert.include(yield* spoken("root"), "void gives null")
      }).pipe(Effect.provide(program(directory, [[text("two")]])))
      assert.strictEqual((yield* check(directory)).length, 1)
    }))

  it.live("S88 what was steered in is in the file when it is acknowledged", () =>
    Effect.gen(function*() {
      const directory = yield* tempDir
      const gate = moment()
      yield* Effect.gen(function*() {
        const root = yield* agentOf("root")
        yield* root.send("go")
        const steering = yield* Effect.forkChild(root.steer("and hurry", { kind: "user" }), { startImmediately: true })
        yield* gate.now
        yield* Fiber.join(steering)
        // somebody else reads what is there, and needs no lease for it
        const other = Context.get(yield* Layer.build(FileSessionStore.layerNode({ directory })), SessionStore)
        const events = yield* Stream.runCollect(other.read("root"))
        assert.strictEqual(events.at(-1)?._tag, "SteeringAdmitted")
        yield* root.interrupt("user")
      }).pipe(Effect.scoped, Effect.provide(program(directory, [[wait(gate.passed), text("so")], [hang]])))
      yield* check(directory)
    }))

  it.live("children of all kinds leave sound files behind, however they end", () =>
    Effect.gen(function*() {
      const directory = yield* tempDir
      yield* Effect.gen(function*() {
        yield* (yield* agentOf("root")).prompt("first")
        const before = yield* eventsOf("root")
        const forked = yield* Fork.start({ prompt: "fork" })
        const spawned = yield* Spawn.start({ prompt: "spawn", outputSchema: Schema.Struct({ n: Schema.Int }) })
        const hanging = yield* Spawn.start({ prompt: "hang", timeout: "50 millis" })
        assert.strictEqual((yield* forked.result)._tag, "Completed")
        const result = yield* spawned.result
        assert.deepStrictEqual(result._tag === "Completed" && result.structured, { n: 1 })
        assert.strictEqual((yield* hanging.result)._tag, "Aborted")
        const copy = (yield* eventsOf(forked.id)).slice(0, before.length)
        assert.deepStrictEqual(copy.map(Session.encodeEvent), before.map(Session.encodeEvent))
        const root = yield* CurrentAgent
        const children = yield* Stream.runCollect((yield* SessionStore).children(root.sessionId))
        assert.strictEqual(children.length, 3)
      }).pipe(
        Effect.scoped,
        Effect.provide(program(directory, ({ prompt }) => {
          const last = textsOf({ prompt } as never).at(-1)
          if (last === "user: spawn") return [call("structured_output", { n: 1 })]
          return last === "user: hang" ? [text("so"), hang] : [text("done")]
        }))
      )
      assert.strictEqual((yield* check(directory)).length, 4)
    }))

  it.live("an agent that is closed with a stubborn tool is closed within its grace, and its file is sound", () =>
    Effect.gen(function*() {
      const directory = yield* tempDir
      const reached = moment()
      const gate = moment()
      const stubborn = tool("stubborn", () => Effect.uninterruptible(Effect.andThen(reached.now, gate.passed)))
      const started = yield* Effect.gen(function*() {
        const root = yield* agentOf("root")
        yield* root.send("go")
        yield* reached.passed
        return Date.now()
      }).pipe(Effect.provide(
        stubborn.pipe(Layer.provideMerge(program(directory, [[call("stubborn", {})]])))
      ))
      const took = Date.now() - started
      assert.isAbove(took, 150)
      assert.isBelow(took, 1000)
      const [entry] = yield* check(directory)
      assert.strictEqual(entry._tag, "Session")
      yield* gate.now
    }))
})

import { assert, describe } from "@effect/vitest"
import { Effect, Fiber, Layer, Schema } from "effect"
import { Prompt } from "effect/ai"
import { CurrentAgent } from "../../src/CurrentAgent.ts"
import * as Fork from "../../src/providers/Fork.ts"
import * as Spawn from "../../src/providers/Spawn.ts"
import * as Session from "../../src/Session.ts"
import { SessionStore } from "../../src/SessionStore.ts"
import * as Subagent from "../../src/Subagent.ts"
import { call, finish, hang, ScriptedModel, text } from "../../src/testing/ScriptedModel.ts"
import { agentOf, agentTest, eventsOf, settle, spoken, systemOf, tagsOf, textsOf, tool } from "../utils/agentTest.ts"
import { leakCheck } from "../utils/leaks.ts"

leakCheck()

const bytesOf = (events: ReadonlyArray<Session.Event>) =>
  events.map((event) => JSON.stringify(Session.encodeEvent(event))).join("\n")

const headerOf = (id: string) => SessionStore.use((store) => store.header(id))

/** Says at each depth what its turn is. */
const counting = { root: [[text("one")], [text("two")], [text("three")]], children: [[text("child")]] }

describe("Fork", () => {
  agentTest("S400 S208 of a parent without a completed turn starts fresh", () => ({
    script: [[text("child")]],
    body: Effect.gen(function*() {
      const run = yield* Fork.start({ prompt: "go" })
      assert.strictEqual((yield* run.result).text, "child")
      const header = yield* headerOf(run.id)
      assert.isFalse("seedLength" in header)
      assert.deepStrictEqual(header.origin, { kind: "subagent", provider: "fork" })
      assert.deepStrictEqual(yield* spoken(run.id), ["user: go", "assistant: child"])
      assert.strictEqual((yield* tagsOf(run.id)).filter((tag) => tag === "TurnEnded").length, 1)
    })
  }))

  agentTest(
    "S163 S207 S209 S362 S401 begins with a byte-identical copy of all completed turns, and goes on from there",
    () => ({
      script: counting,
      body: Effect.gen(function*() {
        const root = yield* agentOf("root")
        const file = Prompt.makePart("file", { mediaType: "image/png", data: "iVBORw0KGgo=", fileName: "ä.png" })
        yield* root.prompt([Prompt.makePart("text", { text: "first\u2028 ünï" }), file])
        yield* root.prompt("second")
        const before = yield* eventsOf("root")
        const run = yield* Fork.start({ prompt: "go" })
        const result = yield* run.result
        assert.deepStrictEqual([result._tag, result.text], ["Completed", "child"])
        const header = yield* headerOf(run.id)
        const events = yield* eventsOf(run.id)
        assert.strictEqual(header.seedLength, before.length)
        assert.strictEqual(bytesOf(events.slice(0, before.length)), bytesOf(before))
        assert.strictEqual(events[before.length - 1]._tag, "TurnEnded")
        const started = events.flatMap((event) => event._tag === "TurnStarted" ? [event.turn] : [])
        assert.deepStrictEqual(started, [0, 1, 2])
        const [request] = yield* (yield* ScriptedModel).requestsOf(run.id)
        assert.deepStrictEqual(textsOf(request), [
          "user: first\u2028 ünï",
          "assistant: one",
          "user: second",
          "assistant: two",
          "user: go"
        ])
        // the usage is the child's own
        assert.strictEqual(result.usage.steps, 1)
        assert.strictEqual(bytesOf(yield* eventsOf("root")), bytesOf(before))
      })
    })
  )

  agentTest("what was said to its parent after its last turn is no completed turn", () => ({
    script: counting,
    body: Effect.gen(function*() {
      const root = yield* agentOf("root")
      yield* root.prompt("first")
      yield* root.inject("a note")
      const run = yield* Fork.start({ prompt: "go" })
      yield* run.result
      assert.deepStrictEqual(yield* spoken(run.id), [
        "user: first",
        "assistant: one",
        "user: go",
        "assistant: child"
      ])
    })
  }))

  agentTest("S402 while its parent's turn hangs takes the completed ones", () => ({
    script: { root: [[text("one")], [text("half"), hang]], children: [[text("child")]] },
    body: Effect.gen(function*() {
      const root = yield* agentOf("root")
      yield* root.prompt("first")
      yield* root.send("second")
      yield* settle
      const run = yield* Fork.start({ prompt: "go" })
      assert.strictEqual((yield* run.result).text, "child")
      assert.strictEqual((yield* headerOf(run.id)).seedLength, 4)
      assert.deepStrictEqual(yield* spoken(run.id), ["user: first", "assistant: one", "user: go", "assistant: child"])
      yield* root.interrupt("user")
    })
  }))

  agentTest("S207 from within a turn takes nothing of that turn", () => ({
    script: {
      root: [[text("one")], [text("let me ask"), call("fork", {})], [text("two")]],
      children: [[text("child")]]
    },
    with: [
      Layer.unwrap(Effect.map(
        Fork.Fork,
        (fork) => tool("fork", () => Effect.map(fork.delegate({ prompt: "go" }), ({ text }) => text))
      ))
    ],
    body: Effect.gen(function*() {
      const root = yield* agentOf("root")
      yield* root.prompt("first")
      yield* root.prompt("second")
      const child = (yield* (yield* ScriptedModel).requests).find(({ depth }) => depth === 1)!
      assert.deepStrictEqual(textsOf(child), ["user: first", "assistant: one", "user: go"])
      assert.deepStrictEqual(yield* spoken("root"), [
        "user: first",
        "assistant: one",
        "user: second",
        "assistant: let me ask",
        "assistant calls fork",
        "fork gives \"child\"",
        "assistant: two"
      ])
    })
  }))

  agentTest("of a fork takes its seed and its own turns", () => ({
    script: ({ depth, index }) => [text(`${depth}.${index}`)],
    body: Effect.gen(function*() {
      yield* (yield* agentOf("root")).prompt("first")
      const child = yield* Fork.start({ prompt: "child" })
      yield* child.result
      const store = yield* SessionStore
      const header = yield* store.header(child.id)
      // what the child itself delegates, it forks from its own session
      const root = yield* CurrentAgent
      const run = yield* Effect.provideService(Fork.start({ prompt: "grandchild" }), CurrentAgent, {
        ...root,
        sessionId: header.id,
        depth: header.depth
      })
      yield* run.result
      const events = yield* eventsOf(child.id)
      assert.strictEqual((yield* headerOf(run.id)).seedLength, events.length)
      assert.strictEqual(bytesOf((yield* eventsOf(run.id)).slice(0, events.length)), bytesOf(events))
      assert.deepStrictEqual(yield* spoken(run.id), [
        "user: first",
        "assistant: 0.0",
        "user: child",
        "assistant: 1.0",
        "user: grandchild",
        "assistant: 2.0"
      ])
    })
  }))

  agentTest("S22 S164 S403 a child that says nothing has nothing to say, not its parent's last words", () => ({
    script: { root: [[text("one")]], children: [[[]]] },
    body: Effect.gen(function*() {
      yield* (yield* agentOf("root")).prompt("first")
      const result = yield* Fork.delegate({ prompt: "go" })
      assert.deepStrictEqual([result._tag, result.text, result.output], ["Completed", "", []])
    })
  }))

  agentTest("the end of a parent's turn may have been anything", () => ({
    script: {
      root: [[text("half"), finish("length")], [call("t", {})]],
      children: [[text("child")]]
    },
    with: [tool("t", () => Effect.never)],
    body: Effect.gen(function*() {
      const root = yield* agentOf("root")
      yield* root.prompt("first")
      const turn = yield* Effect.forkChild(root.prompt("second"), { startImmediately: true })
      yield* settle
      yield* root.interrupt("user")
      yield* Fiber.join(turn)
      const before = yield* eventsOf("root")
      const run = yield* Fork.start({ prompt: "go" })
      assert.strictEqual((yield* run.result).text, "child")
      assert.strictEqual(bytesOf((yield* eventsOf(run.id)).slice(0, before.length)), bytesOf(before))
    })
  }))

  agentTest("a caller without a session here has nothing to fork", () => ({
    script: [],
    body: Effect.gen(function*() {
      const root = yield* CurrentAgent
      const error = yield* Effect.flip(
        Effect.provideService(Fork.start({ prompt: "go" }), CurrentAgent, {
          ...root,
          sessionId: Session.SessionId.make("elsewhere")
        })
      )
      assert.deepStrictEqual(error._tag === "StartFailed" && [error.provider, error.reason], ["fork", "NothingToFork"])
      assert.deepStrictEqual(yield* (yield* Subagent.Subagents).running, [])
    })
  }))

  agentTest("S404 S422 a seeded child may owe a structured result", () => ({
    script: { root: [[text("one")]], children: [[[call("structured_output", { n: 7 })]]] },
    body: Effect.gen(function*() {
      yield* (yield* agentOf("root")).prompt("first")
      const run = yield* Fork.start({
        prompt: "go",
        outputSchema: Schema.Struct({ n: Schema.Int }),
        persona: "counter"
      })
      const result = yield* run.result
      assert.deepStrictEqual(result._tag === "Completed" && result.structured, { n: 7 })
      const [request] = yield* (yield* ScriptedModel).requestsOf(run.id)
      assert.match(systemOf(request), /^counter\n\n/)
      assert.deepStrictEqual(request.tools, ["structured_output"])
    })
  }))

  agentTest("S210 S405 goes side by side with Spawn, and its parent goes on", () => ({
    script: { root: [[text("one")], [text("two")]], children: [[text("child")]] },
    body: Effect.gen(function*() {
      const root = yield* agentOf("root")
      yield* root.prompt("first")
      const forked = yield* Fork.start({ prompt: "go" })
      const spawned = yield* Spawn.start({ prompt: "go" })
      assert.notStrictEqual(forked.id, spawned.id)
      assert.strictEqual((yield* forked.result).text, "child")
      assert.strictEqual((yield* spawned.result).text, "child")
      assert.strictEqual((yield* spoken(forked.id)).length, 4)
      assert.strictEqual((yield* spoken(spawned.id)).length, 2)
      yield* root.prompt("second")
      assert.deepStrictEqual(yield* spoken("root"), ["user: first", "assistant: one", "user: second", "assistant: two"])
    })
  }))

  agentTest("S28 S205 S406 tells what it can do", () => ({
    script: [],
    body: Effect.gen(function*() {
      const info = (yield* (yield* Subagent.Subagents).providers).find(({ name }) => name === "fork")!
      const { resume: _, ...others } = info.capabilities
      assert.deepStrictEqual(new Set(Object.values(others)), new Set([true]))
      assert.isTrue(info.inheritsParentContext)
    })
  }))
})

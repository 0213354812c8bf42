import { assert, describe } from "@effect/vitest"
import { Effect, Exit, Fiber, Layer, Option, Scope, Stream } from "effect"
import { AiError } from "effect/ai"
import { Agents } from "../../src/Agent.ts"
import { CurrentAgent } from "../../src/CurrentAgent.ts"
import * as inProcess from "../../src/providers/internal/inProcess.ts"
import * as Spawn from "../../src/providers/Spawn.ts"
import { SessionStore } from "../../src/SessionStore.ts"
import * as Subagent from "../../src/Subagent.ts"
import { call, fail, finish, hang, ScriptedModel, text, wait } from "../../src/testing/ScriptedModel.ts"
import {
  agentOf,
  agentTest,
  causesOf,
  create,
  eventsOf,
  held,
  heldCreation,
  moment,
  settle,
  spoken,
  textsOf,
  tool
} from "../utils/agentTest.ts"
import { leakCheck } from "../utils/leaks.ts"

leakCheck()

const listed = Agents.use((agents) => Effect.map(agents.list, (all) => all.map(({ id }) => id as string)))

describe("Spawn", () => {
  agentTest("S22 S381 one scripted answer completes with its text", () => ({
    script: [[text("hel", "lo")]],
    body: Effect.gen(function*() {
      const result = yield* Spawn.delegate({ prompt: "Say hello" })
      assert.strictEqual(result._tag, "Completed")
      assert.strictEqual(result.text, "hello")
      assert.deepStrictEqual(result.output.map((part) => part.type === "text" && part.text), ["hello"])
      assert.deepStrictEqual(result.usage, { inputTokens: 1, outputTokens: 1, steps: 1, elapsed: 0 })
    })
  }))

  agentTest(
    "S71 S153 S356 S383 S390 S548 a child is a live agent with a session of its own until it is released",
    () => {
      const gate = moment()
      return {
        script: [[wait(gate.passed), text("done")]],
        root: { depth: 1 },
        body: Effect.gen(function*() {
          const run = yield* Spawn.start({ prompt: "go", label: "helper" })
          assert.deepStrictEqual(yield* listed, ["root", run.id])
          const agent = Option.getOrThrow(run.localAgent)
          assert.strictEqual(agent, yield* agentOf(run.id))
          assert.deepStrictEqual({ ...agent.header, createdAt: 0 }, {
            version: 1,
            id: agent.id,
            parent: (yield* CurrentAgent).sessionId,
            depth: 2,
            cwd: "/work",
            createdAt: 0,
            origin: { kind: "subagent", provider: "spawn" },
            label: "helper"
          })
          assert.strictEqual(agent.identity.depth, 2)
          yield* gate.now
          yield* run.result
          yield* run.released
          yield* run.released
          assert.deepStrictEqual(yield* listed, ["root"])
          assert.strictEqual(yield* agent.status, "closed")
          // a session outlives its agent
          assert.strictEqual((yield* (yield* SessionStore).header(run.id)).label, "helper")
        })
      }
    }
  )

  agentTest("S145 S206 S384 a child knows its prompt and nothing of its parent", () => ({
    script: { root: [[text("the secret is 42")]], children: [[text("done")]] },
    body: Effect.gen(function*() {
      yield* (yield* agentOf("root")).prompt("remember the secret")
      const run = yield* Spawn.start({ prompt: "go" })
      yield* run.result
      const [request] = yield* (yield* ScriptedModel).requestsOf(run.id)
      assert.deepStrictEqual(textsOf(request), ["user: go"])
      assert.deepStrictEqual(yield* spoken(run.id), ["user: go", "assistant: done"])
      const first = (yield* eventsOf(run.id)).find((event) => event._tag === "MessageAppended")
      assert.deepStrictEqual(first?._tag === "MessageAppended" && first.source, { kind: "user" })
    })
  }))

  agentTest("S210 its parent's log holds nothing of a child", () => ({
    script: { root: [[text("one")], [text("two")]], children: [[text("child")]] },
    body: Effect.gen(function*() {
      const root = yield* agentOf("root")
      yield* root.prompt("first")
      yield* Spawn.delegate({ prompt: "go" })
      yield* root.prompt("second")
      assert.deepStrictEqual(yield* spoken("root"), [
        "user: first",
        "assistant: one",
        "user: second",
        "assistant: two"
      ])
    })
  }))

  agentTest("S54 S382 nobody finds a child before it is published, and everybody until it is released", () => {
    const gate = moment()
    const { created, creating, store } = heldCreation()
    const seen: Array<readonly [string, unknown]> = []
    return {
      store,
      script: () => [wait(gate.passed), text("done")],
      body: Effect.gen(function*() {
        const agents = yield* Agents
        const subagents = yield* Subagent.Subagents
        yield* Effect.forkScoped(
          Stream.runForEach(subagents.events, (event) =>
            "id" in event
              ? Effect.map(agents.get(event.id), (agent) => void seen.push([event._tag, Option.getOrUndefined(agent)]))
              : Effect.void),
          { startImmediately: true }
        )
        const starting = yield* Effect.forkScoped(Spawn.start({ prompt: "go" }), { startImmediately: true })
        yield* creating.passed
        yield* settle
        assert.deepStrictEqual(yield* listed, ["root"])
        assert.deepStrictEqual(seen, [])
        yield* created.now
        const run = yield* Fiber.join(starting)
        yield* settle
        assert.deepStrictEqual(seen, [["RunStarted", Option.getOrThrow(run.localAgent)]])
        yield* gate.now
        yield* run.result
        yield* settle
        assert.deepStrictEqual(seen[1], ["RunEnded", undefined])
        assert.deepStrictEqual(yield* listed, ["root"])
      })
    }
  })

  agentTest("S385 a depth that is not allowed starts nothing", () => ({
    script: [],
    body: Effect.gen(function*() {
      const error = yield* Effect.flip(Spawn.start({ prompt: "go", maxDepth: 0 }))
      assert.deepStrictEqual(error._tag === "DepthExceeded" && [error.attempted, error.max], [1, 0])
      assert.deepStrictEqual(yield* listed, ["root"])
    })
  }))

  agentTest("S364 the depth that counts is that of whoever delegates now", () => ({
    script: () => [text("done")],
    root: { depth: 1 },
    body: Effect.gen(function*() {
      const error = yield* Effect.flip(Spawn.start({ prompt: "go", maxDepth: 1 }))
      assert.deepStrictEqual(error._tag === "DepthExceeded" && [error.attempted, error.max], [2, 1])
      assert.strictEqual((yield* Spawn.delegate({ prompt: "go", maxDepth: 2 }))._tag, "Completed")
      // the inherited limit holds where the request says nothing
      const root = yield* CurrentAgent
      const deep = yield* Effect.flip(
        Effect.provideService(Spawn.start({ prompt: "go" }), CurrentAgent, { ...root, depth: 3 })
      )
      assert.deepStrictEqual(deep._tag === "LimitExceeded" && [deep.limit, deep.value, deep.max], ["maxDepth", 4, 3])
    })
  }))

  agentTest("S147 a grandchild inherits through its parent", () => ({
    script: ({ depth, index }) => depth === 1 && index === 0 ? [call("delegate", {})] : [text(`depth ${depth}`)],
    with: [
      Layer.unwrap(Effect.map(
        Spawn.Spawn,
        (spawn) => tool("delegate", () => Effect.map(spawn.delegate({ prompt: "deeper" }), ({ text }) => text))
      ))
    ],
    root: { maxTokens: 9 },
    body: Effect.gen(function*() {
      const run = yield* Spawn.start({ prompt: "go", limits: { maxDepth: 2 } })
      yield* run.result
      assert.deepStrictEqual(yield* spoken(run.id), [
        "user: go",
        "assistant calls delegate",
        "delegate gives \"depth 2\"",
        "assistant: depth 1"
      ])
      const requests = yield* (yield* ScriptedModel).requests
      assert.deepStrictEqual(requests.map(({ depth, maxTokens }) => [depth, maxTokens]), [[1, 9], [2, 9], [1, 9]])
    })
  }))

  agentTest("S84 S386 S565 what becomes of a child is a result", () => ({
    script: ({ prompt }) => {
      switch (textsOf({ prompt } as never)[0]) {
        case "user: length":
          return [text("half"), finish("length")]
        case "user: filter":
          return [finish("content-filter")]
        case "user: steps":
          return [text("on"), call("t", {})]
        case "user: policy":
          return [fail(new AiError.ContentPolicyError({ description: "no" }))]
        default:
          return [fail(new AiError.AuthenticationError({ kind: "InvalidKey" }))]
      }
    },
    options: { maxSteps: 2 },
    with: [tool("t", () => Effect.succeed(1))],
    body: Effect.gen(function*() {
      const results = yield* Effect.forEach(
        ["length", "filter", "steps", "policy", "error"],
        (prompt) => Spawn.delegate({ prompt })
      )
      assert.deepStrictEqual(results.map((result) => [result._tag, result.text]), [
        ["MaxTokens", "half"],
        ["Refusal", ""],
        ["Other", "on"],
        ["Refusal", ""],
        ["Failed", ""]
      ])
      const [, , other, , failed] = results
      assert.strictEqual(other._tag === "Other" && other.reason, "max-steps")
      for (const index of [1, 3, 4]) assert.deepStrictEqual(results[index].output, [])
      assert.deepStrictEqual(failed._tag === "Failed" && [failed.reason, failed.retryable], [
        "AuthenticationError",
        false
      ])
    })
  }))

  agentTest("S165 S361 what comes after a child's last turn does not change its result", () => {
    const { gate, reached, store } = held((call, { id }) => call === "flush" && id !== "root")
    return {
      store,
      script: [[text("half"), finish("length")]],
      body: Effect.gen(function*() {
        const run = yield* Spawn.start({ prompt: "go" })
        yield* reached.passed
        yield* (yield* agentOf(run.id)).inject("a note of somebody else")
        yield* gate.now
        const result = yield* run.result
        assert.deepStrictEqual([result._tag, result.text], ["MaxTokens", "half"])
        assert.deepStrictEqual(yield* spoken(run.id), [
          "user: go",
          "assistant: half",
          "user: a note of somebody else"
        ])
      })
    }
  })

  agentTest("S165 a child may have several turns: its result is the last one's, its usage all of them's", () => {
    const gate = moment()
    return {
      script: ({ index }) => index === 0 ? [wait(gate.passed), text("first")] : [text("second")],
      body: Effect.gen(function*() {
        const run = yield* Spawn.start({ prompt: "go" })
        yield* (yield* agentOf(run.id)).send("and this")
        yield* gate.now
        const result = yield* run.result
        assert.strictEqual(result.text, "second")
        assert.strictEqual(result.usage.steps, 2)
        assert.strictEqual((yield* causesOf(run.id)).length, 2)
      })
    }
  })

  agentTest("S28 S205 S389 S392 S405 it can do everything a provider can, and starts children side by side", () => {
    const gate = moment()
    return {
      script: () => [wait(gate.passed), text("done")],
      body: Effect.gen(function*() {
        const info = (yield* (yield* Subagent.Subagents).providers).find(({ name }) => name === "spawn")!
        const { resume: _, ...others } = info.capabilities
        assert.deepStrictEqual(new Set(Object.values(others)), new Set([true]))
        assert.isFalse(info.inheritsParentContext)
        const runs = yield* Effect.all(Array.from({ length: 5 }, () => Spawn.start({ prompt: "go" })))
        for (const run of runs) assert.isFunction(run.steer)
        assert.strictEqual(new Set(runs.map(({ id }) => id)).size, 5)
        yield* gate.now
        const results = yield* Effect.all(runs.map((run) => run.result))
        assert.deepStrictEqual(results.map(({ text }) => text), Array.from({ length: 5 }, () => "done"))
      })
    }
  })

  agentTest("S393 S394 a run outlives its provider's layer, which starts no more", () => {
    const controller = new AbortController()
    return {
      script: [[text("so far"), hang]],
      body: Effect.gen(function*() {
        const subagents = yield* Subagent.Subagents
        class Other extends Subagent.Provider<Other>()("other", inProcess.capabilities) {}
        const agents = yield* Agents
        const scope = yield* Scope.make()
        const other = yield* Scope.provide(
          subagents.register(Other, { start: (request) => inProcess.start(agents, "other", request) }),
          scope
        )
        const run = yield* other.start({ prompt: "go", signal: controller.signal })
        yield* settle
        yield* Scope.close(scope, Exit.void)
        const closed = yield* Effect.flip(other.start({ prompt: "go" }))
        assert.strictEqual(closed._tag === "StartFailed" && closed.reason, "ProviderClosed")
        assert.strictEqual((yield* Effect.flip(subagents.start("other", { prompt: "go" })))._tag, "ProviderNotFound")
        assert.deepStrictEqual(yield* listed, ["root", run.id])
        controller.abort()
        const result = yield* run.result
        assert.deepStrictEqual(result._tag === "Aborted" && [result.cause, result.text], ["parent", "so far"])
      })
    }
  })

  agentTest("S92 S373 S87 a run is steered as its agent is", () => {
    const gate = moment()
    return {
      script: [[wait(gate.passed), text("first")], [text("second")]],
      body: Effect.gen(function*() {
        const run = yield* Spawn.start({ prompt: "go" })
        yield* Effect.yieldNow
        const steering = yield* Effect.forkChild(run.steer("more", { kind: "coordinator", senderId: "root" }), {
          startImmediately: true
        })
        yield* gate.now
        yield* Fiber.join(steering)
        assert.strictEqual((yield* run.result).text, "second")
        const before = yield* eventsOf(run.id)
        const error = yield* Effect.flip(run.steer("too late", { kind: "user" }))
        assert.include(["settled", "disposed"], error.reason)
        assert.deepStrictEqual(yield* eventsOf(run.id), before)
        assert.strictEqual((yield* (yield* ScriptedModel).requests).length, 2)
      })
    }
  })

  agentTest("S376 a message that comes while the last turn is flushed is answered by the same run", () => {
    const { gate, reached, store } = held((call, { id }) => call === "flush" && id !== "root")
    return {
      store,
      script: [[text("first")], [text("second")]],
      body: Effect.gen(function*() {
        const run = yield* Spawn.start({ prompt: "go" })
        yield* reached.passed
        const steering = yield* Effect.forkChild(run.steer("more", { kind: "user" }), { startImmediately: true })
        yield* settle
        yield* gate.now
        yield* Fiber.join(steering)
        const result = yield* run.result
        assert.deepStrictEqual([result._tag, result.text], ["Completed", "second"])
        assert.notInclude((yield* eventsOf(run.id)).map(({ _tag }) => _tag), "SteeringAdmitted")
      })
    }
  })

  agentTest("an agent that is no root delegates as well", () => ({
    script: () => [text("done")],
    body: Effect.gen(function*() {
      const other = yield* create("other")
      const run = yield* Effect.provideService(Spawn.start({ prompt: "go" }), CurrentAgent, other.identity)
      yield* run.result
      assert.strictEqual((yield* (yield* SessionStore).header(run.id)).parent as string, "other")
    })
  }))
})

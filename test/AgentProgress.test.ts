import { assert, describe } from "@effect/vitest"
import { Effect, Exit, Fiber, Scope, Stream } from "effect"
import type { Progress } from "../src/Agent.ts"
import * as Spawn from "../src/providers/Spawn.ts"
import { call, finish, reasoning, text, wait } from "../src/testing/ScriptedModel.ts"
import { agentTest, create, moment, settle, tool } from "./utils/agentTest.ts"
import { leakCheck } from "./utils/leaks.ts"

leakCheck()

describe("progress", () => {
  agentTest("S574 tells what happens while it happens, and ends with the agent", () => {
    const gate = moment()
    const seen: Array<Progress> = []
    return {
      script: [
        [
          reasoning("hm", "m"),
          text("let ", "me"),
          wait(gate.passed),
          call("t", { n: 1 }),
          finish("tool-calls", {
            input: 3,
            output: 2
          })
        ],
        [text("done"), finish("stop", { input: 5, output: 1 })]
      ],
      with: [tool("t", (_, { preliminary }) => Effect.andThen(preliminary("half"), Effect.fail("no")))],
      body: Effect.gen(function*() {
        const scope = yield* Scope.make()
        const agent = yield* Scope.provide(create("a"), scope)
        const watcher = yield* Effect.forkChild(
          Stream.runForEach(agent.progress, (one) => Effect.sync(() => void seen.push(one))),
          { startImmediately: true }
        )
        yield* agent.send("go")
        yield* settle
        assert.deepStrictEqual(seen, [
          { _tag: "StepStarted", step: 0 },
          { _tag: "Reasoning", delta: "hm" },
          { _tag: "Reasoning", delta: "m" },
          { _tag: "Text", delta: "let " },
          { _tag: "Text", delta: "me" }
        ])
        yield* gate.now
        yield* agent.idle
        yield* Scope.close(scope, Exit.void)
        yield* Fiber.join(watcher)
        const usage = { inputTokens: 3, outputTokens: 2, steps: 1, elapsed: 0 }
        assert.deepStrictEqual(seen.slice(5), [
          { _tag: "StepEnded", usage },
          { _tag: "ToolStarted", id: "call-t", name: "t", params: { n: 1 } },
          { _tag: "ToolProgress", id: "call-t", name: "t", value: "half" },
          { _tag: "ToolEnded", id: "call-t", name: "t", isFailure: true },
          { _tag: "StepStarted", step: 1 },
          { _tag: "Text", delta: "done" },
          { _tag: "StepEnded", usage: { inputTokens: 8, outputTokens: 3, steps: 2, elapsed: 0 } }
        ])
      })
    }
  })

  agentTest("S574 of a slow reader drops the oldest and says how many; nobody else is slowed", () => {
    const gate = moment()
    const deltas = Array.from({ length: 5000 }, (_, i) => `${i} `)
    return {
      script: [[text(...deltas)]],
      body: Effect.gen(function*() {
        const agent = yield* create("a")
        const slow: Array<Progress> = []
        const reader = yield* Effect.forkChild(
          Stream.runForEach(agent.progress, (one) => {
            slow.push(one)
            return gate.passed
          }),
          { startImmediately: true }
        )
        const outcome = yield* agent.prompt("go")
        assert.strictEqual(outcome.text, deltas.join(""))
        yield* gate.now
        yield* settle
        yield* Fiber.interrupt(reader)
        const dropped = slow.reduce((sum, one) => sum + (one._tag === "Dropped" ? one.count : 0), 0)
        const read = slow.filter((one) => one._tag !== "Dropped")
        // a step's start and end, and its deltas
        assert.strictEqual(dropped + read.length, 5002)
        assert.isAbove(dropped, 3000)
        assert.strictEqual(read.at(-1)?._tag, "StepEnded")
        const last = read.at(-2)
        assert.strictEqual(last?._tag === "Text" && last.delta, "4999 ")
      })
    }
  })

  agentTest("of a run is its child's", () => {
    const gate = moment()
    return {
      script: [[wait(gate.passed), text("one", "two")]],
      body: Effect.gen(function*() {
        const run = yield* Spawn.start({ prompt: "go" })
        const texts = yield* Effect.forkChild(
          Stream.runCollect(Stream.filter(run.progress, (one) => one._tag === "Text")),
          { startImmediately: true }
        )
        yield* gate.now
        yield* run.result
        assert.deepStrictEqual((yield* Fiber.join(texts)).map(({ delta }) => delta), ["one", "two"])
        // of one that has ended there is nothing to see
        assert.deepStrictEqual(yield* Stream.runCollect(run.progress), [])
      })
    }
  })
})

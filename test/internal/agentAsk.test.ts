import { assert, describe } from "@effect/vitest"
import { Duration, Effect, Fiber, Schedule, Stream } from "effect"
import { AiError } from "effect/ai"
import { TestClock } from "effect/testing"
import type { Progress } from "../../src/Agent.ts"
import * as AgentModels from "../../src/AgentModels.ts"
import { call, fail, finish, part, ScriptedModel, text } from "../../src/testing/ScriptedModel.ts"
import { agentTest, create, settle, spoken, tool } from "../utils/agentTest.ts"
import { leakCheck } from "../utils/leaks.ts"

leakCheck()

const requests = Effect.flatMap(ScriptedModel, (model) => Effect.map(model.requestsOf("a"), (all) => all.length))

const overloaded = fail()
const limited = (seconds: number) => fail(new AiError.RateLimitError({ retryAfter: Duration.seconds(seconds) }))

/** Makes an agent and collects its progress. */
const watched = Effect.fnUntraced(function*() {
  const agent = yield* create("a")
  const seen: Array<Progress> = []
  yield* Effect.forkScoped(Stream.runForEach(agent.progress, (one) => Effect.sync(() => void seen.push(one))), {
    startImmediately: true
  })
  return { agent, seen }
})

describe("ask", () => {
  agentTest("S582 tries again after what may pass, as the schedule says", () => ({
    script: [[overloaded], [overloaded], [text("hello")]],
    options: { retry: Schedule.spaced("10 seconds") },
    body: Effect.gen(function*() {
      const agent = yield* create("a")
      const turn = yield* Effect.forkChild(agent.prompt("go"), { startImmediately: true })
      yield* settle
      assert.strictEqual(yield* requests, 1)
      yield* TestClock.adjust("9 seconds")
      assert.strictEqual(yield* requests, 1)
      yield* TestClock.adjust("1 second")
      assert.strictEqual(yield* requests, 2)
      yield* TestClock.adjust("10 seconds")
      const outcome = yield* Fiber.join(turn)
      assert.deepStrictEqual(outcome.cause, { _tag: "Completed" })
      assert.strictEqual(outcome.text, "hello")
      assert.deepStrictEqual(outcome.usage, { inputTokens: 1, outputTokens: 1, steps: 3, elapsed: 20_000 })
    })
  }))

  agentTest("never tries again sooner than the server wishes", () => ({
    script: [[limited(60)], [limited(1)], [text("hello")]],
    options: { retry: Schedule.spaced("10 seconds") },
    body: Effect.gen(function*() {
      const agent = yield* create("a")
      const turn = yield* Effect.forkChild(agent.prompt("go"), { startImmediately: true })
      yield* TestClock.adjust("59 seconds")
      assert.strictEqual(yield* requests, 1)
      yield* TestClock.adjust("1 second")
      assert.strictEqual(yield* requests, 2)
      // our own pause is longer here
      yield* TestClock.adjust("9 seconds")
      assert.strictEqual(yield* requests, 2)
      yield* TestClock.adjust("1 second")
      assert.strictEqual((yield* Fiber.join(turn)).text, "hello")
    })
  }))

  agentTest("gives up at once when the schedule is over, whatever the server wishes", () => ({
    script: () => [limited(60)],
    options: { retry: Schedule.recurs(1) },
    body: Effect.gen(function*() {
      const agent = yield* create("a")
      const turn = yield* Effect.forkChild(agent.prompt("go"), { startImmediately: true })
      yield* TestClock.adjust("60 seconds")
      yield* settle
      const exit = turn.pollUnsafe()
      assert.isDefined(exit)
      const { cause, usage } = yield* exit
      assert.strictEqual(cause._tag === "Failed" && cause.reason, "RateLimitError")
      assert.strictEqual(cause._tag === "Failed" && cause.retryable, true)
      assert.strictEqual(usage.steps, 2)
    })
  }))

  agentTest("does not wait for longer than it is told to, whatever the server wishes", () => ({
    script: [[limited(60)], [text("hello")], [limited(61)], [limited(61)]],
    options: { retry: Schedule.forever, maxRetryAfter: "1 minute" },
    body: Effect.gen(function*() {
      const agent = yield* create("a")
      const turn = yield* Effect.forkChild(agent.prompt("go"), { startImmediately: true })
      yield* TestClock.adjust("1 minute")
      assert.strictEqual((yield* Fiber.join(turn)).text, "hello")
      const { cause, usage } = yield* agent.prompt("go on")
      assert.strictEqual(usage.elapsed, 0)
      assert.strictEqual(usage.steps, 1)
      if (cause._tag !== "Failed") return assert.fail(cause._tag)
      assert.deepStrictEqual([cause.reason, cause.retryable], ["RateLimitError", true])
      assert.include(cause.diagnostic, "asks to wait 1m 1s")
      assert.include(cause.diagnostic, "Rate limit")
    })
  }))

  for (const [seconds, waits] of [[300, true], [300.001, false]] as const) {
    agentTest(`by default ${waits ? "waits" : "does not wait"} ${seconds} seconds for a server`, () => ({
      script: [[limited(seconds)], [text("hello")]],
      body: Effect.gen(function*() {
        const agent = yield* create("a")
        const turn = yield* Effect.forkChild(agent.prompt("go"), { startImmediately: true })
        yield* settle
        assert.strictEqual(turn.pollUnsafe() === undefined, waits)
        yield* TestClock.adjust("5 minutes")
        assert.strictEqual((yield* Fiber.join(turn)).cause._tag, waits ? "Completed" : "Failed")
      })
    }))
  }

  agentTest("an infinite patience waits for as long as the server wishes", () => ({
    script: [[limited(100_000)], [text("hello")]],
    options: { maxRetryAfter: "Infinity" },
    body: Effect.gen(function*() {
      const agent = yield* create("a")
      const turn = yield* Effect.forkChild(agent.prompt("go"), { startImmediately: true })
      yield* TestClock.adjust("100000 seconds")
      assert.strictEqual((yield* Fiber.join(turn)).text, "hello")
    })
  }))

  agentTest("says that a step is made again before it waits for it, and an interruption ends the wait", () => ({
    script: () => [text("half"), limited(60)],
    body: Effect.gen(function*() {
      const { agent, seen } = yield* watched()
      const turn = yield* Effect.forkChild(agent.prompt("go"), { startImmediately: true })
      yield* settle
      assert.deepStrictEqual(seen.map((one) => one._tag), ["StepStarted", "Text", "StepRestarted"])
      yield* agent.interrupt("user")
      const outcome = yield* Fiber.join(turn)
      assert.deepStrictEqual([outcome.cause, outcome.text], [{ _tag: "Aborted", cause: "user" }, "half"])
      assert.strictEqual(outcome.usage.elapsed, 0)
      assert.strictEqual(yield* requests, 1)
    })
  }))

  agentTest("by default tries four times more, within half a minute", () => ({
    script: () => [overloaded],
    body: Effect.gen(function*() {
      const agent = yield* create("a")
      const turn = yield* Effect.forkChild(agent.prompt("go"), { startImmediately: true })
      yield* TestClock.adjust("30 seconds")
      const { cause, usage } = yield* Fiber.join(turn)
      assert.strictEqual(cause._tag === "Failed" && cause.reason, "InternalProviderError")
      assert.strictEqual(usage.steps, 5)
    })
  }))

  agentTest("does not try again what will not pass", () => ({
    script: () => [text("so"), fail(new AiError.InvalidRequestError({ description: "too long" }))],
    options: { retry: Schedule.forever },
    body: Effect.gen(function*() {
      const agent = yield* create("a")
      const outcome = yield* agent.prompt("go")
      assert.strictEqual(yield* requests, 1)
      assert.strictEqual(outcome.cause._tag === "Failed" && outcome.cause.reason, "InvalidRequestError")
      assert.strictEqual(outcome.cause._tag === "Failed" && outcome.cause.retryable, false)
      assert.strictEqual(outcome.text, "so")
      assert.strictEqual(outcome.usage.steps, 1)
    })
  }))

  agentTest("stops trying when what comes next will not pass", () => ({
    script: [[overloaded], [fail(new AiError.InvalidRequestError({ description: "too long" }))]],
    options: { retry: Schedule.forever },
    body: Effect.gen(function*() {
      const outcome = yield* (yield* create("a")).prompt("go")
      assert.strictEqual(outcome.cause._tag === "Failed" && outcome.cause.reason, "InvalidRequestError")
      assert.strictEqual(yield* requests, 2)
    })
  }))

  agentTest("says that a step is made again; what it had streamed is void", () => ({
    script: [[text("half"), call("t", {}), overloaded], [overloaded], [text("whole")]],
    options: { retry: Schedule.recurs(2) },
    with: [tool("t", () => Effect.die("it was not to run"))],
    body: Effect.gen(function*() {
      const { agent, seen } = yield* watched()
      const outcome = yield* agent.prompt("go")
      assert.strictEqual(outcome.text, "whole")
      assert.deepStrictEqual(yield* spoken("a"), ["user: go", "assistant: whole"])
      yield* settle
      assert.deepStrictEqual(
        seen.map((one) => one._tag === "Text" ? one.delta : one._tag),
        [
          "StepStarted",
          "half",
          "StepRestarted",
          "StepStarted",
          "StepRestarted",
          "StepStarted",
          "whole",
          "StepEnded"
        ]
      )
      const restarts = seen.filter((one) => one._tag === "StepRestarted")
      assert.deepStrictEqual(restarts.map(({ step }) => step), [0, 0])
      assert.include(restarts[0].reason, "overloaded")
    })
  }))

  agentTest("S596 the text of a restarted step is not the text of a turn that fails", () => ({
    script: [[text("half"), overloaded], [overloaded]],
    options: { retry: Schedule.recurs(1) },
    body: Effect.gen(function*() {
      const outcome = yield* (yield* create("a")).prompt("go")
      assert.strictEqual(outcome.cause._tag, "Failed")
      assert.strictEqual(outcome.text, "")
    })
  }))

  agentTest("sums the usage of all steps, and their cost", () => ({
    script: [
      [call("t", {}, "1"), finish("tool-calls", { input: 100, output: 10 })],
      [call("t", {}, "2"), finish("tool-calls", { input: 200, output: 20 })],
      [text("done"), finish("stop", { input: 300, output: 30 })],
      [text("again"), finish("stop", { input: 1, output: 1 })]
    ],
    with: [tool("t", () => Effect.andThen(Effect.sleep("1 second"), Effect.succeed(1)))],
    body: Effect.gen(function*() {
      const agent = yield* create("a")
      const turn = yield* Effect.forkChild(agent.prompt("go"), { startImmediately: true })
      yield* TestClock.adjust("1 second")
      yield* TestClock.adjust("1 second")
      const first = yield* Fiber.join(turn)
      assert.deepStrictEqual(first.usage, { inputTokens: 600, outputTokens: 60, steps: 3, elapsed: 2000, cost: 6.6 })
      const second = yield* agent.prompt("more")
      assert.deepStrictEqual(second.usage, { inputTokens: 1, outputTokens: 1, steps: 1, elapsed: 0, cost: 0.02 })
      const { cost, ...rest } = yield* agent.usage
      assert.deepStrictEqual(rest, { inputTokens: 601, outputTokens: 61, steps: 4, elapsed: 2000 })
      assert.approximately(cost ?? 0, 6.62, 1e-9)
    }).pipe(Effect.provideService(
      AgentModels.CostOf,
      ({ usage }) => ((usage.inputTokens.total ?? 0) + (usage.outputTokens.total ?? 0)) / 100
    ))
  }))

  agentTest("usage that a model does not report counts as nothing", () => ({
    script: [[
      text("done"),
      part({
        type: "finish",
        reason: "stop",
        usage: {
          inputTokens: { total: undefined, uncached: undefined, cacheRead: undefined, cacheWrite: undefined },
          outputTokens: { total: undefined, text: undefined, reasoning: undefined }
        },
        response: undefined
      })
    ]],
    body: Effect.gen(function*() {
      const { usage } = yield* (yield* create("a")).prompt("go")
      assert.deepStrictEqual(usage, { inputTokens: 0, outputTokens: 0, steps: 1, elapsed: 0 })
    })
  }))

  agentTest("an interruption ends the pause before the next attempt", () => ({
    script: () => [text("half"), overloaded],
    options: { retry: Schedule.spaced("1 hour") },
    body: Effect.gen(function*() {
      const agent = yield* create("a")
      const turn = yield* Effect.forkChild(agent.prompt("go"), { startImmediately: true })
      yield* settle
      yield* agent.interrupt("user")
      const outcome = yield* Fiber.join(turn)
      assert.deepStrictEqual(outcome.cause, { _tag: "Aborted", cause: "user" })
      assert.strictEqual(outcome.text, "half")
    })
  }))
})

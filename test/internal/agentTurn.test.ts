import { assert, describe } from "@effect/vitest"
import { Effect, Fiber, Schedule, Schema } from "effect"
import { AiError, Tool, Toolkit } from "effect/ai"
import * as AgentTools from "../../src/AgentTools.ts"
import type * as Session from "../../src/Session.ts"
import { call, cut, fail, finish, hang, part, ScriptedModel, text, wait } from "../../src/testing/ScriptedModel.ts"
import { agentTest, causesOf, create, resultsOf, settle, spoken, tagsOf, textsOf, tool } from "../utils/agentTest.ts"
import { leakCheck } from "../utils/leaks.ts"

leakCheck()

/** Two more attempts, without a pause. */
const immediately = Schedule.recurs(2)

const Search = Tool.providerDefined({
  id: "anthropic.web_search_20250305",
  customName: "web_search",
  providerName: "web_search",
  parameters: Schema.Unknown,
  success: Schema.Unknown
})()

const requests = Effect.flatMap(ScriptedModel, (model) => model.requestsOf("a"))

/** The end of a turn as outcome and log have it. */
const endsWith = Effect.fnUntraced(function*(cause: Session.TurnCause) {
  const agent = yield* create("a")
  const outcome = yield* agent.prompt("go")
  assert.deepStrictEqual(outcome.cause, cause)
  assert.deepStrictEqual(yield* causesOf("a"), [cause])
  return outcome
})

const failed = (reason: string, diagnostic: string, retryable: boolean): Session.TurnCause => ({
  _tag: "Failed",
  reason,
  retryable,
  diagnostic
})

describe("a turn", () => {
  agentTest("S381 one answer completes it", () => ({
    script: [[text("hel", "lo")]],
    body: Effect.gen(function*() {
      const outcome = yield* endsWith({ _tag: "Completed" })
      assert.strictEqual(outcome.turn, 0)
      assert.strictEqual(outcome.text, "hello")
      assert.deepStrictEqual(outcome.output.map((part) => part.type === "text" ? part.text : ""), ["hello"])
      assert.deepStrictEqual(yield* tagsOf("a"), ["TurnStarted", "MessageAppended", "MessageAppended", "TurnEnded"])
    })
  }))

  agentTest("S166 an answer that was cut off by its length runs none of its calls", () => {
    let ran = false
    return {
      script: [[text("let me"), call("t", {}), finish("length")], [text("never asked for")]],
      with: [tool("t", () => Effect.sync(() => void (ran = true)))],
      body: Effect.gen(function*() {
        const outcome = yield* endsWith({ _tag: "MaxTokens" })
        assert.strictEqual(outcome.text, "let me")
        assert.isFalse(ran)
        assert.deepStrictEqual((yield* resultsOf("a")).map(({ isFailure, result }) => [isFailure, result]), [
          [true, { type: "execution-denied", reason: "the response ended with \"length\"" }]
        ])
        assert.strictEqual((yield* requests).length, 1)
      })
    }
  })

  agentTest("S168 a filtered answer is a refusal", () => ({
    script: [[text("I"), finish("content-filter")]],
    body: endsWith({ _tag: "Refusal" })
  }))

  agentTest("S168 a content policy error is a refusal, and not tried again", () => ({
    script: [[fail(new AiError.ContentPolicyError({ description: "no" }))]],
    body: Effect.gen(function*() {
      yield* endsWith({ _tag: "Refusal" })
      assert.strictEqual((yield* requests).length, 1)
    })
  }))

  agentTest("a pause goes on", () => ({
    script: [[text("half"), finish("pause")], [text("whole")]],
    body: Effect.gen(function*() {
      const outcome = yield* endsWith({ _tag: "Completed" })
      assert.strictEqual(outcome.text, "whole")
      assert.deepStrictEqual(textsOf((yield* requests)[1]), ["user: go", "assistant: half"])
    })
  }))

  agentTest("a pause with calls runs them", () => ({
    script: [[call("t", {}), finish("pause")], [text("done")]],
    with: [tool("t", () => Effect.succeed(1))],
    body: Effect.gen(function*() {
      yield* endsWith({ _tag: "Completed" })
      assert.deepStrictEqual((yield* resultsOf("a")).map(({ result }) => result), [1])
    })
  }))

  agentTest("an answer that ends with an error fails it and runs no call", () => {
    let ran = false
    return {
      script: [[text("so"), call("t", {}), part({ type: "error", error: { message: "overloaded" } }), finish("error")]],
      with: [tool("t", () => Effect.sync(() => void (ran = true)))],
      body: Effect.gen(function*() {
        const outcome = yield* endsWith(
          failed("ModelError", "the model ended its answer with an error: overloaded", true)
        )
        assert.strictEqual(outcome.text, "so")
        assert.isFalse(ran)
      })
    }
  })

  agentTest("S582 an answer without a finish never counts as whole", () => ({
    script: [[text("half a sen"), cut], [text("the whole sentence")]],
    options: { retry: immediately },
    body: Effect.gen(function*() {
      const outcome = yield* endsWith({ _tag: "Completed" })
      assert.strictEqual(outcome.text, "the whole sentence")
      assert.deepStrictEqual(yield* spoken("a"), ["user: go", "assistant: the whole sentence"])
    })
  }))

  agentTest("S596 an answer that keeps breaking off fails it, with what was streamed", () => {
    let ran = false
    return {
      script: () => [text("half a sen"), call("t", {}), cut],
      options: { retry: immediately },
      with: [tool("t", () => Effect.sync(() => void (ran = true)))],
      body: Effect.gen(function*() {
        const outcome = yield* endsWith(
          failed(
            "InternalProviderError",
            "LanguageModel.streamText: Internal provider error: the answer broke off: it has no finish part",
            true
          )
        )
        assert.strictEqual(outcome.text, "half a sen")
        assert.isFalse(ran)
        assert.deepStrictEqual(yield* spoken("a"), ["user: go"])
      })
    }
  })

  agentTest("S403 an empty answer completes it with nothing", () => ({
    script: [[]],
    body: Effect.gen(function*() {
      const outcome = yield* endsWith({ _tag: "Completed" })
      assert.strictEqual(outcome.text, "")
      assert.deepStrictEqual(outcome.output, [])
      assert.deepStrictEqual(yield* spoken("a"), ["user: go"])
    })
  }))

  agentTest("S556 S596 its text is the last that is not empty", () => ({
    script: [[text("looking"), call("t", {}, "1")], [text("  "), call("t", {}, "2")], []],
    with: [tool("t", () => Effect.succeed(1))],
    body: Effect.gen(function*() {
      const outcome = yield* endsWith({ _tag: "Completed" })
      assert.strictEqual(outcome.text, "looking")
    })
  }))

  agentTest("it ends after the most steps it may make", () => ({
    script: ({ index }) => [text(`step ${index}`), call("t", {}, `${index}`)],
    options: { maxSteps: 3 },
    with: [tool("t", () => Effect.succeed(1))],
    body: Effect.gen(function*() {
      const outcome = yield* endsWith({ _tag: "MaxSteps" })
      assert.strictEqual(outcome.text, "step 2")
      assert.strictEqual(outcome.usage.steps, 3)
      assert.strictEqual((yield* requests).length, 3)
      assert.strictEqual((yield* resultsOf("a")).length, 3)
    })
  }))

  agentTest("it may make 100 steps when nothing else is said", () => ({
    script: ({ index }) => [call("t", {}, `${index}`)],
    with: [tool("t", () => Effect.succeed(1))],
    body: Effect.gen(function*() {
      const outcome = yield* endsWith({ _tag: "MaxSteps" })
      assert.strictEqual(outcome.usage.steps, 100)
    })
  }))

  agentTest("a model that dies fails it without telling why", () => ({
    script: () => Effect.die(new Error("password is hunter2")),
    body: endsWith(failed("Defect", "the agent failed unexpectedly; the cause is in the log", false))
  }))

  for (const ending of ["completes", "is interrupted"] as const) {
    agentTest(`what its model forked as its child has ended when it ${ending}`, () => {
      let alive = false
      const working = Effect.sync(() => void (alive = true)).pipe(
        Effect.andThen(Effect.never),
        Effect.ensuring(Effect.andThen(settle, Effect.sync(() => void (alive = false)))),
        Effect.forkChild({ startImmediately: true })
      )
      return {
        script: [[wait(working), text("done"), ...ending === "completes" ? [] : [hang]]],
        body: Effect.gen(function*() {
          const agent = yield* create("a")
          const turn = yield* Effect.forkChild(agent.prompt("go"), { startImmediately: true })
          yield* settle
          if (ending === "is interrupted") {
            assert.isTrue(alive)
            yield* agent.interrupt("user")
          }
          assert.strictEqual((yield* Fiber.join(turn)).cause._tag, ending === "completes" ? "Completed" : "Aborted")
          assert.isFalse(alive)
        })
      }
    })
  }

  agentTest("a tool that was called by the provider itself is part of the answer", () => ({
    script: [[
      part({ type: "tool-call", id: "s", name: "web_search", params: { q: "x" }, providerExecuted: true }),
      part({
        type: "tool-result",
        id: "s",
        name: "web_search",
        isFailure: false,
        result: ["found"],
        providerExecuted: true
      }),
      text("found it")
    ]],
    with: [AgentTools.layer(Toolkit.make(Search))],
    body: Effect.gen(function*() {
      const outcome = yield* endsWith({ _tag: "Completed" })
      assert.strictEqual(outcome.text, "found it")
      assert.strictEqual((yield* requests).length, 1)
      assert.deepStrictEqual(yield* spoken("a"), [
        "user: go",
        "assistant calls web_search",
        "web_search gives [\"found\"]",
        "assistant: found it"
      ])
    })
  }))
})

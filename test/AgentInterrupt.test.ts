import { assert, describe } from "@effect/vitest"
import { Effect, Fiber, Latch } from "effect"
import type { Agent } from "../src/Agent.ts"
import * as AgentTools from "../src/AgentTools.ts"
import { call, hang, ScriptedModel, text, wait } from "../src/testing/ScriptedModel.ts"
import { agentTest, causesOf, create, moment, resultsOf, settle, spoken, tagsOf, tool } from "./utils/agentTest.ts"
import { leakCheck } from "./utils/leaks.ts"

leakCheck()

const aborted = (cause: "disposed" | "parent" | "timeout" | "user") => ({ _tag: "Aborted", cause }) as const
const interrupted = (reason: string) => ({ type: "execution-interrupted", reason })
const unknown = interrupted("the turn was interrupted: the outcome is unknown")

/** Sends a message, and gives the fiber that waits for its turn. */
const prompted = (agent: Agent, content = "go") => Effect.forkChild(agent.prompt(content), { startImmediately: true })

const requests = Effect.flatMap(ScriptedModel, (model) => Effect.map(model.requestsOf("a"), (all) => all.length))

describe("interrupting a turn", () => {
  agentTest("S76 S369 while the model writes ends it with what was written", () => {
    const reached = moment()
    let modelInterrupted = false
    return {
      script: [[
        text("so far"),
        wait(reached.now),
        wait(Effect.onInterrupt(Effect.never, () => Effect.sync(() => void (modelInterrupted = true))))
      ], [text("next")]],
      body: Effect.gen(function*() {
        const agent = yield* create("a")
        const turn = yield* prompted(agent)
        yield* reached.passed
        yield* agent.interrupt("parent")
        const outcome = yield* Fiber.join(turn)
        assert.deepStrictEqual(outcome.cause, aborted("parent"))
        assert.strictEqual(outcome.text, "so far")
        assert.deepStrictEqual(outcome.output.map((part) => part.type === "text" && part.text), ["so far"])
        assert.isTrue(modelInterrupted)
        // a step reaches the log as a whole or not at all
        assert.deepStrictEqual(yield* tagsOf("a"), ["TurnStarted", "MessageAppended", "TurnEnded"])
        assert.deepStrictEqual(yield* causesOf("a"), [aborted("parent")])
        assert.strictEqual((yield* agent.prompt("go on")).text, "next")
      })
    }
  })

  agentTest("in a tool closes every dangling call and keeps finished results", () => {
    const reached = moment()
    let released = false
    return {
      script: [[call("fast", {}), call("slow", {}), call("failing", {})], [text("never asked for")]],
      with: [
        tool("fast", () => Effect.succeed("done")),
        tool("failing", () => Effect.fail("no")),
        tool("slow", () =>
          Effect.onInterrupt(
            Effect.andThen(settle, Effect.andThen(reached.now, Effect.never)),
            () => Effect.sync(() => void (released = true))
          ))
      ],
      body: Effect.gen(function*() {
        const agent = yield* create("a")
        const turn = yield* prompted(agent)
        yield* reached.passed
        yield* agent.interrupt("user")
        assert.deepStrictEqual((yield* Fiber.join(turn)).cause, aborted("user"))
        assert.isTrue(released)
        assert.deepStrictEqual(
          (yield* resultsOf("a")).map(({ isFailure, name, result }) => [name, isFailure, result]),
          [
            ["fast", false, "done"],
            ["slow", true, unknown],
            ["failing", true, { error: { code: "failed", message: "the tool \"failing\" failed: no" } }]
          ]
        )
        assert.strictEqual(yield* requests, 1)
        assert.deepStrictEqual(yield* tagsOf("a"), [
          "TurnStarted",
          "MessageAppended",
          "MessageAppended",
          "MessageAppended",
          "TurnEnded"
        ])
      })
    }
  })

  agentTest("in a tool logs what the tool wants its interrupted call to say, last wish first", () => {
    const reached = moment()
    const wish = (value: () => unknown) =>
      Effect.gen(function*() {
        const site = yield* AgentTools.CallSite
        site.onInterrupted("wish", () => "not this")
        site.onInterrupted("wish", value)
        yield* reached.now
        return yield* Effect.never
      })
    return {
      script: [[call("wish", {}, "wish"), call("throw", {}, "throw"), call("big", {}, "big")]],
      with: [
        tool("wish", () => wish(() => ({ child: "s1", at: new Date(0) }))),
        tool("throw", () =>
          Effect.andThen(AgentTools.CallSite, (site) => {
            site.onInterrupted("throw", () => {
              throw new Error("broken")
            })
            return Effect.never
          })),
        tool("big", () =>
          Effect.andThen(AgentTools.CallSite, (site) => {
            site.onInterrupted("big", () => 1n)
            return Effect.never
          }))
      ],
      body: Effect.gen(function*() {
        const agent = yield* create("a")
        const turn = yield* prompted(agent)
        yield* reached.passed
        yield* settle
        yield* agent.interrupt("user")
        assert.deepStrictEqual((yield* Fiber.join(turn)).cause, aborted("user"))
        assert.deepStrictEqual((yield* resultsOf("a")).map(({ result }) => result), [
          { child: "s1", at: "1970-01-01T00:00:00.000Z" },
          unknown,
          unknown
        ])
      })
    }
  })

  agentTest("S203 before a call began says so", () => {
    const reached = moment()
    return {
      script: [[call("last", {}), call("after", {})]],
      with: [
        tool("last", () => Effect.andThen(reached.now, Effect.never), { concludes: true }),
        tool("after", () => Effect.die("it was not to run"))
      ],
      body: Effect.gen(function*() {
        const agent = yield* create("a")
        const turn = yield* prompted(agent)
        yield* reached.passed
        yield* agent.interrupt("user")
        assert.deepStrictEqual((yield* Fiber.join(turn)).cause, aborted("user"))
        assert.deepStrictEqual((yield* resultsOf("a")).map(({ result }) => result), [
          unknown,
          interrupted("the turn was interrupted before the call began")
        ])
      })
    }
  })

  agentTest("a concluding result that is not recorded yet does not conclude, and does not look as if it had", () => {
    const reached = moment()
    return {
      script: [[call("slow", {}), call("last", {})]],
      with: [
        tool("slow", () => Effect.andThen(settle, Effect.andThen(reached.now, Effect.never))),
        tool("last", () => Effect.succeed("recorded"), { concludes: true })
      ],
      body: Effect.gen(function*() {
        const agent = yield* create("a")
        const turn = yield* prompted(agent)
        yield* reached.passed
        yield* agent.interrupt("user")
        assert.deepStrictEqual((yield* Fiber.join(turn)).cause, aborted("user"))
        assert.deepStrictEqual((yield* resultsOf("a")).map(({ name, result }) => [name, result]), [
          ["slow", unknown],
          ["last", unknown]
        ])
      })
    }
  })

  agentTest("between two steps asks the model no more", () => {
    let agent: Agent
    return {
      script: [[call("stop", {})], [text("never asked for")]],
      with: [
        // the call is over, its turn is not: what interrupts it goes first
        tool("stop", () => Effect.as(Effect.forkDetach(agent.interrupt("user"), { startImmediately: true }), "done"))
      ],
      body: Effect.gen(function*() {
        agent = yield* create("a")
        const outcome = yield* agent.prompt("go")
        assert.deepStrictEqual(outcome.cause, aborted("user"))
        assert.strictEqual(yield* requests, 1)
        yield* agent.idle
      })
    }
  })

  agentTest("S78 S388 while it is queued leaves no turn in the log", () => {
    const gate = moment()
    return {
      script: [[wait(gate.passed), text("first")], [text("never asked for")]],
      body: Effect.gen(function*() {
        const agent = yield* create("a")
        // the second turn is in place when the first one ends, and has not begun
        const first = yield* Effect.forkChild(
          Effect.tap(agent.prompt("first"), agent.interrupt("timeout")),
          { startImmediately: true }
        )
        const second = yield* prompted(agent, "second")
        yield* gate.now
        assert.deepStrictEqual((yield* Fiber.join(first)).cause, { _tag: "Completed" })
        const outcome = yield* Fiber.join(second)
        assert.deepStrictEqual(outcome.cause, aborted("timeout"))
        assert.isUndefined(outcome.turn)
        assert.strictEqual(outcome.text, "")
        yield* agent.idle
        assert.deepStrictEqual(yield* spoken("a"), ["user: first", "assistant: first"])
        assert.deepStrictEqual(yield* causesOf("a"), [{ _tag: "Completed" }])
      })
    }
  })

  agentTest("S200 the first cause counts", () => ({
    script: [[hang]],
    body: Effect.gen(function*() {
      const agent = yield* create("a")
      const turn = yield* prompted(agent)
      const slow = Effect.forEach(["timeout", "user", "parent"] as const, (cause) => agent.interrupt(cause), {
        concurrency: "unbounded"
      })
      yield* slow
      assert.deepStrictEqual((yield* Fiber.join(turn)).cause, aborted("timeout"))
      yield* agent.interrupt("user")
      assert.deepStrictEqual(yield* causesOf("a"), [aborted("timeout")])
    })
  }))

  agentTest("an agent may interrupt itself from a handler", () => {
    let agent: Agent
    let released = false
    return {
      script: [[call("quit", {})], [text("never asked for")]],
      with: [
        tool("quit", () => Effect.ensuring(agent.interrupt("user"), Effect.sync(() => void (released = true))))
      ],
      body: Effect.gen(function*() {
        agent = yield* create("a")
        const outcome = yield* agent.prompt("go")
        assert.deepStrictEqual(outcome.cause, aborted("user"))
        assert.isTrue(released)
        assert.deepStrictEqual(yield* agent.survivors, [])
        assert.deepStrictEqual((yield* resultsOf("a")).map(({ result }) => result), [unknown])
      })
    }
  })

  agentTest("a turn may be interrupted from within before anybody holds its fiber", () => {
    let agent: Agent
    return {
      script: [[wait(Effect.suspend(() => agent.interrupt("user"))), text("never said")]],
      body: Effect.gen(function*() {
        agent = yield* create("a")
        const outcome = yield* agent.prompt("go")
        assert.deepStrictEqual(outcome.cause, aborted("user"))
        assert.deepStrictEqual(yield* agent.survivors, [])
      })
    }
  })

  agentTest("giving up waiting for an interruption changes nothing", () => {
    const gate = Latch.makeUnsafe()
    const reached = moment()
    return {
      script: [[call("slow", {})]],
      with: [tool("slow", () => Effect.uninterruptible(Effect.andThen(reached.now, gate.await)))],
      body: Effect.gen(function*() {
        const agent = yield* create("a")
        const turn = yield* prompted(agent)
        yield* reached.passed
        const interrupting = yield* Effect.forkChild(agent.interrupt("user"), { startImmediately: true })
        yield* settle
        yield* Fiber.interrupt(interrupting)
        yield* gate.open
        assert.deepStrictEqual((yield* Fiber.join(turn)).cause, aborted("user"))
        assert.deepStrictEqual(yield* agent.survivors, [])
      })
    }
  })
})

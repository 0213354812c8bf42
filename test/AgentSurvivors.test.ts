import { assert, describe } from "@effect/vitest"
import { Deferred, Effect, Exit, Fiber, Latch, Scope } from "effect"
import { TestClock } from "effect/testing"
import type { Agent } from "../src/Agent.ts"
import { CurrentAgent } from "../src/CurrentAgent.ts"
import { call, text, wait } from "../src/testing/ScriptedModel.ts"
import { agentTest, causesOf, create, eventsOf, moment, resultsOf, settle, tool } from "./utils/agentTest.ts"
import { leakCheck } from "./utils/leaks.ts"

leakCheck()

const aborted = (cause: "disposed" | "parent" | "timeout" | "user") => ({ _tag: "Aborted", cause }) as const
const interrupted = (reason: string) => ({ type: "execution-interrupted", reason })
const unknown = interrupted("the turn was interrupted: the outcome is unknown")

/** Sends a message, and gives the fiber that waits for its turn. */
const prompted = (agent: Agent, content = "go") => Effect.forkChild(agent.prompt(content), { startImmediately: true })

describe("a turn that ignores its interruption", () => {
  const stubborn = () => {
    const gate = Latch.makeUnsafe()
    const reached = moment()
    const over = moment()
    return {
      gate,
      reached,
      over,
      layer: tool(
        "stubborn",
        () =>
          Effect.uninterruptible(Effect.andThen(reached.now, Effect.as(Effect.andThen(gate.await, over.now), "late")))
      )
    }
  }

  agentTest("S579 is given up after the grace, fenced and counted, and the agent goes on", () => {
    const { gate, layer, over, reached } = stubborn()
    return {
      script: ({ index }) => index === 0 ? [call("fast", {}), call("stubborn", {})] : [text("next")],
      options: { grace: "3 seconds" },
      with: [layer, tool("fast", () => Effect.succeed("done"))],
      body: Effect.gen(function*() {
        const agent = yield* create("a")
        const turn = yield* prompted(agent)
        yield* reached.passed
        yield* settle
        const interrupting = yield* Effect.forkChild(agent.interrupt("user"), { startImmediately: true })
        yield* TestClock.adjust("2999 millis")
        assert.isUndefined(interrupting.pollUnsafe())
        assert.strictEqual(yield* agent.status, "running")
        yield* TestClock.adjust("1 millis")
        yield* Fiber.join(interrupting)
        const outcome = yield* Fiber.join(turn)
        assert.deepStrictEqual(outcome.cause, aborted("user"))
        assert.deepStrictEqual(yield* agent.survivors, ["a turn of session a that ignored its interruption"])
        const before = yield* eventsOf("a")
        assert.deepStrictEqual((yield* resultsOf("a")).map(({ result }) => result), ["done", unknown])
        assert.deepStrictEqual(yield* causesOf("a"), [aborted("user")])
        // its late result is not in the log
        yield* gate.open
        yield* over.passed
        yield* settle
        assert.deepStrictEqual(yield* eventsOf("a"), before)
        assert.strictEqual((yield* agent.prompt("go on")).text, "next")
        assert.strictEqual((yield* agent.usage).steps, 2)
        assert.strictEqual((yield* agent.survivors).length, 1)
      })
    }
  })

  agentTest("is given up once, whoever else interrupts it or closes the agent", () => {
    const { gate, layer, reached } = stubborn()
    return {
      script: ({ index }) => index === 0 ? [call("stubborn", {})] : [text("next")],
      options: { grace: "3 seconds" },
      with: [layer],
      body: Effect.gen(function*() {
        const scope = yield* Scope.make()
        const agent = yield* Scope.provide(create("a"), scope)
        const turn = yield* prompted(agent)
        yield* reached.passed
        const all = yield* Effect.forEach(
          [agent.interrupt("user"), agent.interrupt("timeout"), Scope.close(scope, Exit.void)],
          (effect) => Effect.forkChild(effect, { startImmediately: true })
        )
        yield* TestClock.adjust("3 seconds")
        yield* Fiber.joinAll(all)
        assert.deepStrictEqual((yield* Fiber.join(turn)).cause, aborted("user"))
        assert.deepStrictEqual(yield* agent.survivors, ["a turn of session a that ignored its interruption"])
        assert.deepStrictEqual(yield* causesOf("a"), [aborted("user")])
        assert.strictEqual((yield* agent.usage).steps, 1)
        yield* gate.open
        yield* settle
        assert.strictEqual(yield* agent.status, "closed")
      })
    }
  })

  agentTest("keeps its hands off the turn that follows", () => {
    const { gate, layer, over, reached } = stubborn()
    const second = moment()
    return {
      script: ({ index }) => index === 0 ? [call("stubborn", {})] : [wait(second.passed), text("next")],
      options: { grace: "1 second" },
      with: [layer],
      body: Effect.gen(function*() {
        const agent = yield* create("a")
        yield* prompted(agent)
        yield* reached.passed
        const interrupting = yield* Effect.forkChild(agent.interrupt("user"), { startImmediately: true })
        yield* TestClock.adjust("1 second")
        yield* Fiber.join(interrupting)
        const turn = yield* prompted(agent, "again")
        yield* gate.open
        yield* over.passed
        yield* settle
        assert.strictEqual(yield* agent.status, "running")
        yield* second.now
        assert.strictEqual((yield* Fiber.join(turn)).text, "next")
        yield* agent.idle
      })
    }
  })

  agentTest("may start nothing more", () => {
    const ended = Deferred.makeUnsafe<unknown>()
    const { gate, layer, reached } = stubborn()
    return {
      script: [[call("stubborn", {}), call("watch", {})]],
      options: { grace: "1 second" },
      with: [
        layer,
        tool(
          "watch",
          () =>
            Effect.uninterruptible(Effect.andThen(CurrentAgent, ({ lifetime }) =>
              Effect.andThen(
                gate.await,
                Effect.suspend(() => Deferred.succeed(ended, lifetime.ended))
              )))
        )
      ],
      body: Effect.gen(function*() {
        const agent = yield* create("a")
        yield* prompted(agent)
        yield* reached.passed
        yield* settle
        const interrupting = yield* Effect.forkChild(agent.interrupt("user"), { startImmediately: true })
        yield* TestClock.adjust("1 second")
        yield* Fiber.join(interrupting)
        yield* gate.open
        assert.strictEqual(yield* Deferred.await(ended), "interrupted")
      })
    }
  })
})

import { assert, describe } from "@effect/vitest"
import { Effect, Fiber, Latch, Option } from "effect"
import { TestClock } from "effect/testing"
import { Agents } from "../src/Agent.ts"
import * as Spawn from "../src/providers/Spawn.ts"
import { call, text } from "../src/testing/ScriptedModel.ts"
import { agentTest, causesOf, create, moment, settle, tool } from "./utils/agentTest.ts"
import { leakCheck } from "./utils/leaks.ts"

leakCheck()

describe("graces of a tree", () => {
  const gate = Latch.makeUnsafe()
  const reached = moment()

  agentTest(
    "a turn whose child ignores its interruption waits for the child's grace, and is no survivor itself",
    () => ({
      script: ({ depth, index }) => {
        if (index > 0) return [text("done")]
        return depth === 0 ? [call("hand_over", {})] : [call("stubborn", {})]
      },
      options: { grace: "3 seconds" },
      with: [
        tool("stubborn", () => Effect.uninterruptible(Effect.andThen(reached.now, Effect.as(gate.await, "late")))),
        tool("hand_over", () =>
          Effect.flatMap(spawn, (client) =>
            client.delegate({ prompt: "be stubborn" }).pipe(
              Effect.map((result) => result.text),
              Effect.orDie
            )))
      ],
      body: Effect.gen(function*() {
        spawn = Effect.succeed(yield* Spawn.Spawn)
        const agents = yield* Agents
        const agent = yield* create("a")
        const turn = yield* Effect.forkChild(agent.prompt("go"), { startImmediately: true })
        yield* reached.passed
        yield* settle
        const child = (yield* agents.list).find((one) => one.header.parent === agent.id)
        assert.isDefined(child)
        const interrupting = yield* Effect.forkChild(agent.interrupt("user"), { startImmediately: true })
        // the child is given up after its own grace, which began with its parent's
        yield* TestClock.adjust("3 seconds")
        yield* settle
        yield* TestClock.adjust("2 seconds")
        yield* Fiber.join(interrupting)
        assert.deepStrictEqual((yield* Fiber.join(turn)).cause, { _tag: "Aborted", cause: "user" })
        assert.deepStrictEqual(yield* agent.survivors, [])
        assert.strictEqual((yield* child!.survivors).length, 1)
        assert.deepStrictEqual(yield* causesOf("a"), [{ _tag: "Aborted", cause: "user" }])
        assert.isTrue(Option.isSome(yield* agent.last))
        yield* gate.open
        yield* settle
      })
    })
  )
})

let spawn: Effect.Effect<typeof Spawn.Spawn.Service> = Effect.die("not set")

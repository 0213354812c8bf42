import { assert, describe } from "@effect/vitest"
import { Effect, Fiber, type Scope } from "effect"
import { TestClock } from "effect/testing"
import type { CurrentAgent } from "../src/CurrentAgent.ts"
import * as Subagent from "../src/Subagent.ts"
import { call, text } from "../src/testing/ScriptedModel.ts"
import { agentTest, causesOf, create, moment, settle, tool } from "./utils/agentTest.ts"
import { leakCheck } from "./utils/leaks.ts"
import { child, unable } from "./utils/seam.ts"

leakCheck()

class Slow extends Subagent.Provider<Slow>()("slow", unable) {}

describe("graces of a tree", () => {
  const reached = moment()
  let released = false
  let delegate: Effect.Effect<unknown, unknown, CurrentAgent> = Effect.die("set by the test")

  agentTest("a turn waits for what it delegated to be released, and is not given up before", () => ({
    script: ({ index }) => index === 0 ? [call("hand_over", {})] : [text("done")],
    options: { grace: "3 seconds" },
    with: [tool("hand_over", () => Effect.as(Effect.orDie(delegate), "done"))],
    body: Effect.gen(function*() {
      const slow = yield* Subagent.Subagents.use((subagents) =>
        subagents.register(Slow, {
          start: (): Effect.Effect<Subagent.ProviderRun<typeof unable>, never, Scope.Scope> =>
            Effect.addFinalizer(() => Effect.andThen(Effect.sleep("8 seconds"), Effect.sync(() => released = true)))
              .pipe(
                Effect.andThen(reached.now),
                Effect.as(child({ result: Effect.never }))
              )
        })
      )
      delegate = slow.delegate({ prompt: "take your time" })
      const agent = yield* create("a")
      const turn = yield* Effect.forkChild(agent.prompt("go"), { startImmediately: true })
      yield* reached.passed
      yield* settle
      const interrupting = yield* Effect.forkChild(agent.interrupt("user"), { startImmediately: true })
      // twice its own grace, and the release goes on, within the grace of a release
      yield* TestClock.adjust("7 seconds")
      yield* settle
      assert.isUndefined(interrupting.pollUnsafe())
      assert.isFalse(released)
      yield* TestClock.adjust("1 second")
      yield* settle
      yield* Fiber.join(interrupting)
      assert.isTrue(released)
      assert.deepStrictEqual((yield* Fiber.join(turn)).cause, { _tag: "Aborted", cause: "user" })
      assert.deepStrictEqual(yield* agent.survivors, [])
      assert.deepStrictEqual(yield* causesOf("a"), [{ _tag: "Aborted", cause: "user" }])
    })
  }))
})

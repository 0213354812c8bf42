import { assert, describe } from "@effect/vitest"
import { Effect, Exit, Fiber, Scope } from "effect"
import { Agents } from "../src/Agent.ts"
import { SessionStore } from "../src/SessionStore.ts"
import { text, wait } from "../src/testing/ScriptedModel.ts"
import { agentTest, create, held, moment, settle, spoken } from "./utils/agentTest.ts"
import { leakCheck } from "./utils/leaks.ts"

leakCheck()

const listed = Agents.use((agents) => Effect.map(agents.list, (all) => all.map(({ id }) => id as string)))

/** A store that is held up while it makes a session that is not the root's. */
const slowly = () => {
  const creating = moment()
  const created = moment()
  const store = (store: SessionStore["Service"]): SessionStore["Service"] => ({
    ...store,
    create: (header, seed) =>
      Effect.tap(
        store.create(header, seed),
        header.id === "root" ? Effect.void : Effect.andThen(creating.now, created.passed)
      )
  })
  return { creating, created, store }
}

describe("the life of an agent", () => {
  agentTest("S196 whoever gives up while it is made leaves none, and its session is nobody's", () => {
    const { created, creating, store } = slowly()
    return {
      store,
      script: [],
      body: Effect.gen(function*() {
        const making = yield* Effect.forkChild(Effect.scoped(Effect.andThen(create("a"), Effect.never)))
        yield* creating.passed
        const interrupting = yield* Effect.forkChild(Fiber.interrupt(making), { startImmediately: true })
        yield* settle
        yield* created.now
        yield* Fiber.join(interrupting)
        assert.deepStrictEqual(yield* listed, ["root"])
        // its lease was given back
        yield* Effect.scoped(SessionStore.use((store) => store.open("a")))
      })
    }
  })

  agentTest("S196 once it is there only its scope ends it", () => {
    const gate = moment()
    return {
      script: [[wait(gate.passed), text("done")]],
      body: Effect.gen(function*() {
        const scope = yield* Scope.make()
        // whoever made it is gone
        const maker = yield* Effect.forkChild(Effect.andThen(Scope.provide(create("a"), scope), Effect.never), {
          startImmediately: true
        })
        yield* settle
        yield* Fiber.interrupt(maker)
        assert.deepStrictEqual(yield* listed, ["root", "a"])
        const [, agent] = yield* Agents.use((agents) => agents.list)
        const turn = yield* Effect.forkChild(agent.prompt("go"), { startImmediately: true })
        yield* gate.now
        assert.strictEqual((yield* Fiber.join(turn)).text, "done")
        yield* Scope.close(scope, Exit.void)
        assert.deepStrictEqual(yield* listed, ["root"])
      })
    }
  })

  agentTest("S198 it is idle when all that was queued is answered and the last turn is flushed", () => {
    const { gate, reached, store } = held((call, { id }, nth) => call === "flush" && id === "a" && nth === 1)
    const first = moment()
    return {
      store,
      script: ({ index }) => index === 0 ? [wait(first.passed), text("one")] : [text("two")],
      body: Effect.gen(function*() {
        const agent = yield* create("a")
        assert.strictEqual(yield* agent.status, "idle")
        yield* agent.idle
        yield* agent.send("first")
        yield* agent.send("second")
        assert.strictEqual(yield* agent.status, "running")
        const idle = yield* Effect.forkChild(agent.idle, { startImmediately: true })
        yield* first.now
        yield* reached.passed
        yield* settle
        // both are answered, and the end of the second is not safe yet
        assert.deepStrictEqual((yield* spoken("a")).at(-1), "assistant: two")
        assert.isUndefined(idle.pollUnsafe())
        assert.strictEqual(yield* agent.status, "running")
        yield* gate.now
        yield* Fiber.join(idle)
        assert.strictEqual(yield* agent.status, "idle")
      })
    }
  })
})

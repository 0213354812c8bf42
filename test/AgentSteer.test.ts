import { assert, describe } from "@effect/vitest"
import { Effect, Exit, Fiber, Scope } from "effect"
import type { Agent } from "../src/Agent.ts"
import type * as Session from "../src/Session.ts"
import { call, finish, hang, ScriptedModel, text, wait } from "../src/testing/ScriptedModel.ts"
import { agentTest, create, eventsOf, held, moment, settle, spoken, tagsOf, textsOf, tool } from "./utils/agentTest.ts"
import { leakCheck } from "./utils/leaks.ts"

leakCheck()

const coordinator: Session.Source = { kind: "coordinator", senderId: "root" }

const steered = (agent: Agent, content: string) =>
  Effect.forkChild(agent.steer(content, coordinator), { startImmediately: true })

const requests = Effect.flatMap(ScriptedModel, (model) => model.requestsOf("a"))

const steeringIn = (id: string) =>
  Effect.map(tagsOf(id), (tags) => tags.filter((tag) => tag === "SteeringAdmitted").length)

describe("steering", () => {
  agentTest("S87 S88 S92 is admitted between two steps, with its source, and then acknowledged", () => {
    const reached = moment()
    const gate = moment()
    return {
      script: [[wait(reached.now), wait(gate.passed), call("t", {})], [text("done")]],
      with: [tool("t", () => Effect.succeed(1))],
      body: Effect.gen(function*() {
        const agent = yield* create("a")
        yield* agent.send("go")
        yield* reached.passed
        const first = yield* steered(agent, "and hurry")
        yield* settle
        // queued is not delivered
        assert.isUndefined(first.pollUnsafe())
        assert.strictEqual(yield* steeringIn("a"), 0)
        yield* gate.now
        yield* Fiber.join(first)
        yield* agent.idle
        assert.deepStrictEqual(yield* spoken("a"), [
          "user: go",
          "assistant calls t",
          "t gives 1",
          "steered user: and hurry",
          "assistant: done"
        ])
        const event = (yield* eventsOf("a")).find((event) => event._tag === "SteeringAdmitted")
        assert.deepStrictEqual(event?.source, coordinator)
        assert.strictEqual(event?.message.role, "user")
        const [, second] = yield* requests
        assert.deepStrictEqual(textsOf(second), ["user: go", "user: and hurry"])
        assert.notInclude(JSON.stringify(second.prompt), "coordinator")
      })
    }
  })

  agentTest("S88 is safe in the store before it is acknowledged, and acknowledged before the model is asked", () => {
    const { gate, reached, store } = held((call, { id }, nth) => call === "flush" && id === "a" && nth === 0)
    const acknowledged: Array<boolean> = []
    let admitted: Fiber.Fiber<void, unknown> | undefined
    const first = moment()
    return {
      store,
      script: ({ index }) =>
        index === 0
          ? [wait(first.passed), call("t", {})]
          : Effect.sync(() => {
            acknowledged.push(admitted?.pollUnsafe() !== undefined)
            return [text("done")]
          }),
      with: [tool("t", () => Effect.succeed(1))],
      body: Effect.gen(function*() {
        const agent = yield* create("a")
        yield* agent.send("go")
        admitted = yield* steered(agent, "and hurry")
        yield* first.now
        yield* reached.passed
        yield* settle
        assert.strictEqual(yield* steeringIn("a"), 1)
        assert.isUndefined(admitted.pollUnsafe())
        assert.strictEqual((yield* requests).length, 1)
        yield* gate.now
        yield* Fiber.join(admitted)
        yield* agent.idle
        assert.deepStrictEqual(acknowledged, [true])
      })
    }
  })

  agentTest("many at once keep their order and are one request", () => {
    const gate = moment()
    return {
      script: [[wait(gate.passed), text("first")], [text("done")]],
      body: Effect.gen(function*() {
        const agent = yield* create("a")
        yield* agent.send("go")
        const words = Array.from({ length: 20 }, (_, i) => `word ${i}`)
        const all = yield* Effect.forEach(words, (word) => steered(agent, word))
        yield* gate.now
        yield* Fiber.joinAll(all)
        yield* agent.idle
        assert.deepStrictEqual(yield* spoken("a"), [
          "user: go",
          "assistant: first",
          ...words.map((word) => `steered user: ${word}`),
          "assistant: done"
        ])
        assert.strictEqual((yield* requests).length, 2)
      })
    }
  })

  agentTest("S375 what is pending when the model has finished continues the turn", () => {
    const gate = moment()
    const reached = moment()
    return {
      script: [[text("first"), wait(reached.now), wait(gate.passed)], [text("second")]],
      body: Effect.gen(function*() {
        const agent = yield* create("a")
        const turn = yield* Effect.forkChild(agent.prompt("go"), { startImmediately: true })
        yield* reached.passed
        const one = yield* steered(agent, "one more thing")
        yield* settle
        assert.isUndefined(one.pollUnsafe())
        yield* gate.now
        yield* Fiber.join(one)
        const outcome = yield* Fiber.join(turn)
        assert.deepStrictEqual([outcome.turn, outcome.text], [0, "second"])
        assert.deepStrictEqual(textsOf((yield* requests)[1]), [
          "user: go",
          "assistant: first",
          "user: one more thing"
        ])
        assert.deepStrictEqual((yield* tagsOf("a")).filter((tag) => tag === "TurnStarted").length, 1)
      })
    }
  })

  for (const call of ["append", "flush"] as const) {
    const what = call === "append" ? "its end is being stored" : "it is flushed"
    agentTest(`S91 S376 a message that comes when the turn is over and ${what} opens the next turn`, () => {
      const { gate, reached, store } = held((one, { id }, nth) =>
        one === call && id === "a" && nth === { append: 2, flush: 0 }[call]
      )
      return {
        store,
        script: [[text("first")], [text("second")]],
        body: Effect.gen(function*() {
          const agent = yield* create("a")
          const turn = yield* Effect.forkChild(agent.prompt("go"), { startImmediately: true })
          yield* reached.passed
          const one = yield* steered(agent, "one more thing")
          yield* settle
          assert.isUndefined(one.pollUnsafe())
          yield* gate.now
          yield* Fiber.join(one)
          yield* agent.idle
          assert.strictEqual((yield* Fiber.join(turn)).text, "first")
          const last = yield* agent.last
          assert.deepStrictEqual(last._tag === "Some" && [last.value.turn, last.value.text], [1, "second"])
          // an ordinary message, with its source
          assert.strictEqual(yield* steeringIn("a"), 0)
          assert.deepStrictEqual(yield* spoken("a"), [
            "user: go",
            "assistant: first",
            "user: one more thing",
            "assistant: second"
          ])
          const sources = (yield* eventsOf("a")).flatMap((event) =>
            event._tag === "MessageAppended" && event.source !== undefined ? [event.source] : []
          )
          assert.deepStrictEqual(sources, [{ kind: "user" }, coordinator])
        })
      }
    })
  }

  agentTest("S91 a message that opens the next turn is as safe when it is acknowledged", () => {
    let flushes = 0
    const { gate, reached, store } = held((call, { id }) => call === "flush" && id === "a" && ++flushes <= 2)
    return {
      store,
      script: [[text("first")], [hang]],
      body: Effect.gen(function*() {
        const agent = yield* create("a")
        yield* agent.send("go")
        yield* reached.passed
        const one = yield* steered(agent, "one more thing")
        yield* gate.now
        yield* Fiber.join(one)
        // once for the end of the first turn, once for the message
        assert.strictEqual(flushes, 2)
        yield* agent.interrupt("user")
      })
    }
  })
})

describe("steering is rejected, and nothing of it is stored,", () => {
  /** Tries to steer and says why it cannot; there is no trace of it afterwards. */
  const rejected = Effect.fnUntraced(function*(agent: Agent, reason: string, fiber?: Fiber.Fiber<void, unknown>) {
    const exit = yield* Fiber.await(fiber ?? (yield* steered(agent, "too late")))
    const error = yield* Effect.flip(exit)
    assert.deepStrictEqual(
      [(error as { _tag: string })._tag, (error as { reason: string }).reason],
      ["SteerRejected", reason]
    )
    assert.include((error as Error).message, "the message was not delivered")
  })
  const untouched = Effect.fnUntraced(function*(asked: number) {
    assert.notInclude(JSON.stringify(yield* eventsOf("a")), "too late")
    assert.strictEqual((yield* requests).length, asked)
  })

  agentTest("S89 S90 S373 by an agent that has settled, or never had a turn", () => ({
    script: [[text("done")]],
    body: Effect.gen(function*() {
      const agent = yield* create("a")
      yield* rejected(agent, "settled")
      yield* agent.prompt("go")
      yield* rejected(agent, "settled")
      yield* settle
      yield* untouched(1)
    })
  }))

  agentTest("S89 by one that is closed", () => ({
    script: [[hang]],
    body: Effect.gen(function*() {
      const scope = yield* Scope.make()
      const agent = yield* Scope.provide(create("a"), scope)
      yield* agent.send("go")
      const pending = yield* steered(agent, "too late")
      yield* settle
      yield* Scope.close(scope, Exit.void)
      yield* rejected(agent, "disposed", pending)
      yield* rejected(agent, "disposed")
      yield* untouched(1)
    })
  }))

  agentTest("S89 S200 when the turn is cancelled", () => {
    const cleaning = moment()
    const gate = moment()
    return {
      script: [[wait(Effect.onInterrupt(Effect.never, () => Effect.andThen(cleaning.now, gate.passed)))]],
      body: Effect.gen(function*() {
        const agent = yield* create("a")
        yield* agent.send("go")
        const pending = yield* steered(agent, "too late")
        yield* settle
        const interrupting = yield* Effect.forkChild(agent.interrupt("user"), { startImmediately: true })
        yield* cleaning.passed
        yield* rejected(agent, "cancelled", pending)
        yield* rejected(agent, "cancelled")
        yield* gate.now
        yield* Fiber.join(interrupting)
        yield* untouched(1)
      })
    }
  })

  agentTest("S374 when a tool has concluded the turn", () => {
    const running = moment()
    const gate = moment()
    const { gate: flushed, reached, store } = held((call, { id }) => call === "flush" && id === "a")
    return {
      store,
      script: [[call("last", {})], [text("never asked for")]],
      with: [tool("last", () => Effect.andThen(running.now, gate.passed), { concludes: true })],
      body: Effect.gen(function*() {
        const agent = yield* create("a")
        yield* agent.send("go")
        yield* running.passed
        const pending = yield* steered(agent, "too late")
        yield* settle
        assert.isUndefined(pending.pollUnsafe())
        yield* gate.now
        yield* reached.passed
        yield* rejected(agent, "concluded", pending)
        // not even while the turn is flushed: it has said all that was asked for
        yield* rejected(agent, "concluded")
        yield* flushed.now
        yield* agent.idle
        yield* untouched(1)
      })
    }
  })

  for (
    const [name, reply] of [["cut off", [text("half"), finish("length")]], ["refused", [
      finish("content-filter")
    ]]] as const
  ) {
    agentTest(`S89 when the answer was ${name} while it waited`, () => {
      const gate = moment()
      return {
        script: [[wait(gate.passed), ...reply]],
        body: Effect.gen(function*() {
          const agent = yield* create("a")
          yield* agent.send("go")
          const pending = yield* steered(agent, "too late")
          yield* gate.now
          yield* rejected(agent, "settled", pending)
          yield* agent.idle
          yield* untouched(1)
        })
      }
    })
  }

  agentTest("S89 when the turn may make no more steps, and is complete without it", () => {
    const gate = moment()
    return {
      options: { maxSteps: 1 },
      script: [[wait(gate.passed), text("done")]],
      body: Effect.gen(function*() {
        const agent = yield* create("a")
        const turn = yield* Effect.forkChild(agent.prompt("go"), { startImmediately: true })
        const pending = yield* steered(agent, "too late")
        yield* gate.now
        yield* rejected(agent, "settled", pending)
        assert.deepStrictEqual((yield* Fiber.join(turn)).cause, { _tag: "Completed" })
        yield* untouched(1)
      })
    }
  })

  agentTest("when whoever sent it gave up waiting", () => {
    const gate = moment()
    return {
      script: [[wait(gate.passed), text("done")]],
      body: Effect.gen(function*() {
        const agent = yield* create("a")
        yield* agent.send("go")
        const pending = yield* steered(agent, "too late")
        yield* settle
        yield* Fiber.interrupt(pending)
        yield* gate.now
        yield* agent.idle
        yield* untouched(1)
      })
    }
  })

  agentTest("when whoever sent it after the turn's end gave up waiting", () => {
    const { gate, reached, store } = held((call, { id }) => call === "flush" && id === "a")
    return {
      store,
      script: [[text("done")]],
      body: Effect.gen(function*() {
        const agent = yield* create("a")
        yield* agent.send("go")
        yield* reached.passed
        const pending = yield* steered(agent, "too late")
        yield* settle
        yield* Fiber.interrupt(pending)
        yield* gate.now
        yield* agent.idle
        yield* untouched(1)
      })
    }
  })
})

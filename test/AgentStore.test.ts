import { assert, describe } from "@effect/vitest"
import { Effect, Exit, Fiber, Scope } from "effect"
import { TestClock } from "effect/testing"
import * as Spawn from "../src/providers/Spawn.ts"
import { LeaseLost, StoreFailed } from "../src/SessionStore.ts"
import { call, hang, ScriptedModel, text, wait } from "../src/testing/ScriptedModel.ts"
import {
  agentTest,
  causesOf,
  create,
  eventsOf,
  held,
  moment,
  settle,
  spoken,
  tagsOf,
  tool,
  wrapped
} from "./utils/agentTest.ts"
import { leakCheck } from "./utils/leaks.ts"

leakCheck()

/** Fails the n-th append to session `a`, and all after it, as stores do. */
const failing = (n: number, failure: () => Effect.Effect<never, StoreFailed | LeaseLost>) =>
  wrapped((log) => {
    let appends = 0
    const broken = Effect.suspend(() => appends > n ? failure() : Effect.void)
    return log.header.id !== "a" ? log : {
      header: log.header,
      append: (events) => Effect.andThen(Effect.sync(() => void appends++), Effect.andThen(broken, log.append(events))),
      flush: Effect.andThen(broken, log.flush)
    }
  })

const diskFull = () => Effect.fail(new StoreFailed({ operation: "append", what: "disk full" }))

/** A store whose appends take a few turns of the event loop. */
const slow = wrapped((log) => ({
  header: log.header,
  append: (events) => Effect.andThen(settle, Effect.andThen(log.append(events), settle)),
  flush: Effect.andThen(settle, log.flush)
}))

describe("a store that fails", () => {
  for (const n of [0, 1, 2, 3]) {
    agentTest(`at append ${n} fails the turn, and nothing hangs`, () => ({
      breaks: true,
      store: failing(n, diskFull),
      script: [[text("so"), call("t", {})], [text("done")]],
      with: [tool("t", () => Effect.succeed(1))],
      body: Effect.gen(function*() {
        const agent = yield* create("a")
        const outcome = yield* agent.prompt("go")
        assert.deepStrictEqual(outcome.cause, {
          _tag: "Failed",
          reason: "StoreFailed",
          retryable: false,
          diagnostic: "append failed: disk full"
        })
        assert.strictEqual(outcome.turn, n === 0 ? undefined : 0)
        assert.strictEqual(outcome.text, n === 0 ? "" : n === 3 ? "done" : "so")
        yield* agent.idle
        assert.strictEqual((yield* eventsOf("a")).length, [0, 2, 3, 4][n])
        assert.strictEqual((yield* (yield* ScriptedModel).requestsOf("a")).length, [0, 1, 1, 2][n])
        // so do the next ones
        assert.strictEqual((yield* agent.prompt("again")).cause._tag, "Failed")
        assert.strictEqual((yield* Effect.flip(agent.inject("note")))._tag, "StoreFailed")
        assert.strictEqual(yield* agent.status, "idle")
      })
    }))
  }

  agentTest("at the end of a turn changes nothing of its outcome", () => ({
    breaks: true,
    store: failing(2, diskFull),
    script: [[text("done")]],
    body: Effect.gen(function*() {
      const agent = yield* create("a")
      const outcome = yield* agent.prompt("go")
      assert.deepStrictEqual([outcome.cause._tag, outcome.text], ["Completed", "done"])
      assert.deepStrictEqual(yield* causesOf("a"), [])
    })
  }))

  agentTest("by dying fails the turn as well", () => ({
    breaks: true,
    store: failing(1, () => Effect.die(new Error("broken"))),
    script: [[text("done")]],
    body: Effect.gen(function*() {
      const agent = yield* create("a")
      const outcome = yield* agent.prompt("go")
      assert.strictEqual(outcome.cause._tag === "Failed" && outcome.cause.reason, "Defect")
      yield* agent.idle
    })
  }))

  for (const n of [0, 1]) {
    agentTest(`by throwing at append ${n} fails the turn as well`, () => ({
      breaks: true,
      store: wrapped((log) => {
        let appends = 0
        return log.header.id !== "a" ? log : {
          ...log,
          appendUnsafe: () => {
            if (appends++ < n) return Exit.void
            throw new Error("broken")
          }
        }
      }),
      script: [[text("done")]],
      body: Effect.gen(function*() {
        const agent = yield* create("a")
        const { cause, turn } = yield* agent.prompt("go")
        assert.strictEqual(cause._tag === "Failed" && cause.reason, "Defect")
        assert.strictEqual(turn, n === 0 ? undefined : 0)
        yield* agent.idle
      })
    }))
  }

  agentTest("because another writer took over fails the turn", () => ({
    breaks: true,
    store: failing(1, () => Effect.fail(new LeaseLost({ id: "a" }))),
    script: [[text("done")]],
    body: Effect.gen(function*() {
      const outcome = yield* (yield* create("a")).prompt("go")
      assert.strictEqual(outcome.cause._tag === "Failed" && outcome.cause.reason, "LeaseLost")
    })
  }))

  for (const [how, failure] of [["fails", diskFull], ["dies", () => Effect.die("broken")]] as const) {
    agentTest(`S99 S360 whose flush ${how} leaves a completed child completed, after one flush`, () => {
      let flushes = 0
      return {
        store: wrapped((log) => ({
          ...log,
          flush: Effect.suspend(() => {
            flushes++
            return failure()
          })
        })),
        script: [[text("done")]],
        body: Effect.gen(function*() {
          const result = yield* Spawn.delegate({ prompt: "go" })
          assert.deepStrictEqual([result._tag, result.text], ["Completed", "done"])
          assert.strictEqual(flushes, 1)
        })
      }
    })
  }

  agentTest("rejects what was steered and could not be stored", () => {
    const gate = moment()
    return {
      breaks: true,
      store: failing(2, diskFull),
      script: [[wait(gate.passed), text("first")], [text("never asked for")]],
      body: Effect.gen(function*() {
        const agent = yield* create("a")
        const turn = yield* Effect.forkChild(agent.prompt("go"), { startImmediately: true })
        const steering = yield* Effect.forkChild(Effect.flip(agent.steer("more", { kind: "user" })), {
          startImmediately: true
        })
        yield* gate.now
        assert.strictEqual((yield* Fiber.join(steering)).reason, "cancelled")
        assert.strictEqual((yield* Fiber.join(turn)).cause._tag, "Failed")
        assert.notInclude(JSON.stringify(yield* eventsOf("a")), "more")
      })
    }
  })
})

describe("a store that is slow", () => {
  agentTest("gets one event after the other, however many come at once", () => ({
    store: slow,
    script: () => [text("ok")],
    body: Effect.gen(function*() {
      const agent = yield* create("a")
      const notes = Array.from({ length: 8 }, (_, i) => agent.inject(`note ${i}`))
      yield* Effect.all([...notes, agent.send("go"), agent.inject("late"), agent.send("again")], {
        concurrency: "unbounded",
        discard: true
      })
      yield* agent.idle
      assert.deepStrictEqual(
        (yield* spoken("a")).filter((line) => line.startsWith("user: note")),
        notes.map((_, i) => `user: note ${i}`)
      )
      assert.strictEqual((yield* causesOf("a")).length, 2)
      assert.include(yield* spoken("a"), "user: late")
    })
  }))

  agentTest("and interrupted at any moment is left with a sound log", () => ({
    store: slow,
    script: ({ index }) => [text("so"), call("t", {}, `${index}`)],
    options: { maxSteps: 3 },
    with: [tool("t", () => Effect.as(Effect.yieldNow, 1))],
    body: Effect.gen(function*() {
      for (let steps = 0; steps < 700; steps += 23) {
        const agent = yield* create(`a${steps}`)
        yield* agent.send("go")
        for (let i = 0; i < steps; i++) yield* Effect.yieldNow
        yield* agent.interrupt("user")
        yield* agent.idle
        assert.deepStrictEqual(yield* agent.survivors, [])
        yield* agent.inject("note")
      }
    })
  }))
})

describe("a store that does not answer", () => {
  agentTest("S77 when it is flushed is given up, and what completed stays completed", () => {
    const { gate, reached, store } = held((call, { id }) => call === "flush" && id === "a")
    return {
      store,
      options: { grace: "3 seconds" },
      script: [[text("done")], [text("next")]],
      body: Effect.gen(function*() {
        const agent = yield* create("a")
        const turn = yield* Effect.forkChild(agent.prompt("go"), { startImmediately: true })
        yield* reached.passed
        const interrupting = yield* Effect.forkChild(agent.interrupt("user"), { startImmediately: true })
        yield* TestClock.adjust("3 seconds")
        yield* Fiber.join(interrupting)
        assert.deepStrictEqual((yield* Fiber.join(turn)).cause, { _tag: "Completed" })
        assert.deepStrictEqual(yield* agent.survivors, ["a turn of session a whose end could not be stored"])
        assert.deepStrictEqual(yield* causesOf("a"), [{ _tag: "Completed" }])
        yield* gate.now
        yield* settle
        assert.strictEqual((yield* agent.prompt("go on")).text, "next")
      })
    }
  })

  for (const [n, where] of [[0, "opens"], [1, "answers"], [2, "ends"]] as const) {
    agentTest(`when a turn ${where} is given up within the grace and a second, and the log stays sound`, () => {
      const { gate, reached, store } = held((call, { id }, nth) => call === "append" && id === "a" && nth === n)
      return {
        store,
        options: { grace: "3 seconds" },
        script: () => [text("done")],
        body: Effect.gen(function*() {
          const agent = yield* create("a")
          const turn = yield* Effect.forkChild(agent.prompt("go"), { startImmediately: true })
          yield* reached.passed
          const interrupting = yield* Effect.forkChild(agent.interrupt("user"), { startImmediately: true })
          yield* TestClock.adjust("3 seconds")
          assert.isUndefined(interrupting.pollUnsafe())
          yield* TestClock.adjust("1 second")
          yield* Fiber.join(interrupting)
          const { cause } = yield* Fiber.join(turn)
          // how it ended was settled before its end was to be stored
          assert.deepStrictEqual(cause, n === 2 ? { _tag: "Completed" } : { _tag: "Aborted", cause: "user" })
          assert.strictEqual((yield* agent.survivors).length, 1)
          // the next message finds the log where the store left it
          yield* agent.send("go on")
          yield* gate.now
          yield* agent.idle
          assert.deepStrictEqual(yield* causesOf("a"), [cause, { _tag: "Completed" }])
          assert.deepStrictEqual((yield* spoken("a")).slice(-2), ["user: go on", "assistant: done"])
        })
      }
    })
  }

  agentTest("cannot hold up a closing agent either", () => {
    const { gate, reached, store } = held((call, { id }) => call === "append" && id === "a")
    return {
      store,
      breaks: true,
      options: { grace: "3 seconds" },
      script: [[text("done")]],
      body: Effect.gen(function*() {
        const scope = yield* Scope.make()
        const agent = yield* Scope.provide(create("a"), scope)
        yield* agent.send("go")
        yield* reached.passed
        const closing = yield* Effect.forkChild(Scope.close(scope, Exit.void), { startImmediately: true })
        yield* TestClock.adjust("4 seconds")
        yield* Fiber.join(closing)
        assert.strictEqual(yield* agent.status, "closed")
        // its lease is gone, and with it every late write
        yield* gate.now
        yield* settle
        assert.deepStrictEqual(yield* eventsOf("a"), [])
      })
    }
  })

  agentTest("delays the flush of a closing agent, which waits for it", () => {
    const { gate, reached, store } = held((call, { id }) => call === "flush" && id === "a")
    return {
      store,
      script: [[text("done")]],
      body: Effect.gen(function*() {
        const scope = yield* Scope.make()
        const agent = yield* Scope.provide(create("a"), scope)
        const turn = yield* Effect.forkChild(agent.prompt("go"), { startImmediately: true })
        yield* reached.passed
        const closing = yield* Effect.forkChild(Scope.close(scope, Exit.void), { startImmediately: true })
        yield* settle
        assert.isUndefined(closing.pollUnsafe())
        yield* gate.now
        yield* Fiber.join(closing)
        assert.deepStrictEqual((yield* Fiber.join(turn)).cause, { _tag: "Completed" })
        assert.deepStrictEqual(yield* agent.survivors, [])
      })
    }
  })

  agentTest("does not lose what is injected while a turn opens that never does", () => {
    const { gate, reached, store } = held((call, { id }, nth) => call === "append" && id === "a" && nth === 0)
    return {
      store,
      script: [[hang]],
      body: Effect.gen(function*() {
        const agent = yield* create("a")
        yield* agent.send("go")
        yield* reached.passed
        yield* agent.inject("note")
        const interrupting = yield* Effect.forkChild(agent.interrupt("user"), { startImmediately: true })
        yield* settle
        yield* gate.now
        yield* Fiber.join(interrupting)
        assert.deepStrictEqual(yield* tagsOf("a"), ["TurnStarted", "MessageAppended", "TurnEnded", "MessageAppended"])
        assert.deepStrictEqual(yield* spoken("a"), ["user: go", "user: note"])
        assert.strictEqual((yield* (yield* ScriptedModel).requestsOf("a")).length, 0)
      })
    }
  })
})

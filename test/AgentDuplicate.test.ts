import { assert, describe } from "@effect/vitest"
import { Effect, Fiber, Option, Random } from "effect"
import { TestClock } from "effect/testing"
import { type Agent, Agents, type Delivery } from "../src/Agent.ts"
import type * as Session from "../src/Session.ts"
import { StoreFailed } from "../src/SessionStore.ts"
import { hang, ScriptedModel, text, wait } from "../src/testing/ScriptedModel.ts"
import { agentTest, create, eventsOf, held, moment, settle, spoken, wrapped } from "./utils/agentTest.ts"
import { leakCheck } from "./utils/leaks.ts"
import { answered, ended, said, started, steered } from "./utils/sessionEvents.ts"

leakCheck()

/** Every way to give an agent a message under this id is refused, and nothing comes of it. */
const refused = Effect.fnUntraced(function*(agent: Agent, messageId: string) {
  const before = yield* eventsOf(agent.id)
  const options: Delivery = { messageId }
  for (
    const attempt of [
      agent.send("again", options),
      agent.prompt("again", options),
      agent.inject("again", options),
      agent.send("again", { ...options, later: true })
    ]
  ) {
    const error = yield* Effect.flip(attempt)
    assert.deepInclude(error, { _tag: "DuplicateMessage", sessionId: agent.id, messageId })
  }
  assert.deepStrictEqual(yield* eventsOf(agent.id), before)
})

const idsOf = (id: string) =>
  Effect.map(
    eventsOf(id),
    (events) =>
      events.flatMap((event) =>
        (event._tag === "MessageAppended" || event._tag === "SteeringAdmitted") && event.messageId !== undefined
          ? [event.messageId]
          : []
      )
  )

const asked = Effect.flatMap(ScriptedModel, (model) => Effect.map(model.requestsOf("a"), (all) => all.length))

describe("a message under an id that the session knows is refused", () => {
  agentTest("while it opens a turn, waits, is injected, and when it is stored", () => {
    const gate = moment()
    return {
      script: ({ index }) => index === 0 ? [wait(gate.passed), text("done")] : [text("done")],
      body: Effect.gen(function*() {
        const agent = yield* create("a")
        yield* agent.send("one", { messageId: "1" })
        yield* agent.send("two", { messageId: "2" })
        const third = yield* Effect.forkChild(agent.prompt("three", { messageId: "3" }), { startImmediately: true })
        yield* settle
        yield* agent.inject("note", { messageId: "n" })
        for (const id of ["1", "2", "3", "n"]) yield* refused(agent, id)
        yield* gate.now
        yield* Fiber.join(third)
        yield* agent.idle
        yield* agent.inject("note", { messageId: "o" })
        for (const id of ["1", "2", "3", "n", "o"]) yield* refused(agent, id)
        assert.sameMembers(yield* idsOf("a"), ["1", "2", "3", "n", "o"])
        assert.strictEqual(yield* asked, 3)
        assert.strictEqual(yield* agent.status, "idle")
      })
    }
  })

  agentTest("before it is sent for the first time to a log that had it", () => ({
    script: () => [text("done")],
    body: Effect.gen(function*() {
      const agents = yield* Agents
      yield* Effect.scoped(Effect.gen(function*() {
        const agent = yield* create("a", {
          seed: [
            started(0, 0),
            { ...said(1, "hi"), messageId: "seed" } as Session.KnownEvent,
            answered(2, "hello"),
            ended(3, 0)
          ]
        })
        yield* refused(agent, "seed")
        yield* agent.prompt("go", { messageId: "1" })
        yield* agent.prompt("go")
      }))
      const agent = yield* agents.open("a")
      const ids = yield* idsOf("a")
      assert.strictEqual(ids.length, 3)
      // those that were made up, too
      for (const id of ids) yield* refused(agent, id)
      const other = yield* create("b", { seed: [started(0, 0), steered(1, "hurry", "s1"), ended(2, 0)] })
      yield* refused(other, "s1")
    })
  }))

  for (const [n, operation] of [[0, "inject"], [0, "send"]] as const) {
    agentTest(`while a slow store takes what ${operation} gave it`, () => {
      const { gate, reached, store } = held((call, { id }, nth) => call === "append" && id === "a" && nth === n)
      return {
        store,
        script: () => [text("done")],
        body: Effect.gen(function*() {
          const agent = yield* create("a")
          const first = yield* Effect.forkChild(
            operation === "inject" ? agent.inject("one", { messageId: "1" }) : agent.send("one", { messageId: "1" }),
            { startImmediately: true }
          )
          yield* reached.passed
          yield* refused(agent, "1")
          yield* gate.now
          yield* Fiber.join(first)
          yield* agent.idle
          yield* refused(agent, "1")
          assert.deepStrictEqual(yield* idsOf("a"), ["1"])
        })
      }
    })
  }

  agentTest("when its turn was given up while the store took it", () => {
    const { gate, reached, store } = held((call, { id }, nth) => call === "append" && id === "a" && nth === 0)
    return {
      store,
      options: { grace: 0 },
      script: () => [text("done")],
      body: Effect.gen(function*() {
        const agent = yield* create("a")
        yield* agent.send("one", { messageId: "1" })
        yield* reached.passed
        yield* agent.interrupt("user").pipe(Effect.forkChild({ startImmediately: true }))
        yield* settle
        yield* refused(agent, "1")
        yield* TestClock.adjust("1 second")
        assert.strictEqual(yield* agent.status, "idle")
        yield* refused(agent, "1")
        yield* gate.now
        yield* settle
        yield* refused(agent, "1")
        assert.deepStrictEqual(yield* idsOf("a"), ["1"])
      })
    }
  })

  agentTest("but not by a closed agent, which takes none", () => ({
    script: () => [text("done")],
    body: Effect.gen(function*() {
      const agent = yield* Effect.scoped(Effect.tap(create("a"), (agent) => agent.prompt("go", { messageId: "1" })))
      assert.strictEqual((yield* Effect.flip(agent.send("go", { messageId: "1" })))._tag, "AgentClosed")
    })
  }))
})

describe("a message that was not stored may be sent again", () => {
  agentTest("when an interrupt dropped it while it waited", () => ({
    script: ({ index }) => index === 0 ? [hang] : [text("done")],
    body: Effect.gen(function*() {
      const agent = yield* create("a")
      yield* agent.send("one", { messageId: "1" })
      yield* agent.send("two", { messageId: "2" })
      const third = yield* Effect.forkChild(agent.prompt("three", { messageId: "3" }), { startImmediately: true })
      yield* agent.interrupt("user")
      assert.strictEqual((yield* Fiber.join(third)).turn, undefined)
      yield* refused(agent, "1")
      yield* agent.send("three", { messageId: "3" })
      assert.strictEqual((yield* agent.prompt("two", { messageId: "2" })).turn, 2)
      assert.deepStrictEqual(yield* idsOf("a"), ["1", "3", "2"])
    })
  }))

  agentTest("S78 when its turn was cancelled before it began", () => ({
    script: () => [text("done")],
    body: Effect.gen(function*() {
      const agent = yield* create("a")
      yield* agent.send("one", { messageId: "1", later: true })
      yield* agent.interrupt("user")
      assert.strictEqual(Option.getOrThrow(yield* agent.last).turn, undefined)
      assert.strictEqual((yield* agent.prompt("one", { messageId: "1" })).turn, 0)
      assert.deepStrictEqual(yield* spoken("a"), ["user: one", "assistant: done"])
    })
  }))

  agentTest("when the store refused it", () => ({
    breaks: true,
    store: wrapped((log) => ({
      header: log.header,
      append: () => Effect.fail(new StoreFailed({ operation: "append", what: "disk full" })),
      flush: log.flush
    })),
    script: [],
    body: Effect.gen(function*() {
      const agent = yield* create("a")
      for (let i = 0; i < 2; i++) {
        assert.strictEqual((yield* Effect.flip(agent.inject("one", { messageId: "1" })))._tag, "StoreFailed")
        const { cause } = yield* agent.prompt("one", { messageId: "1" })
        assert.strictEqual(cause._tag === "Failed" && cause.reason, "StoreFailed")
      }
    })
  }))
})

describe("an id that the library makes up", () => {
  agentTest("is new to the session, also where chance repeats itself", () => ({
    script: () => [text("done")],
    body: Effect.gen(function*() {
      const agents = yield* Agents
      const session = (agent: Agent) =>
        Effect.andThen(agent.prompt("go"), Effect.andThen(agent.inject("note"), agent.prompt("go on")))
      const run = (n: number) =>
        Effect.scoped(Effect.gen(function*() {
          yield* session(n === 0 ? yield* create("a") : yield* agents.open("a"))
        })).pipe(Random.withSeed("same"))
      for (let n = 0; n < 3; n++) yield* run(n)
      assert.strictEqual(new Set(yield* idsOf("a")).size, 9)
    })
  }))
})

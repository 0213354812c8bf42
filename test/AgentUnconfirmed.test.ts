import { assert, describe } from "@effect/vitest"
import { Effect, Exit, Fiber, Scope } from "effect"
import { TestClock } from "effect/testing"
import type { Agent } from "../src/Agent.ts"
import { type SessionLog, StoreFailed } from "../src/SessionStore.ts"
import { ScriptedModel, text, wait } from "../src/testing/ScriptedModel.ts"
import { agentTest, causesOf, create, eventsOf, held, moment, settle, spoken, wrapped } from "./utils/agentTest.ts"
import { leakCheck } from "./utils/leaks.ts"

leakCheck()

const steered = (agent: Agent, content: string) =>
  Effect.forkChild(Effect.flip(agent.steer(content, { kind: "user" })), { startImmediately: true })

const asked = Effect.flatMap(ScriptedModel, (model) => Effect.map(model.requestsOf("a"), (all) => all.length))

/** A store whose flushes of session `a` fail from the n-th on. */
const unflushable = (n: number, failure: Effect.Effect<never, StoreFailed>) => {
  let flushes = 0
  return wrapped((log): SessionLog =>
    log.header.id !== "a" ? log : {
      header: log.header,
      append: log.append,
      flush: Effect.suspend(() => flushes++ < n ? log.flush : failure)
    }
  )
}

describe("steering that was written, and of which the store cannot say that it is safe,", () => {
  for (
    const [how, failure, reason] of [
      ["fails", Effect.fail(new StoreFailed({ operation: "flush", what: "disk gone" })), "StoreFailed"],
      ["dies", Effect.die(new Error("broken")), "Defect"]
    ] as const
  ) {
    agentTest(`S88 S89 is not said to be delivered, nor not to be, when the flush ${how}`, () => {
      const gate = moment()
      return {
        store: unflushable(0, failure),
        script: [[wait(gate.passed), text("first")], [text("never asked for")]],
        body: Effect.gen(function*() {
          const agent = yield* create("a")
          const turn = yield* Effect.forkChild(agent.prompt("go"), { startImmediately: true })
          const all = [yield* steered(agent, "one"), yield* steered(agent, "two")]
          yield* gate.now
          for (const error of yield* Fiber.joinAll(all)) {
            assert.deepStrictEqual([error._tag, error.reason], ["SteerRejected", "unconfirmed"])
            assert.notInclude(error.message, "not delivered")
          }
          const { cause } = yield* Fiber.join(turn)
          assert.strictEqual(cause._tag === "Failed" && cause.reason, reason)
          assert.includeMembers(yield* spoken("a"), ["steered user: one", "steered user: two"])
          assert.strictEqual(yield* asked, 1)
        })
      }
    })

    agentTest(`S91 and that opens the next turn, when the flush ${how}`, () => {
      const { gate, reached, store } = held((call, { id }, nth) => call === "append" && id === "a" && nth === 2)
      const broken = unflushable(1, failure)
      return {
        store: (inner) => broken(store(inner)),
        script: [[text("first")], [text("never asked for")]],
        body: Effect.gen(function*() {
          const agent = yield* create("a")
          yield* agent.send("go")
          yield* reached.passed
          const one = yield* steered(agent, "one")
          yield* gate.now
          assert.strictEqual((yield* Fiber.join(one)).reason, "unconfirmed")
          yield* agent.idle
          assert.deepStrictEqual(yield* spoken("a"), ["user: go", "assistant: first", "user: one"])
          assert.strictEqual((yield* causesOf("a"))[1]._tag, "Failed")
          assert.strictEqual(yield* asked, 1)
        })
      }
    })
  }

  for (const call of ["append", "flush"] as const) {
    for (const end of ["interrupted", "closed"] as const) {
      agentTest(`when its ${call} does not return until the turn is given up, ${end}`, () => {
        const gate = moment()
        const { gate: answer, reached, store } = held((one, { id }, nth) =>
          one === call && id === "a" && nth === { append: 2, flush: 0 }[call]
        )
        return {
          store,
          breaks: true,
          options: { grace: "1 second" },
          script: [[wait(gate.passed), text("first")], [text("never asked for")]],
          body: Effect.gen(function*() {
            const scope = yield* Scope.make()
            const agent = yield* Scope.provide(create("a"), scope)
            yield* agent.send("go")
            const one = yield* steered(agent, "one")
            yield* gate.now
            yield* reached.passed
            const ending = yield* Effect.forkChild(
              end === "closed" ? Scope.close(scope, Exit.void) : agent.interrupt("user"),
              { startImmediately: true }
            )
            yield* TestClock.adjust("2 seconds")
            yield* Fiber.join(ending)
            assert.strictEqual((yield* Fiber.join(one)).reason, "unconfirmed")
            yield* answer.now
            yield* settle
            yield* Scope.close(scope, Exit.void)
            // it may be there, and where it was accepted before, it is
            const stored = JSON.stringify(yield* eventsOf("a")).includes("\"one\"")
            assert.strictEqual(stored, call === "flush" || end === "interrupted")
          })
        }
      })
    }
  }
})

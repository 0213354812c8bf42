import { assert, describe } from "@effect/vitest"
import { Context, Effect, Exit, Fiber, Option, Schema, SchemaGetter, Scope } from "effect"
import { Agents } from "../../src/Agent.ts"
import * as inProcess from "../../src/providers/internal/inProcess.ts"
import * as Spawn from "../../src/providers/Spawn.ts"
import { StoreFailed } from "../../src/SessionStore.ts"
import * as Subagent from "../../src/Subagent.ts"
import { call, ScriptedModel, text, wait } from "../../src/testing/ScriptedModel.ts"
import { agentOf, agentTest, moment, resultsOf, settle, textsOf, tool, wrapped } from "../utils/agentTest.ts"
import { leakCheck } from "../utils/leaks.ts"

leakCheck()

const Count = Schema.Struct({ n: Schema.Int })
const Name = Schema.Struct({ name: Schema.String })

const answer = (params: unknown, id?: string) => call("structured_output", params, id)

const structuredOf = <A>(result: Subagent.Result<A>): A => {
  if (result._tag !== "Completed") return assert.fail(`the result is ${JSON.stringify(result)}`)
  return result.structured
}

describe("structured runs", () => {
  agentTest("S183 S427 two at once each have their own schema", () => {
    const gate = moment()
    return {
      script: ({ prompt }) => [
        wait(gate.passed),
        answer(textsOf({ prompt } as never).includes("user: count") ? { n: 1 } : { name: "one" })
      ],
      body: Effect.gen(function*() {
        const count = yield* Spawn.start({ prompt: "count", outputSchema: Count })
        const name = yield* Spawn.start({ prompt: "name", outputSchema: Name })
        const again = yield* Spawn.start({ prompt: "count", outputSchema: Count })
        yield* gate.now
        assert.deepStrictEqual(structuredOf(yield* count.result), { n: 1 })
        assert.deepStrictEqual(structuredOf(yield* name.result), { name: "one" })
        assert.deepStrictEqual(structuredOf(yield* again.result), { n: 1 })
      })
    }
  })

  agentTest("S183 an answer that fits another one's schema is wrong here", () => ({
    script: ({ index }) => index === 0 ? [answer({ name: "one" })] : [answer({ n: 2 }, "second")],
    body: Effect.gen(function*() {
      const run = yield* Spawn.start({ prompt: "count", outputSchema: Count })
      assert.deepStrictEqual(structuredOf(yield* run.result), { n: 2 })
      assert.deepStrictEqual((yield* resultsOf(run.id)).map(({ isFailure }) => isFailure), [true, false])
    })
  }))

  agentTest("S193 S429 a capture outlives its provider's layer, and ends with its child", () => {
    const gate = moment()
    return {
      script: [[wait(gate.passed), answer({ n: 1 })]],
      body: Effect.gen(function*() {
        class Other extends Subagent.Provider<Other>()("other", inProcess.capabilities) {}
        const agents = yield* Agents
        const scope = yield* Scope.make()
        const subagents = yield* Subagent.Subagents
        const other = yield* Scope.provide(
          subagents.register(Other, { start: (request) => inProcess.start(agents, "other", request) }),
          scope
        )
        const run = yield* other.start({ prompt: "count", outputSchema: Count })
        yield* Scope.close(scope, Exit.void)
        yield* gate.now
        assert.deepStrictEqual(structuredOf(yield* run.result), { n: 1 })
        assert.isTrue(Option.isNone(yield* agents.get(run.id)))
      })
    }
  })

  agentTest("a schema may need services, and time", () => {
    class Known extends Context.Service<Known, ReadonlyArray<string>>()("test/Known") {}
    const KnownName = Schema.Struct({
      name: Schema.String.pipe(Schema.decode({
        decode: SchemaGetter.checkEffect((name: string) =>
          Effect.andThen(
            Effect.yieldNow,
            Effect.map(Known, (known) => known.includes(name) ? undefined : `nobody knows ${name}`)
          )
        ),
        encode: SchemaGetter.passthrough()
      }))
    })
    return {
      script: [[answer({ name: "Bob" }, "1")], [answer({ name: "Ann" }, "2")]],
      body: Effect.gen(function*() {
        const run = yield* Spawn.start({ prompt: "who", outputSchema: KnownName })
        assert.deepStrictEqual(structuredOf(yield* run.result), { name: "Ann" })
        const [first] = yield* resultsOf(run.id)
        assert.include(JSON.stringify(first.result), "nobody knows Bob")
      }).pipe(Effect.provideService(Known, ["Ann"]))
    }
  })

  agentTest("a schema that dies is a failed call, and no captured value", () => {
    const Deadly = Schema.Struct({
      name: Schema.String.pipe(Schema.decode({
        decode: SchemaGetter.transform((name: string): string => {
          if (name === "die") throw new Error("broken")
          return name
        }),
        encode: SchemaGetter.passthrough()
      }))
    })
    return {
      script: [[answer({ name: "die" }, "1")], [answer({ name: "live" }, "2")]],
      body: Effect.gen(function*() {
        const run = yield* Spawn.start({ prompt: "who", outputSchema: Deadly })
        assert.deepStrictEqual(structuredOf(yield* run.result), { name: "live" })
        assert.deepStrictEqual((yield* resultsOf(run.id)).map(({ isFailure }) => isFailure), [true, false])
      })
    }
  })

  for (
    const [what, second, expected] of [
      ["a later wrong call of the same id", [answer({}, "x")], "Failed"],
      ["a later right call of the same id, but for what that says", [answer({ n: 2 }, "x")], 2],
      ["later words", [text("I said it already")], "Failed"]
    ] as const
  ) {
    agentTest(`S187 S431 a value that did not count is not brought back by ${what}`, () => {
      const reached = moment()
      const gate = moment()
      return {
        script: ({ index }) =>
          index === 0 ? [call("slow", {}), answer({ n: 1 }, "x")] : index === 1 ? [...second] : [text("no more")],
        with: [
          tool("slow", () =>
            Effect.onInterrupt(
              Effect.andThen(settle, Effect.andThen(reached.now, Effect.never)),
              () => gate.passed
            ))
        ],
        body: Effect.gen(function*() {
          const run = yield* Spawn.start({ prompt: "count", outputSchema: Count })
          yield* reached.passed
          const agent = yield* agentOf(run.id)
          const interrupting = yield* Effect.forkChild(agent.interrupt("user"), { startImmediately: true })
          yield* agent.send("go on")
          yield* gate.now
          yield* Fiber.join(interrupting)
          const result = yield* run.result
          if (expected === "Failed") assert.strictEqual(result._tag === "Failed" && result.reason, "NoStructuredOutput")
          else assert.deepStrictEqual(structuredOf(result), { n: expected })
        })
      }
    })
  }

  agentTest("S186 S419 a value whose result cannot be stored does not count", () => ({
    breaks: true,
    store: wrapped((log) => ({
      header: log.header,
      append: (events) =>
        events.some((event) => event._tag === "MessageAppended" && event.message.role === "tool")
          ? Effect.fail(new StoreFailed({ operation: "append", what: "disk full" }))
          : log.append(events),
      flush: log.flush
    })),
    script: () => [answer({ n: 1 })],
    body: Effect.gen(function*() {
      const result = yield* Spawn.delegate({ prompt: "count", outputSchema: Count })
      assert.strictEqual(result._tag === "Failed" && result.reason, "StoreFailed")
    })
  }))

  agentTest("a child that is asked again owes its value again: the last one counts", () => {
    const gate = moment()
    return {
      script: ({ index }) => index === 0 ? [wait(gate.passed), answer({ n: 1 })] : [answer({ n: 2 })],
      body: Effect.gen(function*() {
        const run = yield* Spawn.start({ prompt: "count", outputSchema: Count })
        yield* (yield* agentOf(run.id)).send("count again")
        yield* gate.now
        assert.deepStrictEqual(structuredOf(yield* run.result), { n: 2 })
        assert.strictEqual((yield* (yield* ScriptedModel).requestsOf(run.id)).length, 2)
      })
    }
  })

  agentTest("S414 what is steered in while the child only writes comes before the reminder", () => {
    const gate = moment()
    return {
      script: ({ index }) => index === 0 ? [wait(gate.passed), text("fine")] : [answer({ n: index })],
      body: Effect.gen(function*() {
        const run = yield* Spawn.start({ prompt: "count", outputSchema: Count })
        yield* Effect.yieldNow
        const steering = yield* Effect.forkChild(run.steer("with care", { kind: "user" }), { startImmediately: true })
        yield* gate.now
        yield* Fiber.join(steering)
        assert.deepStrictEqual(structuredOf(yield* run.result), { n: 1 })
        const [, second] = yield* (yield* ScriptedModel).requestsOf(run.id)
        assert.strictEqual(second.toolChoice, "auto")
        assert.deepStrictEqual(textsOf(second).slice(-3), ["user: count", "assistant: fine", "user: with care"])
      })
    }
  })
})

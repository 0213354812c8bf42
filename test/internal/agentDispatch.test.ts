import { assert, describe } from "@effect/vitest"
import { Cause, Effect, Fiber, Latch, Logger, Schema, Stream } from "effect"
import type { Progress } from "../../src/Agent.ts"
import { call, ScriptedModel, text } from "../../src/testing/ScriptedModel.ts"
import { agentTest, create, moment, resultsOf, settle, spoken, tool } from "../utils/agentTest.ts"
import { leakCheck } from "../utils/leaks.ts"

leakCheck()

const Params = Schema.Struct({ n: Schema.Number })

/** Runs a turn that ends with "done", and gives what the model was told of its calls. */
const told = Effect.fnUntraced(function*() {
  const agent = yield* create("a")
  const outcome = yield* agent.prompt("go")
  assert.deepStrictEqual(outcome.cause, { _tag: "Completed" })
  assert.strictEqual(outcome.text, "done")
  // the model sees exactly what is stored
  const results = yield* resultsOf("a")
  const asked = yield* (yield* ScriptedModel).requestsOf("a")
  const seen = asked.at(-1)!.prompt.content.flatMap((message) =>
    message.role === "tool" ? message.content.filter((part) => part.type === "tool-result") : []
  )
  assert.deepStrictEqual(seen, results)
  return results.map(({ isFailure, result }) => ({ isFailure, result }))
})

const failed = (code: string, message: string) => ({ isFailure: true, result: { error: { code, message } } })

describe("dispatch", () => {
  agentTest("S204 runs calls in parallel and gives results in the model's order", () => {
    const gate = Latch.makeUnsafe()
    const order: Array<string> = []
    const done = (name: string) => Effect.sync(() => void order.push(name))
    return {
      script: [[call("first", {}), call("second", {}), call("third", {})], [text("done")]],
      with: [
        tool("first", () => Effect.as(Effect.andThen(gate.await, done("first")), 1)),
        tool("second", () => Effect.as(done("second"), 2)),
        tool("third", () => Effect.as(Effect.andThen(done("third"), gate.open), 3))
      ],
      body: Effect.gen(function*() {
        const agent = yield* create("a")
        yield* agent.prompt("go")
        assert.deepStrictEqual(order, ["second", "third", "first"])
        assert.deepStrictEqual(yield* spoken("a"), [
          "user: go",
          "assistant calls first",
          "assistant calls second",
          "assistant calls third",
          "first gives 1",
          "second gives 2",
          "third gives 3",
          "assistant: done"
        ])
      })
    }
  })

  agentTest("an unknown tool is a result that names the known ones", () => ({
    script: [[call("nope", {})], [text("done")]],
    with: [tool("one", () => Effect.succeed(1)), tool("two", () => Effect.succeed(2))],
    body: Effect.gen(function*() {
      assert.deepStrictEqual(yield* told(), [
        failed("unknown_tool", "there is no tool \"nope\"; the tools are: one, two")
      ])
    })
  }))

  agentTest("an unknown tool with a name of Object's is no tool either", () => ({
    script: [[call("toString", {}, "1"), call("__proto__", {}, "2")], [text("done")]],
    body: Effect.gen(function*() {
      assert.deepStrictEqual(yield* told(), [
        failed("unknown_tool", "there is no tool \"toString\"; the tools are: none"),
        failed("unknown_tool", "there is no tool \"__proto__\"; the tools are: none")
      ])
    })
  }))

  for (const failureMode of ["error", "return"] as const) {
    agentTest(`bad arguments are a result, in failure mode ${failureMode}`, () => {
      let ran = false
      return {
        script: [[call("t", { n: "one" })], [text("done")]],
        with: [tool("t", () => Effect.sync(() => void (ran = true)), { parameters: Params, failureMode })],
        body: Effect.gen(function*() {
          const [{ isFailure, result }] = yield* told()
          assert.isTrue(isFailure)
          const { error } = result as { error: { code: string; message: string } }
          assert.strictEqual(error.code, "invalid_arguments")
          assert.include(error.message, "[\"n\"]")
          assert.isFalse(ran)
        })
      }
    })
  }

  agentTest("a failing handler is a result, in failure mode error", () => ({
    script: [[call("t", {}, "1"), call("u", {}, "2"), call("v", {}, "3")], [text("done")]],
    with: [
      tool("t", () => Effect.fail(new Error("no such file"))),
      tool("u", () => Effect.fail("plain")),
      tool("v", () => Effect.fail({ code: 7 }))
    ],
    body: Effect.gen(function*() {
      assert.deepStrictEqual(yield* told(), [
        failed("failed", "no such file"),
        failed("failed", "the tool \"u\" failed: plain"),
        failed("failed", "the tool \"v\" failed: {\"code\":7}")
      ])
    })
  }))

  agentTest("a failing handler is its failure, in failure mode return", () => ({
    script: [[call("t", {})], [text("done")]],
    with: [tool("t", () => Effect.fail({ code: 7 }), { failureMode: "return" })],
    body: Effect.gen(function*() {
      assert.deepStrictEqual(yield* told(), [{ isFailure: true, result: { code: 7 } }])
    })
  }))

  agentTest("a failure that cannot be shown is a result all the same", () => {
    const circular: { self?: unknown } = {}
    circular.self = circular
    class Unreadable extends Error {
      override get message(): string {
        throw new Error("nobody may read this")
      }
    }
    return {
      script: [[call("t", {}, "1"), call("u", {}, "2"), call("v", {}, "3")], [text("done")]],
      with: [
        tool("t", () => Effect.fail(circular)),
        tool("u", () => Effect.fail(10n)),
        tool("v", () => Effect.fail(Object.create(Unreadable.prototype)))
      ],
      body: Effect.gen(function*() {
        const [first, second, third] = yield* told()
        assert.deepStrictEqual(first, failed("failed", "the tool \"t\" failed: {\"self\":[Circular]}"))
        assert.deepStrictEqual(second, failed("failed", "the tool \"u\" failed: 10n"))
        assert.deepStrictEqual(third, failed("died", "the tool \"v\" failed unexpectedly"))
      })
    }
  })

  agentTest("a dying handler is a generic result: what it died of is not the model's business", () => ({
    script: [[call("t", {}, "1"), call("u", {}, "2")], [text("done")]],
    with: [
      tool("t", () => Effect.die(new Error("password is hunter2"))),
      tool("u", () => {
        throw new Error("password is hunter2")
      })
    ],
    body: Effect.gen(function*() {
      const logged: Array<string> = []
      const logger = Logger.make(({ cause, message }) => void logged.push(`${message} ${Cause.pretty(cause)}`))
      assert.deepStrictEqual(yield* Effect.provide(told(), Logger.layer([logger])), [
        failed("died", "the tool \"t\" failed unexpectedly"),
        failed("died", "the tool \"u\" failed unexpectedly")
      ])
      assert.strictEqual(logged.length, 2)
      for (const line of logged) assert.match(line, /the tool "[tu]" died/)
      for (const line of logged) assert.include(line, "hunter2")
    })
  }))

  agentTest("a handler that interrupts itself is a result, and its siblings go on", () => ({
    script: [[call("t", {}), call("u", {})], [text("done")]],
    with: [tool("t", () => Effect.interrupt), tool("u", () => Effect.as(settle, "u"))],
    body: Effect.gen(function*() {
      assert.deepStrictEqual(yield* told(), [
        failed("interrupted", "the tool \"t\" was interrupted"),
        { isFailure: false, result: "u" }
      ])
    })
  }))

  for (const calls of [1, 2]) {
    agentTest(`what a handler forked as its child ends with it, ${calls} at once`, () => {
      const alive = new Set<string>()
      const seen: Array<number> = []
      return {
        script: ({ index }) =>
          Effect.sync(() => {
            seen.push(alive.size)
            return index === 0 ? Array.from({ length: calls }, (_, i) => call("t", {}, `${i}`)) : [text("done")]
          }),
        with: [
          tool("t", (_, { toolCallId = "" }) =>
            Effect.sync(() => alive.add(toolCallId)).pipe(
              Effect.andThen(Effect.never),
              Effect.ensuring(Effect.andThen(settle, Effect.sync(() => alive.delete(toolCallId)))),
              Effect.forkChild({ startImmediately: true }),
              Effect.as("ran")
            ))
        ],
        body: Effect.gen(function*() {
          assert.deepStrictEqual(
            (yield* told()).map(({ result }) => result),
            Array.from({ length: calls }, () => "ran")
          )
          assert.deepStrictEqual(seen, [0, 0])
        })
      }
    })
  }

  agentTest("a handler that interrupts the fiber it runs in interrupts its call alone", () => ({
    script: [[call("quit", {}), call("other", {})], [text("done")]],
    with: [
      tool(
        "quit",
        () => Effect.withFiber((fiber) => Effect.andThen(Effect.sync(() => fiber.interruptUnsafe()), Effect.never))
      ),
      tool("other", () => Effect.as(settle, "other"))
    ],
    body: Effect.gen(function*() {
      assert.deepStrictEqual(yield* told(), [
        failed("interrupted", "the tool \"quit\" was interrupted"),
        { isFailure: false, result: "other" }
      ])
    })
  }))

  agentTest("results that are nothing, or huge, reach model and log", () => {
    const huge = "x".repeat(1_000_000)
    const many = Array.from({ length: 5000 }, (_, i) => ({ i, text: `line ${i}` }))
    return {
      script: [
        ["null", "undefined", "void", "huge", "many"].map((name, i) => call(name, {}, `${i}`)),
        [text("done")]
      ],
      with: [
        tool("null", () => Effect.succeed(null)),
        tool("undefined", () => Effect.succeed(undefined)),
        tool("void", () => Effect.void, { success: Schema.Void }),
        tool("huge", () => Effect.succeed(huge)),
        tool("many", () => Effect.succeed(many))
      ],
      body: Effect.gen(function*() {
        assert.deepStrictEqual(yield* told(), [
          { isFailure: false, result: null },
          { isFailure: false, result: null },
          { isFailure: false, result: null },
          { isFailure: false, result: huge },
          { isFailure: false, result: many }
        ])
      })
    }
  })

  agentTest("results that are no JSON become JSON, or a failure", () => {
    const circular: { self?: unknown } = {}
    circular.self = circular
    return {
      script: [["date", "nested", "big", "circular", "function"].map((name, i) => call(name, {}, `${i}`)), [
        text("done")
      ]],
      with: [
        tool("date", () => Effect.succeed(new Date(0))),
        tool("nested", () => Effect.succeed({ a: undefined, b: [undefined, Number.NaN] })),
        tool("big", () => Effect.succeed({ n: 1n })),
        tool("circular", () => Effect.succeed(circular)),
        tool("function", () => Effect.succeed(() => 1))
      ],
      body: Effect.gen(function*() {
        const unfit = (name: string) => failed("invalid_result", `the tool "${name}" gave a result that is not JSON`)
        assert.deepStrictEqual(yield* told(), [
          { isFailure: false, result: "1970-01-01T00:00:00.000Z" },
          { isFailure: false, result: { b: [null, null] } },
          unfit("big"),
          unfit("circular"),
          unfit("function")
        ])
      })
    }
  })

  agentTest("a result that its schema refuses is a failure", () => ({
    script: [[call("t", {})], [text("done")]],
    with: [tool("t", () => Effect.succeed("seven"), { success: Schema.Number })],
    body: Effect.gen(function*() {
      const [{ isFailure, result }] = yield* told()
      assert.isTrue(isFailure)
      assert.strictEqual((result as { error: { code: string } }).error.code, "ToolResultEncodingError")
    })
  }))

  agentTest("preliminary results are progress and never stored", () => {
    const seen: Array<Progress> = []
    return {
      script: [[call("t", {})], [text("done")]],
      with: [tool("t", (_, { preliminary }) => Effect.as(Effect.andThen(preliminary(1), preliminary(2)), 3))],
      body: Effect.gen(function*() {
        const agent = yield* create("a")
        const watcher = yield* Effect.forkChild(
          Stream.runForEach(agent.progress, (one) => Effect.sync(() => void seen.push(one))),
          { startImmediately: true }
        )
        yield* agent.prompt("go")
        yield* settle
        yield* Fiber.interrupt(watcher)
        assert.deepStrictEqual(
          seen.filter((one) => one._tag.startsWith("Tool")),
          [
            { _tag: "ToolStarted", id: "call-t", name: "t", params: {} },
            { _tag: "ToolProgress", id: "call-t", name: "t", value: 1 },
            { _tag: "ToolProgress", id: "call-t", name: "t", value: 2 },
            { _tag: "ToolEnded", id: "call-t", name: "t", isFailure: false }
          ]
        )
        assert.deepStrictEqual((yield* resultsOf("a")).map(({ result }) => result), [3])
      })
    }
  })

  agentTest("calls that share an id are told apart", () => ({
    script: [[call("t", { n: 1 }, "call_0"), call("t", { n: 2 }, "call_0"), call("t", { n: 3 }, "call_0-2")], [
      text("done")
    ]],
    with: [tool("t", ({ n }) => Effect.succeed(n), { parameters: Params })],
    body: Effect.gen(function*() {
      yield* told()
      assert.deepStrictEqual(
        (yield* resultsOf("a")).map(({ id, result }) => [id, result]),
        [["call_0", 1], ["call_0-2", 2], ["call_0-2-2", 3]]
      )
    })
  }))

  agentTest("an id may come again in a later response", () => ({
    script: [[call("t", { n: 1 })], [call("t", { n: 2 })], [text("done")]],
    with: [tool("t", ({ n }) => Effect.succeed(n), { parameters: Params })],
    body: Effect.gen(function*() {
      assert.deepStrictEqual((yield* told()).map(({ result }) => result), [1, 2])
    })
  }))

  agentTest("S201 S374 a concluding tool ends the turn, and what stands behind it does not run", () => {
    const ran: Array<string> = []
    const note = (name: string) => Effect.sync(() => void ran.push(name))
    const held = moment()
    return {
      script: [[call("before", {}), call("last", {}), call("after", {})], [text("never asked for")]],
      with: [
        tool("before", () => Effect.andThen(held.passed, note("before"))),
        tool("last", () => Effect.andThen(note("last"), held.now), { concludes: true }),
        tool("after", () => note("after"))
      ],
      body: Effect.gen(function*() {
        const agent = yield* create("a")
        const outcome = yield* agent.prompt("go")
        assert.deepStrictEqual(outcome.cause, { _tag: "Completed" })
        assert.deepStrictEqual(ran, ["last", "before"])
        assert.deepStrictEqual(
          (yield* resultsOf("a")).map(({ name, result }) => [name, result]),
          [
            ["before", null],
            ["last", null],
            ["after", { type: "execution-denied", reason: "the turn is concluded already" }]
          ]
        )
        assert.strictEqual((yield* (yield* ScriptedModel).requestsOf("a")).length, 1)
      })
    }
  })

  agentTest("a concluding tool that fails concludes nothing: what waited for it runs", () => ({
    script: [[call("last", {}, "1"), call("after", {}, "2")], [text("done")]],
    with: [
      tool("last", () => Effect.fail("not yet"), { concludes: true }),
      tool("after", () => Effect.succeed("ran"))
    ],
    body: Effect.gen(function*() {
      assert.deepStrictEqual(yield* told(), [
        failed("failed", "the tool \"last\" failed: not yet"),
        { isFailure: false, result: "ran" }
      ])
    })
  }))
})

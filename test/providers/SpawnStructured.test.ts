import { assert, describe } from "@effect/vitest"
import { Effect, Fiber, Option, Schema } from "effect"
import { AiError } from "effect/ai"
import { Agents } from "../../src/Agent.ts"
import * as Spawn from "../../src/providers/Spawn.ts"
import * as Subagent from "../../src/Subagent.ts"
import * as SystemPrompt from "../../src/SystemPrompt.ts"
import { call, fail, finish, hang, type Reply, ScriptedModel, text, wait } from "../../src/testing/ScriptedModel.ts"
import {
  agentTest,
  create,
  eventsOf,
  held,
  moment,
  resultsOf,
  settle,
  spoken,
  systemOf,
  tool
} from "../utils/agentTest.ts"
import { leakCheck } from "../utils/leaks.ts"

leakCheck()

const Finding = Schema.Struct({ file: Schema.String, risk: Schema.Literals(["low", "high"]) })
const finding = { file: "a.ts", risk: "high" } as const

const answer = (params: unknown = finding, id?: string) => call("structured_output", params, id)

const recorded = { recorded: true }

const requests = (id: string) => Effect.flatMap(ScriptedModel, (model) => model.requestsOf(id))

/** Runs a child that owes a finding, and gives its id and its result. */
const audit = Effect.fnUntraced(function*() {
  const run = yield* Spawn.start({ prompt: "audit", outputSchema: Finding })
  return { id: run.id, result: yield* run.result }
})

const structuredOf = <A>(result: Subagent.Result<A>): A => {
  if (result._tag !== "Completed") return assert.fail(`the result is ${JSON.stringify(result)}`)
  return result.structured
}

const failedFor = (result: Subagent.Result<unknown>): string =>
  result._tag === "Failed" ? result.reason : assert.fail(`the result is ${JSON.stringify(result)}`)

describe("a structured result", () => {
  agentTest("S181 S186 S188 S191 S407 S408 S420 is captured by a call, which ends the work", () => ({
    script: [[text("here it is"), answer()], [text("never asked for")]],
    body: Effect.gen(function*() {
      const { id, result } = yield* audit()
      assert.deepStrictEqual(structuredOf(result), finding)
      assert.strictEqual(result.text, "here it is")
      assert.deepStrictEqual((yield* resultsOf(id)).map(({ isFailure, result }) => [isFailure, result]), [
        [false, recorded]
      ])
      // the value is that of the logged call, and its acknowledgement says nothing of it
      const calls = (yield* eventsOf(id)).flatMap((event) =>
        event._tag === "MessageAppended" && event.message.role === "assistant"
          ? event.message.content.filter((part) => part.type === "tool-call")
          : []
      )
      assert.deepStrictEqual(calls.map(({ params }) => params), [finding])
      const all = yield* requests(id)
      assert.strictEqual(all.length, 1)
      assert.deepStrictEqual(all[0].tools, ["structured_output"])
    })
  }))

  agentTest("is decoded, not copied", () => {
    const Dated = Schema.Struct({ at: Schema.DateFromString, tags: Schema.optionalKey(Schema.Array(Schema.String)) })
    return {
      script: [[answer({ at: "2026-01-02T00:00:00.000Z" })]],
      body: Effect.gen(function*() {
        const result = yield* Spawn.delegate({ prompt: "when", outputSchema: Dated })
        assert.deepStrictEqual(structuredOf(result), { at: new Date("2026-01-02T00:00:00.000Z") })
      })
    }
  })

  agentTest("S184 S413 may be wrong at first: the model is told, and corrects itself", () => ({
    script: [[answer({ file: "a.ts", risk: "huge" })], [answer()]],
    body: Effect.gen(function*() {
      const { id, result } = yield* audit()
      assert.deepStrictEqual(structuredOf(result), finding)
      const [first, second] = yield* resultsOf(id)
      assert.isTrue(first.isFailure)
      const { error } = first.result as { readonly error: { readonly code: string; readonly message: string } }
      assert.strictEqual(error.code, "invalid_arguments")
      assert.include(error.message, "[\"risk\"]")
      assert.deepStrictEqual([second.isFailure, second.result], [false, recorded])
    })
  }))

  agentTest("S189 S410 S411 calls behind it in the same response do not run, approved or not", () => {
    const ran: Array<string> = []
    return {
      script: [[answer(), call("effect", {})]],
      with: [tool("effect", () => Effect.sync(() => ran.push("effect")), { needsApproval: false })],
      body: Effect.gen(function*() {
        const { id, result } = yield* audit()
        assert.deepStrictEqual(structuredOf(result), finding)
        assert.deepStrictEqual(ran, [])
        assert.deepStrictEqual((yield* resultsOf(id)).map(({ isFailure, result }) => [isFailure, result]), [
          [false, recorded],
          [true, { type: "execution-denied", reason: "the turn is concluded already" }]
        ])
      })
    }
  })

  agentTest("S189 S412 calls before it in the same response run", () => {
    const ran: Array<string> = []
    return {
      script: [[call("effect", {}), answer()]],
      with: [tool("effect", () => Effect.andThen(settle, Effect.sync(() => ran.push("effect"))))],
      body: Effect.gen(function*() {
        const { id, result } = yield* audit()
        assert.deepStrictEqual(structuredOf(result), finding)
        assert.deepStrictEqual(ran, ["effect"])
        assert.deepStrictEqual((yield* resultsOf(id)).map(({ name }) => name), ["effect", "structured_output"])
      })
    }
  })

  agentTest("S187 calls behind one that was wrong run; the first right one counts", () => {
    const ran: Array<string> = []
    const other = { file: "b.ts", risk: "low" } as const
    return {
      script: [[
        answer({}, "1"),
        call("effect", {}),
        answer(other, "2"),
        answer(finding, "3"),
        call("effect", {}, "4")
      ]],
      with: [tool("effect", () => Effect.sync(() => ran.push("effect")))],
      body: Effect.gen(function*() {
        const { id, result } = yield* audit()
        assert.deepStrictEqual(structuredOf(result), other)
        assert.deepStrictEqual(ran, ["effect"])
        assert.deepStrictEqual((yield* resultsOf(id)).map(({ id, isFailure }) => [id, isFailure]), [
          ["1", true],
          ["call-effect", false],
          ["2", false],
          ["3", true],
          ["4", true]
        ])
      })
    }
  })

  agentTest("S192 S414 S577 is asked for once more when the child only writes, with its tool forced", () => ({
    script: [[text("it is fine")], [answer()]],
    body: Effect.gen(function*() {
      const { id, result } = yield* audit()
      assert.deepStrictEqual(structuredOf(result), finding)
      assert.strictEqual(result.text, "it is fine")
      const [first, second, ...more] = yield* requests(id)
      assert.strictEqual(more.length, 0)
      assert.strictEqual(first.toolChoice, "auto")
      assert.deepStrictEqual(second.toolChoice, { tool: "structured_output" })
      const reminders = (yield* eventsOf(id)).filter((event) =>
        event._tag === "MessageAppended" && event.source?.kind === "notice"
      )
      assert.strictEqual(reminders.length, 1)
    })
  }))

  for (
    const [name, script] of [
      ["only writes again", [[text("it is fine")], [text("really")]]],
      ["says nothing at all", [[], []]],
      ["is wrong and writes then", [[text("fine")], [answer({})], [text("really")]]]
    ] as ReadonlyArray<readonly [string, ReadonlyArray<Reply>]>
  ) {
    agentTest(`S167 S192 S414 a child that ${name} has failed`, () => ({
      script,
      body: Effect.gen(function*() {
        const { id, result } = yield* audit()
        assert.strictEqual(failedFor(result), "NoStructuredOutput")
        assert.strictEqual((yield* requests(id)).length, script.length)
        assert.strictEqual((yield* spoken(id)).filter((line) => line.startsWith("user")).length, 2)
      })
    }))
  }

  agentTest("the reminder is for this request only: later ones are free again", () => ({
    script: [[text("fine")], [call("look", {})], [answer()]],
    with: [tool("look", () => Effect.succeed("seen"))],
    body: Effect.gen(function*() {
      const { id, result } = yield* audit()
      assert.deepStrictEqual(structuredOf(result), finding)
      assert.deepStrictEqual((yield* requests(id)).map(({ toolChoice }) => toolChoice), [
        "auto",
        { tool: "structured_output" },
        "auto"
      ])
    })
  }))

  agentTest("S386 S415 is none when the model fails, is cut off or is cancelled", () => ({
    script: ({ prompt }) => {
      const line = JSON.stringify(prompt.content)
      if (line.includes("fails")) return [fail(new AiError.AuthenticationError({ kind: "InvalidKey" }))]
      if (line.includes("is cut off")) return [answer(), finish("length")]
      return [text("so far"), hang]
    },
    body: Effect.gen(function*() {
      const owing = (prompt: string, timeout?: "1 second") => Spawn.start({ prompt, outputSchema: Finding, timeout })
      assert.strictEqual(failedFor(yield* (yield* owing("fails")).result), "AuthenticationError")
      assert.strictEqual((yield* (yield* owing("is cut off")).result)._tag, "MaxTokens")
      const hanging = yield* owing("hangs")
      yield* settle
      const result = yield* hanging.interrupt
      assert.deepStrictEqual(result._tag === "Aborted" && [result.cause, result.text], ["user", "so far"])
    })
  }))

  agentTest("S416 a cancellation while the end of a turn without it is stored is a cancellation", () => {
    const { gate, reached, store } = held((call, { id }) => call === "flush" && id !== "root")
    return {
      store,
      script: [[text("no")], [text("no")]],
      body: Effect.gen(function*() {
        const run = yield* Spawn.start({ prompt: "audit", outputSchema: Finding })
        yield* reached.passed
        const interrupting = yield* Effect.forkChild(run.interrupt, { startImmediately: true })
        yield* settle
        yield* gate.now
        const result = yield* Fiber.join(interrupting)
        assert.deepStrictEqual(result._tag === "Aborted" && result.cause, "user")
      })
    }
  })

  agentTest("S185 S419 a value that is valid and whose turn is cancelled before it is logged does not count", () => {
    const reached = moment()
    return {
      script: [[call("slow", {}), answer()]],
      with: [tool("slow", () => Effect.andThen(settle, Effect.andThen(reached.now, Effect.never)))],
      body: Effect.gen(function*() {
        const run = yield* Spawn.start({ prompt: "audit", outputSchema: Finding })
        yield* reached.passed
        const result = yield* run.interrupt
        assert.strictEqual(result._tag, "Aborted")
        assert.notInclude(JSON.stringify(yield* resultsOf(run.id)), "recorded")
      })
    }
  })

  agentTest("S89 S409 S91 once it is captured nothing is steered in, not even while it is flushed", () => {
    const { gate, reached, store } = held((call, { id }) => call === "flush" && id !== "root")
    const asking = moment()
    const asked = moment()
    return {
      store,
      script: [[wait(asked.now), wait(asking.passed), answer()], [text("never asked for")]],
      body: Effect.gen(function*() {
        const run = yield* Spawn.start({ prompt: "audit", outputSchema: Finding })
        yield* asked.passed
        const early = yield* Effect.forkChild(Effect.flip(run.steer("too late", { kind: "user" })), {
          startImmediately: true
        })
        yield* asking.now
        yield* reached.passed
        assert.strictEqual((yield* Effect.flip(run.steer("too late", { kind: "user" }))).reason, "captured")
        yield* gate.now
        assert.deepStrictEqual(structuredOf(yield* run.result), finding)
        const exit = early.pollUnsafe()
        assert.strictEqual(exit?._tag === "Success" && exit.value.reason, "captured")
        assert.notInclude(JSON.stringify(yield* eventsOf(run.id)), "too late")
        assert.strictEqual((yield* requests(run.id)).length, 1)
      })
    }
  })

  agentTest("S417 S418 a schema that cannot be starts nothing", () => ({
    script: [],
    body: Effect.gen(function*() {
      const refused = (outputSchema: Schema.Codec<any, any>) =>
        Effect.map(Effect.flip(Spawn.start({ prompt: "go", outputSchema: outputSchema as never })), ({ _tag }) => _tag)
      assert.strictEqual(yield* refused(Schema.String), "UnsupportedSchema")
      assert.strictEqual(yield* refused(Schema.Array(Finding)), "UnsupportedSchema")
      assert.strictEqual(yield* refused(Finding.annotate({ examples: [(() => 1) as never] })), "UnsupportedSchema")
      assert.strictEqual((yield* Agents.use((agents) => agents.list)).length, 1)
      assert.deepStrictEqual(yield* (yield* Subagent.Subagents).running, [])
    })
  }))

  agentTest("S182 S422 S428 its instruction follows the tools' guidance and nothing is lost", () => {
    const section = (name: string, order: number) => SystemPrompt.layerSection({ name, order, text: `[${name}]` })
    return {
      script: [[answer()]],
      with: [section("rules", 10), section("afterwards", 200), section("tools", 150), tool("zeta", () => Effect.void)],
      body: Effect.gen(function*() {
        const run = yield* Spawn.start({ prompt: "audit", outputSchema: Finding, persona: "[persona]" })
        yield* run.result
        const [request] = yield* requests(run.id)
        const system = systemOf(request)
        const parts = system.split("\n\n")
        assert.deepStrictEqual(parts.filter((part) => part.startsWith("[")), [
          "[persona]",
          "[rules]",
          "[tools]",
          "[afterwards]"
        ])
        assert.include(parts[3], "structured_output")
        assert.deepStrictEqual(request.tools, ["structured_output", "zeta"])
      })
    }
  })

  agentTest("S181 S426 S430 no other agent sees its tool or instruction", () => {
    const gate = moment()
    return {
      script: ({ sessionId, index }) =>
        sessionId === "plain" && index === 0 ? [answer()] : sessionId === "plain" ? [text("no such tool")] : [
          wait(gate.passed),
          answer()
        ],
      body: Effect.gen(function*() {
        const run = yield* Spawn.start({ prompt: "audit", outputSchema: Finding })
        const plain = yield* create("plain")
        assert.strictEqual((yield* plain.prompt("go")).text, "no such tool")
        const [first] = yield* requests("plain")
        assert.deepStrictEqual([first.tools, systemOf(first)], [[], ""])
        assert.include(JSON.stringify(yield* resultsOf("plain")), "unknown_tool")
        yield* gate.now
        assert.deepStrictEqual(structuredOf(yield* run.result), finding)
        // and with the child it is gone
        assert.isTrue(Option.isNone(yield* Agents.use((agents) => agents.get(run.id))))
      })
    }
  })
})

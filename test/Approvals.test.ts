import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Fiber, Layer, Logger, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import * as AgentTools from "../src/AgentTools.ts"
import * as Approvals from "../src/Approvals.ts"
import type { CurrentAgent } from "../src/CurrentAgent.ts"
import * as Spawn from "../src/providers/Spawn.ts"
import { call, type Script, text } from "../src/testing/ScriptedModel.ts"
import { agentTest, create, moment, resultsOf, settle, spoken, tool } from "./utils/agentTest.ts"
import { leakCheck } from "./utils/leaks.ts"

leakCheck()

const request = (name: string): Approvals.ApprovalRequest => ({
  agent: { sessionId: "root" } as CurrentAgent["Service"],
  tool: name,
  toolCallId: "1",
  params: {}
})

const ask = (name = "exec") => Effect.flatMap(Approvals.Approvals, (approver) => approver.ask(request(name)))

/** Calls `exec` once and says done. */
const script: Script = ({ prompt }) =>
  prompt.content.some((message) => message.role === "tool") ? [text("done")] : [call("exec", { rm: false })]

/** A tool that wants approval, and what it did. */
const guarded = (needsApproval: Tool.NeedsApproval<any> = true) => {
  const ran: Array<unknown> = []
  return {
    ran,
    layer: tool("exec", (params) => Effect.as(Effect.sync(() => ran.push(params)), "ran"), {
      parameters: Schema.Struct({ rm: Schema.Boolean }),
      needsApproval
    })
  }
}

const denial = (reason: string) => [true, { type: "execution-denied", reason }] as const

const results = (id: string) =>
  Effect.map(resultsOf(id), (all) => all.map(({ isFailure, result }) => [isFailure, result] as const))

const asking = (asked: Array<Approvals.ApprovalRequest>, decision: Approvals.Decision = Approvals.allow) =>
  Approvals.layerAsk((request) => Effect.as(Effect.sync(() => asked.push(request)), decision))

describe("Approvals", () => {
  it.effect("S380 S562 denies by default, and as its layers say", () =>
    Effect.gen(function*() {
      const nobody = Approvals.deny("nobody is there to approve this call")
      assert.deepStrictEqual(yield* ask(), nobody)
      assert.deepStrictEqual(yield* Effect.provide(ask(), Approvals.layerDeny), nobody)
      assert.deepStrictEqual(yield* Effect.provide(ask(), Approvals.layerAllow), Approvals.allow)
    }))

  it.effect("asks a handler, with its services", () => {
    class Boss extends Context.Service<Boss, string>()("test/Boss") {}
    const layer = Approvals.layerAsk(({ tool }) => Effect.map(Boss, (boss) => Approvals.deny(`${boss} hates ${tool}`)))
    return Effect.gen(function*() {
      assert.deepStrictEqual(yield* ask("exec"), Approvals.deny("Ann hates exec"))
    }).pipe(Effect.provide(layer.pipe(Layer.provide(Layer.succeed(Boss, "Ann")))))
  })

  it.effect("denies what a dying handler was asked for, and keeps the defect in the log", () =>
    Effect.gen(function*() {
      const logged: Array<unknown> = []
      const logger = Logger.make(({ message }) => void logged.push(message))
      for (
        const handler of [
          () => Effect.die(new Error("broken")),
          () => {
            throw new Error("broken")
          }
        ]
      ) {
        assert.deepStrictEqual(
          yield* ask().pipe(Effect.provide(Approvals.layerAsk(handler)), Effect.provide(Logger.layer([logger]))),
          Approvals.deny("the approval could not be asked for")
        )
      }
      assert.strictEqual(logged.length, 2)
      assert.include(String(logged[0]), "the approval handler died")
    }))

  agentTest("a denied handler does not run, and the model learns why", () => {
    const { layer, ran } = guarded()
    return {
      script,
      with: [layer],
      body: Effect.gen(function*() {
        const outcome = yield* (yield* create("a")).prompt("go")
        assert.strictEqual(outcome.cause._tag, "Completed")
        assert.deepStrictEqual(ran, [])
        assert.deepStrictEqual(yield* results("a"), [denial("nobody is there to approve this call")])
      })
    }
  })

  agentTest("an allowed handler runs, after it was asked for with all that is known", () => {
    const { layer, ran } = guarded()
    const asked: Array<Approvals.ApprovalRequest> = []
    return {
      script,
      with: [layer],
      body: Effect.gen(function*() {
        yield* Effect.provide((yield* create("a", { depth: 1 })).prompt("go"), asking(asked))
        assert.deepStrictEqual(ran, [{ rm: false }])
        assert.deepStrictEqual(yield* results("a"), [[false, "ran"]])
        assert.deepStrictEqual(
          asked.map(({ agent, params, tool, toolCallId }) => [
            agent.sessionId,
            agent.depth,
            tool,
            toolCallId,
            params
          ]),
          [["a", 1, "exec", "call-exec", { rm: false }]]
        )
      })
    }
  })

  agentTest("what holds is what holds where the message was sent, also for one that waited behind another", () => {
    const { layer, ran } = guarded()
    const gate = moment()
    return {
      script: ({ index }) =>
        index % 2 === 1 ? [text("done")] : [{ _tag: "Wait", effect: gate.passed }, call("exec", { rm: false })],
      with: [layer],
      body: Effect.gen(function*() {
        const agent = yield* create("a")
        yield* Effect.provide(agent.send("first"), Approvals.layerAllow)
        yield* agent.send("second")
        yield* Effect.provide(agent.send("third"), Approvals.layerAllow)
        yield* gate.now
        yield* agent.idle
        assert.strictEqual(ran.length, 2)
        assert.deepStrictEqual(yield* results("a"), [
          [false, "ran"],
          denial("nobody is there to approve this call"),
          [false, "ran"]
        ])
      })
    }
  })

  describe("needsApproval as a function", () => {
    const cases: ReadonlyArray<readonly [string, Tool.NeedsApproval<any>, boolean]> = [
      ["that says no", () => false, false],
      ["that says yes", () => true, true],
      ["of the arguments", ({ rm }: { rm: boolean }) => rm, false],
      ["that is an effect and says no", () => Effect.succeed(false), false],
      ["that is an effect and says yes", () => Effect.succeed(true), true],
      ["that throws", () => {
        throw new Error("broken")
      }, true],
      ["that dies", () => Effect.die("broken") as never, true],
      ["that fails", () => Effect.fail("broken") as never, true],
      ["that interrupts itself", () => Effect.interrupt as never, true]
    ]
    for (const [name, needsApproval, isAsked] of cases) {
      agentTest(`${name} is ${isAsked ? "" : "not "}asked for`, () => {
        const { layer, ran } = guarded(needsApproval)
        const asked: Array<Approvals.ApprovalRequest> = []
        return {
          script,
          with: [layer],
          body: Effect.gen(function*() {
            yield* Effect.provide((yield* create("a")).prompt("go"), asking(asked, Approvals.deny("no")))
            assert.strictEqual(asked.length, isAsked ? 1 : 0)
            assert.strictEqual(ran.length, isAsked ? 0 : 1)
            assert.deepStrictEqual(yield* results("a"), isAsked ? [denial("no")] : [[false, "ran"]])
          })
        }
      })
    }

    agentTest("is told the call and the conversation", () => {
      const told: Array<readonly [string, ReadonlyArray<string>]> = []
      const { layer } = guarded((_, { messages, toolCallId }) => {
        told.push([toolCallId, messages.map(({ role }) => role)])
        return false
      })
      return {
        script,
        with: [layer],
        body: Effect.gen(function*() {
          yield* (yield* create("a")).prompt("go")
          assert.deepStrictEqual(told, [["call-exec", ["user", "assistant"]]])
        })
      }
    })

    agentTest("is asked for when the arguments are bad, and bad arguments are then told", () => {
      const { layer, ran } = guarded(() => false)
      const asked: Array<Approvals.ApprovalRequest> = []
      return {
        script: [[call("exec", { rm: "maybe" })], [text("done")]],
        with: [layer],
        body: Effect.gen(function*() {
          yield* Effect.provide((yield* create("a")).prompt("go"), asking(asked))
          assert.strictEqual(asked.length, 1)
          assert.deepStrictEqual(ran, [])
          assert.include(JSON.stringify(yield* results("a")), "invalid_arguments")
        })
      }
    })

    agentTest("works for a tool whose parameters are a JSON Schema", () => {
      const told: Array<unknown> = []
      let runs = 0
      const Dynamic = Tool.dynamic("exec", {
        parameters: { type: "object", properties: { rm: { type: "boolean" } } },
        success: Schema.String,
        needsApproval: (params) => {
          told.push(params)
          return (params as { rm: boolean }).rm
        }
      })
      const kit = Toolkit.make(Dynamic)
      return {
        script: [[call("exec", { rm: true }, "1"), call("exec", { rm: false }, "2")], [text("done")]],
        with: [
          AgentTools.layer(kit).pipe(
            Layer.provide(kit.toLayer({ exec: () => Effect.sync(() => `run ${++runs}`) }))
          )
        ],
        body: Effect.gen(function*() {
          yield* (yield* create("a")).prompt("go")
          assert.deepStrictEqual(told, [{ rm: true }, { rm: false }])
          assert.deepStrictEqual(yield* results("a"), [
            denial("nobody is there to approve this call"),
            [false, "run 1"]
          ])
        })
      }
    })
  })

  agentTest("an approver that dies lets nothing run", () => {
    const { layer, ran } = guarded()
    return {
      script,
      with: [layer],
      body: Effect.gen(function*() {
        const outcome = yield* Effect.provideService((yield* create("a")).prompt("go"), Approvals.Approvals, {
          ask: () => Effect.die("broken")
        })
        assert.strictEqual(outcome.cause._tag, "Completed")
        assert.deepStrictEqual(ran, [])
        assert.deepStrictEqual(yield* results("a"), [
          [true, { error: { code: "died", message: "the tool \"exec\" failed unexpectedly" } }]
        ])
      })
    }
  })

  agentTest("waiting for an approval can be interrupted, and the call never began", () => {
    const { layer, ran } = guarded()
    const asked = moment()
    let gaveUp = false
    return {
      script,
      with: [layer],
      body: Effect.gen(function*() {
        const agent = yield* create("a")
        const person = Approvals.layerAsk(() =>
          Effect.onInterrupt(Effect.andThen(asked.now, Effect.never), () => Effect.sync(() => void (gaveUp = true)))
        )
        const turn = yield* Effect.forkChild(Effect.provide(agent.prompt("go"), person), { startImmediately: true })
        yield* asked.passed
        yield* agent.interrupt("user")
        const outcome = yield* Fiber.join(turn)
        assert.deepStrictEqual(outcome.cause, { _tag: "Aborted", cause: "user" })
        assert.isTrue(gaveUp)
        assert.deepStrictEqual(ran, [])
        assert.deepStrictEqual(yield* results("a"), [
          [true, { type: "execution-interrupted", reason: "the turn was interrupted before the call began" }]
        ])
      })
    }
  })

  agentTest("a call that waits for its approval holds up none of the others", () => {
    const { layer } = guarded()
    const gate = moment()
    const other = moment()
    return {
      script: [[call("exec", { rm: false }), call("look", {})], [text("done")]],
      with: [layer, tool("look", () => Effect.as(other.now, "seen"))],
      body: Effect.gen(function*() {
        const agent = yield* create("a")
        const person = Approvals.layerAsk(() => Effect.as(gate.passed, Approvals.allow))
        yield* Effect.provide(agent.send("go"), person)
        yield* other.passed
        yield* settle
        assert.deepStrictEqual(yield* results("a"), [])
        yield* gate.now
        yield* agent.idle
        assert.deepStrictEqual(yield* spoken("a"), [
          "user: go",
          "assistant calls exec",
          "assistant calls look",
          "exec gives \"ran\"",
          "look gives \"seen\"",
          "assistant: done"
        ])
      })
    }
  })

  agentTest("S149 S377 S380 S562 a child asks whoever is asked where it was started", () => {
    const { layer, ran } = guarded()
    const asked: Array<Approvals.ApprovalRequest> = []
    return {
      script,
      with: [layer],
      body: Effect.gen(function*() {
        yield* Effect.scoped(Effect.gen(function*() {
          const allowed = yield* Effect.provide(Spawn.start({ prompt: "go" }), asking(asked))
          // what holds around the wait for its result is of no interest
          yield* Effect.provide(allowed.result, Approvals.layerDeny)
          assert.deepStrictEqual(yield* results(allowed.id), [[false, "ran"]])
          assert.deepStrictEqual(asked.map(({ agent }) => agent.sessionId as string), [allowed.id])
          const denied = yield* Spawn.start({ prompt: "go" })
          yield* denied.result
          assert.deepStrictEqual(yield* results(denied.id), [denial("nobody is there to approve this call")])
        }))
        assert.strictEqual(ran.length, 1)
      })
    }
  })

  agentTest(
    "S149 S377 a tool's handler inherits what holds for its agent, and can be overridden for one delegation",
    () => {
      const { layer, ran } = guarded()
      return {
        script: ({ depth, index }) => {
          if (depth === 2) return index === 0 ? [call("exec", { rm: false })] : [text("done")]
          return index === 0 ? [call("inherit", {}), call("override", {})] : [text("done")]
        },
        with: [
          layer,
          Layer.unwrap(Effect.map(Spawn.Spawn, (spawn) =>
            Layer.merge(
              tool("inherit", () => Effect.map(spawn.delegate({ prompt: "go" }), ({ _tag }) => _tag)),
              tool("override", () =>
                Effect.map(Effect.provide(spawn.delegate({ prompt: "go" }), Approvals.layerDeny), ({ _tag }) =>
                  _tag))
            )))
        ],
        body: Effect.gen(function*() {
          yield* Effect.provide(Spawn.delegate({ prompt: "go" }), Approvals.layerAllow)
          assert.strictEqual(ran.length, 1)
        })
      }
    }
  )
})

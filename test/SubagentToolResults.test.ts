import { assert, describe, it } from "@effect/vitest"
import { Context, Deferred, Effect, Fiber, Schema, SchemaGetter } from "effect"
import { AiError, type Tool } from "effect/ai"
import { TestClock } from "effect/testing"
import { CurrentAgent, defaultLimits, Lifetime } from "../src/CurrentAgent.ts"
import * as Scripted from "../src/providers/Scripted.ts"
import * as Spawn from "../src/providers/Spawn.ts"
import * as Subagent from "../src/Subagent.ts"
import * as SubagentTool from "../src/SubagentTool.ts"
import { call, fail, finish, part, text } from "../src/testing/ScriptedModel.ts"
import { Delegate, Fresh, params, program, result } from "./utils/delegating.ts"
import { leakCheck } from "./utils/leaks.ts"

leakCheck()

/** What a model is shown of a result: the output that is meant for it, or else the JSON. */
const shown = (one: Tool.HandlerResult<typeof Delegate>): string =>
  one.modelOutput === undefined
    ? JSON.stringify(one.encodedResult)
    : one.modelOutput.map((part) => part.type === "text" ? part.text : `(${part.mediaType})`).join("|")

describe("SubagentTool", () => {
  describe("an answer", () => {
    it.effect("S254 S255 S481 is the child's text with its ids, and the model sees the text alone", () =>
      Effect.gen(function*() {
        const one = yield* result(Delegate)
        const [request] = yield* (yield* Scripted.Recording).starts
        assert.isFalse(one.isFailure)
        assert.isFalse(one.preliminary)
        assert.deepStrictEqual(one.encodedResult, {
          kind: "foreground",
          runId: request.runId,
          childId: "child-1",
          text: "All is well"
        })
        assert.strictEqual(shown(one), "All is well")
      }).pipe(Effect.provide(program([{ id: "child-1", run: [Scripted.text("All ", "is well")] }]))))

    it.effect("says so when the child said nothing", () =>
      Effect.gen(function*() {
        const one = yield* result(Delegate)
        assert.deepInclude(one.encodedResult, { kind: "foreground", text: "" })
        assert.strictEqual(shown(one), "(the agent finished without saying anything)")
      }).pipe(Effect.provide(program([[]]))))

    it.effect("shows the model the files that the child made, and keeps them as plain JSON", () =>
      Effect.gen(function*() {
        const one = yield* result(Fresh)
        assert.strictEqual(shown(one), "Here|(image/png)|(text/plain)")
        const [image, notes] = (one.encodedResult as { readonly files: ReadonlyArray<Record<string, unknown>> }).files
        assert.deepInclude(image, { type: "file", mediaType: "image/png" })
        assert.deepInclude(notes, { type: "file", mediaType: "text/plain" })
        const stored = JSON.parse(JSON.stringify(one.encodedResult))
        const again = Schema.decodeUnknownSync(SubagentTool.Foreground)(stored)
        assert.deepStrictEqual(again, one.result as typeof SubagentTool.Foreground.Type)
      }).pipe(Effect.provide(program([], {
        root: [],
        children: [[[
          text("Here"),
          part({ type: "file", mediaType: "image/png", data: "AAEC" }),
          part({ type: "file", mediaType: "text/plain", data: "bm90ZXM=" })
        ]]]
      }))))

    describe("with a schema", () => {
      class Epoch extends Context.Service<Epoch, { readonly start: number }>()("test/Epoch") {}
      const Finding = Schema.Struct({ file: Schema.String, at: Schema.Date })
      const Audit = SubagentTool.make("delegate", Scripted.Scripted, { outputSchema: Finding })

      it.effect("is the JSON of the value, and that is what the model sees", () =>
        Effect.gen(function*() {
          const one = yield* result(Audit)
          const structured = { file: "a.ts", at: "2026-01-02T00:00:00.000Z" }
          assert.deepInclude(one.encodedResult, { kind: "foreground", text: "found it", structured })
          assert.strictEqual(shown(one), JSON.stringify(structured))
        }).pipe(Effect.provide(program([[
          Scripted.text("found it"),
          Scripted.complete({ file: "a.ts", at: "2026-01-02T00:00:00Z" })
        ]]))))

      it.effect("is a failure when the value does not fit, with what the child had said", () =>
        Effect.gen(function*() {
          const one = yield* result(Audit)
          assert.isTrue(one.isFailure)
          assert.deepInclude(one.encodedResult, {
            error: "the agent failed (InvalidStructuredOutput)",
            reason: "Failed",
            partial: "found it"
          })
          assert.match((one.encodedResult as SubagentTool.Failure).diagnostic ?? "", /Expected string.*\["file"\]/s)
        }).pipe(Effect.provide(program([[Scripted.text("found it"), Scripted.complete({ file: 1 })]]))))

      it.effect("takes the services of its schema from its layer", () =>
        Effect.gen(function*() {
          const Since = Schema.Struct({
            seconds: Schema.Number.pipe(Schema.decodeTo(Schema.Number, {
              decode: SchemaGetter.transformEffect((n: number) => Effect.map(Epoch, ({ start }) => start + n)),
              encode: SchemaGetter.transformEffect((n: number) => Effect.map(Epoch, ({ start }) => n - start))
            }))
          })
          const tool = SubagentTool.make("delegate", Scripted.Scripted, { outputSchema: Since })
          const one = yield* result(tool).pipe(Effect.provideService(Epoch, { start: 100 }))
          assert.deepInclude(one.encodedResult, { structured: { seconds: 5 } })
        }).pipe(Effect.provide(program([[Scripted.complete({ seconds: 5 })]]))))

      it.effect("S407 is captured from a child of this process", () =>
        Effect.gen(function*() {
          const one = yield* result(SubagentTool.make("delegate", Spawn.Spawn, { outputSchema: Finding }))
          assert.strictEqual(shown(one), `{"file":"a.ts","at":"2026-01-02T00:00:00.000Z"}`)
        }).pipe(Effect.provide(program([], {
          root: [],
          children: [[[call("structured_output", { file: "a.ts", at: "2026-01-02T00:00:00.000Z" })]]]
        }))))
    })
  })

  describe("a child that did not complete (S258, S485, S559, S595)", () => {
    const said = Scripted.text("so far")
    const outcomes: ReadonlyArray<readonly [string, Scripted.Act, { readonly [key: string]: string }]> = [
      ["aborted by a person", Scripted.abort("user"), { error: "the agent was cancelled (user)", reason: "Aborted" }],
      ["aborted by a budget", Scripted.abort("budget"), {
        error: "the agent was cancelled (budget)",
        reason: "Aborted"
      }],
      ["failed", Scripted.fail("Overloaded", { diagnostic: "try later" }), {
        error: "the agent failed (Overloaded)",
        reason: "Failed",
        diagnostic: "try later"
      }],
      ["cut off", Scripted.maxTokens, {
        error: "the agent was cut off at its output limit",
        reason: "MaxTokens"
      }],
      ["declining", Scripted.refusal, { error: "the agent declined the task", reason: "Refusal" }],
      ["with an end of its own", Scripted.other("quota"), {
        error: "the agent ended abnormally (quota)",
        reason: "Other"
      }],
      ["without any result", Scripted.runFailed("DurabilityFailed", "disk full"), {
        error: "the agent broke",
        reason: "RunFailed",
        diagnostic: `the run of provider "scripted" failed (DurabilityFailed): disk full`
      }]
    ]
    for (const [how, ending, expected] of outcomes) {
      it.effect(`${how}: a headline, what is known, then what it had said`, () =>
        Effect.gen(function*() {
          const one = yield* result(Delegate)
          const [request] = yield* (yield* Scripted.Recording).starts
          assert.isTrue(one.isFailure)
          assert.isUndefined(one.modelOutput)
          const partial = expected.reason === "RunFailed" ? {} : { partial: "so far" }
          // the order is the one in which a model reads it
          assert.strictEqual(
            shown(one),
            JSON.stringify({ ...expected, ...partial, childId: "child-1", runId: request.runId })
          )
          assert.strictEqual((yield* (yield* Scripted.Recording).releases).length, 1)
        }).pipe(Effect.provide(program([{ id: "child-1", run: [said, ending] }]))))
    }

    it.effect("out of time: the tool's own limit, and what it had said by then", () =>
      Effect.gen(function*() {
        const tool = SubagentTool.make("delegate", Scripted.Scripted, { timeout: "1 minute" })
        const fiber = yield* Effect.forkChild(result(tool), { startImmediately: true })
        yield* TestClock.adjust("1 minute")
        const one = yield* Fiber.join(fiber)
        assert.deepInclude(one.encodedResult, {
          error: "the agent was cancelled (timeout)",
          reason: "Aborted",
          partial: "so far"
        })
        assert.strictEqual((yield* (yield* Scripted.Recording).releases)[0].aborted, "timeout")
      }).pipe(Effect.provide(program([[said, Scripted.hang]]))))

    it.effect("leaves out what there is not", () =>
      Effect.gen(function*() {
        const one = yield* result(Delegate)
        assert.deepStrictEqual(Object.keys(one.encodedResult as object), ["error", "reason", "childId", "runId"])
      }).pipe(Effect.provide(program([[Scripted.refusal]]))))

    it.effect("in this process: a model that fails", () =>
      Effect.gen(function*() {
        const one = yield* result(Fresh)
        assert.deepInclude(one.encodedResult, {
          error: "the agent failed (AuthenticationError)",
          reason: "Failed",
          partial: "so far"
        })
      }).pipe(Effect.provide(program([], {
        root: [],
        children: [[[text("so far"), fail(new AiError.AuthenticationError({ kind: "InvalidKey" }))]]]
      }))))

    it.effect("in this process: a model that is cut off", () =>
      Effect.gen(function*() {
        const one = yield* result(Fresh)
        assert.deepInclude(one.encodedResult, { reason: "MaxTokens", partial: "so far" })
      }).pipe(Effect.provide(program([], { root: [], children: [[[text("so far"), finish("length")]]] }))))

    it.effect("in this process: a model that declines", () =>
      Effect.gen(function*() {
        const one = yield* result(Fresh)
        assert.deepInclude(one.encodedResult, { reason: "Refusal", partial: "so far" })
      }).pipe(Effect.provide(program([], { root: [], children: [[[text("so far"), finish("content-filter")]]] }))))
  })

  describe("a child that cannot be let go (S257, S259, S494)", () => {
    const stuck = Effect.die(new Error("the process is still there"))
    const releaseFailed = (diagnostic: string) => `a run of provider "scripted" could not be released: ${diagnostic}`

    it.effect("S558 S595 a failed release is told together with the answer", () =>
      Effect.gen(function*() {
        const one = yield* result(Delegate)
        assert.isTrue(one.isFailure)
        assert.deepInclude(one.encodedResult, {
          error: "the agent finished but could not be released",
          reason: "ReleaseFailed",
          partial: "the answer"
        })
        assert.include(shown(one), releaseFailed("").replaceAll("\"", "\\\""))
        assert.include(shown(one), "the process is still there")
      }).pipe(Effect.provide(program([{ run: [Scripted.text("the answer")], release: stuck }]))))

    it.effect("a failed release does not lose a structured answer", () =>
      Effect.gen(function*() {
        const outputSchema = Schema.Struct({ risk: Schema.String })
        const one = yield* result(SubagentTool.make("delegate", Scripted.Scripted, { outputSchema }))
        assert.deepInclude(one.encodedResult, { reason: "ReleaseFailed", partial: `{"risk":"high"}` })
      }).pipe(Effect.provide(program([{
        run: [Scripted.text("hm"), Scripted.complete({ risk: "high" })],
        release: stuck
      }]))))

    it.effect("S558 S595 a failed result and a failed release are both told", () =>
      Effect.gen(function*() {
        const one = yield* result(Delegate)
        const { diagnostic, ...rest } = one.encodedResult as SubagentTool.Failure
        assert.deepInclude(rest, {
          error: "the agent failed (Overloaded)",
          reason: "ReleaseFailed",
          partial: "so far"
        })
        assert.match(diagnostic ?? "", /^try later; a run of provider "scripted" could not be released: .*still there/)
      }).pipe(Effect.provide(program([{
        run: [Scripted.text("so far"), Scripted.fail("Overloaded", { diagnostic: "try later" })],
        release: stuck
      }]))))

    it.effect("S558 S595 a run without a result and a failed release are both told, once", () =>
      Effect.gen(function*() {
        const one = yield* result(Delegate)
        const { diagnostic = "", ...rest } = one.encodedResult as SubagentTool.Failure
        assert.deepInclude(rest, { error: "the agent broke", reason: "ReleaseFailed" })
        assert.match(diagnostic, /could not be released: .*still there/)
        assert.strictEqual(diagnostic.split("disk full").length, 2)
      }).pipe(Effect.provide(program([{
        run: [Scripted.runFailed("DurabilityFailed", "disk full")],
        release: stuck
      }]))))

    it.effect("what survives is named", () =>
      Effect.gen(function*() {
        const one = yield* result(Delegate)
        assert.deepInclude(one.encodedResult, { reason: "ReleaseFailed", partial: "the answer" })
        assert.include(shown(one), "still alive")
      }).pipe(Effect.provide(program([{ run: [Scripted.text("the answer")], survivors: ["process 17"] }]))))

    it.effect("waits for the release before it answers", () =>
      Effect.gen(function*() {
        const latch = yield* Deferred.make<void>()
        const releasing = yield* Deferred.make<void>()
        const release = Effect.andThen(Deferred.succeed(releasing, undefined), Deferred.await(latch))
        const layer = program([{ run: [Scripted.text("ok")], release }])
        yield* Effect.gen(function*() {
          const fiber = yield* Effect.forkChild(result(Delegate))
          yield* Deferred.await(releasing)
          yield* Effect.yieldNow
          assert.isUndefined(fiber.pollUnsafe())
          yield* Deferred.succeed(latch, undefined)
          assert.deepInclude((yield* Fiber.join(fiber)).result, { text: "ok" })
        }).pipe(Effect.provide(layer))
      }))
  })

  describe("a child that cannot be started", () => {
    const cases: ReadonlyArray<readonly [string, Scripted.Play, object]> = [
      ["StartFailed", Scripted.refuse("AuthRequired", "log in first"), {
        diagnostic: `provider "scripted" could not start a child (AuthRequired): log in first`
      }],
      ["UnsupportedCapability", {
        start: Effect.fail(
          new Subagent.UnsupportedCapability({ provider: "", capability: "model", agent: "acme", version: "2" })
        ),
        run: []
      }, { diagnostic: `provider "scripted" (acme 2) does not support model` }]
    ]
    for (const [reason, play, expected] of cases) {
      it.effect(`is a result: ${reason}`, () =>
        Effect.gen(function*() {
          const one = yield* result(Delegate)
          assert.isTrue(one.isFailure)
          assert.deepStrictEqual(one.encodedResult, { error: "the agent could not be started", reason, ...expected })
        }).pipe(Effect.provide(program([play]))))
    }

    it.effect("an unknown tool in the filter is a result that names it", () =>
      Effect.gen(function*() {
        const one = yield* result(SubagentTool.make("delegate", Spawn.Spawn, { toolFilter: { allow: ["reed"] } }))
        assert.deepInclude(one.encodedResult, { reason: "UnknownTool" })
        assert.include(shown(one), "reed")
      }).pipe(Effect.provide(program([]))))

    it.effect("an unknown variable in the persona and an unknown model are results", () =>
      Effect.gen(function*() {
        const persona = yield* result(SubagentTool.make("delegate", Spawn.Spawn, { persona: "Be {{mood}}" }))
        assert.deepInclude(persona.encodedResult, { reason: "UnknownVariable" })
        const model = yield* result(SubagentTool.make("delegate", Spawn.Spawn, { model: "large" }))
        assert.deepInclude(model.encodedResult, { reason: "UnknownModel" })
      }).pipe(Effect.provide(program([]))))

    it.effect("an empty prompt is a result that says what is wrong", () =>
      Effect.gen(function*() {
        const one = yield* result(Delegate, { ...params, prompt: " " })
        assert.deepInclude(one.encodedResult, { reason: "InvalidRequest" })
        assert.include(shown(one), "an empty prompt")
        assert.deepStrictEqual(yield* (yield* Scripted.Recording).starts, [])
      }).pipe(Effect.provide(program([[]]))))

    it.effect("S256 S496 whoever delegates in a turn that is cancelled already gets a result, and nobody is asked", () =>
      Effect.gen(function*() {
        const ended = new Lifetime()
        ended.end("interrupted")
        const one = yield* result(Delegate).pipe(
          Effect.updateService(CurrentAgent, (current) => ({ ...current, lifetime: ended }))
        )
        assert.deepInclude(one.encodedResult, {
          error: "the agent could not be started",
          reason: "Cancelled",
          diagnostic: "cancelled before the child started (parent)"
        })
        assert.deepStrictEqual(yield* (yield* Scripted.Recording).starts, [])
      }).pipe(Effect.provide(program([[]]))))

    it.effect("whoever delegates for an agent that is closed gets a result", () =>
      Effect.gen(function*() {
        const ended = new Lifetime()
        ended.end("closed")
        const one = yield* result(Delegate).pipe(
          Effect.updateService(CurrentAgent, (current) => ({ ...current, lifetime: ended }))
        )
        assert.deepInclude(one.encodedResult, { reason: "StartFailed" })
        assert.include(shown(one), "ParentClosed")
      }).pipe(Effect.provide(program([[]]))))

    it.effect("S264 the deepest agent that may not delegate is told how deep it would be, and what the most is", () =>
      Effect.gen(function*() {
        const one = yield* result(Delegate).pipe(
          Effect.updateService(CurrentAgent, (current) => ({ ...current, depth: 3 }))
        )
        assert.deepInclude(one.encodedResult, {
          reason: "LimitExceeded",
          diagnostic: "maxDepth is 3, and this would make it 4"
        })
        assert.strictEqual(defaultLimits.maxDepth, 3)
      }).pipe(Effect.provide(program([[]]))))
  })
})

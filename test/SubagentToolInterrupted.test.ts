import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber, Schema, SchemaGetter, Stream } from "effect"
import { TestClock } from "effect/testing"
import { type Agent, Agents } from "../src/Agent.ts"
import * as Scripted from "../src/providers/Scripted.ts"
import * as Session from "../src/Session.ts"
import { SessionStore } from "../src/SessionStore.ts"
import * as Subagent from "../src/Subagent.ts"
import * as SubagentTool from "../src/SubagentTool.ts"
import { call, hang, ScriptedModel, text, wait } from "../src/testing/ScriptedModel.ts"
import {
  assertSound,
  Delegate,
  delegating,
  eventsOf,
  logged,
  once,
  params,
  rootAgent,
  shownResults,
  spawning
} from "./utils/delegating.ts"
import { leakCheck } from "./utils/leaks.ts"

leakCheck()

describe("SubagentTool, interrupted,", () => {
  const interrupted = (agent: Agent, cause: Session.AbortCause) =>
    Effect.gen(function*() {
      const fiber = yield* Effect.forkChild(agent.prompt("Go"), { startImmediately: true })
      return { interrupt: agent.interrupt(cause), outcome: Fiber.join(fiber) }
    })

  it.effect("S495 leaves the child's id and what it had said in the parent's log", () =>
    Effect.gen(function*() {
      const reached = yield* Deferred.make<void>()
      const layer = spawning({
        root: [[text("I ask"), call("delegate", params)], [text("again")]],
        children: [[[wait(Effect.yieldNow), text("so ", "far"), wait(Deferred.succeed(reached, undefined)), hang]]]
      })
      yield* Effect.gen(function*() {
        const root = yield* rootAgent
        const { interrupt, outcome } = yield* interrupted(root, "user")
        yield* Deferred.await(reached)
        const [run] = yield* (yield* Subagent.Subagents).running
        yield* interrupt
        assert.deepStrictEqual((yield* outcome).cause, { _tag: "Aborted", cause: "user" })
        const [one] = yield* logged(root)
        assert.isTrue(one.isFailure)
        assert.deepStrictEqual(one.result, {
          error: "the agent was cancelled (parent)",
          reason: "Aborted",
          partial: "so far",
          childId: run.id,
          runId: run.runId
        })
        assert.isTrue(one.id === "call-delegate")
        yield* assertSound(root)
        const store = yield* SessionStore
        const events = yield* eventsOf(run.id)
        assert.deepStrictEqual(Session.validate(yield* store.header(run.id), events), [])
        assert.deepInclude(events[events.length - 1], { cause: { _tag: "Aborted", cause: "parent" } })
        // the parent goes on, and its model reads how that ended
        assert.strictEqual((yield* root.prompt("And now?")).text, "again")
        const [, second] = yield* (yield* ScriptedModel).requestsOf("root")
        assert.deepStrictEqual(shownResults(second), [one])
      }).pipe(Effect.provide(layer))
    }))

  describe("with a child that had finished and was being released", () => {
    const finished = (tool: typeof Delegate, settle: Effect.Effect<void>, ...acts: ReadonlyArray<Scripted.Act>) =>
      Effect.gen(function*() {
        const releasing = yield* Deferred.make<void>()
        const gate = yield* Deferred.make<void>()
        const release = Effect.andThen(Deferred.succeed(releasing, undefined), Deferred.await(gate))
        return yield* Effect.gen(function*() {
          const root = yield* rootAgent
          const { interrupt, outcome } = yield* interrupted(root, "user")
          yield* Deferred.await(releasing)
          const stopping = yield* Effect.forkChild(interrupt, { startImmediately: true })
          yield* Deferred.succeed(gate, undefined)
          yield* settle
          yield* Fiber.join(stopping)
          yield* outcome
          yield* assertSound(root)
          const [one] = yield* logged(root)
          assert.isTrue(one.isFailure)
          assert.deepInclude(one.result, {
            error: "the delegation was interrupted",
            reason: "Aborted",
            childId: "child-1"
          })
          return (one.result as SubagentTool.Failure).partial
        }).pipe(Effect.provide(delegating([{ id: "child-1", run: acts, release }], once, tool)))
      })

    it.effect("keeps its answer", () =>
      Effect.gen(function*() {
        assert.strictEqual(yield* finished(Delegate, Effect.void, Scripted.text("the answer")), "the answer")
      }))

    it.effect("keeps the value that was asked for", () =>
      Effect.gen(function*() {
        const outputSchema = Schema.Struct({ at: Schema.Date })
        const tool = SubagentTool.make("delegate", Scripted.Scripted, { outputSchema })
        const partial = yield* finished(tool, Effect.void, Scripted.complete({ at: "2026-01-02T00:00:00.000Z" }))
        assert.strictEqual(partial, `{"at":"2026-01-02T00:00:00.000Z"}`)
      }))

    it.effect("does not wait for ever for a value that cannot be encoded", () =>
      Effect.gen(function*() {
        const outputSchema = Schema.Struct({
          slow: Schema.String.pipe(Schema.decodeTo(Schema.String, {
            decode: SchemaGetter.transform((text: string) => text),
            encode: SchemaGetter.transformEffect((_: string) => Effect.never)
          }))
        })
        const tool = SubagentTool.make("delegate", Scripted.Scripted, { outputSchema })
        const partial = yield* finished(tool, TestClock.adjust("1 second"), Scripted.complete({ slow: "yes" }))
        assert.isUndefined(partial)
      }))
  })

  it.effect("keeps the results of the siblings that were done", () =>
    Effect.gen(function*() {
      const reached = yield* Deferred.make<void>()
      const layer = delegating(
        ({ prompt }) =>
          prompt === "quick"
            ? { id: "quick", run: [Scripted.text("done already")] }
            : {
              id: "slow",
              run: [
                Scripted.text("not yet"),
                Scripted.wait(Deferred.succeed(reached, undefined)),
                Scripted.hang
              ]
            },
        {
          root: [[
            call("delegate", { description: "quick", prompt: "quick" }, "call-quick"),
            call("delegate", { description: "slow", prompt: "slow" }, "call-slow")
          ]],
          children: []
        }
      )
      yield* Effect.gen(function*() {
        const root = yield* rootAgent
        const quickly = yield* Effect.forkChild(
          Stream.runDrain(Stream.takeUntil(root.progress, (one) => one._tag === "ToolEnded")),
          { startImmediately: true }
        )
        const { interrupt, outcome } = yield* interrupted(root, "user")
        yield* Deferred.await(reached)
        yield* Fiber.join(quickly)
        yield* interrupt
        yield* outcome
        const [quick, slow] = yield* logged(root)
        assert.isFalse(quick.isFailure)
        assert.deepInclude(quick.result, { text: "done already" })
        assert.isTrue(slow.isFailure)
        assert.deepInclude(slow.result, { reason: "Aborted", partial: "not yet", childId: "slow" })
        yield* assertSound(root)
      }).pipe(Effect.provide(layer))
    }))

  it.effect("says nothing of a child when there was none yet", () =>
    Effect.gen(function*() {
      const reached = yield* Deferred.make<void>()
      const layer = delegating([{
        start: Effect.andThen(Deferred.succeed(reached, undefined), Effect.never),
        run: []
      }])
      yield* Effect.gen(function*() {
        const root = yield* rootAgent
        const { interrupt, outcome } = yield* interrupted(root, "user")
        yield* Deferred.await(reached)
        yield* interrupt
        yield* outcome
        const [one] = yield* logged(root)
        assert.isTrue(one.isFailure)
        assert.notInclude(JSON.stringify(one.result), "childId")
        yield* assertSound(root)
      }).pipe(Effect.provide(layer))
    }))

  it.effect("a parent that closes takes its children along", () =>
    Effect.gen(function*() {
      const reached = yield* Deferred.make<void>()
      const layer = delegating([{
        id: "child-1",
        run: [Scripted.text("so far"), Scripted.wait(Deferred.succeed(reached, undefined)), Scripted.hang]
      }])
      yield* Effect.gen(function*() {
        const agents = yield* Agents
        yield* Effect.scoped(Effect.gen(function*() {
          const root = yield* agents.create({ cwd: "/work", id: "root" })
          yield* root.send("Go")
          yield* Deferred.await(reached)
        }))
        const [release] = yield* (yield* Scripted.Recording).releases
        assert.strictEqual(release.aborted, "parent")
        const store = yield* SessionStore
        const events = yield* eventsOf("root")
        assert.deepStrictEqual(Session.validate(yield* store.header("root"), events), [])
        assert.include(JSON.stringify(events.map(Session.encodeEvent)), `"childId":"child-1"`)
      }).pipe(Effect.provide(layer))
    }))
})

import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber, Layer } from "effect"
import { Toolkit } from "effect/ai"
import * as AgentTools from "../src/AgentTools.ts"
import * as Fork from "../src/providers/Fork.ts"
import * as Scripted from "../src/providers/Scripted.ts"
import * as Session from "../src/Session.ts"
import { SessionStore } from "../src/SessionStore.ts"
import * as Subagent from "../src/Subagent.ts"
import * as SubagentTool from "../src/SubagentTool.ts"
import { call, part, type Script, ScriptedModel, text } from "../src/testing/ScriptedModel.ts"
import { subagents } from "./utils/agents.ts"
import {
  assertSound,
  delegating,
  eventsOf,
  Fresh,
  logged,
  once,
  params,
  rootAgent,
  shownResults,
  spawning
} from "./utils/delegating.ts"
import { leakCheck } from "./utils/leaks.ts"

leakCheck()

describe("SubagentTool in our agents", () => {
  it.effect("S257 S481 an agent delegates, sees the answer and goes on", () =>
    Effect.gen(function*() {
      const root = yield* rootAgent
      const outcome = yield* root.prompt("Go")
      assert.strictEqual(outcome.text, "It is fine")
      const [one] = yield* logged(root)
      assert.isFalse(one.isFailure)
      assert.deepInclude(one.result, { kind: "foreground", text: "All is well" })
      assert.deepStrictEqual(one.modelOutput?.map((part) => part.type === "text" ? part.text : part.type), [
        "All is well"
      ])
      const model = yield* ScriptedModel
      const [, second] = yield* model.requestsOf("root")
      assert.deepStrictEqual(shownResults(second), [one])
      yield* assertSound(root)

      const { childId } = one.result as typeof SubagentTool.Foreground.Type
      const [asked] = yield* model.requestsOf(childId)
      assert.deepStrictEqual(asked.prompt.content.map((message) => message.role), ["user"])
      const store = yield* SessionStore
      const header = yield* store.header(childId)
      assert.deepStrictEqual([header.parent, header.depth, header.label], [root.id, 1, params.description])
      assert.deepStrictEqual(header.origin, { kind: "subagent", provider: "spawn" })
      assert.deepStrictEqual(Session.validate(header, yield* eventsOf(childId)), [])
    }).pipe(Effect.provide(spawning({
      root: [[text("I ask"), call("delegate", params)], [text("It is fine")]],
      children: [[[text("All is well")]]]
    }))))

  it.effect("S206 the log of the parent holds the call and its result, and no step of the child", () =>
    Effect.gen(function*() {
      const root = yield* rootAgent
      yield* root.prompt("Go")
      const events = yield* eventsOf("root")
      const kinds = events.map((event) =>
        event._tag === "MessageAppended" ? `${event._tag} ${event.message.role}` : event._tag
      )
      assert.deepStrictEqual(kinds, [
        "TurnStarted",
        "MessageAppended user",
        "MessageAppended assistant",
        "MessageAppended tool",
        "MessageAppended assistant",
        "TurnEnded"
      ])
      const written = JSON.stringify(events.map(Session.encodeEvent))
      for (const private_ of ["thinking about it", "call-child", "first words"]) assert.notInclude(written, private_)
      assert.include(written, "last words")
      yield* assertSound(root)
    }).pipe(Effect.provide(spawning({
      root: [[call("delegate", params)], [text("done")]],
      children: [[
        [
          part({ type: "reasoning-start", id: "r" }),
          part({ type: "reasoning-delta", id: "r", delta: "thinking about it" }),
          part({ type: "reasoning-end", id: "r" }),
          text("first words"),
          call("nothing", {}, "call-child")
        ],
        [text("last words")]
      ]]
    }))))

  it.effect("S22 files that a child made reach the parent's model and survive in its log", () =>
    Effect.gen(function*() {
      const root = yield* rootAgent
      yield* root.prompt("Go")
      yield* assertSound(root)
      const [, second] = yield* (yield* ScriptedModel).requestsOf("root")
      const [one] = shownResults(second)
      assert.deepStrictEqual(one.modelOutput?.map((part) => part.type), ["text", "file"])
    }).pipe(Effect.provide(spawning({
      root: [[call("delegate", params)], [text("done")]],
      children: [[[text("Here"), part({ type: "file", mediaType: "image/png", data: "AAEC" })]]]
    }))))

  it.effect("a fork knows the completed turns of its parent and not the one that delegates", () =>
    Effect.gen(function*() {
      const Ask = SubagentTool.make("ask", Fork.Fork)
      const layer = AgentTools.layer(Toolkit.make(Ask)).pipe(
        Layer.provide(SubagentTool.layer(Ask)),
        Layer.provideMerge(subagents({
          root: [[text("My name is Ada")], [text("I ask"), call("ask", params)], [text("done")]],
          children: [[[text("You are Ada")]]]
        }))
      )
      yield* Effect.gen(function*() {
        const root = yield* rootAgent
        yield* root.prompt("Who are you?")
        yield* root.prompt("Ask a fork")
        const [one] = yield* logged(root)
        const { childId } = one.result as typeof SubagentTool.Foreground.Type
        const [asked] = yield* (yield* ScriptedModel).requestsOf(childId)
        assert.deepStrictEqual(asked.prompt.content.map((message) => message.role), ["user", "assistant", "user"])
      }).pipe(Effect.provide(layer))
    }))

  it.effect("S249 S486 two tools of different names and providers give their own answers", () =>
    Effect.gen(function*() {
      class Reviewer extends Subagent.Provider<Reviewer>()("reviewer", Scripted.Scripted.capabilities) {}
      const Review = SubagentTool.make("review", Reviewer)
      const Test = SubagentTool.make("test", "scripted")
      const layer = AgentTools.layer(Toolkit.make(Review, Test)).pipe(
        Layer.provide([SubagentTool.layer(Review), SubagentTool.layer(Test)]),
        Layer.provideMerge(Layer.mergeAll(
          Scripted.layerFor(Reviewer, [[Scripted.text("looks good")]]),
          Scripted.layer([[Scripted.text("all green")]])
        )),
        Layer.provideMerge(subagents({
          root: [[call("review", params), call("test", params)], [text("done")]],
          children: []
        }))
      )
      yield* Effect.gen(function*() {
        const root = yield* rootAgent
        yield* root.prompt("Go")
        const results = yield* logged(root)
        assert.deepStrictEqual(results.map((one) => [one.name, (one.result as { readonly text: string }).text]), [
          ["review", "looks good"],
          ["test", "all green"]
        ])
        const starts = yield* (yield* Scripted.Recording).starts
        assert.sameMembers(starts.map((start) => start.provider), ["reviewer", "scripted"])
        assert.deepStrictEqual((yield* (yield* ScriptedModel).requestsOf("root"))[0].tools, ["review", "test"])
      }).pipe(Effect.provide(layer))
    }))

  describe("many at once (S265, S484, S560)", () => {
    const count = 20
    const calls = Array.from(
      { length: count },
      (_, i) => call("delegate", { description: `task ${i}`, prompt: `${i}` }, `call-${i}`)
    )
    const many: Script = { root: [calls, [text("done")]], children: [] }

    it.live(
      "20 delegations in one response overlap, 10 at a time, and answer in the model's order",
      () =>
        Effect.gen(function*() {
          let running = 0
          let most = 0
          const gate = yield* Deferred.make<void>()
          const full = yield* Deferred.make<void>()
          // the later it was asked, the sooner it is done
          const play = (request: Scripted.Request): Scripted.Play => [
            Scripted.wait(Effect.sync(() => {
              running++
              most = Math.max(most, running)
              if (running === 10) Deferred.doneUnsafe(full, Effect.void)
            })),
            Scripted.wait(Deferred.await(gate)),
            Scripted.delay(count - Number(request.prompt)),
            Scripted.wait(Effect.sync(() => void running--)),
            Scripted.text(`answer ${String(request.prompt)}`)
          ]
          yield* Effect.gen(function*() {
            const root = yield* rootAgent
            const fiber = yield* Effect.forkChild(root.prompt("Go"))
            yield* Deferred.await(full)
            const subagents = yield* Subagent.Subagents
            assert.strictEqual((yield* subagents.running).length, 10)
            yield* Deferred.succeed(gate, undefined)
            assert.strictEqual((yield* Fiber.join(fiber)).text, "done")
            assert.strictEqual(most, 10)
            const results = yield* logged(root)
            assert.deepStrictEqual(
              results.map((one) => [one.id, (one.result as { readonly text: string }).text]),
              Array.from({ length: count }, (_, i) => [`call-${i}`, `answer ${i}`])
            )
            assert.strictEqual((yield* (yield* Scripted.Recording).releases).length, count)
            assert.deepStrictEqual(yield* subagents.running, [])
            yield* assertSound(root)
          }).pipe(Effect.provide(delegating(play, many)))
        })
    )

    it.effect("one that fails leaves the others alone", () =>
      Effect.gen(function*() {
        const root = yield* rootAgent
        assert.strictEqual((yield* root.prompt("Go")).text, "done")
        const results = yield* logged(root)
        assert.deepStrictEqual(
          results.map((one) => one.isFailure),
          Array.from({ length: count }, (_, i) => i % 5 === 0)
        )
      }).pipe(Effect.provide(delegating(
        ({ prompt }) =>
          Number(prompt) % 5 === 0
            ? Number(prompt) % 2 === 0 ? Scripted.refuse("Exited") : [Scripted.fail("Overloaded")]
            : [Scripted.text("ok")],
        many
      ))))
  })

  describe("failures are results, and the parent's turn goes on", () => {
    it.effect("S264 S485 a child that fails", () =>
      Effect.gen(function*() {
        const root = yield* rootAgent
        const outcome = yield* root.prompt("Go")
        assert.deepStrictEqual(outcome.cause, { _tag: "Completed" })
        assert.strictEqual(outcome.text, "done")
        const [one] = yield* logged(root)
        assert.isTrue(one.isFailure)
        assert.deepInclude(one.result, {
          error: "the agent failed (Overloaded)",
          reason: "Failed",
          diagnostic: "try later",
          partial: "so far"
        })
        const [, second] = yield* (yield* ScriptedModel).requestsOf("root")
        assert.deepStrictEqual(shownResults(second), [one])
        yield* assertSound(root)
      }).pipe(Effect.provide(delegating([[
        Scripted.text("so far"),
        Scripted.fail("Overloaded", { diagnostic: "try later" })
      ]]))))

    it.effect("a child that cannot be started", () =>
      Effect.gen(function*() {
        const root = yield* rootAgent
        assert.strictEqual((yield* root.prompt("Go")).text, "done")
        const [one] = yield* logged(root)
        assert.deepInclude(one.result, { error: "the agent could not be started", reason: "StartFailed" })
        yield* assertSound(root)
      }).pipe(Effect.provide(delegating([Scripted.refuse("NotInstalled", "no such program")]))))

    it.effect("S51 arguments that do not fit", () =>
      Effect.gen(function*() {
        const root = yield* rootAgent
        assert.strictEqual((yield* root.prompt("Go")).text, "done")
        const [one] = yield* logged(root)
        assert.isTrue(one.isFailure)
        assert.match(JSON.stringify(one.result), /invalid_arguments.*prompt/)
        assert.deepStrictEqual(yield* (yield* Scripted.Recording).starts, [])
        yield* assertSound(root)
      }).pipe(Effect.provide(delegating([[]], {
        root: [[call("delegate", { description: "a task" })], [text("done")]],
        children: []
      }))))

    it.effect("S260 arguments that nobody asked for do not matter", () =>
      Effect.gen(function*() {
        const root = yield* rootAgent
        yield* root.prompt("Go")
        assert.deepInclude((yield* logged(root))[0].result, { kind: "foreground", text: "ok" })
        assert.deepInclude((yield* (yield* Scripted.Recording).starts)[0], { persona: undefined, model: undefined })
      }).pipe(Effect.provide(delegating([[Scripted.text("ok")]], {
        root: [[call("delegate", { ...params, provider: "fork", persona: "root", model: "large" })], [text("done")]],
        children: []
      }))))

    it.effect("S264 the tool stays visible at the greatest depth, and its result says how deep is too deep", () =>
      Effect.gen(function*() {
        const root = yield* rootAgent
        const outcome = yield* root.prompt("Go")
        // every agent hands down the task and says how deep it is; the one at depth 3 may not
        assert.strictEqual(outcome.text, "0")
        const requests = yield* (yield* ScriptedModel).requests
        assert.deepStrictEqual(Array.from(new Set(requests.map((one) => one.depth))), [0, 1, 2, 3])
        assert.isTrue(requests.every((one) => one.tools.includes("delegate")))
        const last = requests.filter((one) => one.depth === 3)
        const [refused] = shownResults(last[1])
        assert.isTrue(refused.isFailure)
        assert.deepInclude(refused.result, {
          reason: "LimitExceeded",
          diagnostic: "maxDepth is 3, and this would make it 4"
        })
        yield* assertSound(root)
      }).pipe(
        Effect.provide(spawning(({ depth, index }) => index === 0 ? [call("delegate", params)] : [text(String(depth))]))
      ))
  })

  it.effect("S249 the tool is there for as long as its layer", () =>
    Effect.gen(function*() {
      const tools = yield* AgentTools.AgentTools
      yield* Effect.scoped(Effect.gen(function*() {
        yield* Layer.build(AgentTools.layer(Toolkit.make(Fresh)).pipe(Layer.provide(SubagentTool.layer(Fresh))))
        assert.deepStrictEqual(yield* tools.names, ["delegate"])
      }))
      assert.deepStrictEqual(yield* tools.names, [])
    }).pipe(Effect.provide(subagents(once))))
})

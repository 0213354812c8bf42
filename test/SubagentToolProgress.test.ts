import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Layer, Option, Stream } from "effect"
import { Toolkit } from "effect/ai"
import { TestClock } from "effect/testing"
import * as AgentTools from "../src/AgentTools.ts"
import * as Scripted from "../src/providers/Scripted.ts"
import * as Session from "../src/Session.ts"
import * as Subagent from "../src/Subagent.ts"
import * as SubagentTool from "../src/SubagentTool.ts"
import { call, text } from "../src/testing/ScriptedModel.ts"
import { subagents } from "./utils/agents.ts"
import { assertSound, delegating, eventsOf, nothing, params, program, result, rootAgent } from "./utils/delegating.ts"
import { leakCheck } from "./utils/leaks.ts"

leakCheck()

describe("SubagentTool shows progress", () => {
  const child = [Scripted.reasoning("hm"), Scripted.text("a", "b"), Scripted.tool("read"), Scripted.text("c")]
  const expected = [
    ["reasoning", "hm"],
    ["text", "a"],
    ["text", "b"],
    ["tool-started", "read"],
    ["tool-ended", "read"],
    ["text", "c"]
  ]

  it.effect("S574 reaches whoever watches the parent, all of it before the answer, and no log", () =>
    Effect.gen(function*() {
      const root = yield* rootAgent
      const fiber = yield* Effect.forkChild(
        Stream.runCollect(Stream.takeUntil(root.progress, (one) => one._tag === "ToolEnded")),
        { startImmediately: true }
      )
      yield* root.prompt("Go")
      const seen = yield* Fiber.join(fiber)
      const [request] = yield* (yield* Scripted.Recording).starts
      const working = seen.flatMap((one) =>
        one._tag === "ToolProgress" ? [one.value as typeof SubagentTool.Working.Type] : []
      )
      assert.deepStrictEqual(working.map(({ detail, event }) => [event, detail]), expected)
      for (const one of working) {
        assert.deepInclude(one, { kind: "progress", runId: request.runId, childId: "child-1" })
      }
      const written = JSON.stringify((yield* eventsOf("root")).map(Session.encodeEvent))
      assert.notInclude(written, "progress")
      yield* assertSound(root)
    }).pipe(Effect.provide(delegating([{ id: "child-1", run: child }]))))

  it.effect("is not asked for when nobody watches", () =>
    Effect.gen(function*() {
      let asked = 0
      class Watched extends Subagent.Provider<Watched>()("watched", nothing) {}
      const Ask = SubagentTool.make("delegate", Watched)
      const provider = Watched.toLayer(Effect.succeed({
        start: ({ runId }) =>
          Effect.succeed({
            id: runId,
            localAgent: Option.none(),
            result: Effect.succeed({
              _tag: "Completed",
              text: "ok",
              output: [],
              usage: Session.noUsage,
              structured: undefined
            }),
            progress: Stream.suspend(() => {
              asked++
              return Stream.make({ _tag: "Text", delta: "ok" })
            })
          })
      }))
      const layer = AgentTools.layer(Toolkit.make(Ask)).pipe(
        Layer.provide(SubagentTool.layer(Ask)),
        Layer.provide(provider),
        Layer.provideMerge(subagents({
          root: [[call("delegate", params)], [text("done")], [call("delegate", params)], [text("done")]],
          children: []
        }))
      )
      yield* Effect.gen(function*() {
        const root = yield* rootAgent
        yield* root.prompt("Go")
        assert.strictEqual(asked, 0)
        const fiber = yield* Effect.forkChild(
          Stream.runCollect(Stream.takeUntil(root.progress, (one) => one._tag === "ToolEnded")),
          { startImmediately: true }
        )
        yield* root.prompt("Go again")
        assert.strictEqual(asked, 1)
        assert.include((yield* Fiber.join(fiber)).map((one) => one._tag), "ToolProgress")
      }).pipe(Effect.provide(layer))
    }))

  it.effect("does not hold up the answer of a child whose progress never ends", () =>
    Effect.gen(function*() {
      class Endless extends Subagent.Provider<Endless>()("endless", nothing) {}
      const Ask = SubagentTool.make("delegate", Endless)
      const provider = Endless.toLayer(Effect.succeed({
        start: ({ runId }) =>
          Effect.succeed({
            id: runId,
            localAgent: Option.none(),
            result: Effect.succeed({
              _tag: "Completed",
              text: "ok",
              output: [],
              usage: Session.noUsage,
              structured: undefined
            }),
            progress: Stream.never
          })
      }))
      const fiber = yield* Effect.forkChild(
        Effect.provide(result(Ask), Layer.provideMerge(provider, program([]))),
        { startImmediately: true }
      )
      yield* TestClock.adjust("1 second")
      assert.deepInclude((yield* Fiber.join(fiber)).result, { text: "ok" })
    }))
})

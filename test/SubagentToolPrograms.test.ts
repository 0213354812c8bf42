import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber, Ref, Stream } from "effect"
import { Chat, LanguageModel, Prompt, Toolkit } from "effect/ai"
import * as Agent from "../src/Agent.ts"
import { CurrentAgent } from "../src/CurrentAgent.ts"
import * as Scripted from "../src/providers/Scripted.ts"
import * as Spawn from "../src/providers/Spawn.ts"
import { SessionStore } from "../src/SessionStore.ts"
import * as SubagentTool from "../src/SubagentTool.ts"
import { call, text } from "../src/testing/ScriptedModel.ts"
import { Delegate, params, program } from "./utils/delegating.ts"
import { leakCheck } from "./utils/leaks.ts"

leakCheck()

const kit = Toolkit.make(Delegate)
const handlers = SubagentTool.layer(Delegate)

describe("SubagentTool in a program of its own", () => {
  it.effect("S481 generateText runs the delegation and has its result, and nothing preliminary", () =>
    Effect.gen(function*() {
      const response = yield* LanguageModel.generateText({ prompt: "Go", toolkit: kit })
      assert.deepStrictEqual(response.content.map((part) => part.type), ["tool-call", "finish", "tool-result"])
      const [one] = response.toolResults
      assert.isFalse(one.isFailure)
      assert.deepInclude(one.result, { kind: "foreground", childId: "child-1", text: "All is well" })
      // what the program says next holds the answer, as its model is to see it
      const messages = Prompt.fromResponseParts(response.content).content
      const [part] = messages.flatMap(({ content, role }) => role === "tool" ? content : [])
      assert.strictEqual(part.type, "tool-result")
      if (part.type === "tool-result") {
        assert.deepInclude(part.modelOutput?.[0], { type: "text", text: "All is well" })
      }
    }).pipe(
      Effect.provide(handlers),
      Effect.provide(program([{ id: "child-1", run: [Scripted.reasoning("hm"), Scripted.text("All is well")] }]))
    ))

  it.effect("streamText shows what the child does before its answer", () =>
    Effect.gen(function*() {
      const parts = yield* Stream.runCollect(LanguageModel.streamText({ prompt: "Go", toolkit: kit }))
      const results = parts.flatMap((part) => part.type === "tool-result" ? [part] : [])
      assert.deepStrictEqual(
        results.map(({ preliminary, result }) => {
          const { detail, event, kind, text } = result as { readonly [key: string]: unknown }
          return [preliminary, kind, event ?? text, detail]
        }),
        [
          [true, "progress", "reasoning", "hm"],
          [true, "progress", "text", "All is"],
          [true, "progress", "text", " well"],
          [false, "foreground", "All is well", undefined]
        ]
      )
      assert.isTrue(results.every((one) => one.id === "call-delegate" && !one.isFailure))
      assert.strictEqual(parts[parts.length - 1].type, "finish")
      // none of it becomes part of the conversation
      const message = Prompt.fromResponseParts(parts).content.find(({ role }) => role === "tool")
      assert.strictEqual(message?.content.length, 1)
    }).pipe(
      Effect.provide(handlers),
      Effect.provide(program([[Scripted.reasoning("hm"), Scripted.text("All is", " well")]]))
    ))

  it.effect("a failed delegation is a result, and no failure of the program", () =>
    Effect.gen(function*() {
      const { toolResults: [one] } = yield* LanguageModel.generateText({ prompt: "Go", toolkit: kit })
      assert.isTrue(one.isFailure)
      assert.deepInclude(one.result, { error: "the agent declined the task", reason: "Refusal", partial: "No" })
    }).pipe(Effect.provide(handlers), Effect.provide(program([[Scripted.text("No"), Scripted.refusal]]))))

  it.effect("a chat delegates over several turns", () =>
    Effect.gen(function*() {
      const chat = yield* Chat.empty
      yield* chat.generateText({ prompt: "Go", toolkit: kit })
      const last = yield* chat.generateText({ prompt: Prompt.empty, toolkit: kit })
      assert.strictEqual(last.text, "done")
      const history = yield* Ref.get(chat.history)
      assert.deepStrictEqual(history.content.map(({ role }) => role), ["user", "assistant", "tool", "assistant"])
    }).pipe(Effect.provide(handlers), Effect.provide(program([[Scripted.text("All is well")]]))))

  it.effect("S265 S484 several calls in one response run at the same time", () =>
    Effect.gen(function*() {
      const both = yield* Deferred.make<void>()
      let running = 0
      const meet = Scripted.wait(
        Effect.suspend(() => ++running === 2 ? Deferred.succeed(both, undefined) : Deferred.await(both))
      )
      const layer = program((request) => [meet, Scripted.text(String(request.prompt))], {
        root: [[
          call("delegate", { description: "one", prompt: "one" }, "call-1"),
          call("delegate", { description: "two", prompt: "two" }, "call-2")
        ]],
        children: []
      })
      const { toolResults } = yield* LanguageModel.generateText({
        prompt: "Go",
        toolkit: kit,
        concurrency: "unbounded"
      }).pipe(Effect.provide(handlers), Effect.provide(layer))
      assert.sameDeepMembers(
        toolResults.map(({ id, result }) => [id, (result as { readonly text: string }).text]),
        [["call-1", "one"], ["call-2", "two"]]
      )
    }))

  it.effect("delegates for the root that the program is: its session is the parent of the child's", () =>
    Effect.gen(function*() {
      const Ask = SubagentTool.make("delegate", Spawn.Spawn)
      const { toolResults: [one] } = yield* LanguageModel.generateText({ prompt: "Go", toolkit: Toolkit.make(Ask) })
        .pipe(Effect.provide(SubagentTool.layer(Ask)))
      const { childId } = one.result as typeof SubagentTool.Foreground.Type
      const root = yield* CurrentAgent
      const store = yield* SessionStore
      const header = yield* store.header(root.sessionId)
      assert.deepStrictEqual([header.id as string, header.depth, header.cwd], ["root", 0, "/work"])
      const child = yield* store.header(childId)
      assert.deepStrictEqual([child.parent, child.depth, child.cwd], [root.sessionId, 1, "/work"])
    }).pipe(Effect.provide(program([], { root: [[call("delegate", params)]], children: [[[text("ok")]]] }))))

  it.effect("who calls counts, not who built the layer", () =>
    Effect.gen(function*() {
      const builder = yield* CurrentAgent
      const agents = yield* Agent.Agents
      const caller = yield* agents.create({ cwd: "/elsewhere", id: "caller" })
      // the layer is built where the root is around, and the tool called on behalf of another agent
      yield* LanguageModel.generateText({ prompt: "Go", toolkit: kit }).pipe(
        Effect.provideService(CurrentAgent, caller.identity),
        Effect.provide(handlers)
      )
      const [start] = yield* (yield* Scripted.Recording).starts
      assert.strictEqual(start.parent.sessionId, caller.id)
      assert.strictEqual(start.parent.cwd, "/elsewhere")
      assert.notStrictEqual(builder.sessionId, caller.id)
    }).pipe(Effect.provide(program([[]], [[call("delegate", params)]]))))

  it.effect("S257 an interrupted program takes its child along, and waits until it is gone", () =>
    Effect.gen(function*() {
      const reached = yield* Deferred.make<void>()
      const released = yield* Ref.make(false)
      const layer = program([{
        run: [Scripted.text("so far"), Scripted.wait(Deferred.succeed(reached, undefined)), Scripted.hang],
        release: Effect.andThen(Effect.yieldNow, Ref.set(released, true))
      }])
      yield* Effect.gen(function*() {
        const fiber = yield* Effect.forkChild(LanguageModel.generateText({ prompt: "Go", toolkit: kit }))
        yield* Deferred.await(reached)
        yield* Fiber.interrupt(fiber)
        assert.isTrue(yield* Ref.get(released))
        const [release] = yield* (yield* Scripted.Recording).releases
        assert.strictEqual(release.aborted, "disposed")
      }).pipe(Effect.provide(handlers), Effect.provide(layer))
    }))

  it.effect("a response that was cut off starts nobody", () =>
    Effect.gen(function*() {
      const { toolResults: [one] } = yield* LanguageModel.generateText({ prompt: "Go", toolkit: kit })
      assert.isTrue(one.isFailure)
      assert.deepStrictEqual(yield* (yield* Scripted.Recording).starts, [])
    }).pipe(
      Effect.provide(handlers),
      Effect.provide(program([[]], {
        root: [[
          call("delegate", params),
          { _tag: "Part", part: { type: "finish", reason: "length", usage: { inputTokens: {}, outputTokens: {} } } }
        ]],
        children: []
      }))
    ))
})

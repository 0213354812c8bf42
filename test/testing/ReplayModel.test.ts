import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Result, Schema } from "effect"
import { AiError, type LanguageModel, Tool, Toolkit } from "effect/ai"
import * as Agent from "../../src/Agent.ts"
import * as AgentModels from "../../src/AgentModels.ts"
import * as AgentTools from "../../src/AgentTools.ts"
import * as Fork from "../../src/providers/Fork.ts"
import * as Spawn from "../../src/providers/Spawn.ts"
import * as Session from "../../src/Session.ts"
import * as SessionStore from "../../src/SessionStore.ts"
import * as Subagent from "../../src/Subagent.ts"
import * as SubagentTool from "../../src/SubagentTool.ts"
import * as SystemPrompt from "../../src/SystemPrompt.ts"
import * as ReplayModel from "../../src/testing/ReplayModel.ts"
import { call, fail, finish, part, reasoning, ScriptedModel, text } from "../../src/testing/ScriptedModel.ts"
import * as Scripts from "../../src/testing/ScriptedModel.ts"
import { leakCheck } from "../utils/leaks.ts"

leakCheck()

const Add = Tool.make("add", {
  parameters: Schema.Struct({ a: Schema.Number, b: Schema.Number }),
  success: Schema.Number
})
const SpawnTool = SubagentTool.make("spawn", Spawn.Spawn)
const ForkTool = SubagentTool.make("fork", Fork.Fork)
const toolkit = Toolkit.make(Add, SpawnTool, ForkTool)

/** Agents that add and delegate; `off` is by how much the adding is wrong. */
const program = <E, R>(model: Layer.Layer<LanguageModel.LanguageModel | ScriptedModel, E, R>, off = 0) =>
  AgentTools.layer(toolkit).pipe(
    Layer.provide(Layer.mergeAll(
      Toolkit.make(Add).toLayer({ add: ({ a, b }) => Effect.succeed(a + b + off) }),
      SubagentTool.layer(SpawnTool),
      SubagentTool.layer(ForkTool)
    )),
    Layer.provideMerge(Layer.mergeAll(Spawn.layer, Fork.layer)),
    Layer.provideMerge(Subagent.layer()),
    Layer.provideMerge(Agent.layer()),
    Layer.provideMerge(Layer.mergeAll(
      AgentModels.layer().pipe(Layer.provideMerge(model)),
      AgentTools.layerRegistry,
      SystemPrompt.layer,
      SessionStore.layerMemory
    ))
  )

const viaJson = (events: ReadonlyArray<Session.Event>): ReadonlyArray<Session.Event> =>
  (JSON.parse(JSON.stringify(events.map(Session.encodeEvent))) as ReadonlyArray<unknown>).map((json) =>
    Result.getOrThrow(Session.decodeEvent(json))
  )

const talk = (...prompts: ReadonlyArray<string>) =>
  Effect.gen(function*() {
    const agents = yield* Agent.Agents
    const root = yield* agents.create({ cwd: "/work", id: "root" })
    const outcomes = yield* Effect.forEach(prompts, (prompt) => root.prompt(prompt))
    const { children, root: events } = yield* ReplayModel.load("root")
    return { outcomes, recording: { root: viaJson(events), children: children.map(viaJson) } }
  })

/** What a log says, without what is made up anew each time. */
const said = (events: ReadonlyArray<Session.Event>) =>
  events.flatMap((event): ReadonlyArray<unknown> =>
    event._tag === "MessageAppended" && event.message.role === "assistant"
      ? [event.message.content.map((one) => ({ ...one, options: undefined }))]
      : event._tag === "TurnEnded"
      ? [{ cause: event.cause, ...event.usage, elapsed: 0 }]
      : []
  )

const replayed = (recording: ReplayModel.Recording, options: ReplayModel.Options, ...prompts: ReadonlyArray<string>) =>
  Effect.scoped(Effect.provide(talk(...prompts), program(ReplayModel.layer(recording, options))))

const recorded = (script: Scripts.Script, ...prompts: ReadonlyArray<string>) =>
  Effect.scoped(Effect.provide(talk(...prompts), program(Scripts.layer(script))))

describe("ReplayModel", () => {
  it.effect("answers as the model did: thoughts, tools, files, usage and reasons", () =>
    Effect.gen(function*() {
      const first = yield* recorded(
        [
          [
            reasoning("I add"),
            text("one ", "moment"),
            call("add", { a: 1, b: 2 }, "c1"),
            call("add", { a: 3, b: 4 }, "c2")
          ],
          [
            text("3 and 7"),
            part({ type: "file", mediaType: "image/png", data: "AAEC" }),
            finish("stop", { output: 9 })
          ],
          [text("cut o"), call("add", { a: 1, b: 2 }, "c3"), finish("length")],
          [text("no"), finish("content-filter")]
        ],
        "Add",
        "More",
        "Worse"
      )
      assert.deepStrictEqual(first.outcomes.map((one) => one.cause._tag), ["Completed", "MaxTokens", "Refusal"])
      const second = yield* replayed(first.recording, {}, "Add", "More", "Worse")
      assert.deepStrictEqual(said(second.recording.root), said(first.recording.root))
      assert.deepStrictEqual(
        second.outcomes.map(({ output, text }) => ({ output, text })),
        first.outcomes.map(({ output, text }) => ({ output, text }))
      )
      assert.strictEqual(second.outcomes[0].usage.outputTokens, 10)
    }))

  it.effect("gives each child its own recording, in whatever order they ask", () =>
    Effect.gen(function*() {
      const script: Scripts.Script = (request) => {
        if (request.depth === 0) {
          return request.index === 0
            ? [
              call("spawn", { description: "left", prompt: "Go left" }, "c1"),
              call("spawn", { description: "right", prompt: "Go right" }, "c2")
            ]
            : [text("both back")]
        }
        const prompt = JSON.stringify(request.prompt.content)
        return prompt.includes("Go left") ? [text("on the left")] : [text("on the right")]
      }
      const { recording } = yield* recorded(script, "Go")
      assert.strictEqual(recording.children.length, 2)
      const swapped = { root: recording.root, children: recording.children.toReversed() }
      for (const one of [recording, swapped]) {
        const again = yield* replayed(one, { toolResults: "any" }, "Go")
        assert.deepStrictEqual(again.outcomes[0].text, "both back")
        assert.deepStrictEqual(again.recording.children.map(said), recording.children.map(said))
      }
    }))

  it.effect("knows a fork by the conversation it began with, and a grandchild by its place below", () =>
    Effect.gen(function*() {
      const script: Scripts.Script = (request) => {
        const messages = JSON.stringify(request.prompt.content)
        if (request.depth === 0) {
          if (request.index === 0) return [text("The word is plum")]
          return request.index === 1
            ? [call("fork", { description: "recall", prompt: "What is the word?" })]
            : [text("It recalled")]
        }
        if (request.depth === 1 && request.index === 0) {
          return [call("spawn", { description: "check", prompt: "Is it a fruit?" })]
        }
        return request.depth === 1 ? [text(messages.includes("plum") ? "plum, a fruit" : "?")] : [text("It is")]
      }
      const first = yield* recorded(script, "Tell me a word", "Recall it")
      assert.strictEqual(first.recording.children.length, 2)
      const second = yield* replayed(first.recording, { toolResults: "any" }, "Tell me a word", "Recall it")
      assert.deepStrictEqual(said(second.recording.root), said(first.recording.root))
      assert.deepStrictEqual(second.recording.children.map(said), first.recording.children.map(said))
    }))

  it.effect("reads a stored tree when its layer is built", () =>
    Effect.gen(function*() {
      yield* Effect.scoped(talk("Hello"))
      const model = yield* Layer.build(ReplayModel.layerStore("root"))
      const again = yield* Effect.scoped(
        Effect.provide(talk("Hello"), Layer.fresh(program(Layer.succeedContext(model))))
      )
      assert.strictEqual(again.outcomes[0].text, "hi")
      const missing = yield* Effect.flip(ReplayModel.load("nobody"))
      assert.strictEqual(missing._tag, "SessionNotFound")
    }).pipe(Effect.provide(program(Scripts.layer([[text("hi")]])))))

  it.effect("plays one session from its events alone", () =>
    Effect.gen(function*() {
      const { recording } = yield* recorded([[text("hi")], [], [text("bye")]], "Hello", "Say nothing", "Bye")
      const { outcomes } = yield* Effect.scoped(
        Effect.provide(talk("Hello", "Say nothing", "Bye"), program(ReplayModel.layer(recording.root)))
      )
      assert.deepStrictEqual(outcomes.map((one) => [one.cause._tag, one.text]), [
        ["Completed", "hi"],
        ["Completed", ""],
        ["Completed", "bye"]
      ])
    }))

  it.effect("says where a conversation leaves its recording", () =>
    Effect.gen(function*() {
      const { recording } = yield* recorded([[call("add", { a: 1, b: 2 })], [text("three")]], "Add")
      const diagnostic = (outcome: { readonly cause: Session.TurnCause }) =>
        outcome.cause._tag === "Failed" ? outcome.cause.diagnostic : outcome.cause._tag

      const [asked] = (yield* replayed(recording, {}, "Subtract")).outcomes
      assert.match(
        diagnostic(asked),
        /the root session leaves its recording at model call 0: it had been told .*"Add".* and now is told .*"Subtract"/
      )
      const [, more] = (yield* replayed(recording, {}, "Add", "Again")).outcomes
      assert.match(diagnostic(more), /leaves its recording at model call 2: no more calls were recorded/)

      const wrong = (options: ReplayModel.Options) =>
        Effect.scoped(Effect.provide(talk("Add"), program(ReplayModel.layer(recording, options), 1)))
      const [result] = (yield* wrong({})).outcomes
      assert.match(diagnostic(result), /at model call 1: it had been told .*false,3.* and now is told .*false,4/)
      assert.strictEqual((yield* wrong({ toolResults: "any" })).outcomes[0].text, "three")
    }))

  it.effect("says that a child was not recorded", () =>
    Effect.gen(function*() {
      const { recording } = yield* recorded(
        { root: [[call("spawn", { description: "x", prompt: "Go" })], [text("done")]], children: [[text("gone")]] },
        "Go"
      )
      const alone = yield* replayed({ root: recording.root, children: [] }, { toolResults: "any" }, "Go")
      assert.match(JSON.stringify(alone.recording.root), /has no recording: there are 0 of children/)
    }))

  it.effect("repeats a failure, and goes on behind it", () =>
    Effect.gen(function*() {
      const first = yield* recorded(
        [
          [fail(new AiError.InvalidRequestError({ description: "too long" }))],
          [fail(new AiError.ContentPolicyError({ description: "no" }))],
          [text("fine")]
        ],
        "One",
        "Two",
        "Three"
      )
      const tags = (outcomes: typeof first.outcomes) => outcomes.map((one) => one.cause._tag)
      assert.deepStrictEqual(tags(first.outcomes), ["Failed", "Refusal", "Completed"])
      const second = yield* replayed(first.recording, {}, "One", "Two", "Three")
      assert.deepStrictEqual(tags(second.outcomes), tags(first.outcomes))
      assert.match(JSON.stringify(second.outcomes[0].cause), /was never answered.*too long/)
      assert.strictEqual(second.outcomes[2].text, "fine")
    }))

  it.effect("records what it was asked, as a scripted model does", () =>
    Effect.gen(function*() {
      const { recording } = yield* recorded([[text("hi")]], "Hello")
      yield* Effect.gen(function*() {
        yield* talk("Hello")
        const requests = yield* (yield* ScriptedModel).requestsOf("root")
        assert.deepStrictEqual(requests.map((request) => request.tools.toSorted()), [["add", "fork", "spawn"]])
      }).pipe(Effect.provide(program(ReplayModel.layer(recording))))
    }))
})

import { assert, describe } from "@effect/vitest"
import { Effect, Fiber, Layer, Schedule, Schema, Stream } from "effect"
import { Toolkit } from "effect/ai"
import { TestClock } from "effect/testing"
import { Agents } from "../src/Agent.ts"
import { CostOf } from "../src/AgentModels.ts"
import * as AgentTools from "../src/AgentTools.ts"
import { CurrentAgent } from "../src/CurrentAgent.ts"
import * as Fork from "../src/providers/Fork.ts"
import * as Spawn from "../src/providers/Spawn.ts"
import type * as Session from "../src/Session.ts"
import { SessionStore } from "../src/SessionStore.ts"
import * as Subagent from "../src/Subagent.ts"
import * as SubagentTool from "../src/SubagentTool.ts"
import * as SystemPrompt from "../src/SystemPrompt.ts"
import { call, delay, fail, finish, type Request, ScriptedModel, text, wait } from "../src/testing/ScriptedModel.ts"
import {
  agentOf,
  agentTest,
  eventsOf,
  heldCreation,
  moment,
  resultsOf,
  settle,
  spoken,
  textsOf,
  tool
} from "./utils/agentTest.ts"
import { leakCheck } from "./utils/leaks.ts"

leakCheck()

const Delegate = SubagentTool.make("delegate", Spawn.Spawn)
const Capped = SubagentTool.make("delegate", Spawn.Spawn, { maxDepth: 2 })
const Ask = SubagentTool.make("ask", Fork.Fork)

const delegate = AgentTools.layer(Toolkit.make(Delegate)).pipe(Layer.provide(SubagentTool.layer(Delegate)))
const capped = AgentTools.layer(Toolkit.make(Capped)).pipe(Layer.provide(SubagentTool.layer(Capped)))
const ask = AgentTools.layer(Toolkit.make(Ask)).pipe(Layer.provide(SubagentTool.layer(Ask)))

const task = { description: "colour", prompt: "Which colour do I like?" }

const requestsOf = (id: string) => ScriptedModel.use((model) => model.requestsOf(id))

/** The results of the tools that a model was shown, in its words. */
const shown = ({ prompt }: Request): ReadonlyArray<string> =>
  prompt.content.flatMap((message) =>
    message.role === "tool"
      ? message.content.flatMap((part) => part.type === "tool-result" ? [JSON.stringify(part.result)] : [])
      : []
  )

const childIds = (parent: string) =>
  SessionStore.use((store) =>
    Effect.map(
      Stream.runCollect(store.list),
      (all) => all.flatMap((one) => one._tag !== "Damaged" && one.header.parent === parent ? [one.header] : [])
    )
  )

describe("whole programs", () => {
  agentTest(
    "S531 an agent asks two fresh children in turn and then a fork, and only the fork knows what it was told",
    () => ({
      script: (request) => {
        if (request.depth > 0) {
          const knows = textsOf(request).some((line) => line.includes("I like ultramarine"))
          return [text(knows ? "You like ultramarine" : "Nobody told me")]
        }
        // the first turn of the root, then one step for each delegation
        switch (request.index) {
          case 0:
            return [text("Noted")]
          case 1:
            return [call("delegate", task, "one")]
          case 2:
            return [call("delegate", task, "two")]
          case 3:
            return [call("ask", task, "three")]
          default:
            return [text(shown(request).map((result) => (JSON.parse(result) as { text: string }).text).join(", "))]
        }
      },
      with: [delegate, ask],
      body: Effect.gen(function*() {
        const root = yield* agentOf("root")
        yield* root.prompt("I like ultramarine. Keep it in mind.")
        const outcome = yield* root.prompt("Ask the others")
        assert.strictEqual(outcome.text, "Nobody told me, Nobody told me, You like ultramarine")
        assert.deepStrictEqual((yield* spoken("root")).filter((line) => line.includes("calls")), [
          "assistant calls delegate",
          "assistant calls delegate",
          "assistant calls ask"
        ])
        const children = yield* childIds("root")
        assert.sameMembers(children.map(({ origin }) => origin.kind === "subagent" ? origin.provider : ""), [
          "spawn",
          "spawn",
          "fork"
        ])
        for (const { depth, id, label, origin, seedLength } of children) {
          assert.deepStrictEqual([depth, label], [1, task.description])
          const first = (yield* requestsOf(id))[0]
          const forked = origin.kind === "subagent" && origin.provider === "fork"
          assert.strictEqual(seedLength, forked ? 4 : undefined)
          assert.deepStrictEqual(textsOf(first), [
            ...forked ? ["user: I like ultramarine. Keep it in mind.", "assistant: Noted"] : [],
            `user: ${task.prompt}`
          ])
        }
        assert.deepStrictEqual(yield* (yield* Subagent.Subagents).running, [])
      })
    })
  )

  agentTest(
    "S532 of two generations the last is told that a third would have depth 3 where 2 is the most, and says so",
    () => ({
      script: (request) =>
        request.index === 0 ? [call("delegate", task)] : [text(`I was told: ${shown(request).join()}`)],
      with: [capped],
      body: Effect.gen(function*() {
        const outcome = yield* (yield* agentOf("root")).prompt("go")
        assert.deepStrictEqual(outcome.cause, { _tag: "Completed" })
        const [child] = yield* childIds("root")
        const [grandchild] = yield* childIds(child.id)
        assert.deepStrictEqual([child.depth, grandchild.depth], [1, 2])
        assert.deepStrictEqual(yield* childIds(grandchild.id), [])
        const [refused] = yield* resultsOf(grandchild.id)
        assert.isTrue(refused.isFailure)
        const diagnostic = "the child would have depth 3, and maxDepth is 2"
        assert.deepInclude(refused.result, { reason: "DepthExceeded", diagnostic })
        assert.include((yield* spoken(grandchild.id)).at(-1), diagnostic)
        // and so it comes all the way up, as an answer and no failure
        for (const id of ["root", child.id]) {
          const [answer] = yield* resultsOf(id)
          assert.isFalse(answer.isFailure)
          assert.include((answer.result as { readonly text: string }).text, diagnostic)
        }
        assert.include(outcome.text, diagnostic)
      })
    })
  )
})

describe("how a child is started", () => {
  agentTest("S143 checks, a place, the composition, the session, the run, the prompt, the flush, the result", () => {
    const steps: Array<string> = []
    const note = (step: string) => Effect.sync(() => void steps.push(step))
    const place = moment()
    let running: Effect.Effect<ReadonlyArray<Subagent.RunInfo>> = Effect.succeed([])
    const isPublished = (id: string) => Effect.map(running, (all) => all.some((run) => run.id === id))
    const noteLog = (header: Session.Header, step: string) =>
      header.label !== "watched"
        ? Effect.void
        : Effect.flatMap(isPublished(header.id), (published) => note(`${step}, ${published ? "" : "un"}published`))
    return {
      store: (store) => ({
        ...store,
        create: (header, seed) =>
          Effect.map(Effect.andThen(noteLog(header, "session"), store.create(header, seed)), (log) => ({
            header: log.header,
            append: (events) => Effect.andThen(noteLog(header, events[0]._tag), log.append(events)),
            flush: Effect.andThen(noteLog(header, "flush"), log.flush)
          }))
      }),
      script: ({ prompt }) =>
        textsOf({ prompt } as Request).includes("user: first") ? [wait(place.passed)] : [text("done")],
      root: { limits: { maxChildren: 1 } },
      body: Effect.gen(function*() {
        const subagents = yield* Subagent.Subagents
        running = subagents.running
        const refused = Effect.flip(Spawn.start({ prompt: "go", label: "watched", maxDepth: 0, persona: "{{who}}" }))
        // the checks come before the place that is taken
        yield* Spawn.start({ prompt: "first" })
        assert.strictEqual((yield* refused)._tag, "DepthExceeded")
        // the place comes before the composition, which is wrong
        const wrong = yield* Effect.forkChild(
          Effect.flip(Spawn.start({ prompt: "go", label: "watched", persona: "{{who}}" })),
          { startImmediately: true }
        )
        const right = yield* Effect.forkScoped(
          Effect.tap(Spawn.start({ prompt: "go", label: "watched" }), () => note("started")),
          { startImmediately: true }
        )
        yield* settle
        assert.isUndefined(wrong.pollUnsafe())
        assert.deepStrictEqual(steps, [])
        yield* place.now
        // the composition comes before the session
        assert.strictEqual((yield* Fiber.join(wrong))._tag, "UnknownVariable")
        const run = yield* Fiber.join(right)
        yield* Effect.tap(run.result, () => note("result"))
        assert.deepStrictEqual(steps.filter((step) => step !== "MessageAppended, published"), [
          "session, unpublished",
          "started",
          "TurnStarted, published",
          "TurnEnded, published",
          "flush, published",
          "result"
        ])
      })
    }
  })

  agentTest("S146 all that can be wrong with a child is found before it has a session", () => {
    let made = 0
    return {
      store: (store) => ({
        ...store,
        create: (header, seed) => Effect.andThen(Effect.sync(() => made++), store.create(header, seed))
      }),
      script: () => [call("structured_output", { n: 1 })],
      with: [tool("read", () => Effect.void), SystemPrompt.layerSection({ name: "rules", order: 1, text: "[rules]" })],
      body: Effect.gen(function*() {
        const before = made
        const Count = Schema.Struct({ n: Schema.Int })
        for (
          const wrong of [
            { toolFilter: { allow: ["none"] } },
            { persona: "{{who}}" },
            { model: "none" },
            { outputSchema: Schema.String as never }
          ]
        ) yield* Effect.flip(Effect.asVoid(Spawn.start({ prompt: "go", ...wrong })))
        assert.strictEqual(made, before)
        const run = yield* Spawn.start({
          prompt: "go",
          toolFilter: { allow: [] },
          persona: "[persona]",
          outputSchema: Count
        })
        assert.strictEqual((yield* run.result)._tag, "Completed")
        assert.strictEqual(made, before + 1)
        // and all of it is in its very first request
        const [request] = yield* requestsOf(run.id)
        assert.deepStrictEqual(request.tools, ["structured_output"])
        const system = textsOf(request).filter((line) => line.startsWith("system"))
        assert.match(system.join("\n"), /\[persona\][^]*\[rules\][^]*structured_output/)
      })
    }
  })

  agentTest("S144 what its parent is later is its parent's own future", () => {
    const gate = moment()
    return {
      script: ({ depth, index }) =>
        depth === 0 ? [text("root")] : index === 0 ? [wait(gate.passed), call("read", {})] : [text("done")],
      with: [tool("read", () => Effect.void), tool("write", () => Effect.void)],
      body: Effect.gen(function*() {
        const root = yield* CurrentAgent
        const early = { ...root, cwd: "/early", maxTokens: 7, restrictions: [{ deny: ["write"] }] }
        const late = { ...root, cwd: "/late", maxTokens: 8, restrictions: [{ deny: ["read"] }], depth: 2 }
        const run = yield* Effect.provideService(Spawn.start({ prompt: "go" }), CurrentAgent, early)
        // somebody else waits for it, and its parent goes on
        const waiting = yield* Effect.forkChild(Effect.provideService(run.result, CurrentAgent, late), {
          startImmediately: true
        })
        yield* (yield* agentOf("root")).prompt("something else")
        yield* gate.now
        assert.strictEqual((yield* Fiber.join(waiting)).text, "done")
        const requests = yield* requestsOf(run.id)
        assert.deepStrictEqual(requests.map(({ depth, maxTokens, tools }) => [depth, maxTokens, tools]), [
          [1, 7, ["read"]],
          [1, 7, ["read"]]
        ])
        const { cwd } = yield* SessionStore.use((store) => store.header(run.id))
        assert.strictEqual(cwd, "/early")
      })
    }
  })

  agentTest("S144 S576 a fork's seed stays what its parent's conversation was", () => {
    const gate = moment()
    return {
      script: ({ depth, index }) =>
        depth === 0
          ? [text(`root ${index}`)]
          : index === 0
          ? [wait(gate.passed), call("read", {})]
          : [text("child")],
      with: [tool("read", () => Effect.void)],
      body: Effect.gen(function*() {
        const root = yield* agentOf("root")
        yield* root.prompt("before")
        const run = yield* Fork.start({ prompt: "go" })
        yield* root.prompt("meanwhile")
        yield* gate.now
        yield* run.result
        yield* root.prompt("afterwards")
        const requests = yield* requestsOf(run.id)
        assert.strictEqual(requests.length, 2)
        for (const request of requests) {
          assert.deepStrictEqual(textsOf(request).slice(0, 3), ["user: before", "assistant: root 0", "user: go"])
        }
        const { seedLength } = yield* SessionStore.use((store) => store.header(run.id))
        assert.strictEqual(seedLength, 4)
        assert.notInclude((yield* spoken(run.id)).join(), "meanwhile")
        // one that is made now knows all of it
        const later = yield* Fork.start({ prompt: "go" })
        yield* later.result
        assert.strictEqual((yield* SessionStore.use((store) => store.header(later.id))).seedLength, 12)
      })
    }
  })
})

describe("what comes of a child", () => {
  agentTest("S567 S593 its result tells tokens, model calls, time and cost", () => ({
    script: [
      [delay("2 seconds"), call("read", {}), finish("tool-calls", { input: 100, output: 10 })],
      [delay("3 seconds"), text("done"), finish("stop", { input: 200, output: 20 })]
    ],
    with: [tool("read", () => Effect.sleep("1 second"))],
    body: Effect.gen(function*() {
      const priced = yield* Effect.forkChild(
        Effect.provideService(
          Spawn.delegate({ prompt: "go" }),
          CostOf,
          ({ usage }) => (usage.inputTokens.total ?? 0) / 100
        ),
        { startImmediately: true }
      )
      yield* TestClock.adjust("6 seconds")
      assert.deepStrictEqual((yield* Fiber.join(priced)).usage, {
        inputTokens: 300,
        outputTokens: 30,
        steps: 2,
        elapsed: 6000,
        cost: 3
      })
      // without a price there is no cost, and who is cut off has used what it has used
      const limited = yield* Effect.forkChild(Spawn.delegate({ prompt: "go", timeout: "4 seconds" }), {
        startImmediately: true
      })
      yield* TestClock.adjust("4 seconds")
      const { _tag, usage } = yield* Fiber.join(limited)
      assert.strictEqual(_tag, "Aborted")
      assert.deepInclude(usage, { inputTokens: 100, outputTokens: 10, elapsed: 4000 })
      assert.notProperty(usage, "cost")
    })
  }))

  agentTest("S165 S582 S596 a model call that is made again belongs to its turn, and leaves the run completed", () => ({
    script: [[text("half an ans"), fail()], [call("read", {})], [text(" "), fail()], []],
    options: { retry: Schedule.recurs(1) },
    with: [tool("read", () => Effect.void)],
    body: Effect.gen(function*() {
      const run = yield* Spawn.start({ prompt: "go" })
      const result = yield* run.result
      assert.deepStrictEqual([result._tag, result.text, result.output], ["Completed", "", []])
      const events = yield* eventsOf(run.id)
      assert.strictEqual(events.filter(({ _tag }) => _tag === "TurnStarted").length, 1)
      assert.deepStrictEqual(yield* spoken(run.id), ["user: go", "assistant calls read", "read gives null"])
    })
  }))

  agentTest("S580 a restriction decides what a child's model may call, and is no sandbox for what a tool does", () => {
    const written: Array<string> = []
    const write = (by: string) => Effect.sync(() => void written.push(by))
    return {
      script: [[call("write", {}), call("format", {})], [text("done")]],
      with: [tool("write", () => write("write")), tool("format", () => write("format"))],
      body: Effect.gen(function*() {
        const run = yield* Spawn.start({ prompt: "go", toolFilter: { deny: ["write"] } })
        assert.strictEqual((yield* run.result).text, "done")
        assert.deepStrictEqual((yield* resultsOf(run.id)).map(({ isFailure, name }) => [name, isFailure]), [
          ["write", true],
          ["format", false]
        ])
        assert.deepStrictEqual(written, ["format"])
      })
    }
  })

  agentTest("S585 its provider may go away while it is made", () => {
    const { created, creating, store } = heldCreation()
    return {
      script: () => [text("done")],
      store,
      body: Effect.gen(function*() {
        const subagents = yield* Subagent.Subagents
        const starting = yield* Effect.scoped(Effect.gen(function*() {
          const context = yield* Layer.build(Layer.fresh(Spawn.layer))
          const fiber = yield* Effect.forkDetach(
            Effect.scoped(
              Effect.provideContext(Effect.flatMap(Spawn.start({ prompt: "go" }), (run) => run.result), context)
            ),
            { startImmediately: true }
          )
          yield* creating.passed
          return fiber
        }))
        yield* created.now
        assert.deepInclude(yield* Fiber.join(starting), { _tag: "Completed", text: "done" })
        assert.deepStrictEqual(yield* subagents.running, [])
        assert.deepStrictEqual((yield* Agents.use((agents) => agents.list)).map(({ id }) => id as string), ["root"])
      })
    }
  })
})

import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber, Layer, Stream } from "effect"
import { type Prompt, Toolkit } from "effect/ai"
import { type Agent, Agents } from "../src/Agent.ts"
import * as AgentTools from "../src/AgentTools.ts"
import * as Fork from "../src/providers/Fork.ts"
import * as Scripted from "../src/providers/Scripted.ts"
import * as Spawn from "../src/providers/Spawn.ts"
import * as Session from "../src/Session.ts"
import { SessionStore } from "../src/SessionStore.ts"
import * as Subagent from "../src/Subagent.ts"
import * as SubagentTool from "../src/SubagentTool.ts"
import { call, hang, part, type Request, type Script, ScriptedModel, text, wait } from "../src/testing/ScriptedModel.ts"
import { subagents } from "./utils/agents.ts"
import { delegating, logged, once, params, rootAgent } from "./utils/delegating.ts"
import { leakCheck } from "./utils/leaks.ts"

leakCheck()

const Delegate = SubagentTool.make("delegate", Spawn.Spawn)

/** Agents that delegate to fresh children of this process, which may delegate in turn. */
const spawning = (model: Script) =>
  AgentTools.layer(Toolkit.make(Delegate)).pipe(
    Layer.provide(SubagentTool.layer(Delegate)),
    Layer.provideMerge(subagents(model))
  )

const eventsOf = (id: string) => Effect.flatMap(SessionStore, (store) => Stream.runCollect(store.read(id)))

/** A log that holds nothing it should not, and survives being written as JSON. */
const assertSound = (agent: Agent) =>
  Effect.gen(function*() {
    const events = yield* Stream.runCollect(agent.events)
    assert.deepStrictEqual(Session.validate(agent.header, events), [])
    const written = JSON.parse(JSON.stringify(events.map(Session.encodeEvent))) as ReadonlyArray<unknown>
    const read = written.map((json) => {
      const result = Session.decodeEvent(json)
      assert.strictEqual(result._tag, "Success")
      return result._tag === "Success" ? result.success : undefined
    })
    assert.deepStrictEqual(read, events)
  })

/** What a model was shown as the results of its tools. */
const shownResults = (request: Request): ReadonlyArray<Prompt.ToolResultPart> =>
  request.prompt.content.flatMap((message) =>
    message.role === "tool" ? message.content.filter((part) => part.type === "tool-result") : []
  )

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
      assert.deepInclude(header, { parent: "root", depth: 1, label: params.description })
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

  it.effect("files that a child made reach the parent's model and survive in its log", () =>
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

  describe("many at once (S265)", () => {
    const count = 20
    const calls = Array.from(
      { length: count },
      (_, i) => call("delegate", { description: `task ${i}`, prompt: `${i}` }, `call-${i}`)
    )
    const many: Script = { root: [calls, [text("done")]], children: [] }

    it.effect(
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
        }).pipe((effect) => Effect.timeout(effect, "15 seconds")),
      { timeout: 20_000 }
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

    it.effect("arguments that do not fit", () =>
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

  describe("progress", () => {
    const child = [Scripted.reasoning("hm"), Scripted.text("a", "b"), Scripted.tool("read"), Scripted.text("c")]
    const expected = [
      ["reasoning", "hm"],
      ["text", "a"],
      ["text", "b"],
      ["tool-started", "read"],
      ["tool-ended", "read"],
      ["text", "c"]
    ]

    it.effect("reaches whoever watches the parent, all of it before the answer, and no log", () =>
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
        let watched = 0
        class Watched extends Subagent.Provider<Watched>()("watched", {
          ...Scripted.Scripted.capabilities,
          steer: false
        }) {}
        const Ask = SubagentTool.make("delegate", Watched)
        const provider = Watched.toLayer(Effect.sync(() => ({
          start: () =>
            Effect.succeed({
              id: "child-1",
              localAgent: { _tag: "None" } as never,
              result: Effect.succeed<Subagent.Result<unknown>>({
                _tag: "Completed",
                text: "ok",
                output: [],
                usage: Session.noUsage,
                structured: undefined
              }),
              progress: Stream.unwrap(Effect.sync(() => {
                watched++
                return Stream.empty
              }))
            })
        })))
        assert.isDefined([Ask, provider, watched])
      }))
  })

  describe("an interrupted delegation", () => {
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
          children: [[[text("so ", "far"), wait(Deferred.succeed(reached, undefined)), hang]]]
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

    it.effect("keeps the answer of a child that had finished and was being released", () =>
      Effect.gen(function*() {
        const releasing = yield* Deferred.make<void>()
        const gate = yield* Deferred.make<void>()
        const layer = delegating([{
          id: "child-1",
          run: [Scripted.text("the answer")],
          release: Effect.andThen(Deferred.succeed(releasing, undefined), Deferred.await(gate))
        }])
        yield* Effect.gen(function*() {
          const root = yield* rootAgent
          const { interrupt, outcome } = yield* interrupted(root, "user")
          yield* Deferred.await(releasing)
          const stopping = yield* Effect.forkChild(interrupt, { startImmediately: true })
          yield* Deferred.succeed(gate, undefined)
          yield* Fiber.join(stopping)
          yield* outcome
          const [one] = yield* logged(root)
          assert.deepInclude(one.result, {
            error: "the delegation was interrupted",
            reason: "Aborted",
            partial: "the answer",
            childId: "child-1"
          })
          yield* assertSound(root)
        }).pipe(Effect.provide(layer))
      }))

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
                  Scripted.delay(1),
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
          const { interrupt, outcome } = yield* interrupted(root, "user")
          yield* Deferred.await(reached)
          // until the quick one is done
          while ((yield* (yield* Scripted.Recording).releases).length === 0) yield* Effect.yieldNow
          for (let i = 0; i < 10; i++) yield* Effect.yieldNow
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

  it.effect("S249 the tool is there for as long as its layer", () =>
    Effect.gen(function*() {
      const tools = yield* AgentTools.AgentTools
      yield* Effect.scoped(Effect.gen(function*() {
        yield* Layer.build(AgentTools.layer(Toolkit.make(Delegate)).pipe(Layer.provide(SubagentTool.layer(Delegate))))
        assert.deepStrictEqual(yield* tools.names, ["delegate"])
      }))
      assert.deepStrictEqual(yield* tools.names, [])
    }).pipe(Effect.provide(subagents(once))))
})

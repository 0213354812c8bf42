import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Exit, Layer, Scope } from "effect"
import * as Agent from "../src/Agent.ts"
import { CurrentAgent } from "../src/CurrentAgent.ts"
import * as Spawn from "../src/providers/Spawn.ts"
import type * as Session from "../src/Session.ts"
import { SessionStore } from "../src/SessionStore.ts"
import { ScriptedModel, text } from "../src/testing/ScriptedModel.ts"
import { agents, subagents } from "./utils/agents.ts"
import { agentTest, causesOf, create, eventsOf, spoken, textsOf } from "./utils/agentTest.ts"
import { leakCheck } from "./utils/leaks.ts"
import { answered, called, ended, header, returned, said, started, steered } from "./utils/sessionEvents.ts"

leakCheck()

/** Stores a session as a process left it, without its lease. */
const stored = (header: Session.Header, events: ReadonlyArray<Session.Event>) =>
  Effect.scoped(Effect.gen(function*() {
    const log = yield* (yield* SessionStore).create(header)
    yield* log.append(events)
  }))

const open = (id: string, options?: Agent.OpenOptions) => Agent.Agents.use((agents) => agents.open(id, options))

describe("opening a stored session", () => {
  agentTest("continues its conversation", () => ({
    script: [[text("again")]],
    body: Effect.gen(function*() {
      yield* stored(header("a", { depth: 1, label: "helper" }), [
        started(0, 0),
        said(1, "hi"),
        answered(2, "hello"),
        ended(3, 0),
        said(4, "note")
      ])
      const agent = yield* open("a")
      assert.deepStrictEqual([agent.header.depth, agent.header.label, agent.identity.depth], [1, "helper", 1])
      assert.strictEqual((yield* eventsOf("a")).length, 5)
      const outcome = yield* agent.prompt("and now?")
      assert.strictEqual(outcome.turn, 1)
      assert.deepStrictEqual(textsOf((yield* (yield* ScriptedModel).requestsOf("a"))[0]), [
        "user: hi",
        "assistant: hello",
        "user: note",
        "user: and now?"
      ])
      // what it used before is not what it used since
      assert.strictEqual((yield* agent.usage).steps, 1)
    })
  }))

  agentTest("S203 closes a turn whose process died in its tools", () => ({
    script: [[text("sorry")]],
    body: Effect.gen(function*() {
      yield* stored(header("a"), [
        started(0, 0),
        said(1, "hi"),
        called(2, "one", "two"),
        returned(3, "one"),
        steered(4, "hurry", "m1")
      ])
      const agent = yield* open("a")
      assert.deepStrictEqual(yield* causesOf("a"), [{ _tag: "Interrupted" }])
      assert.deepStrictEqual((yield* spoken("a")).slice(3), [
        "tool_one gives \"done\"",
        "steered user: hurry",
        `tool_two fails ${
          JSON.stringify({
            type: "execution-interrupted",
            reason: "the process ended while the tool ran: its outcome is unknown"
          })
        }`
      ])
      const outcome = yield* agent.prompt("go on")
      assert.deepStrictEqual([outcome.turn, outcome.text], [1, "sorry"])
    })
  }))

  for (
    const [where, events] of [
      ["before it asked", [started(0, 0), said(1, "hi")]],
      ["before its first message", [started(0, 0)]],
      ["before its calls ran", [started(0, 0), said(1, "hi"), called(2, "one")]],
      ["before its end", [started(0, 0), said(1, "hi"), answered(2, "hello")]]
    ] as const
  ) {
    agentTest(`S203 closes a turn whose process died ${where}, and only once`, () => ({
      script: [],
      body: Effect.gen(function*() {
        yield* stored(header("a"), events)
        yield* Effect.scoped(open("a"))
        const repaired = yield* eventsOf("a")
        assert.strictEqual(repaired.at(-1)?._tag, "TurnEnded")
        yield* Effect.scoped(open("a"))
        assert.deepStrictEqual(yield* eventsOf("a"), repaired)
      })
    }))
  }

  agentTest("S151 S155 S365 may deepen it and never lifts it", () => ({
    script: [],
    body: Effect.gen(function*() {
      yield* stored(header("a", { depth: 2 }), [])
      for (const [asked, depth] of [[undefined, 2], [0, 2], [1, 2], [2, 2], [5, 5]] as const) {
        const agent = yield* Effect.scoped(open("a", { depth: asked }))
        assert.strictEqual(agent.identity.depth, depth)
        assert.strictEqual(agent.header.depth, 2)
      }
      for (const depth of [Number.NaN, 2.5]) {
        const error = yield* Effect.flip(open("a", { depth }))
        assert.strictEqual(error._tag, "InvalidAgent")
      }
      const agent = yield* open("a", { depth: 1 })
      const error = yield* Spawn.start({ prompt: "go", maxDepth: 2 }).pipe(
        Effect.provideService(CurrentAgent, agent.identity),
        Effect.flip
      )
      assert.deepStrictEqual(error._tag === "DepthExceeded" && [error.attempted, error.max], [3, 2])
    })
  }))

  agentTest("is refused while it is live, and possible again when it is closed", () => ({
    script: [],
    body: Effect.gen(function*() {
      const scope = yield* Scope.make()
      yield* Scope.provide(create("a"), scope)
      const error = yield* Effect.flip(open("a"))
      assert.deepStrictEqual([error._tag, "id" in error && error.id], ["HeldElsewhere", "a"])
      yield* Scope.close(scope, Exit.void)
      yield* open("a")
      assert.strictEqual((yield* Effect.flip(open("nowhere")))._tag, "SessionNotFound")
    })
  }))

  agentTest("is possible again also when something that was to learn of the close threw", () => ({
    script: [],
    body: Effect.gen(function*() {
      const exit = yield* Effect.exit(Effect.scoped(Effect.map(create("a"), ({ identity }) => {
        identity.lifetime.onEnd(() => {
          throw new Error("broken")
        })
      })))
      assert.isTrue(Exit.hasDies(exit))
      yield* open("a")
    })
  }))

  agentTest("S195 gives the session back when its composition is refused", () => ({
    script: [],
    body: Effect.gen(function*() {
      yield* stored(header("a"), [])
      assert.strictEqual((yield* Effect.flip(open("a", { model: "none" })))._tag, "UnknownModel")
      assert.strictEqual((yield* Effect.flip(open("a", { persona: "{{who}}" })))._tag, "UnknownVariable")
      assert.strictEqual((yield* Effect.flip(open("a", { restriction: { deny: ["none"] } })))._tag, "UnknownTool")
      yield* open("a")
    })
  }))
})

describe("layerRoot", () => {
  it.effect("restores the session of its id, and makes it when there is none", () =>
    Effect.gen(function*() {
      const context = yield* Layer.build(agents(() => [text("done")]))
      const root = (options: Partial<Parameters<typeof Agent.layerRoot>[0]> = {}) =>
        Effect.map(
          Layer.build(Agent.layerRoot({ cwd: "/work", id: "top", ...options })),
          (built) => Context.get(built, CurrentAgent)
        )
      yield* Effect.gen(function*() {
        const first = yield* Effect.scoped(Effect.gen(function*() {
          const identity = yield* root({ depth: 1 })
          const agent = yield* Agent.Agents.use((agents) => agents.get("top"))
          yield* Effect.fromOption(agent).pipe(Effect.flatMap((agent) => agent.prompt("hi")))
          // it is held while it lives
          assert.strictEqual((yield* Effect.flip(root()))._tag, "HeldElsewhere")
          return identity
        }))
        assert.strictEqual(first.lifetime.ended, "closed")
        const second = yield* root({ cwd: "/elsewhere", depth: 0 })
        assert.deepStrictEqual([second.sessionId, second.depth, second.cwd], [first.sessionId, 1, "/work"])
        assert.isUndefined(second.lifetime.ended)
        assert.deepStrictEqual(yield* spoken("top"), ["user: hi", "assistant: done"])
        // one without an id is a new one each time
        const [one, two] = [yield* root({ id: undefined }), yield* root({ id: undefined })]
        assert.notStrictEqual(one.sessionId, two.sessionId)
      }).pipe(Effect.provide(context))
    }))

  it.effect("S51 S152 S366 refuses a depth that is none", () =>
    Effect.gen(function*() {
      for (const depth of [Number.NaN, 1.5, -1, -0, Number.MAX_SAFE_INTEGER + 1]) {
        const error = yield* Effect.flip(Effect.scoped(Layer.build(
          Agent.layerRoot({ cwd: "/work", depth }).pipe(Layer.provide(agents([])))
        )))
        assert.deepStrictEqual([error._tag, "field" in error && error.field], ["InvalidAgent", "depth"])
      }
    }))

  it.effect("S51 S152 S366 an identity with a malformed depth starts nothing", () =>
    Effect.gen(function*() {
      const root = yield* CurrentAgent
      for (const depth of [Number.NaN, 1.5, -1, -0, Number.MAX_SAFE_INTEGER + 1, Number.MAX_SAFE_INTEGER]) {
        const error = yield* Spawn.start({ prompt: "go" }).pipe(
          Effect.provideService(CurrentAgent, { ...root, depth }),
          Effect.flip
        )
        assert.deepStrictEqual([error._tag, "field" in error && error.field], ["InvalidRequest", "depth"])
      }
      assert.deepStrictEqual(
        (yield* Agent.Agents.use((agents) => agents.list)).map(({ id }) => id as string),
        [root.sessionId]
      )
    }).pipe(Effect.provide(Agent.layerRoot({ cwd: "/work" }).pipe(Layer.provideMerge(subagents([]))))))
})

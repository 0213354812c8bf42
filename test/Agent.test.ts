import { assert, describe } from "@effect/vitest"
import { Context, Effect, Exit, Fiber, Layer, Option, Scope, Stream } from "effect"
import { Prompt } from "effect/ai"
import * as Agent from "../src/Agent.ts"
import { CurrentAgent, defaultLimits } from "../src/CurrentAgent.ts"
import * as Session from "../src/Session.ts"
import { SessionStore } from "../src/SessionStore.ts"
import { call, hang, ScriptedModel, text, wait } from "../src/testing/ScriptedModel.ts"
import { agentTest, create, eventsOf, moment, settle, spoken, tagsOf, textsOf, tool } from "./utils/agentTest.ts"
import { leakCheck } from "./utils/leaks.ts"
import { called, ended, returned, said, started } from "./utils/sessionEvents.ts"

leakCheck()

const listed = Agent.Agents.use((agents) => Effect.map(agents.list, (all) => all.map(({ id }) => id as string)))

describe("Agents", () => {
  agentTest("S198 S356 an agent is registered for as long as its scope lives", () => ({
    script: [],
    body: Effect.gen(function*() {
      const agents = yield* Agent.Agents
      const scope = yield* Scope.make()
      const agent = yield* Scope.provide(create("a", { label: "helper", depth: 2 }), scope)
      assert.deepStrictEqual(yield* listed, ["root", "a"])
      assert.strictEqual(Option.getOrThrow(yield* agents.get("a")), agent)
      assert.isTrue(Option.isNone(yield* agents.get("b")))
      assert.deepStrictEqual(
        { ...agent.header, createdAt: 0 },
        {
          version: 1,
          id: Session.SessionId.make("a"),
          depth: 2,
          cwd: "/work",
          createdAt: 0,
          origin: { kind: "root" },
          label: "helper"
        }
      )
      assert.strictEqual(yield* agent.status, "idle")
      assert.isTrue(Option.isNone(yield* agent.last))
      yield* Scope.close(scope, Exit.void)
      yield* Scope.close(scope, Exit.void)
      assert.deepStrictEqual(yield* listed, ["root"])
      assert.strictEqual(yield* agent.status, "closed")
      for (const refused of [agent.send("x"), agent.prompt("x"), agent.inject("x")]) {
        const error = yield* Effect.flip(refused)
        assert.deepStrictEqual([error._tag, "sessionId" in error && error.sessionId], ["AgentClosed", "a"])
      }
      assert.strictEqual((yield* Effect.flip(agent.steer("x", { kind: "user" }))).reason, "disposed")
      yield* agent.interrupt("user")
      yield* agent.idle
      assert.deepStrictEqual(yield* agent.survivors, [])
      assert.deepStrictEqual(yield* eventsOf("a"), [])
    })
  }))

  agentTest("S195 what cannot be is refused before a session exists", () => ({
    script: [],
    body: Effect.gen(function*() {
      const agents = yield* Agent.Agents
      for (
        const [field, options] of [
          ["cwd", { cwd: "" }],
          ["depth", { depth: -1 }],
          ["depth", { depth: -0 }],
          ["depth", { depth: 1.5 }],
          ["depth", { depth: Number.NaN }],
          ["depth", { depth: Number.MAX_SAFE_INTEGER + 1 }],
          ["id", { id: "../escape" }],
          ["id", { id: "" }]
        ] as const
      ) {
        const error = yield* Effect.flip(agents.create({ cwd: "/work", ...options }))
        assert.deepStrictEqual([error._tag, "field" in error && error.field], ["InvalidAgent", field])
      }
      const store = yield* SessionStore
      assert.strictEqual((yield* Stream.runCollect(store.list)).length, 1)
      const taken = yield* Effect.flip(create("root"))
      assert.strictEqual(taken._tag, "SessionExists")
      const missing = yield* Effect.flip(agents.open("nowhere"))
      assert.strictEqual(missing._tag, "SessionNotFound")
      for (
        const [field, options] of [
          ["maxSteps", { maxSteps: 0 }],
          ["grace", { grace: Number.NaN }],
          ["grace", { grace: -1 }],
          ["grace", { grace: { seconds: Number.NaN } }],
          ["grace", { grace: "-1 second" }],
          ["maxRetryAfter", { maxRetryAfter: Number.NaN }],
          ["maxRetryAfter", { maxRetryAfter: "-Infinity" }],
          ["maxRetryAfter", { maxRetryAfter: [Number.NaN, 0] as const }],
          ["maxRetryAfter", { maxRetryAfter: "soon" as "1 second" }]
        ] as const
      ) {
        const error = yield* Effect.flip(Effect.scoped(Layer.build(Agent.layer(options))))
        assert.deepStrictEqual([error._tag, error.field], ["InvalidAgent", field])
      }
      yield* Effect.scoped(Layer.build(Agent.layer({ grace: 0, maxRetryAfter: 0 })))
    })
  }))

  agentTest("S202 a seed is a whole log, or nothing is made of it", () => ({
    script: () => [text("done")],
    body: Effect.gen(function*() {
      const whole = [started(0, 0), said(1, "hi"), called(2, "t"), returned(3, "t"), ended(4, 0)]
      for (
        const [seed, issue] of [
          [whole.slice(0, 3), "it does not end with the end of a turn"],
          [[...whole, said(5)], "it does not end with the end of a turn"],
          [whole.slice(1), "seq 1 where 0 was due"],
          [[...whole.slice(0, 3), ended(4, 0)], "seq 4 where 3 was due"],
          [[...whole.slice(0, 3), ended(3, 0)], "it ends inside a turn"]
        ] as const
      ) {
        const error = yield* Effect.flip(create("a", { seed }))
        assert.deepStrictEqual(error._tag === "InvalidAgent" && [error.field, error.issue], ["seed", issue])
      }
      const agent = yield* create("a", { seed: whole })
      assert.strictEqual(agent.header.seedLength, 5)
      assert.strictEqual((yield* agent.prompt("go")).turn, 1)
    })
  }))

  agentTest("an id is made up when none is given", () => ({
    script: () => [text("done")],
    body: Effect.gen(function*() {
      const agents = yield* Agent.Agents
      const [one, two] = yield* Effect.all([agents.create({ cwd: "/a" }), agents.create({ cwd: "/b" })])
      assert.notStrictEqual(one.id, two.id)
      assert.deepStrictEqual([one.header.cwd, two.header.cwd], ["/a", "/b"])
      assert.strictEqual((yield* one.prompt("go")).text, "done")
    })
  }))

  agentTest("an agent delegates as itself, inside its turns and out of them", () => {
    const identities: Array<CurrentAgent["Service"]> = []
    return {
      script: [[call("who", {})], [text("done")]],
      with: [tool("who", () => Effect.map(CurrentAgent, (agent) => void identities.push(agent)))],
      body: Effect.gen(function*() {
        const agent = yield* create("a", { depth: 1, maxTokens: 7, limits: { maxDepth: 2 } })
        yield* agent.prompt("go")
        identities.push(agent.identity)
        for (const { lifetime, sessionId, ...rest } of identities) {
          assert.strictEqual(sessionId, agent.id)
          assert.isUndefined(lifetime.ended)
          assert.deepStrictEqual(rest, {
            depth: 1,
            cwd: "/work",
            model: undefined,
            maxTokens: 7,
            restrictions: [],
            limits: { ...defaultLimits, maxDepth: 2 }
          })
        }
        assert.notStrictEqual(identities[0].lifetime, identities[1].lifetime)
      })
    }
  })
})

describe("an agent's inbox", () => {
  agentTest("S199 messages are answered one after the other, in the order they came", () => {
    const gate = moment()
    return {
      script: ({ prompt }) => {
        const last = prompt.content.at(-1)!
        const said = last.role === "user" && last.content[0].type === "text" ? last.content[0].text : "?"
        return [...said === "one" ? [wait(gate.passed)] : [], text(`answer to ${said}`)]
      },
      body: Effect.gen(function*() {
        const agent = yield* create("a")
        yield* agent.send("one")
        yield* agent.send("two")
        const third = yield* Effect.forkChild(agent.prompt("three"), { startImmediately: true })
        yield* agent.send("four", { source: { kind: "report", senderId: "child" }, messageId: "m4" })
        yield* settle
        assert.strictEqual(yield* agent.status, "running")
        assert.deepStrictEqual(yield* spoken("a"), ["user: one"])
        yield* gate.now
        const outcome = yield* Fiber.join(third)
        assert.deepStrictEqual([outcome.turn, outcome.text], [2, "answer to three"])
        yield* agent.idle
        assert.strictEqual(yield* agent.status, "idle")
        assert.deepStrictEqual(yield* spoken("a"), [
          "user: one",
          "assistant: answer to one",
          "user: two",
          "assistant: answer to two",
          "user: three",
          "assistant: answer to three",
          "user: four",
          "assistant: answer to four"
        ])
        assert.strictEqual(Option.getOrThrow(yield* agent.last).text, "answer to four")
        const stored = (yield* eventsOf("a")).flatMap((event) =>
          event._tag === "MessageAppended" && event.source !== undefined ? [[event.source, event.messageId]] : []
        )
        assert.deepStrictEqual(stored.at(-1), [{ kind: "report", senderId: "child" }, "m4"])
        assert.deepStrictEqual(stored.slice(0, 3).map(([source]) => source), [
          { kind: "user" },
          { kind: "user" },
          { kind: "user" }
        ])
        assert.strictEqual(new Set(stored.map(([, id]) => id)).size, 4)
      })
    }
  })

  agentTest("S31 a message may have parts; its source is never shown to the model", () => ({
    script: [[text("nice")]],
    body: Effect.gen(function*() {
      const agent = yield* create("a")
      yield* agent.prompt([
        Prompt.makePart("text", { text: "look" }),
        Prompt.makePart("file", { mediaType: "image/png", data: "AAAA" })
      ], { source: { kind: "coordinator", senderId: "secret-sender" } })
      const [request] = yield* (yield* ScriptedModel).requestsOf("a")
      const [message] = request.prompt.content
      assert.deepStrictEqual(message.role === "user" && message.content.map(({ type }) => type), ["text", "file"])
      assert.notInclude(JSON.stringify(request.prompt), "secret-sender")
    })
  }))

  agentTest("giving up on a prompt cancels nothing", () => {
    const gate = moment()
    return {
      script: [[wait(gate.passed), text("answer")], [text("next")]],
      body: Effect.gen(function*() {
        const agent = yield* create("a")
        const waiting = yield* Effect.forkChild(agent.prompt("go"), { startImmediately: true })
        const queued = yield* Effect.forkChild(agent.prompt("and go on"), { startImmediately: true })
        yield* settle
        yield* Fiber.interrupt(waiting)
        yield* Fiber.interrupt(queued)
        yield* gate.now
        yield* agent.idle
        assert.deepStrictEqual(yield* spoken("a"), [
          "user: go",
          "assistant: answer",
          "user: and go on",
          "assistant: next"
        ])
      })
    }
  })

  agentTest("S199 what is injected into an idle agent is stored at once and wakes nobody", () => ({
    script: [[text("hello")]],
    body: Effect.gen(function*() {
      const agent = yield* create("a")
      yield* agent.inject("the build is green", { source: { kind: "notice" }, messageId: "n1" })
      yield* settle
      assert.strictEqual(yield* agent.status, "idle")
      assert.deepStrictEqual(yield* tagsOf("a"), ["MessageAppended"])
      assert.deepStrictEqual(yield* (yield* ScriptedModel).requestsOf("a"), [])
      yield* agent.prompt("hi")
      const [request] = yield* (yield* ScriptedModel).requestsOf("a")
      assert.deepStrictEqual(textsOf(request), ["user: the build is green", "user: hi"])
    })
  }))

  agentTest("S199 what is injected into a running turn is in its next request", () => {
    const reached = moment()
    const gate = moment()
    return {
      script: [[wait(reached.now), wait(gate.passed), call("t", {})], [text("done")]],
      with: [tool("t", () => Effect.succeed(1))],
      body: Effect.gen(function*() {
        const agent = yield* create("a")
        yield* agent.send("go")
        yield* reached.passed
        yield* agent.inject("by the way")
        assert.deepStrictEqual(yield* spoken("a"), ["user: go"])
        yield* gate.now
        yield* agent.idle
        assert.deepStrictEqual(yield* spoken("a"), [
          "user: go",
          "assistant calls t",
          "t gives 1",
          "user: by the way",
          "assistant: done"
        ])
        // it continues no turn by itself
        assert.strictEqual((yield* (yield* ScriptedModel).requestsOf("a")).length, 2)
      })
    }
  })

  for (const ending of ["completes", "is interrupted"] as const) {
    agentTest(`S201 what was injected and found no request is kept when the turn ${ending}`, () => {
      const reached = moment()
      const gate = moment()
      return {
        script: [[wait(reached.now), wait(gate.passed), text("done")]],
        body: Effect.gen(function*() {
          const scope = yield* Scope.make()
          const agent = yield* Scope.provide(create("a"), scope)
          yield* agent.send("go")
          yield* reached.passed
          yield* agent.inject("one")
          yield* agent.inject("two")
          if (ending === "completes") yield* gate.now
          else yield* agent.interrupt("user")
          yield* agent.idle
          // nothing is left to chance: it is stored before the agent may be closed
          yield* Scope.close(scope, Exit.void)
          assert.deepStrictEqual((yield* spoken("a")).slice(-2), ["user: one", "user: two"])
          assert.strictEqual((yield* tagsOf("a")).filter((tag) => tag === "TurnEnded").length, 1)
        })
      }
    })
  }

  agentTest("whoever goes on at the end of a turn comes last, and has no turn of its own beside another", () => {
    const gate = moment()
    let running = 0
    let most = 0
    const model = Effect.gen(function*() {
      most = Math.max(most, ++running)
      yield* gate.passed
      yield* Effect.yieldNow
      running--
    })
    return {
      script: () => [wait(model), text("ok")],
      body: Effect.gen(function*() {
        const agent = yield* create("a")
        const eager = yield* Effect.forkChild(Effect.andThen(agent.prompt("one"), agent.prompt("three")), {
          startImmediately: true
        })
        yield* agent.send("two")
        yield* gate.now
        yield* Fiber.join(eager)
        yield* agent.idle
        assert.deepStrictEqual((yield* spoken("a")).filter((line) => line.startsWith("user")), [
          "user: one",
          "user: two",
          "user: three"
        ])
        assert.strictEqual(most, 1)
      })
    }
  })

  agentTest("S200 an interruption drops what waits, with its cause", () => ({
    script: [[hang]],
    body: Effect.gen(function*() {
      const agent = yield* create("a")
      yield* agent.send("one")
      const second = yield* Effect.forkChild(agent.prompt("two"), { startImmediately: true })
      yield* settle
      yield* agent.interrupt("timeout")
      const outcome = yield* Fiber.join(second)
      assert.deepStrictEqual(outcome.cause, { _tag: "Aborted", cause: "timeout" })
      assert.isUndefined(outcome.turn)
      assert.strictEqual(outcome.text, "")
      assert.deepStrictEqual(yield* spoken("a"), ["user: one"])
      assert.strictEqual(yield* agent.status, "idle")
    })
  }))

  agentTest("a closing agent drops what waits", () => ({
    script: [[hang]],
    body: Effect.gen(function*() {
      const scope = yield* Scope.make()
      const agent = yield* Scope.provide(create("a"), scope)
      const first = yield* Effect.forkChild(agent.prompt("one"), { startImmediately: true })
      const second = yield* Effect.forkChild(agent.prompt("two"), { startImmediately: true })
      yield* settle
      yield* Scope.close(scope, Exit.void)
      const disposed = { _tag: "Aborted", cause: "disposed" } as const
      assert.deepStrictEqual((yield* Fiber.join(first)).cause, disposed)
      assert.deepStrictEqual((yield* Fiber.join(second)).cause, disposed)
    })
  }))

  agentTest("services of whoever sends are those of the turn, and of that turn alone", () => {
    const Mood = Context.Reference<string>("test/Mood", { defaultValue: () => "none" })
    const moods: Array<string> = []
    const gate = moment()
    return {
      script: ({ index }) => index % 2 === 0 ? [wait(gate.passed), call("feel", {})] : [text("done")],
      with: [tool("feel", () => Effect.map(Mood, (mood) => void moods.push(mood)))],
      body: Effect.gen(function*() {
        const agent = yield* create("a")
        yield* Effect.provideService(agent.send("one"), Mood, "glad")
        yield* agent.send("two")
        yield* Effect.provideService(agent.send("three"), Mood, "sad")
        yield* gate.now
        yield* agent.idle
        assert.deepStrictEqual(moods, ["glad", "none", "sad"])
      })
    }
  })
})

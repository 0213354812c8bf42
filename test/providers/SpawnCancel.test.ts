import { assert, describe } from "@effect/vitest"
import { Effect, Exit, Fiber, Latch, Layer, Scope } from "effect"
import { TestClock } from "effect/testing"
import { Agents } from "../../src/Agent.ts"
import { CurrentAgent } from "../../src/CurrentAgent.ts"
import * as Spawn from "../../src/providers/Spawn.ts"
import type { SessionStore } from "../../src/SessionStore.ts"
import * as Subagent from "../../src/Subagent.ts"
import { call, hang, ScriptedModel, text, wait } from "../../src/testing/ScriptedModel.ts"
import {
  agentOf,
  agentTest,
  causesOf,
  create,
  eventsOf,
  held,
  moment,
  resultsOf,
  settle,
  spoken,
  tool
} from "../utils/agentTest.ts"
import { leakCheck } from "../utils/leaks.ts"

leakCheck()

const listed = Agents.use((agents) => Effect.map(agents.list, (all) => all.map(({ id }) => id as string)))
const running = Subagent.Subagents.use((subagents) => subagents.running)

/** Nothing of a start that failed is left. */
const untouched = Effect.gen(function*() {
  assert.deepStrictEqual(yield* listed, ["root"])
  assert.deepStrictEqual(yield* running, [])
  assert.deepStrictEqual(yield* (yield* ScriptedModel).requests, [])
})

/** A store that holds the creation of children. */
const creating = () => {
  const reached = moment()
  const gate = moment()
  return {
    reached,
    gate,
    store: (store: SessionStore["Service"]): SessionStore["Service"] => ({
      ...store,
      create: (header, seed) =>
        Effect.tap(
          store.create(header, seed),
          header.id === "root" ? Effect.void : Effect.andThen(reached.now, gate.passed)
        )
    })
  }
}

describe("cancelling a start", () => {
  agentTest("S72 S367 S387 a signal that has aborted starts nothing", () => ({
    script: [],
    body: Effect.gen(function*() {
      const error = yield* Effect.flip(Spawn.start({ prompt: "go", signal: AbortSignal.abort() }))
      assert.deepStrictEqual(error._tag === "Cancelled" && error.cause, "parent")
      yield* untouched
    })
  }))

  agentTest("S74 S372 S399 a signal that aborts while the child is made leaves nothing", () => {
    const { gate, reached, store } = creating()
    const controller = new AbortController()
    return {
      store,
      script: [],
      body: Effect.gen(function*() {
        const starting = yield* Effect.forkChild(
          Effect.flip(Spawn.start({ prompt: "go", signal: controller.signal })),
          { startImmediately: true }
        )
        yield* reached.passed
        controller.abort()
        assert.strictEqual((yield* Fiber.join(starting))._tag, "Cancelled")
        yield* gate.now
        yield* settle
        yield* untouched
      })
    }
  })

  agentTest("whoever starts may give up while the child is made", () => {
    const { reached, store } = creating()
    return {
      store,
      script: [],
      body: Effect.gen(function*() {
        const starting = yield* Effect.forkChild(Effect.scoped(Spawn.start({ prompt: "go" })), {
          startImmediately: true
        })
        yield* reached.passed
        yield* Fiber.interrupt(starting)
        yield* untouched
      })
    }
  })

  agentTest("S75 S398 S399 a parent that closes while the child is made, or has closed, starts nothing", () => {
    const { reached, store } = creating()
    return {
      store: (memory) => {
        const holding = store(memory)
        return { ...holding, create: (header, seed) => (header.id === "top" ? memory : holding).create(header, seed) }
      },
      script: [],
      body: Effect.gen(function*() {
        const scope = yield* Scope.make()
        const top = yield* Scope.provide(create("top"), scope)
        const start = Effect.provideService(Effect.flip(Spawn.start({ prompt: "go" })), CurrentAgent, top.identity)
        const starting = yield* Effect.forkChild(start, { startImmediately: true })
        yield* reached.passed
        yield* Scope.close(scope, Exit.void)
        const error = yield* Fiber.join(starting)
        assert.deepStrictEqual(error._tag === "StartFailed" && error.reason, "ParentClosed")
        const late = yield* start
        assert.deepStrictEqual(late._tag === "StartFailed" && late.reason, "ParentClosed")
        yield* untouched
      })
    }
  })
})

describe("cancelling a run", () => {
  agentTest("S76 S77 S369 by its signal ends its turn as its parent's wish", () => {
    const controller = new AbortController()
    let modelInterrupted = false
    return {
      script: [[
        text("so far"),
        wait(Effect.onInterrupt(Effect.never, () => Effect.sync(() => void (modelInterrupted = true))))
      ]],
      body: Effect.gen(function*() {
        const run = yield* Spawn.start({ prompt: "go", signal: controller.signal })
        yield* settle
        controller.abort()
        const result = yield* run.result
        assert.deepStrictEqual(result._tag === "Aborted" && [result.cause, result.text], ["parent", "so far"])
        assert.isTrue(modelInterrupted)
        assert.deepStrictEqual(yield* causesOf(run.id), [{ _tag: "Aborted", cause: "parent" }])
        yield* run.released
      })
    }
  })

  for (
    const [name, cause, cancel] of [
      ["S370 by closing its scope", "disposed", (scope: Scope.Closeable) => Scope.close(scope, Exit.void)],
      ["by its timeout", "timeout", () => TestClock.adjust("1 minute")],
      ["by interrupt", "user", (_: Scope.Closeable, run: Subagent.Run<void>) => run.interrupt],
      [
        "by interrupting its agent",
        "user",
        (_: Scope.Closeable, run: Subagent.Run<void>) =>
          Effect.flatMap(agentOf(run.id), (agent) => agent.interrupt("user"))
      ]
    ] as const
  ) {
    agentTest(`${name} ends it with what it had said`, () => ({
      script: [[text("so far"), hang]],
      body: Effect.gen(function*() {
        const scope = yield* Scope.make()
        const run = yield* Scope.provide(Spawn.start({ prompt: "go", timeout: "1 minute" }), scope)
        yield* settle
        yield* cancel(scope, run)
        const result = yield* run.result
        assert.deepStrictEqual(result._tag === "Aborted" && [result.cause, result.text], [cause, "so far"])
        assert.deepStrictEqual(yield* causesOf(run.id), [{ _tag: "Aborted", cause }])
        yield* run.released
        assert.deepStrictEqual(yield* run.interrupt, result)
        assert.deepStrictEqual(yield* listed, ["root"])
      })
    }))
  }

  agentTest("S388 before its turn opened leaves no turn in the log", () => {
    const { gate, reached, store } = held((call, { id }) => call === "append" && id !== "root")
    return {
      store,
      script: [],
      options: { grace: "3 seconds" },
      breaks: true,
      body: Effect.gen(function*() {
        const run = yield* Spawn.start({ prompt: "go" })
        yield* reached.passed
        const interrupting = yield* Effect.forkChild(run.interrupt, { startImmediately: true })
        yield* TestClock.adjust("4 seconds")
        const result = yield* Fiber.join(interrupting)
        assert.deepStrictEqual(result._tag === "Aborted" && [result.cause, result.text], ["user", ""])
        assert.deepStrictEqual(yield* eventsOf(run.id), [])
        assert.strictEqual((yield* Effect.flip(run.released))._tag, "ReleaseFailed")
        yield* gate.now
        yield* settle
        assert.deepStrictEqual(yield* eventsOf(run.id), [])
      })
    }
  })

  agentTest("S77 S82 whose turn is recorded completed changes nothing", () => {
    const { gate, reached, store } = held((call, { id }) => call === "flush" && id !== "root")
    return {
      store,
      script: [[text("done")]],
      body: Effect.gen(function*() {
        const run = yield* Spawn.start({ prompt: "go" })
        yield* reached.passed
        const interrupting = yield* Effect.forkChild(run.interrupt, { startImmediately: true })
        yield* settle
        yield* gate.now
        const result = yield* Fiber.join(interrupting)
        assert.deepStrictEqual([result._tag, result.text], ["Completed", "done"])
        assert.deepStrictEqual(yield* causesOf(run.id), [{ _tag: "Completed" }])
      })
    }
  })

  agentTest("that ignores it is given up: the survivor is told, and its late result is nowhere", () => {
    const gate = Latch.makeUnsafe()
    const reached = moment()
    const over = moment()
    return {
      script: [[text("so far"), call("stubborn", {})]],
      options: { grace: "3 seconds" },
      with: [
        tool("stubborn", () =>
          Effect.uninterruptible(Effect.andThen(
            reached.now,
            Effect.as(Effect.andThen(gate.await, over.now), "late")
          )))
      ],
      body: Effect.gen(function*() {
        const delegating = yield* Effect.forkChild(Effect.flip(Spawn.delegate({ prompt: "go", timeout: "1 minute" })), {
          startImmediately: true
        })
        yield* reached.passed
        const [{ id }] = yield* running
        yield* TestClock.adjust("1 minute")
        yield* TestClock.adjust("3 seconds")
        const error = yield* Fiber.join(delegating)
        if (error._tag !== "ReleaseFailed") return assert.fail(error._tag)
        assert.deepStrictEqual(error.survivors, [`a turn of session ${id} that ignored its interruption`])
        // no answer is lost in it
        assert.deepStrictEqual(error.result?._tag === "Aborted" && [error.result.cause, error.result.text], [
          "timeout",
          "so far"
        ])
        assert.deepStrictEqual(yield* listed, ["root"])
        assert.deepStrictEqual(yield* running, [])
        yield* gate.open
        yield* over.passed
        yield* settle
        assert.notInclude(JSON.stringify(yield* resultsOf(id)), "late")
        assert.deepStrictEqual(yield* causesOf(id), [{ _tag: "Aborted", cause: "timeout" }])
      })
    }
  })
})

describe("a run ends with its parent", () => {
  /** A tool that starts a child which hangs; where `scope` is given, it outlives the call. */
  const starting = (runs: Array<Subagent.Run<void>>, scope?: Scope.Scope) =>
    Layer.unwrap(Effect.map(Spawn.Spawn, (spawn) =>
      tool("start", () => {
        const started = Effect.map(spawn.start({ prompt: "hang" }), (run) => void runs.push(run))
        return scope === undefined
          ? Effect.scoped(Effect.andThen(started, Effect.never))
          : Scope.provide(started, scope)
      })))

  /** A parent that starts a child with a tool, and a child that hangs. */
  const family = ({ depth, index }: { readonly depth: number; readonly index: number }) =>
    depth > 0 ? [text("so far"), hang] : index === 0 ? [call("start", {})] : [text("started")]

  const ended = Effect.fnUntraced(function*(run: Subagent.Run<void>) {
    const result = yield* run.result
    assert.deepStrictEqual(result._tag === "Aborted" && [result.cause, result.text], ["parent", "so far"])
    assert.deepStrictEqual(yield* causesOf(run.id), [{ _tag: "Aborted", cause: "parent" }])
    yield* run.released
  })

  agentTest("when the turn that delegates is interrupted", () => {
    const runs: Array<Subagent.Run<void>> = []
    return {
      script: family,
      with: [starting(runs)],
      body: Effect.gen(function*() {
        const parent = yield* create("parent")
        const turn = yield* Effect.forkChild(parent.prompt("go"), { startImmediately: true })
        yield* settle
        yield* parent.interrupt("user")
        assert.deepStrictEqual((yield* Fiber.join(turn)).cause, { _tag: "Aborted", cause: "user" })
        yield* ended(runs[0])
        // the turn did not act on what became of its child
        assert.strictEqual((yield* (yield* ScriptedModel).requestsOf("parent")).length, 1)
      })
    }
  })

  for (const how of ["is interrupted", "closes"] as const) {
    agentTest(`when the parent ${how} and the run lives in a scope of its own`, () => {
      const runs: Array<Subagent.Run<void>> = []
      const outer = Scope.makeUnsafe()
      return {
        script: ({ depth, index }) => depth > 0 ? [text("so far"), hang] : index === 0 ? [call("start", {})] : [hang],
        with: [starting(runs, outer)],
        body: Effect.gen(function*() {
          const scope = yield* Scope.make()
          const parent = yield* Scope.provide(create("parent"), scope)
          const turn = yield* Effect.forkChild(parent.prompt("go"), { startImmediately: true })
          yield* settle
          assert.strictEqual((yield* running).length, 1)
          if (how === "closes") yield* Scope.close(scope, Exit.void)
          else yield* parent.interrupt("user")
          assert.strictEqual((yield* Fiber.join(turn)).cause._tag, "Aborted")
          yield* ended(runs[0])
          yield* Scope.close(outer, Exit.void)
        })
      }
    })
  }

  agentTest("when the parent closes, also one that an earlier turn started, and not before", () => {
    const runs: Array<Subagent.Run<void>> = []
    const outer = Scope.makeUnsafe()
    return {
      script: ({ depth, index }) =>
        depth > 0 ? [text("so far"), hang] : index === 0 ? [call("start", {})] : [text("ok")],
      with: [starting(runs, outer)],
      body: Effect.gen(function*() {
        const scope = yield* Scope.make()
        const parent = yield* Scope.provide(create("parent"), scope)
        yield* parent.prompt("go")
        // a later turn is none of its business
        const second = yield* Effect.forkChild(parent.prompt("again"), { startImmediately: true })
        yield* parent.interrupt("user")
        yield* Fiber.join(second)
        yield* settle
        assert.strictEqual((yield* running).length, 1)
        yield* Scope.close(scope, Exit.void)
        yield* ended(runs[0])
        yield* Scope.close(outer, Exit.void)
      })
    }
  })

  agentTest("when the parent closes, also one that was started in the name of a turn that is over", () => {
    let turn: CurrentAgent["Service"] | undefined
    return {
      script: ({ depth, index }) =>
        depth > 0 ? [text("so far"), hang] : index === 0 ? [call("keep", {})] : [text("ok")],
      with: [tool("keep", () => Effect.map(CurrentAgent, (agent) => void (turn = agent)))],
      body: Effect.gen(function*() {
        const scope = yield* Scope.make()
        const parent = yield* Scope.provide(create("parent"), scope)
        yield* parent.prompt("go")
        const run = yield* Effect.provideService(Spawn.start({ prompt: "hang" }), CurrentAgent, turn!)
        yield* settle
        yield* Scope.close(scope, Exit.void)
        yield* ended(run)
      })
    }
  })

  agentTest("through three generations", () => {
    return {
      script: ({ depth, index }) =>
        depth === 3
          ? [text("deep"), hang]
          : index === 0
          ? [text(`depth ${depth}`), call("delegate", {})]
          : [text("no")],
      with: [
        Layer.unwrap(Effect.map(
          Spawn.Spawn,
          (spawn) => tool("delegate", () => Effect.map(spawn.delegate({ prompt: "deeper" }), ({ _tag }) => _tag))
        ))
      ],
      body: Effect.gen(function*() {
        const root = yield* agentOf("root")
        const turn = yield* Effect.forkChild(root.prompt("go"), { startImmediately: true })
        yield* settle
        const ids = (yield* running).map(({ id }) => id)
        assert.strictEqual(ids.length, 3)
        yield* root.interrupt("user")
        const outcome = yield* Fiber.join(turn)
        assert.deepStrictEqual([outcome.cause, outcome.text], [{ _tag: "Aborted", cause: "user" }, "depth 0"])
        for (const id of ids) assert.deepStrictEqual(yield* causesOf(id), [{ _tag: "Aborted", cause: "parent" }])
        assert.deepStrictEqual(yield* running, [])
        assert.deepStrictEqual(yield* listed, ["root"])
        assert.strictEqual((yield* spoken("root")).length, 4)
      })
    }
  })
})

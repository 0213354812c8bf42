import { assert, describe, it } from "@effect/vitest"
import { Arbitrary, Clock, Effect, Exit, Fiber, type Layer, Logger, Scope } from "effect"
import * as FileSessionStore from "../src/layers/FileSessionStore.ts"
import { noUsage } from "../src/Session.ts"
import { layerMemory, SessionStore } from "../src/SessionStore.ts"
import { Subagents } from "../src/Subagent.ts"
import { leakCheck, snapshot, tempDir } from "./utils/leaks.ts"
import { type Options, runProgram, withStore } from "./utils/lifecycle.ts"
import * as checks from "./utils/lifecycleChecks.ts"
import { turnClock } from "./utils/lifecycleClock.ts"
import { Program } from "./utils/lifecycleProgram.ts"
import { answered, ended, header, said, started } from "./utils/sessionEvents.ts"

leakCheck()

/** Everything that is wrong after a program. */
const issuesOf = (
  program: Program,
  layer: Layer.Layer<SessionStore, unknown>,
  options: Options & { readonly directory?: string } = {}
) =>
  Effect.gen(function*() {
    const start = snapshot()
    const issues = yield* Effect.scoped(Effect.gen(function*() {
      const store = yield* withStore(layer)
      const history = yield* Effect.provideService(runProgram(program, options), SessionStore, store)
      return [
        ...history.issues,
        ...checks.unpaired(history.events),
        ...yield* checks.wrongResults(history),
        ...yield* checks.wrongSteering(history, store),
        ...options.directory === undefined ? [] : checks.locks(options.directory),
        ...yield* checks.wrongSessions(store)
      ]
    })).pipe(Effect.provideService(Clock.Clock, options.directory === undefined ? turnClock() : yield* Clock.Clock))
    return [
      ...issues,
      ...options.directory === undefined ? [] : checks.holders(options.directory),
      ...yield* checks.leftovers(start)
    ]
  })

const inFiles = (program: Program, options: Options = {}) =>
  Effect.scoped(
    Effect.flatMap(tempDir, (directory) =>
      issuesOf(program, FileSessionStore.layerNode({ directory }), {
        grace: "2 seconds",
        ...options,
        directory
      }))
  )

const holds = (run: (program: Program) => Effect.Effect<ReadonlyArray<string>, unknown>, runs: number) =>
  Effect.gen(function*() {
    const result = yield* Arbitrary.checkEffect(
      Arbitrary.schema(Program),
      (program) =>
        Effect.flatMap(run(program), (issues) => issues.length === 0 ? Effect.succeed(true) : Effect.fail(issues)),
      { runs, size: 60, maxShrinks: 100 }
    )
    assert.strictEqual(result._tag, "Passed", Arbitrary.formatCheckFailure(result))
  }).pipe(
    // children that die and releases that fail are part of it
    Effect.provide(Logger.layer([]))
  )

describe("any life of agents that delegate", () => {
  it.live("leaves nothing behind, in memory", () => holds((program) => issuesOf(program, layerMemory), 500), 60_000)

  it.live("leaves nothing behind, in files", () => holds((program) => inFiles(program), 40), 60_000)
})

describe("the checks of a life", () => {
  const idle: Program = { commands: [], rootFirst: false }

  it.live("find nothing wrong with a quiet one", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* issuesOf(idle, layerMemory), [])
      assert.deepStrictEqual(yield* inFiles(idle), [])
    }))

  it.live("find a fiber", () =>
    Effect.gen(function*() {
      let planted: Fiber.Fiber<never> | undefined
      const plant = Effect.map(Effect.forkDetach(Effect.never), (fiber) => {
        planted = fiber
      })
      const issues = yield* issuesOf(idle, layerMemory, { plant })
      if (planted !== undefined) yield* Fiber.interrupt(planted)
      assert.strictEqual(issues.length, 1)
      assert.match(issues[0], /^fiber #\d+/)
    }))

  it.live("find a lease, and its lock", () =>
    Effect.gen(function*() {
      const scope = yield* Scope.make()
      const plant = Effect.flatMap(SessionStore, (store) =>
        Effect.orDie(Scope.provide(store.create(header("planted")), scope)))
      const inMemory = yield* issuesOf(idle, layerMemory, { plant })
      assert.strictEqual(inMemory.length, 1)
      assert.match(inMemory[0], /^planted cannot be opened: .*HeldElsewhere/)
      const issues = yield* inFiles(idle, { plant })
      yield* Scope.close(scope, Exit.void)
      assert.strictEqual(issues[0], "planted/0.lock")
      assert.match(issues[1], /^planted cannot be opened: .*HeldElsewhere/)
    }))

  it.live("find a run that goes on, and the place it has", () =>
    Effect.gen(function*() {
      const scope = yield* Scope.make()
      const plant = Effect.flatMap(Subagents, (subagents) =>
        Effect.orDie(Scope.provide(subagents.start("scripted", { prompt: "do:hangs" }), scope)))
      const issues = yield* issuesOf(idle, layerMemory, { plant })
      yield* Scope.close(scope, Exit.void)
      assert.match(issues.join("\n"), /^still running: r/m)
      assert.match(issues.join("\n"), /^a place was not given back: .*maxChildren/m)
    }))

  it("find ends without starts, starts without ends, and changed names", () => {
    const info = { provider: "spawn", id: "a", parent: "root", local: true, label: undefined, at: 0 }
    const started = (runId: string, id = "a") => ({ _tag: "RunStarted", ...info, runId, id }) as const
    const ended = (runId: string, id = "a") =>
      ({
        _tag: "RunEnded",
        ...info,
        runId,
        id,
        outcome: "Completed",
        text: "",
        output: [],
        usage: noUsage,
        released: true
      }) as const
    assert.deepStrictEqual(checks.unpaired([started("1"), started("2"), ended("2"), ended("1")]), [])
    assert.match(checks.unpaired([started("1")]).join(), /run 1 never ended/)
    assert.match(checks.unpaired([ended("1")]).join(), /run 1 ended as .* was open as undefined/)
    assert.match(checks.unpaired([started("1"), ended("1"), ended("1")]).join(), /run 1 ended as/)
    assert.match(checks.unpaired([started("1"), ended("1"), started("1"), ended("1")]).join(), /run 1 started twice/)
    assert.match(checks.unpaired([started("1"), ended("1", "b")]).join(), /run 1 ended as .*"b"/)
    assert.match(checks.unpaired([{ _tag: "Dropped", count: 3 }]).join(), /dropped/)
  })

  it("find a step of a child in its parent's log, an open turn, and a broken rule", () => {
    const child = header("c", { parent: header("p").id, depth: 1 })
    const log = [started(0, 0), said(1), answered(2, "c: hello"), ended(3, 0)]
    assert.deepStrictEqual(checks.unsound(child, log), [])
    assert.match(checks.unsound(header("p"), log).join(), /p at 2: a step of c: hello/)
    assert.match(checks.unsound(child, log.slice(0, 3)).join(), /c: a turn is open/)
    assert.match(checks.unsound(child, [...log.slice(0, 2), ...log.slice(3)]).join(), /c at 3: seq 3 where 2 was due/)
    const seeded = header("f", { parent: header("c").id, depth: 2, seedLength: 4 })
    assert.deepStrictEqual(checks.unsound(seeded, log), [])
    const stopped = [...log.slice(0, 3), ended(3, 0, { _tag: "Aborted", cause: "disposed" })]
    assert.deepStrictEqual(checks.unsound(child, stopped), [])
    assert.match(checks.unsound(header("c", { depth: 2 }), stopped).join(), /c: stopped by disposed/)
  })
})

import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Exit, Fiber, Option, Scope } from "effect"
import { TestClock } from "effect/testing"
import * as Subagent from "../src/Subagent.ts"
import { leakCheck } from "./utils/leaks.ts"
import { able, agent, child, logging, on, puppeteer, says, settled, unprintable, watching } from "./utils/seam.ts"

leakCheck()

class Alpha extends Subagent.Provider<Alpha>()("alpha", able) {}

const alphaOf = (implementation: Subagent.Implementation<typeof able>) =>
  Subagent.Subagents.use((subagents) => subagents.register(Alpha, implementation))

const finalizer = (effect: Effect.Effect<unknown>) => Effect.addFinalizer(() => effect)

const { errors, layer: logger } = logging()

const run = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  effect.pipe(on(agent()), Effect.provide(Subagent.layer({ grace: "2 seconds" })), Effect.provide(logger))

describe("the order in which a run ends", () => {
  it.effect.each([["settled", "Completed"], ["cancelled", "Aborted"]] as const)(
    "S81 of one that %s",
    ([, outcome]) =>
      Effect.gen(function*() {
        const subagents = yield* Subagent.Subagents
        const steps: Array<string> = []
        const mark = (step: string) => Effect.sync(() => void steps.push(step))
        const during: Array<unknown> = []
        const puppets = puppeteer({
          closing: Effect.gen(function*() {
            if (steps.length > 0) return
            yield* mark("released")
            yield* settled
            during.push(result.pollUnsafe(), second.pollUnsafe(), (yield* subagents.running).length)
          })
        })
        const alpha = yield* alphaOf(puppets.implementation)
        const parent = on(agent({ limits: { maxChildren: 1 } }))
        const first = yield* parent(alpha.start({ prompt: "one" }))
        const second = yield* Effect.forkScoped(
          Effect.tap(parent(alpha.start({ prompt: "two" })), mark("the next one started")),
          { startImmediately: true }
        )
        const seen = yield* watching(subagents.events)
        const result = yield* Effect.forkChild(Effect.tap(first.result, mark("result")), { startImmediately: true })
        yield* Effect.forkChild(Effect.tap(first.released, mark("all released")), { startImmediately: true })
        yield* settled
        if (outcome === "Completed") puppets.started[0].say("done")
        else yield* Effect.forkChild(first.interrupt)
        assert.strictEqual((yield* Fiber.join(result))._tag, outcome)
        // the result is not known before its finalizers ran, and the place is not free
        assert.deepStrictEqual(during, [undefined, undefined, 1])
        // by the time the result is there, the place is free and the end is told
        assert.deepStrictEqual(yield* subagents.running, [])
        assert.deepStrictEqual(steps.slice(0, 2), ["released", "result"])
        yield* settled
        assert.deepStrictEqual(seen.slice(1).map((event) => "id" in event ? [event._tag, event.id] : event._tag), [
          ["RunStarted", first.id],
          ["RunEnded", first.id],
          ["RunStarted", puppets.started[1].id]
        ])
        assert.deepStrictEqual(steps.slice(2), ["all released", "the next one started"])
      }).pipe(Effect.provide(Subagent.layer()))
  )

  it.effect("S81 it releases by itself at settlement, though its caller's scope stays open", () =>
    Effect.gen(function*() {
      const puppets = puppeteer()
      const alpha = yield* alphaOf(puppets.implementation)
      const started = yield* alpha.start({ prompt: "go" })
      puppets.started[0].say("done")
      yield* started.released
      assert.isTrue(puppets.started[0].released)
    }).pipe(run))

  it.effect("a scope that outlives its runs keeps nothing of them", () =>
    Effect.gen(function*() {
      const alpha = yield* alphaOf({
        start: ({ prompt }) =>
          prompt === "fail"
            ? Effect.fail(new Subagent.StartFailed({ provider: "alpha", reason: "Exited", diagnostic: "" }))
            : Effect.as(finalizer(Effect.void), child())
      })
      const scope = yield* Scope.make()
      const finalizers = () => scope.state._tag === "Open" ? scope.state.finalizers?.size ?? 1 : 0
      yield* Scope.addFinalizer(scope, Effect.void)
      const start = (prompt: string) => Scope.provide(alpha.start({ prompt }), scope)
      yield* Effect.flip(start("fail"))
      yield* Effect.flip(start(""))
      yield* Effect.andThen(start("go"), (started) => started.result)
      const before = finalizers()
      for (let i = 0; i < 1000; i++) {
        const started = yield* start(i % 10 === 0 ? "fail" : "go").pipe(Effect.option)
        if (Option.isSome(started)) yield* started.value.result
      }
      assert.strictEqual(finalizers(), before)
      assert.isBelow(before, 3)
      yield* Scope.close(scope, Exit.void)
    }).pipe(run))

  it.effect("a thousand that wait for one place start one after the other, and none on top of another", () =>
    Effect.gen(function*() {
      // each of them settles at once, and so lets in the next
      const alpha = yield* alphaOf({ start: () => Effect.sync(child) })
      const results = yield* Effect.forEach(
        Array.from({ length: 1000 }, (_, index) => index),
        () => alpha.delegate({ prompt: "go" }),
        { concurrency: "unbounded" }
      )
      const puppets = puppeteer()
      const slow = yield* alphaOf(puppets.implementation)
      const first = yield* slow.start({ prompt: "go" })
      const fibers = yield* Effect.forEach(
        results,
        () => Effect.forkChild(alpha.delegate({ prompt: "go" }), { startImmediately: true })
      )
      puppets.started[0].say("done")
      yield* first.result
      assert.isTrue((yield* Effect.forEach(fibers, Fiber.join)).every((result) => result._tag === "Completed"))
    }).pipe(on(agent({ limits: { maxChildren: 1, maxRunning: 2000 } })), Effect.provide(Subagent.layer())))
})

describe("a release that fails", () => {
  const failing = (effect: Effect.Effect<unknown>, text = "done") =>
    alphaOf({ start: () => Effect.as(finalizer(effect), child({ result: Effect.succeed(says(text)) })) })

  it.effect.each([["an error", new Error("disk full")], ["a defect that cannot be shown", unprintable]] as const)(
    "S83 S451 by dying of %s: the result is held by ReleaseFailed, and known to who waits for it",
    ([, defect]) =>
      Effect.gen(function*() {
        errors.length = 0
        const seen = yield* Subagent.Subagents.use((subagents) => watching(subagents.events))
        const alpha = yield* failing(Effect.die(defect))
        const started = yield* alpha.start({ prompt: "go" })
        assert.deepInclude(yield* started.result, { _tag: "Completed", text: "done" })
        const error = yield* Effect.flip(started.released)
        assert.deepInclude(error, { _tag: "ReleaseFailed", provider: "alpha", survivors: [] })
        assert.deepInclude(error.result, { _tag: "Completed", text: "done" })
        assert.isNotEmpty(error.message)
        if (defect instanceof Error) assert.include(error.diagnostic, "disk full")
        const delegated = yield* Effect.flip(alpha.delegate({ prompt: "go" }))
        assert.deepInclude(delegated, { _tag: "ReleaseFailed" })
        // a scope that closes does not die for it
        yield* Effect.scoped(alpha.start({ prompt: "go" }))
        yield* settled
        assert.deepInclude(seen.at(-1), { _tag: "RunEnded", outcome: "Completed", released: false })
        assert.strictEqual(errors.length, 3)
      }).pipe(run)
  )

  it.effect("S451 by hanging: given up after the grace, counted as a survivor, and its place is free", () =>
    Effect.gen(function*() {
      const wake = yield* Deferred.make<void>()
      const subagents = yield* Subagent.Subagents
      const alpha = yield* failing(Deferred.await(wake))
      const parent = on(agent({ limits: { maxChildren: 1 } }))
      const delegating = yield* Effect.forkChild(parent(Effect.flip(alpha.delegate({ prompt: "one" }))), {
        startImmediately: true
      })
      const next = yield* Effect.forkChild(parent(Effect.flip(alpha.delegate({ prompt: "two" }))), {
        startImmediately: true
      })
      yield* TestClock.adjust("1999 millis")
      assert.isUndefined(delegating.pollUnsafe())
      const [{ runId }] = yield* subagents.running
      yield* TestClock.adjust("1 millis")
      const error = yield* Fiber.join(delegating)
      assert.deepInclude(error, { _tag: "ReleaseFailed", survivors: [`run ${runId} of provider alpha`] })
      assert.isTrue(error._tag === "ReleaseFailed" && error.result?._tag === "Completed")
      yield* TestClock.adjust("2 seconds")
      assert.deepInclude(yield* Fiber.join(next), { _tag: "ReleaseFailed" })
      yield* Deferred.succeed(wake, undefined)
    }).pipe(run))

  it.effect("what outlived the closing of its scope is named by its provider", () =>
    Effect.gen(function*() {
      const alpha = yield* alphaOf({
        start: () => Effect.sync(() => child({ survivors: Effect.succeed(["pid 4711"]) }))
      })
      const error = yield* Effect.flip(alpha.delegate({ prompt: "go" }))
      assert.deepInclude(error, { _tag: "ReleaseFailed", survivors: ["pid 4711"] })
      assert.isTrue(error._tag === "ReleaseFailed" && error.result?._tag === "Completed")
    }).pipe(run))

  it.effect.each(
    [
      ["dies", Effect.die("broken")],
      ["interrupts itself", Effect.interrupt],
      ["is none", Effect.succeed([7 as never])],
      ["never comes", Effect.never]
    ] as const
  )("a count of survivors that %s costs no result", ([, survivors]) =>
    Effect.gen(function*() {
      const alpha = yield* alphaOf({ start: () => Effect.sync(() => child({ survivors })) })
      const delegating = yield* Effect.forkChild(Effect.flip(alpha.delegate({ prompt: "go" })), {
        startImmediately: true
      })
      yield* TestClock.adjust("2 seconds")
      const error = yield* Fiber.join(delegating)
      assert.deepInclude(error, { _tag: "ReleaseFailed", survivors: [] })
      assert.isTrue(error._tag === "ReleaseFailed" && error.result?._tag === "Completed")
    }).pipe(run))

  it.effect("a count of survivors that cannot even be read costs no result", () =>
    Effect.gen(function*() {
      const unreadable = Object.defineProperty({ ...child() }, "survivors", {
        get: () => {
          throw new Error("broken")
        }
      })
      const alpha = yield* alphaOf({ start: () => Effect.succeed(unreadable) })
      const error = yield* Effect.flip(alpha.delegate({ prompt: "go" }))
      assert.deepInclude(error, { _tag: "ReleaseFailed", survivors: [] })
      assert.isTrue(error._tag === "ReleaseFailed" && error.result?._tag === "Completed")
    }).pipe(run))

  it.effect("S83 S259 when the run fails as well, both are kept", () =>
    Effect.gen(function*() {
      const failed = new Subagent.RunFailed({ provider: "alpha", reason: "DurabilityFailed", diagnostic: "no space" })
      const alpha = yield* alphaOf({
        start: () => Effect.as(finalizer(Effect.die(new Error("disk full"))), child({ result: Effect.fail(failed) }))
      })
      const error = yield* Effect.flip(alpha.delegate({ prompt: "go" }))
      assert.deepInclude(error, { _tag: "ReleaseFailed", result: undefined })
      assert.include(error.message, "disk full")
      assert.include(error.message, "no space")
      const started = yield* alpha.start({ prompt: "go" })
      assert.deepStrictEqual(yield* Effect.flip(started.result), failed)
      const both = yield* Effect.flip(started.released)
      assert.deepStrictEqual(both.run, failed)
    }).pipe(run))

  it.effect("S579 a cancelled child that ignores everything is a survivor, and its scope closes all the same", () =>
    Effect.gen(function*() {
      const wake = yield* Deferred.make<void>()
      let released = false
      const alpha = yield* alphaOf({
        start: () =>
          Effect.as(
            finalizer(Effect.sync(() => {
              released = true
            })),
            child({ result: Effect.uninterruptible(Effect.as(Deferred.await(wake), says("too late"))) })
          )
      })
      const scope = yield* Scope.make()
      const started = yield* Scope.provide(alpha.start({ prompt: "go" }), scope)
      const closing = yield* Effect.forkChild(Scope.close(scope, Exit.void), { startImmediately: true })
      assert.isTrue(released)
      yield* TestClock.adjust("1999 millis")
      assert.isUndefined(closing.pollUnsafe())
      yield* TestClock.adjust("1 millis")
      yield* Fiber.join(closing)
      assert.deepInclude(yield* started.result, { _tag: "Aborted", cause: "disposed" })
      const error = yield* Effect.flip(started.released)
      assert.deepStrictEqual(error.survivors, [`the child of run ${started.runId} of provider alpha`])
      yield* Deferred.succeed(wake, undefined)
    }).pipe(run))

  it.effect("a child whose result is its work is told to go, and never begins again", () =>
    Effect.gen(function*() {
      let begun = 0
      let interrupted = 0
      const alpha = yield* alphaOf({
        start: () =>
          Effect.sync(() =>
            child({
              result: Effect.suspend(() => {
                begun++
                return Effect.onInterrupt(Effect.never, () => Effect.sync(() => interrupted++))
              })
            })
          )
      })
      const started = yield* alpha.start({ prompt: "go" })
      // at once: its provider has had its finalizers for whatever takes time
      assert.deepInclude(yield* started.interrupt, { _tag: "Aborted", cause: "user" })
      assert.deepStrictEqual([begun, interrupted], [1, 1])
      yield* started.released
    }).pipe(run))
})

describe("the last word of a cancelled child", () => {
  const fewTurns = Effect.andThen(Effect.yieldNow, Effect.andThen(Effect.yieldNow, Effect.yieldNow))

  const partial = (text: string): Subagent.Result<unknown> => {
    const { output, usage } = says(text)
    return { _tag: "Aborted", cause: "disposed", text, output, usage }
  }

  it.effect.each(
    [
      ["comes with its finalizers", (done: Effect.Effect<void>) => done],
      ["comes some turns later", (done: Effect.Effect<void>) => Effect.andThen(done, fewTurns)],
      [
        "takes its time, and cannot be interrupted",
        (done: Effect.Effect<void>) => Effect.uninterruptible(Effect.andThen(done, Effect.sleep("1 second")))
      ]
    ] as const
  )("is heard when it %s", ([how, wait]) =>
    Effect.gen(function*() {
      const done = yield* Deferred.make<void>()
      const alpha = yield* alphaOf({
        start: () =>
          Effect.as(
            finalizer(Deferred.succeed(done, undefined)),
            child({ result: Effect.as(wait(Deferred.await(done)), partial(how)) })
          )
      })
      const started = yield* alpha.start({ prompt: "go" })
      const interrupting = yield* Effect.forkChild(started.interrupt, { startImmediately: true })
      yield* TestClock.adjust("1 second")
      assert.deepInclude(yield* Fiber.join(interrupting), { _tag: "Aborted", cause: "user", text: how })
      yield* started.released
    }).pipe(run))
})

import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Fiber, Scheduler, Scope } from "effect"
import { TestClock } from "effect/testing"
import { Lifetime } from "../src/CurrentAgent.ts"
import { AbortCause, noUsage } from "../src/Session.ts"
import * as Subagent from "../src/Subagent.ts"
import { leakCheck } from "./utils/leaks.ts"
import { able, agent, child, on, puppeteer, settled, watching } from "./utils/seam.ts"
import { cancellers, cancelWith, listeners } from "./utils/seamCancel.ts"

leakCheck()

class Alpha extends Subagent.Provider<Alpha>()("alpha", able) {}

const alphaOf = (implementation: Subagent.Implementation<typeof able>) =>
  Subagent.Subagents.use((subagents) => subagents.register(Alpha, implementation))

/** A reason that refuses to be looked at. */
class Cancelling {
  get cause(): never {
    throw new Error("no")
  }
}

const seenOf = Subagent.Subagents.use((subagents) => watching(subagents.events))

const bySomebody = [...cancellers, ["its timeout", { abort: "timeout", aborted: "timeout" }], [
  "interrupt",
  { abort: "interrupt", aborted: "user" }
]] as const

describe("cancellation after publication", () => {
  it.effect.each(bySomebody)("S12 S76 S79 S82 S567 by %s", ([, { abort, aborted }]) =>
    Effect.gen(function*() {
      const puppets = puppeteer({ partial: "so far" })
      const alpha = yield* alphaOf(puppets.implementation)
      const seen = yield* seenOf
      const how = yield* cancelWith(abort === "timeout" || abort === "interrupt" ? "scope" : abort)
      const { inScope, lifetime, parent, signal } = how
      const run = yield* on(parent)(inScope(alpha.start({ prompt: "go", signal, timeout: "1 minute" })))
      assert.strictEqual(listeners(signal), 1)
      yield* TestClock.adjust("59 seconds")
      assert.isFalse(puppets.started[0].released)
      if (abort === "timeout") yield* TestClock.adjust("1 second")
      else yield* abort === "interrupt" ? run.interrupt : how.cancel
      const result = yield* run.result
      assert.deepInclude(result, { _tag: "Aborted", cause: aborted, text: "so far" })
      assert.strictEqual(result.usage.elapsed, abort === "timeout" ? 60_000 : 59_000)
      assert.isTrue(puppets.started[0].released)
      yield* run.released
      assert.strictEqual(listeners(signal), 0)
      assert.strictEqual(lifetime.listeners, 0)
      // it is over: nothing changes it any more
      assert.strictEqual(yield* run.interrupt, result)
      yield* how.cancel
      assert.strictEqual(yield* run.result, result)
      yield* settled
      assert.deepInclude(seen.at(-1), { _tag: "RunEnded", outcome: "Aborted", text: "so far", released: true })
      yield* how.close
    }).pipe(Effect.provide(Subagent.layer())))

  it.effect("S80 interrupt may be repeated, and everybody gets the same result", () =>
    Effect.gen(function*() {
      const puppets = puppeteer({ closing: Effect.sleep("1 second"), partial: "so far" })
      const alpha = yield* alphaOf(puppets.implementation)
      const run = yield* alpha.start({ prompt: "go" })
      const fibers = yield* Effect.forEach([1, 2, 3], () => Effect.forkChild(run.interrupt, { startImmediately: true }))
      // who gives up waiting changes nothing
      yield* Fiber.interrupt(fibers[2])
      yield* TestClock.adjust("1 second")
      const [first, second] = yield* Effect.forEach(fibers.slice(0, 2), Fiber.join)
      assert.strictEqual(first, second)
      assert.deepInclude(first, { _tag: "Aborted", cause: "user", text: "so far" })
    }).pipe(Effect.provide(Subagent.layer()), on(agent())))

  it.effect("interrupt ends one run alone", () =>
    Effect.gen(function*() {
      const puppets = puppeteer()
      const alpha = yield* alphaOf(puppets.implementation)
      const one = yield* alpha.start({ prompt: "one" })
      const two = yield* alpha.start({ prompt: "two" })
      yield* one.interrupt
      assert.deepStrictEqual(puppets.started.map((puppet) => puppet.released), [true, false])
      puppets.started[1].say("fine")
      assert.strictEqual((yield* two.result)._tag, "Completed")
    }).pipe(Effect.provide(Subagent.layer()), on(agent())))

  it.effect("S12 S197 one of five causes is told, whatever an aborted signal carries", () =>
    Effect.gen(function*() {
      const causes = ["parent", "user", "disposed", "timeout", "budget"]
      assert.sameMembers(Array.from(AbortCause.literals), causes)
      const puppets = puppeteer()
      const alpha = yield* alphaOf(puppets.implementation)
      for (const reason of [undefined, new Error("broken"), "timeout", { cause: "user" }, new Cancelling()]) {
        const controller = new AbortController()
        const run = yield* alpha.start({ prompt: "go", signal: controller.signal })
        controller.abort(reason)
        assert.deepInclude(yield* run.result, { _tag: "Aborted", cause: "parent" })
        const early = yield* Effect.flip(alpha.start({ prompt: "go", signal: controller.signal }))
        assert.deepStrictEqual(early, new Subagent.Cancelled({ cause: "parent" }))
      }
    }).pipe(Effect.provide(Subagent.layer()), on(agent())))

  it.effect("the first cause counts", () =>
    Effect.gen(function*() {
      const causes: Array<unknown> = []
      const lifetime = new Lifetime()
      const controller = new AbortController()
      const alpha = yield* alphaOf({
        start: (request) =>
          Effect.as(
            Effect.addFinalizer(() =>
              Effect.andThen(Effect.sleep("1 second"), Effect.map(request.abortCause, (cause) => causes.push(cause)))
            ),
            child({ result: Effect.never })
          )
      })
      const run = yield* on(agent({ lifetime }))(alpha.start({ prompt: "go", signal: controller.signal }))
      const interrupting = yield* Effect.forkChild(run.interrupt, { startImmediately: true })
      controller.abort()
      lifetime.end("closed")
      yield* TestClock.adjust("1 minute")
      assert.deepInclude(yield* Fiber.join(interrupting), { _tag: "Aborted", cause: "user" })
      assert.deepInclude(causes[0], { _tag: "Some", value: "user" })
    }).pipe(Effect.provide(Subagent.layer())))

  it.effect("S77 what had completed stays completed, also while it is being released", () =>
    Effect.gen(function*() {
      const controller = new AbortController()
      const puppets = puppeteer({ closing: Effect.sleep("1 second") })
      const alpha = yield* alphaOf(puppets.implementation)
      const scope = yield* Scope.make()
      const run = yield* Scope.provide(alpha.start({ prompt: "go", signal: controller.signal }), scope)
      puppets.started[0].say("all done")
      yield* settled
      assert.strictEqual(listeners(controller.signal), 0)
      controller.abort()
      const interrupting = yield* Effect.forkChild(run.interrupt, { startImmediately: true })
      const closing = yield* Effect.forkChild(Scope.close(scope, Exit.void), { startImmediately: true })
      yield* settled
      assert.isUndefined(closing.pollUnsafe())
      yield* TestClock.adjust("1 second")
      yield* Fiber.join(closing)
      assert.deepInclude(yield* Fiber.join(interrupting), { _tag: "Completed", text: "all done" })
      assert.isFalse((yield* Effect.exit(puppets.started[0].request.abortCause)).pipe(
        (exit) => exit._tag === "Success" && exit.value._tag === "Some"
      ))
    }).pipe(Effect.provide(Subagent.layer()), on(agent())))

  it.effect("S77 a child that completes although it was cancelled stays completed; any other end is an abort", () =>
    Effect.gen(function*() {
      const puppets = puppeteer({ closing: Effect.sync(() => puppets.started.at(-1)?.say("just in time")) })
      const alpha = yield* alphaOf(puppets.implementation)
      const run = yield* alpha.start({ prompt: "go" })
      assert.deepInclude(yield* run.interrupt, { _tag: "Completed", text: "just in time" })

      const failing = puppeteer({
        closing: Effect.sync(() => {
          failing.started.at(-1)?.settle(Exit.succeed({
            _tag: "Failed",
            text: "half",
            output: [],
            usage: { ...noUsage, inputTokens: 4 },
            reason: "Network",
            retryable: true,
            diagnostic: ""
          }))
        })
      })
      const other = yield* (yield* alphaOf(failing.implementation)).start({ prompt: "go" })
      const result = yield* other.interrupt
      assert.deepInclude(result, { _tag: "Aborted", cause: "user", text: "half" })
      assert.strictEqual(result.usage.inputTokens, 4)
    }).pipe(Effect.provide(Subagent.layer()), on(agent())))

  it.effect("S388 a child that is cancelled by what it does first is not missed", () =>
    Effect.gen(function*() {
      const controller = new AbortController()
      let evaluated = 0
      const alpha = yield* alphaOf({
        start: () =>
          Effect.sync(() =>
            child({
              result: Effect.suspend(() => {
                evaluated++
                controller.abort()
                return Effect.never
              })
            })
          )
      })
      const run = yield* alpha.start({ prompt: "go", signal: controller.signal })
      const result = yield* Effect.forkChild(run.result, { startImmediately: true })
      yield* TestClock.adjust("10 seconds")
      assert.deepInclude(yield* Fiber.join(result), { _tag: "Aborted", cause: "parent", text: "" })
      assert.strictEqual(evaluated, 1)
    }).pipe(Effect.provide(Subagent.layer()), on(agent())))

  it.effect("waiting for the result and giving up cancels nothing", () =>
    Effect.gen(function*() {
      const puppets = puppeteer()
      const alpha = yield* alphaOf(puppets.implementation)
      const run = yield* alpha.start({ prompt: "go" })
      const waiting = yield* Effect.forkChild(run.result, { startImmediately: true })
      yield* Fiber.interrupt(waiting)
      const timed = yield* Effect.forkChild(Effect.timeoutOption(run.result, "1 second"), { startImmediately: true })
      yield* TestClock.adjust("1 second")
      assert.strictEqual((yield* Fiber.join(timed))._tag, "None")
      assert.isFalse(puppets.started[0].released)
      puppets.started[0].say("done")
      assert.strictEqual((yield* run.result).text, "done")
    }).pipe(Effect.provide(Subagent.layer()), on(agent())))

  it.effect("a delegation that is interrupted takes its child along, and waits for it", () =>
    Effect.gen(function*() {
      const puppets = puppeteer({ closing: Effect.sleep("1 second") })
      const alpha = yield* alphaOf(puppets.implementation)
      const delegating = yield* Effect.forkChild(alpha.delegate({ prompt: "go" }), { startImmediately: true })
      const interrupting = yield* Effect.forkChild(Fiber.interrupt(delegating), { startImmediately: true })
      yield* TestClock.adjust("999 millis")
      assert.isUndefined(interrupting.pollUnsafe())
      yield* TestClock.adjust("1 millis")
      yield* Fiber.join(interrupting)
      assert.isTrue(puppets.started[0].released)
    }).pipe(Effect.provide(Subagent.layer()), on(agent())))

  it.effect("a timeout leaves no timer behind, even where the child settles before anybody waits for it", () =>
    Effect.gen(function*() {
      const alpha = yield* alphaOf({ start: () => Effect.sync(child) })
      const run = yield* alpha.start({ prompt: "go", timeout: "1 hour" })
      // the leak check of this file would find it
      assert.deepInclude(yield* run.result, { _tag: "Completed" })
    }).pipe(Effect.provide(Subagent.layer()), on(agent())))

  // fibers may yield between any two steps, and whoever cancels goes on then
  it.effect("S82 a run has one end, before whichever step of it the cancellation comes", () =>
    Effect.gen(function*() {
      const ends: Array<string> = []
      for (let at = 0, steps = 0; at <= steps; at++) {
        const lifetime = new Lifetime()
        const scheduler = Object.assign(new Scheduler.MixedScheduler("async"), {
          shouldYield: () => {
            if (steps++ === at) lifetime.end("interrupted")
            return false
          }
        })
        steps = 0
        yield* Effect.gen(function*() {
          const puppets = puppeteer({})
          const alpha = yield* alphaOf(puppets.implementation)
          const seen = yield* seenOf
          const started = yield* Effect.exit(
            Effect.provideService(alpha.start({ prompt: "go" }), Scheduler.Scheduler, scheduler)
          )
          if (Exit.isSuccess(started)) {
            puppets.started[0].say("done")
            ends.push((yield* started.value.result)._tag)
          }
          yield* settled
          assert.deepStrictEqual(
            seen.map((event) => event._tag),
            ["ProviderAdded", ...(Exit.isSuccess(started) ? ["RunStarted", "RunEnded"] : [])],
            `before step ${at}`
          )
        }).pipe(Effect.scoped, Effect.provide(Subagent.layer()), on(agent({ lifetime })))
      }
      assert.includeMembers(ends, ["Aborted", "Completed"])
    }))
})

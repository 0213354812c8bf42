import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Exit, Fiber, Scope } from "effect"
import { TestClock } from "effect/testing"
import { getEventListeners } from "node:events"
import { Lifetime } from "../src/CurrentAgent.ts"
import { noUsage } from "../src/Session.ts"
import * as Subagent from "../src/Subagent.ts"
import { leakCheck } from "./utils/leaks.ts"
import { able, agent, child, on, puppeteer, settled, watching } from "./utils/seam.ts"

leakCheck()

class Alpha extends Subagent.Provider<Alpha>()("alpha", able) {}

const alphaOf = (implementation: Subagent.Implementation<typeof able>) =>
  Subagent.Subagents.use((subagents) => subagents.register(Alpha, implementation))

/** Counts who listens. */
class CountedLifetime extends Lifetime {
  listeners = 0
  override onEnd(listener: () => void): () => void {
    const off = super.onEnd(listener)
    this.listeners++
    return () => {
      this.listeners--
      off()
    }
  }
}

const listeners = (signal: AbortSignal) => getEventListeners(signal, "abort").length

/** The start count, the events and the running children, with which a cancelled start must not have been concerned. */
const untouched = Effect.fnUntraced(function*(seen: ReadonlyArray<Subagent.SubagentEvent>) {
  yield* settled
  assert.deepStrictEqual(seen.map((event) => event._tag), ["ProviderAdded"])
  assert.deepStrictEqual(yield* Subagent.Subagents.use((subagents) => subagents.running), [])
})

const seenOf = Subagent.Subagents.use((subagents) => watching(subagents.events))

/** Everything that cancels a start or a run on the parent's behalf, or the caller's. */
const cancellers = [
  ["its signal", { abort: "signal", cancelled: { _tag: "Cancelled", cause: "parent" }, aborted: "parent" }],
  ["its parent's interruption", {
    abort: "interrupted",
    cancelled: { _tag: "Cancelled", cause: "parent" },
    aborted: "parent"
  }],
  ["its parent's end", {
    abort: "closed",
    cancelled: { _tag: "StartFailed", reason: "ParentClosed" },
    aborted: "parent"
  }],
  ["its caller's scope", { abort: "scope", cancelled: { _tag: "Cancelled", cause: "disposed" }, aborted: "disposed" }]
] as const

const cancelWith = Effect.fnUntraced(function*(how: typeof cancellers[number][1]["abort"]) {
  const lifetime = new CountedLifetime()
  const controller = new AbortController()
  const scope = yield* Scope.make()
  return {
    lifetime,
    signal: controller.signal,
    parent: agent({ lifetime, limits: { maxChildren: 1 } }),
    inScope: Scope.provide(scope),
    /** Returns at once for a signal and a lifetime, and when nothing is left for a scope. */
    cancel: Effect.suspend(() => {
      switch (how) {
        case "signal":
          return Effect.sync(() => controller.abort())
        case "scope":
          return Scope.close(scope, Exit.void)
        default:
          return Effect.sync(() => lifetime.end(how))
      }
    }),
    close: Scope.close(scope, Exit.void)
  }
})

describe("cancellation before publication", () => {
  it.effect.each(cancellers)("S73 S75 by %s in the same tick", ([, { abort, cancelled }]) =>
    Effect.gen(function*() {
      const seen = yield* seenOf
      let released = 0
      const puppets = puppeteer({
        opening: () => Effect.andThen(Effect.addFinalizer(() => Effect.sync(() => released++)), Effect.never)
      })
      const alpha = yield* alphaOf(puppets.implementation)
      const { cancel, close, inScope, lifetime, parent, signal } = yield* cancelWith(abort)
      const starting = yield* Effect.forkChild(
        Effect.flip(on(parent)(inScope(alpha.start({ prompt: "go", signal })))),
        { startImmediately: true }
      )
      yield* cancel
      const error = yield* Fiber.join(starting)
      assert.deepInclude(error, cancelled)
      assert.strictEqual(puppets.calls, 1)
      assert.strictEqual(released, 1)
      assert.strictEqual(listeners(signal), 0)
      assert.strictEqual(lifetime.listeners, 0)
      yield* untouched(seen)
      yield* close
    }).pipe(Effect.provide(Subagent.layer())))

  it.effect.each(cancellers)(
    "S69 by %s while it waits for its place",
    ([, { abort, cancelled }]) =>
      Effect.gen(function*() {
        const puppets = puppeteer()
        const alpha = yield* alphaOf(puppets.implementation)
        const { cancel, close, inScope, lifetime, parent, signal } = yield* cancelWith(abort)
        // the place is taken, by somebody whom the cancellation does not concern
        yield* on({ ...parent, lifetime: new Lifetime() })(alpha.start({ prompt: "first" }))
        const waiting = yield* Effect.forkChild(
          Effect.flip(on(parent)(inScope(alpha.start({ prompt: "second", signal })))),
          { startImmediately: true }
        )
        const next = yield* Effect.forkScoped(
          on({ ...parent, lifetime: new Lifetime() })(alpha.start({ prompt: "third" })),
          { startImmediately: true }
        )
        yield* settled
        yield* cancel
        assert.deepInclude(yield* Fiber.join(waiting), cancelled)
        assert.strictEqual(listeners(signal), 0)
        assert.strictEqual(lifetime.listeners, 0)
        puppets.started[0].say("done")
        yield* Fiber.join(next)
        assert.deepStrictEqual(puppets.started.map((puppet) => puppet.request.prompt), ["first", "third"])
        yield* close
      }).pipe(Effect.provide(Subagent.layer()))
  )

  it.effect.each(cancellers)(
    "S68 by %s while its provider is at work: seen when that has cleaned up",
    ([, how]) =>
      Effect.gen(function*() {
        const seen = yield* seenOf
        const steps: Array<string> = []
        const puppets = puppeteer({
          opening: () =>
            Effect.gen(function*() {
              yield* Effect.addFinalizer(() =>
                Effect.andThen(Effect.sleep("3 seconds"), Effect.sync(() => steps.push("released")))
              )
              yield* Effect.onInterrupt(
                Effect.sleep("1 hour"),
                () => Effect.andThen(Effect.sleep("2 seconds"), Effect.sync(() => steps.push("interrupted")))
              )
            })
        })
        const alpha = yield* alphaOf(puppets.implementation)
        const { cancel, close, inScope, parent, signal } = yield* cancelWith(how.abort)
        const starting = yield* Effect.forkChild(
          Effect.flip(on(parent)(inScope(alpha.start({ prompt: "go", signal })))).pipe(
            Effect.tap(() => Effect.sync(() => steps.push("seen")))
          ),
          { startImmediately: true }
        )
        yield* TestClock.adjust("1 minute")
        const cancelling = yield* Effect.forkChild(cancel, { startImmediately: true })
        yield* TestClock.adjust("4999 millis")
        assert.deepStrictEqual(steps, ["interrupted"])
        yield* TestClock.adjust("1 millis")
        yield* Fiber.join(cancelling)
        assert.deepInclude(yield* Fiber.join(starting), how.cancelled)
        assert.deepStrictEqual(steps, ["interrupted", "released", "seen"])
        yield* untouched(seen)
        yield* close
      }).pipe(Effect.provide(Subagent.layer()))
  )

  it.effect.each([["at once", Effect.void], ["later", Effect.sleep("1 second")]] as const)(
    "S74 S372 in the moment of the hand-over, %s",
    ([, opening]) =>
      Effect.gen(function*() {
        const seen = yield* seenOf
        const controller = new AbortController()
        const { signal } = controller
        const puppets = puppeteer({
          opening: () => Effect.andThen(opening, Effect.sync(() => controller.abort()))
        })
        const alpha = yield* alphaOf(puppets.implementation)
        const starting = yield* Effect.forkChild(Effect.flip(alpha.start({ prompt: "go", signal })), {
          startImmediately: true
        })
        yield* TestClock.adjust("1 second")
        assert.deepInclude(yield* Fiber.join(starting), { _tag: "Cancelled", cause: "parent" })
        assert.isTrue(puppets.started.every((puppet) => puppet.released))
        assert.strictEqual(listeners(signal), 0)
        yield* untouched(seen)
        // its place is free
        const next = yield* Effect.forkScoped(alpha.start({ prompt: "go" }), { startImmediately: true })
        yield* TestClock.adjust("1 second")
        yield* Fiber.join(next)
      }).pipe(Effect.provide(Subagent.layer()), on(agent({ limits: { maxChildren: 1 } })))
  )

  it.effect("a signal that aborts between the checks and the start is not missed", () =>
    Effect.gen(function*() {
      const controller = new AbortController()
      class Aborting extends Lifetime {
        override onEnd(listener: () => void) {
          controller.abort()
          return super.onEnd(listener)
        }
      }
      const puppets = puppeteer()
      const alpha = yield* alphaOf(puppets.implementation)
      const error = yield* Effect.flip(
        on(agent({ lifetime: new Aborting() }))(alpha.start({ prompt: "go", signal: controller.signal }))
      )
      assert.deepInclude(error, { _tag: "Cancelled", cause: "parent" })
      assert.strictEqual(puppets.calls, 0)
    }).pipe(Effect.provide(Subagent.layer())))

  it.effect.each(cancellers)(
    "by %s with a provider that ignores its interruption: within the grace",
    ([, how]) =>
      Effect.gen(function*() {
        const seen = yield* seenOf
        const wake = yield* Deferred.make<void>()
        let late = 0
        const puppets = puppeteer({
          opening: () =>
            Effect.uninterruptible(Effect.andThen(
              Deferred.await(wake),
              // acquired after it was given up: released at once
              Effect.acquireRelease(Effect.sync(() => late++), () => Effect.sync(() => late--))
            ))
        })
        const alpha = yield* alphaOf(puppets.implementation)
        const { cancel, close, inScope, parent, signal } = yield* cancelWith(how.abort)
        const starting = yield* Effect.forkChild(
          Effect.flip(on(parent)(inScope(alpha.start({ prompt: "go", signal })))),
          { startImmediately: true }
        )
        const cancelling = yield* Effect.forkChild(cancel, { startImmediately: true })
        yield* TestClock.adjust("1999 millis")
        assert.isUndefined(starting.pollUnsafe())
        yield* TestClock.adjust("1 millis")
        yield* Fiber.join(cancelling)
        assert.deepInclude(yield* Fiber.join(starting), how.cancelled)
        yield* Deferred.succeed(wake, undefined)
        yield* settled
        assert.strictEqual(late, 0)
        assert.deepStrictEqual(puppets.started.filter((puppet) => !puppet.released), [])
        yield* untouched(seen)
        yield* close
      }).pipe(Effect.provide(Subagent.layer({ grace: "2 seconds" })))
  )

  it.effect("S69 a clean-up that never ends is given up after the grace, and so is one that dies", () =>
    Effect.gen(function*() {
      const seen = yield* seenOf
      const wake = yield* Deferred.make<void>()
      let dies = false
      const alpha = yield* alphaOf({
        start: () =>
          Effect.gen(function*() {
            yield* Effect.addFinalizer(() => dies ? Effect.die("broken") : Deferred.await(wake))
            return yield* new Subagent.StartFailed({ provider: "alpha", reason: "Exited", diagnostic: "gone" })
          })
      })
      const starting = yield* Effect.forkChild(Effect.flip(alpha.start({ prompt: "go" })), { startImmediately: true })
      yield* TestClock.adjust("2 seconds")
      assert.deepInclude(yield* Fiber.join(starting), { _tag: "StartFailed", reason: "Exited" })
      yield* Deferred.succeed(wake, undefined)
      dies = true
      assert.deepInclude(yield* Effect.flip(alpha.start({ prompt: "go" })), { _tag: "StartFailed", reason: "Exited" })
      yield* untouched(seen)
    }).pipe(Effect.provide(Subagent.layer({ grace: "2 seconds" })), on(agent({ limits: { maxChildren: 1 } }))))

  it.effect("a caller that is interrupted waits for the clean-up, and leaves nothing", () =>
    Effect.gen(function*() {
      const seen = yield* seenOf
      let released = 0
      const puppets = puppeteer({
        opening: () =>
          Effect.andThen(
            Effect.addFinalizer(() => Effect.andThen(Effect.sleep("1 second"), Effect.sync(() => released++))),
            Effect.sleep("1 hour")
          )
      })
      const alpha = yield* alphaOf(puppets.implementation)
      const lifetime = new CountedLifetime()
      const parent = agent({ lifetime, limits: { maxChildren: 1 } })
      const starting = yield* Effect.forkChild(on(parent)(alpha.start({ prompt: "go" })), { startImmediately: true })
      const waiting = yield* Effect.forkChild(on(parent)(alpha.start({ prompt: "go" })), { startImmediately: true })
      yield* settled
      yield* Fiber.interrupt(waiting)
      const interrupting = yield* Effect.forkChild(Fiber.interrupt(starting), { startImmediately: true })
      yield* TestClock.adjust("999 millis")
      assert.isUndefined(interrupting.pollUnsafe())
      yield* TestClock.adjust("1 millis")
      yield* Fiber.join(interrupting)
      assert.strictEqual(released, 1)
      assert.strictEqual(lifetime.listeners, 0)
      yield* untouched(seen)
    }).pipe(Effect.provide(Subagent.layer())))

  it.effect("a scope that is closed already fails Cancelled at once", () =>
    Effect.gen(function*() {
      const puppets = puppeteer()
      const alpha = yield* alphaOf(puppets.implementation)
      const scope = yield* Scope.make()
      yield* Scope.close(scope, Exit.void)
      const error = yield* Effect.flip(Scope.provide(alpha.start({ prompt: "go" }), scope))
      assert.deepInclude(error, { _tag: "Cancelled", cause: "disposed" })
      assert.strictEqual(puppets.calls, 0)
    }).pipe(Effect.provide(Subagent.layer()), on(agent())))

  it.effect("a caller that cannot be interrupted can still be cancelled", () =>
    Effect.gen(function*() {
      const controller = new AbortController()
      const alpha = yield* alphaOf(puppeteer({ opening: () => Effect.never }).implementation)
      const starting = yield* Effect.forkChild(
        Effect.uninterruptible(Effect.flip(alpha.start({ prompt: "go", signal: controller.signal }))),
        { startImmediately: true }
      )
      controller.abort()
      assert.deepInclude(yield* Fiber.join(starting), { _tag: "Cancelled" })
    }).pipe(Effect.provide(Subagent.layer()), on(agent())))

  it.effect("the provider learns why", () =>
    Effect.gen(function*() {
      const causes: Array<unknown> = []
      const alpha = yield* alphaOf({
        start: (request) =>
          Effect.onInterrupt(Effect.never, () => Effect.map(request.abortCause, (cause) => causes.push(cause)))
      })
      const controller = new AbortController()
      const starting = yield* Effect.forkChild(Effect.exit(alpha.start({ prompt: "go", signal: controller.signal })), {
        startImmediately: true
      })
      controller.abort()
      yield* Fiber.join(starting)
      assert.deepInclude(causes[0], { _tag: "Some", value: "parent" })
    }).pipe(Effect.provide(Subagent.layer()), on(agent())))
})

const bySomebody = [...cancellers, ["its timeout", { abort: "timeout", aborted: "timeout" }], [
  "interrupt",
  { abort: "interrupt", aborted: "user" }
]] as const

describe("cancellation after publication", () => {
  it.effect.each(bySomebody)("S76 S79 S82 by %s", ([, { abort, aborted }]) =>
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
})

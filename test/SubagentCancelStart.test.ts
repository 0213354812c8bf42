import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Exit, Fiber, Scope } from "effect"
import { TestClock } from "effect/testing"
import { Lifetime } from "../src/CurrentAgent.ts"
import * as Subagent from "../src/Subagent.ts"
import { leakCheck } from "./utils/leaks.ts"
import { able, agent, on, puppeteer, settled, watching } from "./utils/seam.ts"
import { cancellers, cancelWith, CountedLifetime, listeners } from "./utils/seamCancel.ts"

leakCheck()

class Alpha extends Subagent.Provider<Alpha>()("alpha", able) {}

const alphaOf = (implementation: Subagent.Implementation<typeof able>) =>
  Subagent.Subagents.use((subagents) => subagents.register(Alpha, implementation))

/** The start count, the events and the running children, with which a cancelled start must not have been concerned. */
const untouched = Effect.fnUntraced(function*(seen: ReadonlyArray<Subagent.SubagentEvent>) {
  yield* settled
  assert.deepStrictEqual(seen.map((event) => event._tag), ["ProviderAdded"])
  assert.deepStrictEqual(yield* Subagent.Subagents.use((subagents) => subagents.running), [])
})

const seenOf = Subagent.Subagents.use((subagents) => watching(subagents.events))

describe("cancellation before publication", () => {
  it.effect.each(cancellers)(
    "S12 S73 S75 by %s in the same tick",
    ([, { abort, cancelled }]) =>
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
      }).pipe(Effect.provide(Subagent.layer()))
  )

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

  it.effect.each(
    [
      ["fails", Effect.fail(new Subagent.StartFailed({ provider: "alpha", reason: "Exited", diagnostic: "killed" }))],
      ["dies", Effect.die(new Error("broken"))],
      ["gives a child", Effect.void]
    ] as const
  )("S590 a provider that %s on its way down is not mistaken for the reason", ([, last]) =>
    Effect.gen(function*() {
      const seen = yield* seenOf
      const controller = new AbortController()
      const puppets = puppeteer({
        opening: () =>
          Effect.uninterruptible(Effect.andThen(
            Effect.callback<void>((resume) => {
              controller.signal.addEventListener("abort", () => resume(Effect.void), { once: true })
            }),
            last
          ))
      })
      const alpha = yield* alphaOf(puppets.implementation)
      const starting = yield* Effect.forkChild(
        Effect.flip(alpha.start({ prompt: "go", signal: controller.signal })),
        { startImmediately: true }
      )
      controller.abort()
      assert.deepStrictEqual(yield* Fiber.join(starting), new Subagent.Cancelled({ cause: "parent" }))
      assert.isTrue(puppets.started.every((puppet) => puppet.released))
      yield* untouched(seen)
    }).pipe(Effect.provide(Subagent.layer()), on(agent())))

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

import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Exit, Fiber } from "effect"
import { TestClock } from "effect/testing"
import { awaitWithin, boundText, maxDiagnosticBytes } from "../../src/internal/session/bounded.ts"
import { leakCheck } from "../utils/leaks.ts"

leakCheck()

const bytes = (text: string) => new TextEncoder().encode(text).length

describe("boundText", () => {
  it("S557 leaves alone what fits", () => {
    for (const text of ["", "short", "é".repeat(2048), "a".repeat(4096), "€".repeat(1365)]) {
      assert.strictEqual(boundText(text), text)
    }
  })

  it("S557 S599 cuts at 4096 bytes, between characters, and shows it", () => {
    for (const character of ["a", "é", "€", "🙂", "e\u0301"]) {
      for (let shift = 0; shift < 4; shift++) {
        const cut = boundText("x".repeat(shift) + character.repeat(5000))
        assert.isAtMost(bytes(cut), maxDiagnosticBytes)
        assert.isAtLeast(bytes(cut), maxDiagnosticBytes - 4)
        assert.isTrue(cut.endsWith(" … (cut)"))
        assert.notInclude(cut, "\ufffd")
      }
    }
  })

  it("S557 keeps its bound on text that is no text", () => {
    assert.isAtMost(bytes(boundText("\ud800".repeat(5000))), maxDiagnosticBytes)
  })

  it("keeps to small bounds as far as its marker allows", () => {
    assert.strictEqual(boundText("a long text, too long", 12), "a  … (cut)")
    assert.strictEqual(boundText("a long text, too long", 3), " … (cut)")
  })
})

describe("awaitWithin", () => {
  it.effect("gives the exit of a fiber that is done, or gets done in time", () =>
    Effect.gen(function*() {
      const done = yield* Effect.forkChild(Effect.succeed(1), { startImmediately: true })
      assert.deepStrictEqual(yield* awaitWithin(done, "1 second"), Exit.succeed(1))
      const failing = yield* Effect.forkChild(Effect.andThen(Effect.sleep("1 second"), Effect.fail("no")))
      const waiting = yield* Effect.forkChild(awaitWithin(failing, "2 seconds"))
      yield* TestClock.adjust("1 second")
      assert.deepStrictEqual(yield* Fiber.join(waiting), Exit.fail("no"))
    }))

  it.effect("gives up after the grace, also where nothing can interrupt it, and leaves the fiber alone", () =>
    Effect.gen(function*() {
      const wake = yield* Deferred.make<void>()
      const fiber = yield* Effect.forkChild(Effect.uninterruptible(Deferred.await(wake)), { startImmediately: true })
      const waiting = yield* Effect.forkChild(Effect.uninterruptible(awaitWithin(fiber, "2 seconds")), {
        startImmediately: true
      })
      waiting.interruptUnsafe()
      yield* TestClock.adjust("1999 millis")
      assert.isUndefined(waiting.pollUnsafe())
      yield* TestClock.adjust("1 millis")
      assert.isDefined(waiting.pollUnsafe())
      assert.isUndefined(fiber.pollUnsafe())
      yield* Deferred.succeed(wake, undefined)
      yield* Fiber.join(fiber)
    }))
})

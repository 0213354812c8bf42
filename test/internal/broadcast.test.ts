import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber, Stream } from "effect"
import { Broadcast } from "../../src/internal/session/broadcast.ts"
import { leakCheck } from "../utils/leaks.ts"
import { settled, watching } from "../utils/seam.ts"

leakCheck()

type Value = number | { readonly dropped: number }

const make = () => new Broadcast<Value>((dropped) => ({ dropped }))

describe("Broadcast", () => {
  it.effect("every subscriber gets everything in order, and ends when it ends", () =>
    Effect.gen(function*() {
      const broadcast = make()
      broadcast.publish(0)
      assert.isFalse(broadcast.observed)
      const stream = broadcast.stream({ capacity: 10 })
      const fibers = yield* Effect.forEach([1, 2], () =>
        Effect.forkChild(Stream.runCollect(stream), { startImmediately: true }))
      assert.isTrue(broadcast.observed)
      broadcast.publish(1)
      broadcast.publish(2)
      yield* settled
      broadcast.publish(3)
      broadcast.end()
      for (const fiber of fibers) {
        assert.deepStrictEqual(yield* Fiber.join(fiber), [1, 2, 3])
      }
      assert.isFalse(broadcast.observed)
      // and whoever comes later finds it ended
      assert.deepStrictEqual(yield* Stream.runCollect(stream), [])
    }))

  it.effect("begins with what there is when it is first pulled", () =>
    Effect.gen(function*() {
      const broadcast = make()
      let now = 1
      const stream = broadcast.stream({ capacity: 10, initial: () => [now, now] })
      now = 2
      const seen = yield* watching(stream)
      broadcast.publish(3)
      yield* settled
      assert.deepStrictEqual(seen, [2, 2, 3])
    }))

  it.effect("drops the oldest of a slow subscriber, and tells it before the next", () =>
    Effect.gen(function*() {
      const broadcast = make()
      const go = yield* Deferred.make<void>()
      const slow: Array<Value> = []
      yield* Effect.forkScoped(
        Stream.runForEach(broadcast.stream({ capacity: 4 }), (value) =>
          Effect.andThen(Effect.sync(() => slow.push(value)), Deferred.await(go))),
        { startImmediately: true }
      )
      const quick = yield* watching(broadcast.stream({ capacity: 4 }))
      for (let i = 0; i < 10; i++) {
        broadcast.publish(i)
        yield* settled
      }
      assert.deepStrictEqual(quick, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
      assert.deepStrictEqual(slow, [0])
      yield* Deferred.succeed(go, undefined)
      yield* settled
      assert.deepStrictEqual(slow, [0, { dropped: 6 }, 7, 8, 9])
    }))

  it.effect.each([1, 2, 3])(
    "counts exactly what was dropped with a capacity of %d",
    (capacity) =>
      Effect.gen(function*() {
        const broadcast = make()
        const pull = yield* Stream.toPull(broadcast.stream({ capacity, initial: () => [-3, -2, -1] }))
        yield* Effect.forkChild(Effect.never, { startImmediately: true }).pipe(Effect.flatMap(Fiber.interrupt))
        const first = yield* pull
        assert.deepStrictEqual(first, [-3, -2, -1])
        let expected = 0
        for (let round = 0; round < 20; round++) {
          for (let i = 0; i < round; i++) broadcast.publish(expected + i)
          if (round === 0) continue
          const values = yield* pull
          const [head, ...tail] = values
          const dropped = typeof head === "number" ? 0 : head.dropped
          const rest = typeof head === "number" ? [head, ...tail] : tail
          assert.isAtMost(rest.length, capacity)
          assert.deepStrictEqual(rest, Array.from({ length: round - dropped }, (_, i) => expected + dropped + i))
          expected += round
        }
      })
  )

  it.effect("no subscriber runs inside publish, so that none gets between a value and the others", () =>
    Effect.gen(function*() {
      const broadcast = make()
      yield* Effect.forkScoped(
        Stream.runForEach(broadcast.stream({ capacity: 10 }), (value) =>
          Effect.sync(() => {
            if (value === 1) broadcast.publish(2)
          })),
        { startImmediately: true }
      )
      const seen = yield* watching(broadcast.stream({ capacity: 10 }))
      broadcast.publish(1)
      assert.deepStrictEqual(seen, [])
      broadcast.publish(10)
      yield* settled
      assert.deepStrictEqual(seen, [1, 10, 2])
    }))

  it.effect("forgets a subscriber that stops, fails, dies or is interrupted", () =>
    Effect.gen(function*() {
      const broadcast = make()
      const stream = broadcast.stream({ capacity: 10 })
      const fibers = yield* Effect.forEach(
        [
          Stream.runDrain(Stream.take(stream, 1)),
          Stream.runForEach(stream, () => Effect.fail("failed")),
          Stream.runForEach(stream, () => Effect.die("died")),
          Stream.runDrain(stream)
        ],
        (effect) => Effect.forkChild(Effect.exit(effect), { startImmediately: true })
      )
      broadcast.publish(1)
      yield* settled
      assert.isTrue(broadcast.observed)
      yield* Fiber.interrupt(fibers[3])
      assert.isFalse(broadcast.observed)
      broadcast.publish(2)
    }))
})

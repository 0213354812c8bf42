import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Exit, type Fiber, Queue, Scope, Stream } from "effect"
import { TestClock } from "effect/testing"
import * as Subagent from "../src/Subagent.ts"
import { leakCheck } from "./utils/leaks.ts"
import { able, agent, child, logging, on, says, settled, watching } from "./utils/seam.ts"

leakCheck()

class Alpha extends Subagent.Provider<Alpha>()("alpha", able) {}

const { errors, layer: logger } = logging()

const run = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  effect.pipe(on(agent()), Effect.provide(Subagent.layer()), Effect.provide(logger))

const text = (delta: string): Subagent.Progress => ({ _tag: "Text", delta })

/** A child whose progress is this stream, and what makes it settle. */
const start = Effect.fnUntraced(function*(progress: Stream.Stream<Subagent.Progress>) {
  const done = Deferred.makeUnsafe<Subagent.Result<unknown>>()
  const alpha = yield* Subagent.Subagents.use((subagents) =>
    subagents.register(Alpha, { start: () => Effect.sync(() => child({ progress, result: Deferred.await(done) })) })
  )
  const started = yield* alpha.start({ prompt: "go" })
  return { run: started, settle: Effect.andThen(Deferred.succeed(done, says("done")), started.released) }
})

/** The reader's end, which has to come within a second of the run's. */
const soon = <A, E>(fiber: Fiber.Fiber<A, E>) =>
  Effect.gen(function*() {
    yield* settled
    yield* TestClock.adjust("1 second")
    yield* settled
    const exit = fiber.pollUnsafe()
    assert.isDefined(exit, "the reader waits still")
    return yield* exit
  })

describe("the progress of a run", () => {
  it.effect("S574 ends with the run though the provider's stream does not, and keeps what that had given", () =>
    Effect.gen(function*() {
      const events = yield* Queue.unbounded<Subagent.Progress>()
      let closed = 0
      const { run, settle } = yield* start(
        Stream.ensuring(Stream.fromQueue(events), Effect.sync(() => void closed++))
      )
      const eager = yield* Effect.forkChild(Stream.runCollect(run.progress), { startImmediately: true })
      const gate = Deferred.makeUnsafe<void>()
      const slow = yield* Effect.forkChild(
        Stream.runCollect(Stream.tap(run.progress, () => Deferred.await(gate))),
        { startImmediately: true }
      )
      const other = yield* watching(run.progress)
      // the readers share one queue: each event is somebody's
      yield* Queue.offerAll(events, [text("a"), text("b"), text("c")])
      yield* settle
      yield* TestClock.adjust("10 seconds")
      yield* Deferred.succeed(gate, undefined)
      const seen = [...yield* soon(eager), ...yield* soon(slow), ...other]
      assert.deepStrictEqual(seen.map((event) => event._tag === "Text" ? event.delta : event._tag).toSorted(), [
        "a",
        "b",
        "c"
      ])
      assert.strictEqual(closed, 3)
    }).pipe(run))

  it.effect("S574 what the child did last arrives, also where its provider hands it on late", () =>
    Effect.gen(function*() {
      const { run, settle } = yield* start(
        Stream.concat(Stream.make(text("a")), Stream.fromEffect(Effect.as(Effect.sleep("100 millis"), text("b"))))
      )
      const reader = yield* Effect.forkChild(Stream.runCollect(run.progress), { startImmediately: true })
      yield* settle
      assert.deepStrictEqual(yield* soon(reader), [text("a"), text("b")])
    }).pipe(run))

  it.effect("S574 one that never stops to give is over too", () =>
    Effect.gen(function*() {
      const { run, settle } = yield* start(Stream.forever(Stream.make(text("a"))))
      const reader = yield* Effect.forkChild(Stream.runDrain(run.progress), { startImmediately: true })
      yield* settle
      yield* soon(reader)
    }).pipe(run))

  it.effect("S574 who subscribes when the run has ended gets what is at hand, at once", () =>
    Effect.gen(function*() {
      const { run, settle } = yield* start(Stream.concat(Stream.make(text("a")), Stream.never))
      yield* settle
      assert.deepStrictEqual(yield* Stream.runCollect(run.progress), [text("a")])
    }).pipe(run))

  it.effect("S574 a stream that cannot be interrupted, or whose finalizer hangs, is left behind", () =>
    Effect.gen(function*() {
      for (
        const hang of [
          (gate: Effect.Effect<void>) => Stream.fromEffect(Effect.as(Effect.uninterruptible(gate), text("late"))),
          (gate: Effect.Effect<void>) => Stream.ensuring(Stream.never, gate)
        ]
      ) {
        const gate = Deferred.makeUnsafe<void>()
        const { run, settle } = yield* Effect.scoped(start(hang(Deferred.await(gate))))
        const reader = yield* Effect.forkChild(Stream.runCollect(run.progress), { startImmediately: true })
        yield* settle
        assert.deepStrictEqual(yield* soon(reader), [])
        yield* Deferred.succeed(gate, undefined)
      }
    }).pipe(run))

  it.effect("S574 a stream that dies ends its readers, and the log says why", () =>
    Effect.gen(function*() {
      errors.length = 0
      const { run, settle } = yield* start(Stream.concat(Stream.make(text("a")), Stream.die("broken")))
      assert.deepStrictEqual(yield* Stream.runCollect(run.progress), [text("a")])
      assert.match(errors.join("\n"), /progress of a run of provider "alpha" died/)
      yield* settle
      assert.strictEqual((yield* run.result)._tag, "Completed")
    }).pipe(run))

  it.effect("S574 a reader that goes away takes its reading of the provider's stream with it", () =>
    Effect.gen(function*() {
      let closed = 0
      const { run, settle } = yield* start(Stream.ensuring(Stream.never, Effect.sync(() => void closed++)))
      const scope = yield* Scope.make()
      yield* Effect.forkIn(Stream.runDrain(run.progress), scope, { startImmediately: true })
      yield* settled
      yield* Scope.close(scope, Exit.void)
      assert.strictEqual(closed, 1)
      yield* settle
    }).pipe(run))
})

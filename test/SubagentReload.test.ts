import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Fiber, Layer, Result, Scope } from "effect"
import { TestClock } from "effect/testing"
import * as Subagent from "../src/Subagent.ts"
import { leakCheck } from "./utils/leaks.ts"
import { able, agent, child, on, puppeteer, says, settled, watching } from "./utils/seam.ts"

leakCheck()

class Alpha extends Subagent.Provider<Alpha>()("alpha", able) {}

/** Builds the provider's layer again and again; its children say of which generation they are. */
const generations = Effect.gen(function*() {
  const calls: Array<number> = []
  let generation = 0
  const build = Effect.gen(function*() {
    const mine = ++generation
    const scope = yield* Scope.make()
    yield* Layer.buildWithScope(
      Alpha.toLayer(Effect.succeed({
        start: ({ prompt }: Subagent.ResolvedStart<typeof able>) =>
          Effect.sync(() => {
            calls.push(mine)
            return child({ result: Effect.as(Effect.sleep(Number(prompt)), says(`from ${mine}`)) })
          })
      })),
      scope
    )
    return Scope.close(scope, Exit.void)
  })
  return { build, calls }
})

const run = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  effect.pipe(on(agent({ limits: { maxChildren: 1000, maxRunning: 1000 } })), Effect.provide(Subagent.layer()))

describe("a provider that is reloaded", () => {
  it.effect("S41 under load: old runs finish, nobody reaches the old one, and the name is unknown meanwhile", () =>
    Effect.gen(function*() {
      const subagents = yield* Subagent.Subagents
      const seen = yield* watching(subagents.events)
      const { build, calls } = yield* generations
      const delegate = (millis: number) => Effect.result(subagents.delegate("alpha", { prompt: String(millis) }))

      let close = yield* build
      const old = yield* Effect.forEach(
        Array.from({ length: 50 }, (_, index) => 1000 + index),
        (millis) => Effect.forkChild(delegate(millis), { startImmediately: true })
      )
      // and a load that never pauses
      const answers: Array<{ readonly at: number; readonly answer: string }> = []
      const load = yield* Effect.forkChild(
        Effect.forEach(
          Array.from({ length: 8 }, (_, index) => index),
          (worker) =>
            Effect.forever(Effect.gen(function*() {
              const at = yield* Effect.clockWith((clock) => clock.currentTimeMillis)
              const result = yield* delegate(5)
              answers.push({ at, answer: Result.isSuccess(result) ? result.success.text : result.failure._tag })
              yield* Effect.sleep(1 + worker)
            })),
          { concurrency: "unbounded" }
        ),
        { startImmediately: true }
      )
      const step = (millis: number) =>
        Effect.forEach(Array.from({ length: millis }), () => TestClock.adjust(1), { discard: true })

      yield* step(100)
      yield* close
      const closedAt = calls.length
      yield* step(50)
      assert.strictEqual(calls.length, closedAt)
      assert.strictEqual((yield* subagents.running).length, 50)
      close = yield* build
      yield* step(100)
      assert.isAbove(calls.length, closedAt)
      assert.isTrue(calls.slice(closedAt).every((generation) => generation === 2))
      // straight from one to the next
      yield* close
      close = yield* build
      yield* step(100)
      yield* Fiber.interrupt(load)

      yield* TestClock.adjust("1 second")
      for (const fiber of old) {
        const result = yield* Fiber.join(fiber)
        assert.isTrue(Result.isSuccess(result) && result.success.text === "from 1")
      }
      const expected = (at: number) => {
        if (at < 100) return "from 1"
        if (at < 150) return "ProviderNotFound"
        return at < 250 ? "from 2" : "from 3"
      }
      for (const { answer, at } of answers) {
        // at the very moment of a change it may be either
        if (![100, 150, 250].includes(at)) assert.strictEqual(answer, expected(at), `at ${at}`)
      }
      assert.deepStrictEqual(
        [...new Set(answers.map(({ answer }) => answer))],
        ["from 1", "ProviderNotFound", "from 2", "from 3"]
      )
      yield* close
      assert.deepStrictEqual(yield* subagents.running, [])
      yield* settled
      assert.deepStrictEqual(
        seen.filter((event) => event._tag.startsWith("Provider")).map((event) => event._tag),
        Array.from({ length: 3 }, () => ["ProviderAdded", "ProviderRemoved"]).flat()
      )
      const count = (tag: string) => seen.filter((event) => event._tag === tag).length
      assert.strictEqual(count("RunStarted"), calls.length)
      assert.strictEqual(count("RunEnded"), calls.length)
    }).pipe(run))

  it.effect("the new one may come before the old one goes", () =>
    Effect.gen(function*() {
      const subagents = yield* Subagent.Subagents
      const { build } = yield* generations
      const ask = Effect.map(
        Effect.forkChild(subagents.delegate("alpha", { prompt: "5" }), { startImmediately: true }),
        (fiber) => Effect.andThen(TestClock.adjust(5), Effect.map(Fiber.join(fiber), (result) => result.text))
      )
      const closeFirst = yield* build
      const first = yield* ask
      const closeSecond = yield* build
      const second = yield* ask
      yield* closeFirst
      const third = yield* ask
      assert.deepStrictEqual([yield* first, yield* second, yield* third], ["from 1", "from 2", "from 2"])
      yield* closeSecond
      assert.strictEqual((yield* Effect.flip(subagents.delegate("alpha", { prompt: "5" })))._tag, "ProviderNotFound")
    }).pipe(run))

  it.effect("S65 S585 a start that the old one is at work on goes through", () =>
    Effect.gen(function*() {
      const subagents = yield* Subagent.Subagents
      const puppets = puppeteer({ opening: () => Effect.sleep("1 second") })
      const seen = yield* watching(subagents.events)
      const scope = yield* Scope.make()
      yield* Scope.provide(subagents.register(Alpha, puppets.implementation), scope)
      const starting = yield* Effect.forkScoped(subagents.start("alpha", { prompt: "go" }), { startImmediately: true })
      yield* Scope.close(scope, Exit.void)
      yield* TestClock.adjust("1 second")
      const started = yield* Fiber.join(starting)
      puppets.started[0].say("done")
      assert.strictEqual((yield* started.result).text, "done")
      yield* started.released
      assert.isTrue(puppets.started[0].released)
      assert.deepStrictEqual(yield* subagents.running, [])
      yield* settled
      assert.deepStrictEqual(seen.map((event) => event._tag), [
        "ProviderAdded",
        "ProviderRemoved",
        "RunStarted",
        "RunEnded"
      ])
    }).pipe(run))
})

import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Exit, Fiber, Scope, Stream } from "effect"
import { TestClock } from "effect/testing"
import * as Subagent from "../src/Subagent.ts"
import { leakCheck } from "./utils/leaks.ts"
import { able, agent, child, on, puppeteer, says, settled, unable, watching } from "./utils/seam.ts"

leakCheck()

class Alpha extends Subagent.Provider<Alpha>()("alpha", able) {}
class Beta extends Subagent.Provider<Beta>()("beta", unable, { inheritsParentContext: true }) {}

const alphaOf = (implementation: Subagent.Implementation<typeof able>) =>
  Subagent.Subagents.use((subagents) => subagents.register(Alpha, implementation))

const run = <A, E, R>(effect: Effect.Effect<A, E, R>) => effect.pipe(on(agent()), Effect.provide(Subagent.layer()))

const tags = (events: ReadonlyArray<Subagent.SubagentEvent>) => events.map((event) => event._tag)

describe("events", () => {
  it.effect("S34 S54 S55 S58 S300 S303 one start, when the provider is done, and one end, for one run of one parent", () =>
    Effect.gen(function*() {
      const subagents = yield* Subagent.Subagents
      const open = yield* Deferred.make<void>()
      const puppets = puppeteer({ opening: () => Deferred.await(open) })
      const alpha = yield* alphaOf(puppets.implementation)
      const seen = yield* watching(subagents.events)
      const others = yield* watching(subagents.eventsOf("somebody else"))
      const starting = yield* Effect.forkScoped(alpha.start({ prompt: "go", label: "a child" }), {
        startImmediately: true
      })
      yield* TestClock.adjust("1 second")
      assert.deepStrictEqual(tags(seen), ["ProviderAdded"])
      yield* Deferred.succeed(open, undefined)
      const { id, result, runId } = yield* Fiber.join(starting)
      yield* TestClock.adjust("1 minute")
      const about = { runId, provider: "alpha", id, parent: "parent", local: false, label: "a child" }
      assert.deepStrictEqual(seen.slice(1), [{ _tag: "RunStarted", ...about, at: 1000 }])
      puppets.started[0].say("fine")
      yield* result
      yield* settled
      const { output, usage } = says("fine")
      assert.deepStrictEqual(seen.slice(2), [{
        _tag: "RunEnded",
        ...about,
        at: 61_000,
        outcome: "Completed",
        text: "fine",
        output,
        usage: { ...usage, elapsed: 60_000 },
        released: true
      }])
      assert.deepStrictEqual(others, [])
    }).pipe(run))

  it.effect("S54 S56 they are published before the start, and before the result, is seen", () =>
    Effect.gen(function*() {
      const subagents = yield* Subagent.Subagents
      const puppets = puppeteer()
      const alpha = yield* alphaOf(puppets.implementation)
      const pull = yield* Stream.toPull(subagents.events)
      const next = Effect.map(pull, tags)
      assert.deepStrictEqual(yield* next, ["ProviderAdded"])
      // whatever is published already is there without waiting
      const published = Effect.map(Effect.forkChild(next, { startImmediately: true }), (fiber) => fiber.pollUnsafe())
      const started = yield* alpha.start({ prompt: "go" })
      assert.deepStrictEqual(yield* published, Exit.succeed(["RunStarted"]))
      let atResult: unknown
      const waiting = yield* Effect.forkChild(
        Effect.flatMap(started.result, () => Effect.map(published, (exit) => atResult = exit)),
        { startImmediately: true }
      )
      puppets.started[0].say("done")
      yield* Fiber.join(waiting)
      assert.deepStrictEqual(atResult, Exit.succeed(["RunEnded"]))
    }).pipe(run))

  it.effect("S56 a child that has settled already still starts before it ends", () =>
    Effect.gen(function*() {
      const subagents = yield* Subagent.Subagents
      const alpha = yield* alphaOf({ start: () => Effect.sync(child) })
      const seen = yield* watching(subagents.events)
      const { runId } = yield* alpha.start({ prompt: "go" })
      yield* settled
      assert.deepStrictEqual(seen.slice(1).map((event) => "runId" in event && [event._tag, event.runId]), [
        ["RunStarted", runId],
        ["RunEnded", runId]
      ])
    }).pipe(run))

  it.effect("S57 S64 S301 S308 runs of one child id have ids of their own", () =>
    Effect.gen(function*() {
      const subagents = yield* Subagent.Subagents
      const puppets = puppeteer({ id: "the-same" })
      const alpha = yield* alphaOf(puppets.implementation)
      const seen = yield* watching(subagents.events)
      const one = yield* alpha.start({ prompt: "one" })
      const two = yield* alpha.start({ prompt: "two" })
      assert.strictEqual(one.id, two.id)
      assert.notStrictEqual(one.runId, two.runId)
      puppets.started[1].say("two")
      yield* two.result
      assert.deepStrictEqual((yield* subagents.running).map((info) => info.runId), [one.runId])
      puppets.started[0].say("one")
      yield* one.result
      yield* settled
      assert.deepStrictEqual(seen.slice(1).map((event) => "runId" in event && [event._tag, event.runId]), [
        ["RunStarted", one.runId],
        ["RunStarted", two.runId],
        ["RunEnded", two.runId],
        ["RunEnded", one.runId]
      ])
    }).pipe(run))

  it.effect("S55 S64 S308 many runs at once pair exactly", () =>
    Effect.gen(function*() {
      const subagents = yield* Subagent.Subagents
      const alpha = yield* alphaOf({
        start: ({ prompt }) =>
          Number(prompt) % 4 === 0
            ? Effect.fail(new Subagent.StartFailed({ provider: "alpha", reason: "Exited", diagnostic: "" }))
            : Effect.as(
              Effect.sleep(Number(prompt) % 7),
              child({ result: Effect.as(Effect.sleep(Number(prompt) % 5), says("done")) })
            )
      })
      const seen = yield* watching(subagents.events)
      const all = yield* Effect.forkChild(Effect.forEach(
        Array.from({ length: 200 }, (_, index) => String(index)),
        (prompt) => Effect.exit(alpha.delegate({ prompt, timeout: Number(prompt) % 9 === 1 ? 2 : undefined })),
        { concurrency: "unbounded" }
      ))
      for (let i = 0; i < 400 && all.pollUnsafe() === undefined; i++) yield* TestClock.adjust("10 millis")
      const exits = yield* Fiber.join(all)
      const accepted = exits.filter(Exit.isSuccess).length
      assert.strictEqual(accepted, 150)
      yield* settled
      const open = new Set<string>()
      let pairs = 0
      for (const event of seen) {
        if (event._tag === "RunStarted") {
          assert.isFalse(open.has(event.runId))
          open.add(event.runId)
          // nobody ever sees more of them than there are places
          assert.isAtMost(open.size, 10)
        }
        if (event._tag === "RunEnded") {
          assert.isTrue(open.delete(event.runId))
          pairs++
        }
      }
      assert.strictEqual(open.size, 0)
      assert.strictEqual(pairs, accepted)
    }).pipe(run))

  it.effect("S61 eventsOf has the runs of one parent only", () =>
    Effect.gen(function*() {
      const subagents = yield* Subagent.Subagents
      const alpha = yield* alphaOf({ start: () => Effect.sync(child) })
      const seen = yield* watching(subagents.eventsOf("one"))
      const delegate = (id: string) => on(agent({ id }))(alpha.delegate({ prompt: "go", label: id }))
      yield* delegate("one")
      yield* delegate("two")
      yield* delegate("one")
      yield* settled
      assert.deepStrictEqual(seen.map((event) => "label" in event && [event._tag, event.label]), [
        ["RunStarted", "one"],
        ["RunEnded", "one"],
        ["RunStarted", "one"],
        ["RunEnded", "one"]
      ])
    }).pipe(run))

  it.effect("whoever comes late begins with what is registered and running", () =>
    Effect.gen(function*() {
      const subagents = yield* Subagent.Subagents
      const puppets = puppeteer()
      const alpha = yield* alphaOf(puppets.implementation)
      yield* subagents.register(Beta, { start: () => Effect.sync(child) })
      yield* subagents.delegate("beta", { prompt: "over before anybody looked" })
      yield* TestClock.adjust("5 seconds")
      const started = yield* alpha.start({ prompt: "go" })
      yield* TestClock.adjust("5 seconds")
      const late = yield* watching(subagents.events)
      const ofParent = yield* watching(subagents.eventsOf("parent"))
      yield* settled
      const running = {
        _tag: "RunStarted",
        runId: started.runId,
        provider: "alpha",
        id: started.id,
        parent: "parent",
        local: false,
        label: undefined,
        at: 5000
      } as const
      assert.deepStrictEqual(late, [
        { _tag: "ProviderAdded", name: "alpha", capabilities: able, inheritsParentContext: false },
        { _tag: "ProviderAdded", name: "beta", capabilities: unable, inheritsParentContext: true },
        running
      ])
      assert.deepStrictEqual(ofParent, [running])
      puppets.started[0].say("done")
      yield* started.result
      yield* settled
      assert.deepStrictEqual(tags(late).slice(3), ["RunEnded"])
    }).pipe(run))

  it.effect("S62 S305 a subscriber that is stuck loses the oldest events, is told how many, and slows nobody", () =>
    Effect.gen(function*() {
      const subagents = yield* Subagent.Subagents
      const alpha = yield* alphaOf({ start: () => Effect.sync(child) })
      const go = yield* Deferred.make<void>()
      const slow: Array<Subagent.SubagentEvent> = []
      yield* Effect.forkScoped(
        Stream.runForEach(
          subagents.events,
          (event) => Effect.andThen(Effect.sync(() => slow.push(event)), Deferred.await(go))
        ),
        { startImmediately: true }
      )
      const quick = yield* watching(subagents.events)
      // two events a run
      for (let i = 0; i < 2500; i++) {
        yield* alpha.delegate({ prompt: "go", label: String(i) })
        if (i % 100 === 0) yield* settled
      }
      yield* settled
      assert.strictEqual(quick.length, 1 + 5000)
      assert.deepStrictEqual(tags(slow), ["ProviderAdded"])
      yield* Deferred.succeed(go, undefined)
      yield* settled
      const dropped = slow[1]
      assert.isTrue(dropped._tag === "Dropped")
      if (dropped._tag === "Dropped") assert.strictEqual(slow.length - 2, 5000 - dropped.count)
      assert.isAtMost(slow.length - 2, 4096)
      assert.isAtLeast(slow.length - 2, 2048)
      // what it still gets is the latest, without a gap
      assert.deepStrictEqual(slow.slice(2), quick.slice(-(slow.length - 2)))
      yield* alpha.delegate({ prompt: "go" })
      yield* settled
      assert.deepStrictEqual(tags(slow).slice(-2), ["RunStarted", "RunEnded"])
    }).pipe(run))

  it.effect("S62 S63 S305 S580 a subscriber that dies, fails or stops harms nobody", () =>
    Effect.gen(function*() {
      const subagents = yield* Subagent.Subagents
      const puppets = puppeteer()
      const scope = yield* Scope.make()
      const alpha = yield* Scope.provide(alphaOf(puppets.implementation), scope)
      const dead = yield* Effect.forEach(
        [
          Stream.runForEach(subagents.events, () => Effect.die("dead")),
          Stream.runForEach(subagents.eventsOf("parent"), () => Effect.fail("failed")),
          Stream.runForEach(subagents.events, () => Effect.interrupt),
          Stream.runForEach(subagents.events, (): Effect.Effect<void> => {
            throw new Error("thrown")
          }),
          Stream.runDrain(Stream.take(subagents.events, 1))
        ],
        (effect) => Effect.forkChild(Effect.exit(effect), { startImmediately: true })
      )
      const seen = yield* watching(subagents.events)
      const started = yield* alpha.start({ prompt: "go" })
      puppets.started[0].say("fine")
      assert.strictEqual((yield* started.result).text, "fine")
      yield* started.released
      yield* Effect.forEach(dead, Fiber.join)
      yield* Scope.close(scope, Exit.void)
      yield* settled
      assert.deepStrictEqual(tags(seen), ["ProviderAdded", "RunStarted", "RunEnded", "ProviderRemoved"])
    }).pipe(run))

  it.effect("S35 S38 S63 S289 a subscriber that dies at ProviderAdded keeps no provider from being registered", () =>
    Effect.gen(function*() {
      const subagents = yield* Subagent.Subagents
      const dying = yield* Effect.forEach(
        [Effect.die("dead"), Effect.fail("failed"), Effect.interrupt],
        (effect) => Effect.forkChild(Stream.runForEach(subagents.events, () => effect), { startImmediately: true })
      )
      const seen = yield* watching(subagents.events)
      yield* settled
      const alpha = yield* alphaOf({ start: () => Effect.sync(() => child({ result: Effect.succeed(says("")) })) })
      for (const fiber of dying) assert.isTrue(Exit.isFailure(yield* Fiber.await(fiber)))
      assert.deepStrictEqual((yield* subagents.providers).map((info) => info.name), ["alpha"])
      assert.deepInclude(yield* alpha.delegate({ prompt: "go" }), { _tag: "Completed", text: "" })
      yield* settled
      assert.deepStrictEqual(tags(seen), ["ProviderAdded", "RunStarted", "RunEnded"])
      assert.deepInclude(seen[2], { outcome: "Completed", text: "", output: [] })
    }).pipe(run))

  it.effect("a subscriber may delegate, and cancel, in what it hears", () =>
    Effect.gen(function*() {
      const subagents = yield* Subagent.Subagents
      const puppets = puppeteer()
      const alpha = yield* alphaOf(puppets.implementation)
      const ordinary = yield* watching(subagents.events)
      yield* Effect.forkScoped(
        Stream.runForEach(subagents.events, (event) =>
          event._tag === "RunStarted" && event.label === "first"
            ? on(agent({ id: "listener" }))(
              Effect.andThen(alpha.start({ prompt: "go", label: "second" }), (started) => started.interrupt)
            )
            : Effect.void),
        { startImmediately: true }
      )
      const last = yield* watching(subagents.events)
      const started = yield* alpha.start({ prompt: "go", label: "first" })
      yield* settled
      yield* started.interrupt
      yield* settled
      const order = [
        ["RunStarted", "first"],
        ["RunStarted", "second"],
        ["RunEnded", "second"],
        ["RunEnded", "first"]
      ]
      for (const seen of [ordinary, last]) {
        assert.deepStrictEqual(seen.slice(1).map((event) => "label" in event ? [event._tag, event.label] : []), order)
      }
    }).pipe(run))
})

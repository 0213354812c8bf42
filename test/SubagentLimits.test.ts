import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Exit, Fiber } from "effect"
import { TestClock } from "effect/testing"
import { CurrentAgent, type Limits } from "../src/CurrentAgent.ts"
import * as Subagent from "../src/Subagent.ts"
import * as SubagentLimits from "../src/SubagentLimits.ts"
import { leakCheck } from "./utils/leaks.ts"
import { able, agent, child, on, puppeteer, settled } from "./utils/seam.ts"

leakCheck()

class Alpha extends Subagent.Provider<Alpha>()("alpha", able) {}

const alphaOf = (implementation: Subagent.Implementation<typeof able>) =>
  Subagent.Subagents.use((subagents) => subagents.register(Alpha, implementation))

const run = <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.provide(effect, Subagent.layer())

const running = Subagent.Subagents.use((subagents) => Effect.map(subagents.running, (infos) => infos.length))

describe("depth", () => {
  it.effect("S154 S385 three by default; a request may ask for less, and never for more", () =>
    Effect.gen(function*() {
      const puppets = puppeteer()
      const alpha = yield* alphaOf(puppets.implementation)
      const at = (depth: number, maxDepth?: number) => on(agent({ depth }))(alpha.start({ prompt: "go", maxDepth }))
      for (const depth of [0, 1, 2]) yield* at(depth)
      assert.deepStrictEqual(puppets.started.map((puppet) => puppet.request.depth), [1, 2, 3])
      for (const maxDepth of [undefined, 4, 99]) {
        assert.deepInclude(yield* Effect.flip(at(3, maxDepth)), {
          _tag: "LimitExceeded",
          limit: "maxDepth",
          value: 4,
          max: 3
        })
      }
      assert.deepInclude(yield* Effect.flip(at(0, 0)), { _tag: "DepthExceeded", attempted: 1, max: 0 })
      assert.deepInclude(yield* Effect.flip(at(2, 2)), { _tag: "DepthExceeded", attempted: 3, max: 2 })
      assert.deepInclude(yield* Effect.flip(at(3, 3)), { _tag: "DepthExceeded", attempted: 4, max: 3 })
      yield* at(1, 2)
      assert.strictEqual(puppets.calls, 4)
    }).pipe(run))
})

describe("the queue of one parent", () => {
  it.effect("S563 S602 ten run at once, and the others start in the order in which they came", () =>
    Effect.gen(function*() {
      const puppets = puppeteer()
      const alpha = yield* alphaOf(puppets.implementation)
      const prompts = Array.from({ length: 50 }, (_, index) => String(index))
      const fibers = yield* Effect.forEach(
        prompts,
        (prompt) => Effect.forkChild(alpha.delegate({ prompt }), { startImmediately: true })
      )
      yield* settled
      const started = () => puppets.started.map((puppet) => puppet.request.prompt)
      assert.deepStrictEqual(started(), prompts.slice(0, 10))
      // they end in an order of their own
      for (let ended = 1; ended <= 50; ended++) {
        const open = puppets.started.filter((puppet) => !puppet.released)
        open[(ended * 7) % open.length].say("done")
        yield* settled
        assert.deepStrictEqual(started(), prompts.slice(0, Math.min(50, 10 + ended)))
        assert.strictEqual(yield* running, Math.min(10, 50 - ended))
      }
      yield* Effect.forEach(fibers, Fiber.join)
      // it is empty, and nobody waits again
      yield* alpha.start({ prompt: "50" })
      assert.strictEqual(puppets.started.length, 51)
    }).pipe(run, on(agent())))

  it.effect("S602 nobody who comes while others wait gets in before them", () =>
    Effect.gen(function*() {
      const puppets = puppeteer()
      const alpha = yield* alphaOf(puppets.implementation)
      const two = on(agent({ limits: { maxChildren: 2 } }))
      const order: Array<string> = []
      const start = (prompt: string, as: typeof two = two) =>
        Effect.forkScoped(Effect.tap(as(alpha.start({ prompt })), () => Effect.sync(() => order.push(prompt))), {
          startImmediately: true
        })
      yield* start("a")
      yield* start("b")
      yield* start("c")
      puppets.started[0].say("done")
      // the place is free, and c has not moved in yet
      yield* start("d")
      yield* settled
      assert.deepStrictEqual(order, ["a", "b", "c"])
      // not even somebody whose own limit would allow it
      yield* start("e", on(agent({ limits: { maxChildren: 5 } })))
      yield* settled
      assert.deepStrictEqual(order, ["a", "b", "c"])
      puppets.started[1].say("done")
      yield* settled
      assert.deepStrictEqual(order, ["a", "b", "c", "d", "e"])
    }).pipe(run))

  it.effect("S602 one who gives up waiting frees nothing that it did not take", () =>
    Effect.gen(function*() {
      const puppets = puppeteer()
      const alpha = yield* alphaOf(puppets.implementation)
      const start = (prompt: string) => Effect.forkScoped(alpha.start({ prompt }), { startImmediately: true })
      yield* start("a")
      const waiting = yield* Effect.forEach(["b", "c", "d"], start)
      yield* settled
      yield* Fiber.interrupt(waiting[0])
      yield* Fiber.interrupt(waiting[2])
      yield* settled
      assert.strictEqual(puppets.calls, 1)
      puppets.started[0].say("done")
      // c is let in, and gives up before it moves
      yield* Fiber.interrupt(waiting[1])
      yield* settled
      assert.strictEqual(puppets.calls, 1)
      yield* start("e")
      yield* start("f")
      yield* settled
      assert.deepStrictEqual(puppets.started.map((puppet) => puppet.request.prompt), ["a", "e"])
      assert.strictEqual(yield* running, 1)
    }).pipe(run, on(agent({ limits: { maxChildren: 1 } }))))

  it.effect("S563 the wait has a deadline, which is told, and others wait on", () =>
    Effect.gen(function*() {
      const puppets = puppeteer()
      const alpha = yield* alphaOf(puppets.implementation)
      const limited = on(agent({ limits: { maxChildren: 1, maxWait: 5000 } }))
      yield* limited(alpha.start({ prompt: "a" }))
      const first = yield* Effect.forkScoped(Effect.flip(limited(alpha.start({ prompt: "b" }))), {
        startImmediately: true
      })
      yield* TestClock.adjust("2 seconds")
      const second = yield* Effect.forkScoped(limited(alpha.start({ prompt: "c" })), { startImmediately: true })
      yield* TestClock.adjust("2999 millis")
      assert.isUndefined(first.pollUnsafe())
      yield* TestClock.adjust("1 millis")
      assert.deepInclude(yield* Fiber.join(first), { _tag: "LimitExceeded", limit: "maxWait", value: 5000, max: 5000 })
      puppets.started[0].say("done")
      yield* Fiber.join(second)
      assert.deepStrictEqual(puppets.started.map((puppet) => puppet.request.prompt), ["a", "c"])
    }).pipe(run))

  it.effect("without patience a full queue fails at once", () =>
    Effect.gen(function*() {
      const alpha = yield* alphaOf(puppeteer().implementation)
      const impatient = on(agent({ limits: { maxChildren: 2, maxWait: 0 } }))
      yield* impatient(alpha.start({ prompt: "a" }))
      yield* impatient(alpha.start({ prompt: "b" }))
      const error = yield* Effect.flip(impatient(alpha.start({ prompt: "c" })))
      assert.deepInclude(error, { _tag: "LimitExceeded", limit: "maxChildren", value: 3, max: 2 })
    }).pipe(run))

  it.effect("it may be released in the very moment of a deadline", () =>
    Effect.gen(function*() {
      const puppets = puppeteer({ closing: Effect.sleep("5 seconds") })
      const alpha = yield* alphaOf(puppets.implementation)
      const limited = on(agent({ limits: { maxChildren: 1, maxWait: 5000 } }))
      for (let round = 0; round < 3; round++) {
        const first = yield* limited(alpha.start({ prompt: "a" }))
        const waiting = yield* Effect.forkScoped(Effect.exit(limited(alpha.start({ prompt: "b" }))), {
          startImmediately: true
        })
        yield* settled
        puppets.started.at(-1)?.say("done")
        yield* TestClock.adjust("5 seconds")
        yield* first.released
        const exit = yield* Fiber.join(waiting)
        if (Exit.isSuccess(exit)) {
          yield* Effect.forkChild(exit.value.interrupt, { startImmediately: true })
          yield* TestClock.adjust("5 seconds")
        }
      }
      assert.strictEqual(yield* running, 0)
    }).pipe(run))

  it.effect("its provider is closed while it waits", () =>
    Effect.gen(function*() {
      const puppets = puppeteer()
      const alpha = yield* Effect.scoped(Effect.gen(function*() {
        const alpha = yield* alphaOf(puppets.implementation)
        yield* Effect.forkDetach(Effect.scoped(Effect.andThen(alpha.start({ prompt: "a" }), Effect.never)), {
          startImmediately: true
        }).pipe(Effect.tap((fiber) => Effect.addFinalizer(() => Fiber.interrupt(fiber))))
        const waiting = yield* Effect.forkDetach(Effect.flip(Effect.scoped(alpha.start({ prompt: "b" }))), {
          startImmediately: true
        })
        yield* settled
        return waiting
      }))
      assert.deepInclude(yield* Fiber.join(alpha), { _tag: "StartFailed", reason: "ProviderClosed" })
      assert.strictEqual(puppets.calls, 1)
    }).pipe(run, on(agent({ limits: { maxChildren: 1 } }))))

  it.effect("places are free at settlement, though the release failed", () =>
    Effect.gen(function*() {
      const wake = yield* Deferred.make<void>()
      let dies = false
      const alpha = yield* alphaOf({
        start: () => Effect.as(Effect.addFinalizer(() => dies ? Effect.die("broken") : Deferred.await(wake)), child())
      })
      for (const how of ["hangs", "dies", "dies"]) {
        dies = how === "dies"
        const delegating = yield* Effect.forkChild(Effect.flip(alpha.delegate({ prompt: "go" })), {
          startImmediately: true
        })
        yield* TestClock.adjust("10 seconds")
        assert.strictEqual((yield* Fiber.join(delegating))._tag, "ReleaseFailed")
      }
      yield* Deferred.succeed(wake, undefined)
    }).pipe(run, on(agent({ limits: { maxChildren: 1, maxRunning: 1, maxWait: 0 } }))))
})

describe("the tree", () => {
  it.effect("S602 children of children count to one tree, which fails at once when it is full", () =>
    Effect.gen(function*() {
      const puppets = puppeteer()
      const alpha = yield* alphaOf(puppets.implementation)
      const limits = { maxRunning: 3 }
      const start = (id: string) => on(agent({ id, limits }))(alpha.start({ prompt: "go" }))
      const one = yield* start("root")
      const two = yield* start(one.id)
      const three = yield* start(two.id)
      for (const id of ["root", one.id, two.id, three.id]) {
        const error = yield* Effect.flip(start(id))
        assert.deepInclude(error, { _tag: "LimitExceeded", limit: "maxRunning", value: 4, max: 3 })
      }
      // another tree is another matter
      yield* start("another root")
      puppets.started[2].say("done")
      yield* three.result
      yield* start(one.id)
      yield* Effect.flip(start("root"))
    }).pipe(run))

  it.effect("the places of a tree come back, whichever run of it ends first", () =>
    Effect.gen(function*() {
      const puppets = puppeteer()
      const alpha = yield* alphaOf(puppets.implementation)
      const start = (id: string) => on(agent({ id, limits: { maxRunning: 2 } }))(alpha.start({ prompt: "go" }))
      for (let round = 0; round < 3; round++) {
        const one = yield* start("root")
        const two = yield* start(one.id)
        yield* Effect.flip(start("root"))
        // the child is gone before what it has started is
        yield* one.interrupt
        const three = yield* start("root")
        yield* Effect.flip(start("root"))
        yield* two.interrupt
        yield* three.interrupt
      }
    }).pipe(run))

  it.effect("S301 children that share an id share a tree, until the last of them is gone", () =>
    Effect.gen(function*() {
      const puppets = puppeteer({ id: "the-same" })
      const alpha = yield* alphaOf(puppets.implementation)
      const others = puppeteer()
      const other = yield* alphaOf(others.implementation)
      const from = (id: string) => on(agent({ id, limits: { maxRunning: 2 } }))
      const one = yield* from("root")(alpha.start({ prompt: "go" }))
      yield* from("root")(alpha.start({ prompt: "go" }))
      yield* one.interrupt
      yield* from("the-same")(other.start({ prompt: "go" }))
      assert.deepInclude(yield* Effect.flip(from("the-same")(other.start({ prompt: "go" }))), { limit: "maxRunning" })
    }).pipe(run))

  it.effect("a place in the queue does not help where the tree is full", () =>
    Effect.gen(function*() {
      const puppets = puppeteer()
      const alpha = yield* alphaOf(puppets.implementation)
      const root = on(agent({ limits: { maxChildren: 1, maxRunning: 2 } }))
      const one = yield* root(alpha.start({ prompt: "a" }))
      const below = on(agent({ id: one.id, limits: { maxRunning: 2 } }))
      const waiting = yield* Effect.forEach(["b", "c"], (prompt) =>
        Effect.forkScoped(Effect.exit(root(alpha.start({ prompt }))), { startImmediately: true }))
      yield* settled
      yield* below(alpha.start({ prompt: "d" }))
      // its own child still runs, but there is one place more
      puppets.started[0].say("done")
      assert.isTrue(Exit.isSuccess(yield* Fiber.join(waiting[0])))
      // the next in the queue comes when the tree is full again
      const full = yield* on(agent({ id: puppets.started[2].id, limits: { maxRunning: 9 } }))(
        alpha.start({ prompt: "e" })
      )
      puppets.started[2].say("done")
      assert.deepInclude(yield* Effect.flip(Effect.flatten(Fiber.join(waiting[1]))), { limit: "maxRunning" })
      yield* full.interrupt
      yield* root(alpha.start({ prompt: "f" }))
    }).pipe(run))
})

describe("SubagentLimits", () => {
  const limitsOf = Effect.map(CurrentAgent, ({ limits }) => limits)

  it.effect("what a child is given is its parent's, or less", () =>
    Effect.gen(function*() {
      const puppets = puppeteer()
      const alpha = yield* alphaOf(puppets.implementation)
      const limits: Limits = { maxDepth: 2, maxChildren: 4, maxWait: 100, maxRunning: 8 }
      const start = (narrower: Partial<Limits>) =>
        on(agent({ limits }))(alpha.start({ prompt: "go", limits: narrower }))
      yield* start({ maxDepth: 9, maxChildren: 9, maxWait: 9999, maxRunning: 99 })
      yield* start({ maxDepth: 0, maxChildren: 1, maxRunning: 99 })
      assert.deepStrictEqual(puppets.started.map((puppet) => puppet.request.limits), [
        limits,
        { maxDepth: 0, maxChildren: 1, maxWait: 100, maxRunning: 8 }
      ])
    }).pipe(run))

  it.effect("the limits of a request are its child's, not its parent's", () =>
    Effect.gen(function*() {
      const puppets = puppeteer()
      const alpha = yield* alphaOf(puppets.implementation)
      const start = alpha.start({ prompt: "go", limits: { maxDepth: 0, maxChildren: 0, maxRunning: 0, maxWait: 0 } })
      yield* start
      yield* start
      assert.strictEqual(puppets.calls, 2)
    }).pipe(run, on(agent())))

  it.effect("within narrows for a part of a program, and only ever narrows", () =>
    Effect.gen(function*() {
      const puppets = puppeteer()
      const alpha = yield* alphaOf(puppets.implementation)
      const { defaultLimits } = SubagentLimits
      assert.deepStrictEqual(yield* limitsOf, defaultLimits)
      const inner = SubagentLimits.within({ maxChildren: 5, maxDepth: 1 })(limitsOf)
      assert.deepStrictEqual(
        yield* SubagentLimits.within({ maxChildren: 2, maxDepth: 9 })(Effect.all([limitsOf, inner, limitsOf])),
        [
          { ...defaultLimits, maxChildren: 2 },
          { ...defaultLimits, maxChildren: 2, maxDepth: 1 },
          { ...defaultLimits, maxChildren: 2 }
        ]
      )
      assert.deepStrictEqual(yield* limitsOf, defaultLimits)

      yield* alpha.start({ prompt: "a" })
      const none = SubagentLimits.within({ maxDepth: 0 })
      assert.deepInclude(yield* Effect.flip(none(alpha.start({ prompt: "b" }))), {
        limit: "maxDepth",
        value: 1,
        max: 0
      })
      const alone = SubagentLimits.within({ maxChildren: 1, maxWait: 0 })
      assert.deepInclude(yield* Effect.flip(alone(alpha.start({ prompt: "c" }))), { limit: "maxChildren", value: 2 })
      yield* alpha.start({ prompt: "d" })
      assert.deepStrictEqual(puppets.started.map((puppet) => puppet.request.prompt), ["a", "d"])
    }).pipe(run, on(agent())))

  it.effect.each(
    [
      ["maxDepth", -1],
      ["maxDepth", Number.NaN],
      ["maxChildren", 1.5],
      ["maxRunning", Infinity],
      ["maxWait", -0]
    ] as const
  )("within refuses %s %d, which would not narrow", ([limit, value]) =>
    Effect.gen(function*() {
      let ran = false
      const error = yield* Effect.flip(
        SubagentLimits.within({ [limit]: value })(Effect.sync(() => {
          ran = true
        }))
      )
      assert.deepInclude(error, { _tag: "InvalidRequest", field: `limits.${limit}` })
      assert.isFalse(ran)
    }).pipe(on(agent())))
})

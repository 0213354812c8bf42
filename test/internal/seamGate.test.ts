import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Fiber } from "effect"
import { TestClock } from "effect/testing"
import { defaultLimits, type Limits } from "../../src/CurrentAgent.ts"
import { Gate, type Place } from "../../src/internal/seam/gate.ts"
import { leakCheck } from "../utils/leaks.ts"
import { settled } from "../utils/seam.ts"

leakCheck()

const empty = (gate: Gate) => {
  assert.deepStrictEqual(
    [gate.running, gate.waiting, gate.lanes.size, gate.trees.size, gate.members.size],
    [0, 0, 0, 0, 0]
  )
}

const limits = (narrower: Partial<Limits>): Limits => ({ ...defaultLimits, ...narrower })

describe("Gate", () => {
  it.effect("a place is given back once, however often it is left, and whatever became of it", () =>
    Effect.gen(function*() {
      const gate = new Gate()
      const never = gate.place("parent", defaultLimits)
      never.leave()
      empty(gate)
      const place = gate.place("parent", defaultLimits)
      yield* place.enter
      place.joins("child")
      assert.strictEqual(gate.running, 1)
      place.leave()
      place.leave()
      never.leave()
      empty(gate)
      for (
        const refused of [{ maxChildren: 0 }, { maxRunning: 0 }, { maxChildren: Number.NaN }, {
          maxRunning: Number.NaN
        }]
      ) {
        const place = gate.place("parent", limits(refused))
        yield* Effect.flip(place.enter)
        empty(gate)
        place.leave()
        place.joins("child")
        empty(gate)
      }
    }))

  it.effect("one that waits leaves the queue, wherever it stands", () =>
    Effect.gen(function*() {
      const gate = new Gate()
      const one = limits({ maxChildren: 1 })
      const places = Array.from({ length: 4 }, () => gate.place("parent", one))
      const fibers = yield* Effect.forEach(places, (place) => Effect.forkChild(place.enter, { startImmediately: true }))
      assert.deepStrictEqual([gate.running, gate.waiting], [1, 3])
      places[2].leave()
      assert.deepStrictEqual([gate.running, gate.waiting], [1, 2])
      places[0].leave()
      // the place is taken at once, though its owner has not gone on yet
      assert.deepStrictEqual([gate.running, gate.waiting], [1, 1])
      assert.isUndefined(fibers[1].pollUnsafe())
      places[1].leave()
      assert.deepStrictEqual([gate.running, gate.waiting], [1, 0])
      places[3].leave()
      empty(gate)
      yield* Effect.forEach(fibers, Fiber.interrupt)
    }))

  it.effect("one that its tree refuses leaves its turn to the next", () =>
    Effect.gen(function*() {
      const gate = new Gate()
      const first = gate.place("parent", limits({ maxChildren: 1 }))
      yield* first.enter
      const refused = gate.place("parent", limits({ maxChildren: 1, maxRunning: 0 }))
      const next = gate.place("parent", limits({ maxChildren: 1 }))
      const waiting = yield* Effect.forkChild(Effect.flip(refused.enter), { startImmediately: true })
      const entering = yield* Effect.forkChild(next.enter, { startImmediately: true })
      first.leave()
      assert.deepInclude(yield* Fiber.join(waiting), { limit: "maxRunning", value: 1, max: 0 })
      yield* Fiber.join(entering)
      assert.strictEqual(gate.running, 1)
      refused.leave()
      assert.strictEqual(gate.running, 1)
      next.leave()
      empty(gate)
    }))

  it.effect("whatever is entered, left, waited for and given up in any order, the counts are right", () =>
    Effect.gen(function*() {
      let seed = 42
      const random = (below: number) => {
        seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648
        return Math.floor(seed / 65_536) % below
      }
      interface Entry {
        readonly parent: string
        readonly id: string
        readonly place: Place
        readonly fiber: Fiber.Fiber<Exit.Exit<void, unknown>>
        joined: boolean
      }
      const gate = new Gate()
      const caps = limits({ maxChildren: 3, maxRunning: 8, maxWait: 40 })
      const entries: Array<Entry> = []
      const arrivals = new Map<string, Array<string>>()
      let count = 0
      for (let step = 0; step < 3000; step++) {
        const what = random(10)
        if (what < 5) {
          const joined = entries.filter((entry) => entry.joined)
          const parent = joined.length > 0 && random(2) === 0 ? joined[random(joined.length)].id : `root-${random(2)}`
          const place = gate.place(parent, caps)
          const fiber = yield* Effect.forkChild(Effect.exit(place.enter), { startImmediately: true })
          entries.push({ parent, id: `child-${count++}`, place, fiber, joined: false })
        } else if (what < 9 && entries.length > 0) {
          const [entry] = entries.splice(random(entries.length), 1)
          const interrupting = random(2) === 0
          if (interrupting) entry.fiber.interruptUnsafe()
          entry.place.leave()
          if (!interrupting) entry.fiber.interruptUnsafe()
          yield* Fiber.await(entry.fiber)
        } else {
          yield* TestClock.adjust(random(30))
        }
        if (random(3) === 0) yield* Effect.yieldNow
        for (const entry of entries.slice()) {
          const exit = entry.fiber.pollUnsafe()
          if (exit === undefined || entry.joined) continue
          if (Exit.isSuccess(exit) && Exit.isSuccess(exit.value)) {
            entry.joined = true
            entry.place.joins(entry.id)
            const order = arrivals.get(entry.parent) ?? []
            arrivals.set(entry.parent, [...order, entry.id])
          } else {
            entry.place.leave()
            entries.splice(entries.indexOf(entry), 1)
          }
        }
        for (const lane of gate.lanes.values()) assert.isAtMost(lane.running, 3)
        for (const tree of gate.trees.values()) assert.isAtMost(tree.running, 8)
        assert.isAtLeast(gate.running, entries.filter((entry) => entry.joined).length)
      }
      yield* TestClock.adjust(100)
      yield* settled
      // within one lane they got in as they came
      for (const order of arrivals.values()) {
        const numbers = order.map((id) => Number(id.slice("child-".length)))
        assert.deepStrictEqual(numbers, numbers.toSorted((a, b) => a - b))
      }
      for (const { fiber, place } of entries) {
        place.leave()
        yield* Fiber.interrupt(fiber)
      }
      empty(gate)
    }))
})

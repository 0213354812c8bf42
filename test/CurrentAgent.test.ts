import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import { defaultLimits, Lifetime, narrow, ToolRestriction } from "../src/CurrentAgent.ts"

describe("Lifetime", () => {
  it("tells every listener once how it ended", () => {
    const lifetime = new Lifetime()
    const told: Array<string> = []
    lifetime.onEnd(() => told.push(`first: ${lifetime.ended}`))
    lifetime.onEnd(() => told.push(`second: ${lifetime.ended}`))
    assert.isUndefined(lifetime.ended)
    lifetime.end("interrupted")
    lifetime.end("closed")
    assert.deepStrictEqual(told, ["first: interrupted", "second: interrupted"])
    assert.strictEqual(lifetime.ended, "interrupted")
  })

  it("tells one that listens too late at once", () => {
    const lifetime = new Lifetime()
    lifetime.end("closed")
    let told = 0
    const unlisten = lifetime.onEnd(() => told++)
    unlisten()
    assert.strictEqual(told, 1)
  })

  it("does not tell one that was taken back, though the same function listens twice", () => {
    const lifetime = new Lifetime()
    let told = 0
    const listener = () => void told++
    const unlisten = lifetime.onEnd(listener)
    lifetime.onEnd(listener)
    unlisten()
    unlisten()
    lifetime.end("closed")
    assert.strictEqual(told, 1)
  })

  it("runs what goes first when it has ended and before anybody is told", () => {
    const lifetime = new Lifetime()
    const order: Array<string> = []
    lifetime.onEnd(() => order.push("listener"))
    lifetime.end("closed", () => order.push(`first, ${lifetime.ended}`))
    lifetime.end("closed", () => order.push("never"))
    assert.deepStrictEqual(order, ["first, closed", "listener"])
  })

  it("ends with the longer one it lies within, whoever listened before or after", () => {
    const agent = new Lifetime()
    const turn = new Lifetime(agent)
    const told: Array<string> = []
    turn.onEnd(() => told.push(`early ${turn.ended}`))
    agent.end("closed", () => {
      assert.strictEqual(turn.ended, "closed")
      told.push("first")
    })
    turn.onEnd(() => told.push("late"))
    assert.deepStrictEqual(told, ["first", "early closed", "late"])
    turn.end("interrupted")
    assert.strictEqual(turn.ended, "closed")
    assert.strictEqual(told.length, 3)
    const unheard = new Lifetime(agent)
    unheard.end("interrupted")
    assert.strictEqual(unheard.ended, "closed")
  })

  it("does not end the longer one, and lets go of it when nobody listens any more", () => {
    const agent = new Lifetime()
    const turn = new Lifetime(agent)
    let watched = 0
    const onEnd = agent.onEnd.bind(agent)
    agent.onEnd = (listener) => {
      const unlisten = onEnd(listener)
      watched++
      return () => {
        watched--
        unlisten()
      }
    }
    assert.strictEqual(watched, 0)
    const first = turn.onEnd(() => {})
    const second = turn.onEnd(() => {})
    assert.strictEqual(watched, 1)
    first()
    assert.strictEqual(watched, 1)
    second()
    assert.strictEqual(watched, 0)
    turn.onEnd(() => {})
    assert.strictEqual(watched, 1)
    turn.end("interrupted")
    assert.strictEqual(watched, 0)
    assert.isUndefined(agent.ended)
  })
})

describe("narrow", () => {
  it("only ever narrows, each limit by itself", () => {
    assert.strictEqual(narrow(defaultLimits, undefined), defaultLimits)
    assert.deepStrictEqual(narrow(defaultLimits, { maxDepth: 2, maxChildren: 100 }), { ...defaultLimits, maxDepth: 2 })
    assert.deepStrictEqual(narrow(narrow(defaultLimits, { maxRunning: 4 }), { maxRunning: 8, maxWait: 0 }), {
      ...defaultLimits,
      maxRunning: 4,
      maxWait: 0
    })
  })
})

describe("ToolRestriction", () => {
  it("goes through JSON", () => {
    for (
      const restriction of [{ allow: [] }, { deny: ["a"] }, { allow: ["a"], deny: ["b"], remote: "allow" }] as const
    ) {
      const decoded = Schema.decodeUnknownSync(ToolRestriction)(JSON.parse(JSON.stringify(restriction)))
      assert.deepStrictEqual(decoded, restriction)
    }
    assert.throws(() => Schema.decodeUnknownSync(ToolRestriction)({ remote: "deny" }))
  })
})

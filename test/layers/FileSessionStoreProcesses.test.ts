import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { readdirSync } from "node:fs"
import { hostname } from "node:os"
import { join } from "node:path"
import { leakCheck, tempDir } from "../utils/leaks.ts"
import { header, range, said, seqs } from "../utils/sessionEvents.ts"
import { holder } from "../utils/sessionHolder.ts"
import { assertHeld, locks, readAll, storeOn } from "../utils/sessionStores.ts"

leakCheck()

describe("FileSessionStore in two processes", () => {
  it.live("S572 never hold one session", () =>
    Effect.gen(function*() {
      const directory = yield* tempDir
      const store = yield* storeOn({ directory })
      const child = yield* holder({ directory, id: "a" })
      assert.strictEqual(yield* child.ask("create"), "ok")
      const error = yield* Effect.flip(store.open("a"))
      assertHeld(error, child.pid, hostname())
      assert.notProperty(error, "until")

      assert.strictEqual(yield* child.ask("append 0"), "ok")
      assert.deepStrictEqual(seqs(yield* readAll(store, "a")), [0], "what is held can be read")
      assert.strictEqual(yield* child.ask("close"), "ok")
      yield* Effect.scoped(Effect.gen(function*() {
        const log = yield* store.open("a")
        yield* log.append([said(1)])
        assertHeld(JSON.parse(yield* child.ask("open")), process.pid, hostname())
      }))
      assert.strictEqual(yield* child.ask("open"), "ok")
      assert.strictEqual(yield* child.ask("append 2"), "ok")
      assert.deepStrictEqual(seqs(yield* readAll(store, "a")), [0, 1, 2])
    }), 60_000)

  it.live(
    "S572 take over at once from one that was killed, and lose nothing it had flushed",
    () =>
      Effect.gen(function*() {
        const directory = yield* tempDir
        const store = yield* storeOn({ directory })
        let next = 0
        for (let round = 0; round < 3; round++) {
          const child = yield* holder({ directory, id: "a" })
          assert.strictEqual(yield* child.ask(round === 0 ? "create" : "open"), "ok")
          assert.strictEqual(yield* child.ask(`append ${next}`), "ok")
          assert.strictEqual(yield* child.ask(`append ${next + 1}`), "ok")
          yield* child.kill
          const before = performance.now()
          yield* Effect.scoped(Effect.gen(function*() {
            const log = yield* store.open("a")
            assert.isBelow(performance.now() - before, 1_000)
            yield* log.append([said(next + 2)])
            yield* log.flush
          }))
          next += 3
          assert.deepStrictEqual(seqs(yield* readAll(store, "a")), range(0, next))
        }
        assert.deepStrictEqual(locks(directory), [])
      }),
    60_000
  )

  it.live("clear away what one that was killed left", () =>
    Effect.gen(function*() {
      const directory = yield* tempDir
      const child = yield* holder({ directory, id: "a" })
      yield* child.ask("create")
      yield* child.kill
      assert.strictEqual(readdirSync(join(directory, ".holders")).length, 1)
      const store = yield* storeOn({ directory })
      yield* store.create(header("b"))
      assert.strictEqual(readdirSync(join(directory, ".holders")).length, 1, "its own")
      // the lock of the dead is still there and in nobody's way
      yield* store.open("a")
      assert.deepStrictEqual(locks(directory), ["1.lock"])
    }), 60_000)

  it.live("that ask for one session at once: exactly one gets it, each time", () =>
    Effect.gen(function*() {
      const directory = yield* tempDir
      const store = yield* storeOn({ directory })
      yield* Effect.scoped(store.create(header("a")))
      const children = yield* Effect.all(range(0, 3).map(() => holder({ directory, id: "a" })))
      for (let round = 0; round < 15; round++) {
        const answers = yield* Effect.forEach(children, (child) => child.ask("open"), { concurrency: "unbounded" })
        const winners = range(0, 3).filter((index) => answers[index] === "ok")
        assert.strictEqual(winners.length, 1, answers.join("\n"))
        for (const answer of answers.filter((answer) => answer !== "ok")) {
          assert.strictEqual(JSON.parse(answer)._tag, "HeldElsewhere")
        }
        assert.strictEqual(yield* children[winners[0]].ask(`append ${round}`), "ok")
        // now and then by a crash
        if (round % 5 === 4) {
          yield* children[winners[0]].kill
          children[winners[0]] = yield* holder({ directory, id: "a" })
        } else {
          assert.strictEqual(yield* children[winners[0]].ask("close"), "ok")
        }
      }
      assert.deepStrictEqual(seqs(yield* readAll(store, "a")), range(0, 15))
    }), 60_000)

  it.live(
    "on different hosts: a live one is named until when, and replaced when its lease ends",
    () =>
      Effect.gen(function*() {
        const directory = yield* tempDir
        const store = yield* storeOn({ directory, host: "here" })
        const child = yield* holder({ directory, id: "a", host: "there", lease: 1_200 })
        assert.strictEqual(yield* child.ask("create"), "ok")
        assert.strictEqual(yield* child.ask("append 0"), "ok")
        const first = yield* Effect.flip(store.open("a"))
        assertHeld(first, child.pid, "there")
        assert.isTrue(
          first._tag === "HeldElsewhere" && Math.abs(first.until! - Date.now() - 1_000) < 600,
          String(first)
        )

        yield* Effect.sleep(1_500)
        const later = yield* Effect.flip(store.open("a"))
        assertHeld(later, child.pid, "there")
        yield* child.kill
        const last = yield* Effect.flip(store.open("a"))
        assert.strictEqual(last._tag, "HeldElsewhere", "nobody here can see that it is dead")
        if (last._tag !== "HeldElsewhere") return
        yield* Effect.sleep(Math.max(0, last.until! - Date.now()) + 5)
        const log = yield* store.open("a")
        yield* log.append([said(1)])
        yield* log.flush
        assert.deepStrictEqual(seqs(yield* readAll(store, "a")), [0, 1])
      }),
    60_000
  )

  it.live(
    "one that was stopped and goes on after it was replaced has written nothing that anyone reads",
    () =>
      Effect.gen(function*() {
        const directory = yield* tempDir
        const store = yield* storeOn({ directory, host: "here" })
        const child = yield* holder({ directory, id: "a", host: "there", lease: 400 })
        assert.strictEqual(yield* child.ask("create"), "ok")
        assert.strictEqual(yield* child.ask("append 0"), "ok")
        yield* child.signal("SIGSTOP")
        yield* Effect.sleep(500)
        const log = yield* store.open("a")
        yield* log.append([said(1, "mine")])
        yield* log.flush
        yield* child.signal("SIGCONT")
        assert.deepInclude(JSON.parse(yield* child.ask("append 1")), { _tag: "LeaseLost", id: "a" })
        assert.deepInclude(JSON.parse(yield* child.ask("accept 1")), { _tag: "LeaseLost", id: "a" })
        assert.strictEqual(yield* child.ask("close"), "ok")
        yield* log.append([said(2)])
        yield* log.flush
        assert.deepStrictEqual(yield* readAll(store, "a"), [said(0, `of ${child.pid}`), said(1, "mine"), said(2)])
      }),
    60_000
  )
})

import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Fiber, Latch, Logger, Scope } from "effect"
import { linkSync, readdirSync, readFileSync, readlinkSync, statSync, utimesSync, writeFileSync } from "node:fs"
import { hostname } from "node:os"
import { join } from "node:path"
import { leakCheck, tempDir } from "../utils/leaks.ts"
import { header, range, said, seqs } from "../utils/sessionEvents.ts"
import { assertHeld, gatedStoreOn, locks, readAll, storeOn } from "../utils/sessionStores.ts"
import * as Watched from "../utils/watchedFileSystem.ts"

leakCheck()

describe("FileSessionStore leases", () => {
  it.live("two stores in one process never hold one session", () =>
    Effect.gen(function*() {
      const directory = yield* tempDir
      const one = yield* storeOn({ directory })
      const two = yield* storeOn({ directory })
      yield* Effect.scoped(Effect.gen(function*() {
        yield* one.create(header("a"))
        const error = yield* Effect.flip(two.open("a"))
        assertHeld(error, process.pid, hostname())
        assert.notProperty(error, "until")
        assert.strictEqual((yield* Effect.flip(two.create(header("a"))))._tag, "SessionExists")
        yield* two.create(header("b"))
        assert.strictEqual((yield* Effect.flip(one.open("b")))._tag, "HeldElsewhere")
      }))
      const log = yield* two.open("a")
      assertHeld(yield* Effect.flip(one.open("a")), process.pid, hostname())
      yield* log.append([said(0)])
      yield* log.flush
      assert.deepStrictEqual(seqs(yield* readAll(one, "a")), [0])
    }))

  it.live("writes its lease into the session, and removes it with the scope", () =>
    Effect.gen(function*() {
      const directory = yield* tempDir
      const store = yield* storeOn({ directory })
      yield* Effect.scoped(Effect.gen(function*() {
        yield* store.create(header("a"))
        const lock = JSON.parse(readFileSync(join(directory, "a", "0.lock"), "utf8"))
        assert.deepInclude(lock, { pid: process.pid, host: hostname(), lease: 10_000 })
        assert.isString(lock.token)
        if (process.platform === "linux") {
          assert.match(lock.started, /^\d+$/)
          assert.strictEqual(lock.boot, readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim())
        }
        assert.isBelow(Math.abs(statSync(join(directory, "a", "0.lock")).mtimeMs - Date.now()), 5_000)
      }))
      assert.deepStrictEqual(locks(directory), [])
      yield* Effect.scoped(store.open("a"))
      assert.deepStrictEqual(locks(directory), [])
    }))

  it.live("closing the store writes, releases and ends what is still open, and leaves nothing behind", () =>
    Effect.gen(function*() {
      const directory = yield* tempDir
      const scope = yield* Scope.make()
      const store = yield* Scope.provide(storeOn({ directory }), scope)
      const log = yield* store.create(header("a"))
      yield* log.append([said(0)])
      yield* Scope.close(scope, Exit.void)
      assert.strictEqual((yield* Effect.flip(log.append([said(1)])))._tag, "LeaseLost")
      assert.deepStrictEqual(readdirSync(directory).toSorted(), [".holders", "a"])
      assert.deepStrictEqual(readdirSync(join(directory, ".holders")), [])
      assert.deepStrictEqual(locks(directory), [])
      const other = yield* storeOn({ directory })
      yield* other.open("a")
      assert.deepStrictEqual(seqs(yield* readAll(other, "a")), [0])
    }))

  describe("a writer that is held up exactly between its look at the lease and its write", () => {
    const lease = 300

    it.live("S572 is told that it lost the lease, and what it writes then is not read", () =>
      Effect.gen(function*() {
        const directory = yield* tempDir
        const { gate, store } = yield* gatedStoreOn({ directory, host: "there", lease })
        const other = yield* storeOn({ directory, host: "here" })
        const log = yield* store.create(header("a"))
        yield* log.append([said(0)])
        yield* log.flush

        yield* gate.close
        yield* log.append([said(1, "stale")])
        const flushing = yield* Effect.forkChild(Effect.flip(log.flush), { startImmediately: true })
        yield* Effect.sleep(lease + 50)
        const mine = yield* other.open("a")
        yield* mine.append([said(1, "mine")])
        yield* gate.open
        assert.strictEqual((yield* Fiber.join(flushing))._tag, "LeaseLost")
        assert.strictEqual((yield* Effect.flip(log.append([said(2)])))._tag, "LeaseLost")
        assert.include(readFileSync(join(directory, "a", "0.jsonl"), "utf8"), "stale", "it was written")
        yield* mine.append([said(2)])
        yield* mine.flush
        assert.deepStrictEqual(yield* readAll(other, "a"), [said(0), said(1, "mine"), said(2)])
        assert.deepStrictEqual(yield* readAll(store, "a"), [said(0), said(1, "mine"), said(2)])
      }))

    it.live("learns from its next sign of life that the lease is gone", () =>
      Effect.gen(function*() {
        const directory = yield* tempDir
        const { gate, store } = yield* gatedStoreOn({ directory, host: "there", lease })
        const other = yield* storeOn({ directory, host: "here" })
        const log = yield* store.create(header("a"))
        yield* gate.close
        yield* Effect.sleep(lease + 50)
        yield* Effect.scoped(other.open("a"))
        yield* gate.open
        let refused = false
        for (let i = 0; i < 50 && !refused; i++) {
          yield* Effect.sleep(10)
          refused = yield* log.append([]).pipe(Effect.as(false), Effect.catch(() => Effect.succeed(true)))
        }
        assert.isTrue(refused)
      }))

    it.live("keeps the lease when it gives a sign of life before its successor has it", () =>
      Effect.gen(function*() {
        const directory = yield* tempDir
        const { gate, store } = yield* gatedStoreOn({ directory, host: "there", lease })
        const asked = yield* Latch.make(false)
        const allowed = yield* Latch.make(false)
        // found the lease expired and is about to follow
        const { store: other } = yield* gatedStoreOn(
          { directory, host: "here" },
          (call) => call.name === "link" ? Effect.andThen(asked.open, allowed.await) : Effect.void
        )
        const log = yield* store.create(header("a"))
        yield* gate.close
        yield* Effect.sleep(lease + 50)
        const opening = yield* Effect.forkChild(Effect.flip(other.open("a")), { startImmediately: true })
        yield* asked.await
        yield* gate.open
        yield* Effect.sleep(lease / 2)
        yield* allowed.open
        assert.strictEqual((yield* Fiber.join(opening))._tag, "HeldElsewhere")
        assert.deepStrictEqual(locks(directory), ["0.lock"])
        yield* log.append([said(0)])
        yield* log.flush
        assert.deepStrictEqual(seqs(yield* readAll(other, "a")), [0])
      }))
  })

  describe("a lock that is found", () => {
    const self = () => ({
      pid: process.pid,
      host: hostname(),
      started: readFileSync("/proc/self/stat", "utf8").split(") ").at(-1)!.split(" ")[19],
      boot: readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim(),
      namespace: readlinkSync("/proc/self/ns/pid"),
      token: "t",
      lease: 10_000
    })

    const found = (title: string, lock: () => string, options: {
      readonly age: number
      readonly links?: number
      readonly held: boolean
      readonly until?: number
    }) =>
      it.live.skipIf(process.platform !== "linux")(title, () =>
        Effect.gen(function*() {
          const directory = yield* tempDir
          const store = yield* storeOn({ directory })
          yield* Effect.scoped(store.create(header("a")))
          const file = join(directory, "a", "0.lock")
          writeFileSync(file, lock())
          if (options.links === 2) linkSync(file, join(directory, "another"))
          const seen = Date.now() - options.age
          utimesSync(file, seen / 1000, seen / 1000)
          if (!options.held) {
            yield* store.open("a")
            return assert.deepStrictEqual(locks(directory), ["1.lock"])
          }
          const error = yield* Effect.flip(store.open("a"))
          assert.strictEqual(error._tag, "HeldElsewhere")
          if (options.until === undefined) return assert.notProperty(error, "until")
          assert.isTrue(
            error._tag === "HeldElsewhere" && Math.abs(error.until! - (seen + options.until)) < 10,
            JSON.stringify(error)
          )
        }))

    found("of a live process holds", () => JSON.stringify(self()), { age: 0, held: true })
    found("of a live process holds however long it was silent", () => JSON.stringify(self()), {
      age: 60_000,
      links: 2,
      held: true
    })
    found("of a live process that closed its store holds for its lease only", () => JSON.stringify(self()), {
      age: 60_000,
      held: false
    })
    found("of an earlier process of the same number does not", () => JSON.stringify({ ...self(), started: "1" }), {
      age: 0,
      held: false
    })
    found("of an earlier boot does not", () => JSON.stringify({ ...self(), boot: "another" }), { age: 0, held: false })
    found("of a process that is gone does not", () => JSON.stringify({ ...self(), pid: 2 ** 22 + 1 }), {
      age: 0,
      held: false
    })
    found("of another host holds until its lease ends", () => JSON.stringify({ ...self(), host: "x", lease: 5000 }), {
      age: 2_000,
      held: true,
      until: 5_000
    })
    found("of another host does not after that", () => JSON.stringify({ ...self(), host: "x", lease: 5_000 }), {
      age: 5_100,
      links: 2,
      held: false
    })
    found(
      "of another container is of another host",
      () => JSON.stringify({ ...self(), pid: 1, namespace: "pid:[1]" }),
      {
        age: 0,
        held: true,
        until: 10_000
      }
    )
    found("that cannot be read holds for a lease", () => "", { age: 0, held: true, until: 10_000 })
    found("that cannot be read does not after that", () => "{", { age: 10_100, held: false })
  })

  it.live("one sign of life serves all sessions of a store, and only while there are any", () =>
    Effect.gen(function*() {
      const directory = yield* tempDir
      let signs = 0
      const { store } = yield* gatedStoreOn({ directory, lease: 300 }, (call) =>
        Effect.sync(() => {
          if (call.name === "utimes") signs++
        }))
      yield* Effect.scoped(Effect.gen(function*() {
        for (const n of range(0, 20)) yield* store.create(header(`s${n}`))
        const before = statSync(join(directory, "s7", "0.lock")).mtimeMs
        signs = 0
        yield* Effect.sleep(550)
        assert.isAtLeast(signs, 2)
        assert.isAtMost(signs, 6)
        assert.isAbove(statSync(join(directory, "s7", "0.lock")).mtimeMs, before)
        assert.isAbove(statSync(join(directory, "s19", "0.lock")).mtimeMs, before)
      }))
      signs = 0
      yield* Effect.sleep(400)
      assert.strictEqual(signs, 0)
      yield* Effect.scoped(store.open("s1"))
      assert.strictEqual(signs, 1, "a lease that is taken is fresh")
    }))

  it.live("a store that cannot give signs of life looks before it says that anything is stored", () =>
    Effect.gen(function*() {
      const directory = yield* tempDir
      let failing = false
      const { store } = yield* gatedStoreOn(
        { directory, lease: 300, host: "there" },
        (call) => failing && call.name === "utimes" ? Effect.fail(Watched.systemFailure("EIO", call)) : Effect.void
      )
      const other = yield* storeOn({ directory, host: "here" })
      const log = yield* store.create(header("a"))
      failing = true
      yield* Effect.sleep(400)
      yield* log.append([said(0)])
      yield* log.flush
      const mine = yield* other.open("a")
      yield* mine.append([said(1)])
      yield* log.append([said(1)])
      assert.strictEqual((yield* Effect.flip(log.flush))._tag, "LeaseLost")
      assert.deepStrictEqual(seqs(yield* readAll(other, "a")), [0, 1])
      failing = false
    }).pipe(Effect.provide(Logger.layer([]))))

  it.live("one that looked long ago does not push itself before those who came since", () =>
    Effect.gen(function*() {
      const directory = yield* tempDir
      const asked = yield* Latch.make(false)
      const allowed = yield* Latch.make(false)
      const { store: slow } = yield* gatedStoreOn(
        { directory },
        (call) => call.name === "link" ? Effect.andThen(asked.open, allowed.await) : Effect.void
      )
      const store = yield* storeOn({ directory })
      yield* Effect.scoped(store.create(header("a")))
      const opening = yield* Effect.forkChild(
        Effect.flatMap(slow.open("a"), (log) => Effect.andThen(log.append([said(1)]), log.flush)),
        { startImmediately: true }
      )
      yield* asked.await
      // epoch 1, which is cleared away by epoch 2: the slow one's epoch 1 is free again, and too low
      yield* Effect.scoped(store.open("a"))
      yield* Effect.scoped(Effect.flatMap(store.open("a"), (log) => log.append([said(0)])))
      assert.isFalse(readdirSync(join(directory, "a")).includes("1.jsonl"))
      yield* allowed.open
      yield* Fiber.join(opening)
      assert.deepStrictEqual(seqs(yield* readAll(store, "a")), [0, 1])
      assert.isTrue(readdirSync(join(directory, "a")).includes("3.jsonl"))
    }))

  it.live("a session whose lease cannot be had is left as it was", () =>
    Effect.gen(function*() {
      const directory = yield* tempDir
      const store = yield* storeOn({ directory })
      yield* Effect.scoped(store.create(header("a")))
      const other = yield* storeOn({ directory })
      yield* other.open("a")
      const before = readdirSync(join(directory, "a"))
      yield* Effect.flip(Effect.scoped(store.open("a")))
      assert.deepStrictEqual(readdirSync(join(directory, "a")), before)
    }))
})

import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Exit, Fiber, Latch, Layer, Logger, Stream } from "effect"
import { readdirSync, rmSync } from "node:fs"
import { join } from "node:path"
import * as FileSessionStore from "../../src/layers/FileSessionStore.ts"
import { SessionStore } from "../../src/SessionStore.ts"
import { leakCheck, tempDir } from "../utils/leaks.ts"
import { header, range, said, saidMany, seqs } from "../utils/sessionEvents.ts"
import { watched } from "../utils/sessionStores.ts"
import * as Watched from "../utils/watchedFileSystem.ts"

leakCheck()

const read = (store: SessionStore["Service"], id: string, from?: number) =>
  Effect.map(Stream.runCollect(store.read(id, { from })), seqs)

describe("FileSessionStore and failures", () => {
  describe("when a write fails", () => {
    for (const name of ["file.write", "file.sync"]) {
      it.live(`(${name}) the log ends there, without a hole, and says what and where`, () =>
        Effect.gen(function*() {
          let full = false
          const { directory, store } = yield* watched((call) =>
            full && call.name === name && call.path.endsWith("jsonl") ? "ENOSPC" : undefined
          )
          yield* Effect.scoped(Effect.gen(function*() {
            const log = yield* store.create(header("a"))
            yield* log.append([said(0)])
            yield* log.flush
            full = true
            yield* log.append([said(1)])
            const flushes = yield* Effect.all([Effect.flip(log.flush), Effect.flip(log.flush)], {
              concurrency: "unbounded"
            })
            for (
              const error of [...flushes, yield* Effect.flip(log.append([said(2)])), yield* Effect.flip(log.flush)]
            ) {
              assert.strictEqual(error._tag, "StoreFailed")
              assert.include(error.message, "ENOSPC")
              assert.include(error.message, join(directory, "a", "0.jsonl"))
              assert.include(error.message, "session a")
            }
            full = false
            assert.strictEqual((yield* Effect.flip(log.append([said(2)])))._tag, "StoreFailed", "for ever")
          }))
          const log = yield* store.open("a")
          const left = yield* read(store, "a")
          assert.deepStrictEqual(left, range(0, left.length))
          yield* log.append([said(left.length)])
          assert.deepStrictEqual(yield* read(store, "a"), range(0, left.length + 1))
        }))
    }

    it.live("at the end of a scope it is logged", () =>
      Effect.gen(function*() {
        const logged: Array<string> = []
        let full = false
        const { store } = yield* watched((call) => full && call.name === "file.write" ? "ENOSPC" : undefined)
        yield* Effect.scoped(Effect.gen(function*() {
          const log = yield* store.create(header("a"))
          full = true
          yield* log.append([said(0)])
        })).pipe(Effect.provide(Logger.layer([Logger.make(({ logLevel, message }) => {
          logged.push(`${logLevel} ${String(message)}`)
        })])))
        assert.strictEqual(logged.length, 1)
        assert.match(logged[0], /^Error the last events of session a could not be written/)
        full = false
        yield* store.open("a")
      }))

    it.live("an event that cannot be encoded ends the log as well", () =>
      Effect.gen(function*() {
        const { store } = yield* watched()
        const log = yield* store.create(header("a"))
        // no event of these types does this; a program without types may
        yield* log.append([{ _tag: "TurnStarted", seq: 0, at: 0, turn: "x" } as never])
        assert.isTrue(Exit.isFailure(yield* Effect.exit(log.flush)))
        assert.strictEqual((yield* Effect.flip(log.append([said(1)])))._tag, "StoreFailed")
      }))
  })

  describe("when any one call fails", () => {
    const trees = (directory: string): ReadonlyArray<string> =>
      readdirSync(directory, { recursive: true }).map(String).filter((name) => !name.endsWith("lease.json")).toSorted()

    it.live("a create that fails leaves nothing", () =>
      Effect.gen(function*() {
        let failAt = Number.POSITIVE_INFINITY
        let count = 0
        const { calls, directory, store } = yield* watched((call) =>
          call.name !== "remove" && count++ === failAt ? "EIO" : undefined
        )
        yield* Effect.scoped(store.create(header("first")))
        calls.length = 0
        yield* Effect.scoped(store.create(header("second"), [said(0)]))
        const total = calls.length
        assert.isAbove(total, 10)
        const before = trees(directory)
        let failures = 0
        for (let n = 0; n < total; n++) {
          count = 0
          failAt = n
          const exit = yield* Effect.exit(Effect.scoped(store.create(header(`s${n}`), [said(0)])))
          failAt = Number.POSITIVE_INFINITY
          if (Exit.isSuccess(exit)) continue
          failures++
          const error = yield* Effect.flip(exit)
          assert.strictEqual(error._tag, "StoreFailed")
          assert.match(error.message, /^create session s\d+ failed: EIO: .*/)
          assert.deepStrictEqual(trees(directory), before, `after call ${n}`)
          assert.strictEqual((yield* Effect.flip(store.header(`s${n}`)))._tag, "SessionNotFound")
          yield* Effect.scoped(store.create(header(`s${n}`)))
          rmSync(join(directory, `s${n}`), { recursive: true })
        }
        assert.isAtLeast(failures, 12)
      }))

    it.live("an open that fails leaves the session as it was", () =>
      Effect.gen(function*() {
        let failAt = Number.POSITIVE_INFINITY
        let count = 0
        const { calls, directory, store } = yield* watched((call) =>
          call.name !== "remove" && count++ === failAt ? "EIO" : undefined
        )
        yield* Effect.scoped(Effect.flatMap(store.create(header("a")), (log) => log.append(saidMany(0, 3))))
        yield* Effect.scoped(Effect.flatMap(store.open("a"), (log) => log.append(saidMany(3, 3))))
        calls.length = 0
        yield* Effect.scoped(store.open("a"))
        const total = calls.length
        const before = trees(directory)
        let failures = 0
        for (let n = 0; n < total; n++) {
          count = 0
          failAt = n
          const exit = yield* Effect.exit(Effect.scoped(store.open("a")))
          failAt = Number.POSITIVE_INFINITY
          if (Exit.isSuccess(exit)) continue
          failures++
          assert.strictEqual((yield* Effect.flip(exit))._tag, "StoreFailed")
          assert.deepStrictEqual(trees(directory), before, `after call ${n}`)
          assert.deepStrictEqual(yield* read(store, "a"), range(0, 6))
        }
        assert.isAtLeast(failures, 12)
        yield* Effect.scoped(Effect.flatMap(store.open("a"), (log) => log.append([said(6)])))
        assert.deepStrictEqual(yield* read(store, "a"), range(0, 7))
      }))
  })

  it.live("an open that is given up leaves the session as it was", () =>
    Effect.gen(function*() {
      const gate = yield* Latch.make(true)
      const reading = yield* Latch.make(false)
      const directory = yield* tempDir
      const context = yield* Layer.build(Layer.provide(
        FileSessionStore.layer({ directory }),
        Watched.layer((call) =>
          call.name === "file.read" && !gate.isOpen() ? Effect.andThen(reading.open, gate.await) : Effect.void
        )
      ))
      const store = Context.get(context, SessionStore)
      yield* Effect.scoped(Effect.flatMap(store.create(header("a")), (log) => log.append([said(0)])))
      const before = readdirSync(join(directory, "a"))
      yield* gate.close
      const fiber = yield* Effect.forkChild(Effect.scoped(store.open("a")))
      yield* reading.await
      yield* Effect.forkChild(Effect.delay(gate.open, 50))
      yield* Fiber.interrupt(fiber)
      assert.deepStrictEqual(readdirSync(join(directory, "a")), before)
    }))
})

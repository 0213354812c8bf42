import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, FileSystem, Layer, Logger, type PlatformError, Stream } from "effect"
import { join } from "node:path"
import * as FileSessionStore from "../../src/layers/FileSessionStore.ts"
import { type SessionLog, SessionStore } from "../../src/SessionStore.ts"
import * as Durable from "../utils/durableFileSystem.ts"
import { leakCheck, tempDir } from "../utils/leaks.ts"
import { header, range, said, saidMany, seqs } from "../utils/sessionEvents.ts"

leakCheck()

/** What was promised of a session: events that are safe, and lengths at which an append ended. */
interface Promised {
  safe: number
  readonly ends: Array<number>
}

/** Creates, appends, flushes, closes and opens again, and notes each promise when it was made. */
const workload = (
  store: SessionStore["Service"],
  other: SessionStore["Service"],
  takeLockAway: Effect.Effect<void, PlatformError.PlatformError>,
  promises: Map<string, Promised>
) => {
  const append = (log: SessionLog, count: number) =>
    Effect.suspend(() => {
      const promised = promises.get(log.header.id)!
      const from = promised.ends.at(-1)!
      promised.ends.push(from + count)
      return log.append(saidMany(from, count))
    })
  const flush = (log: SessionLog) =>
    Effect.suspend(() => {
      const promised = promises.get(log.header.id)!
      const length = promised.ends.at(-1)!
      return Effect.map(log.flush, () => {
        promised.safe = Math.max(promised.safe, length)
      })
    })
  const create = (id: string, seed: number) =>
    Effect.map(store.create(header(id), saidMany(0, seed)), (log) => {
      promises.set(id, { safe: seed, ends: [seed] })
      return log
    })
  return Effect.gen(function*() {
    yield* Effect.scoped(Effect.gen(function*() {
      const log = yield* create("a", 0)
      yield* append(log, 1)
      yield* append(log, 3)
      yield* flush(log)
      yield* append(log, 2)
    }))
    yield* Effect.scoped(store.open("a"))
    yield* Effect.scoped(Effect.gen(function*() {
      const log = yield* store.open("a")
      yield* append(log, 2)
      yield* flush(log)
      const forked = yield* create("b", 3)
      yield* append(forked, 1)
      yield* append(log, 1)
      yield* flush(forked)
    }))
    yield* Effect.scoped(Effect.gen(function*() {
      const log = yield* store.open("b")
      yield* append(log, 2)
      yield* flush(log)
    }))
    yield* Effect.scoped(Effect.gen(function*() {
      const log = yield* create("c", 0)
      yield* append(log, 2)
      // written and not synced, as by a process that is killed
      yield* Stream.runDrain(store.read("c"))
      yield* takeLockAway
      const successor = yield* other.open("c")
      yield* append(successor, 1)
      yield* flush(successor)
    }))
  })
}

describe("FileSessionStore and crashes", () => {
  it.live("keeps every promise, whenever the process dies or the power goes", () =>
    Effect.gen(function*() {
      const directory = yield* tempDir
      const files = Durable.make(directory)
      const storeOn = Effect.map(
        Layer.build(Layer.provide(Layer.fresh(FileSessionStore.layer({ directory })), files.layer)),
        Context.get(SessionStore)
      )
      const fs = Context.get(yield* Layer.build(files.layer), FileSystem.FileSystem)
      const store = yield* storeOn
      const other = yield* storeOn
      const promises = new Map<string, Promised>()
      // the same remains under the same promises are looked at once
      const moments = new Map<string, {
        readonly where: string
        readonly remains: ReadonlyMap<string, string | undefined>
        readonly promises: ReadonlyMap<string, Promised>
      }>()
      let calls = 0
      files.onCall(() => {
        for (const crash of Durable.crashes) {
          const remains = files.remains(crash)
          const key = JSON.stringify([Array.from(remains), Array.from(promises)])
          if (!moments.has(key)) {
            moments.set(key, { where: `${crash} before call ${calls}`, remains, promises: structuredClone(promises) })
          }
        }
        calls++
      })
      yield* workload(store, other, fs.remove(join(directory, "c", "0.lock")), promises)
      files.onCall(() => {})
      assert.isAtLeast(calls, 60)
      assert.deepStrictEqual(Array.from(promises.values(), (each) => each.safe), [8, 6, 3])

      let kept = 0
      for (const moment of moments.values()) {
        const { where } = moment
        yield* Effect.scoped(Effect.gen(function*() {
          const directory = yield* tempDir
          Durable.write(moment.remains, directory)
          const context = yield* Layer.build(Layer.fresh(FileSessionStore.layerNode({ directory })))
          const store = Context.get(context, SessionStore)
          const entries = yield* Stream.runCollect(store.list)
          const found = entries.map((entry) => entry._tag === "Session" ? String(entry.header.id) : entry.what)
          for (const [id, promised] of moment.promises) {
            assert.include(found, id, where)
            const read = Effect.map(Stream.runCollect(store.read(id)), seqs)
            const before = yield* read
            const log = yield* store.open(id)
            const length = (yield* read).length
            assert.deepStrictEqual(before, range(0, length), where)
            assert.isAtLeast(length, promised.safe, where)
            // what was appended and not promised is there whole or not at all
            assert.include(promises.get(id)!.ends, length, where)
            yield* log.append([said(length)])
            yield* log.flush
            assert.deepStrictEqual(yield* read, range(0, length + 1), where)
            kept++
          }
          // one that was not promised yet is there whole, or not at all
          for (const id of found.filter((id) => !moment.promises.has(id))) yield* store.open(id)
        }))
      }
      assert.isAtLeast(kept, 100)
    }).pipe(Effect.provide(Logger.layer([]))), 60_000)
})

import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Exit, Fiber, Latch, Layer, Scope, Stream } from "effect"
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import * as FileSessionStore from "../../src/layers/FileSessionStore.ts"
import { SessionStore } from "../../src/SessionStore.ts"
import { leakCheck, makeTempDir, tempDir } from "../utils/leaks.ts"
import { header, range, said, saidMany, seqs } from "../utils/sessionEvents.ts"
import { watched } from "../utils/sessionStores.ts"
import * as Watched from "../utils/watchedFileSystem.ts"

leakCheck()

const read = (store: SessionStore["Service"], id: string, from?: number) =>
  Effect.map(Stream.runCollect(store.read(id, { from })), seqs)

describe("FileSessionStore and its files", () => {
  describe("calls fsync", () => {
    it.live("as often as its documentation says, and no more", () =>
      Effect.gen(function*() {
        const { store, syncs } = yield* watched()
        assert.deepStrictEqual(yield* syncs(Stream.runDrain(store.list)), [])
        // the first one makes the store a holder
        assert.deepStrictEqual(yield* syncs(Effect.scoped(store.create(header("a")))), [
          "H/lease.json",
          "",
          "H/0/header.json",
          "H/0",
          ""
        ])
        const scope = yield* Scope.make()
        assert.deepStrictEqual(yield* syncs(Scope.provide(store.create(header("b")), scope)), [
          "H/1/header.json",
          "H/1",
          ""
        ])
        assert.deepStrictEqual(yield* syncs(Scope.close(scope, Exit.void)), [], "nothing was written")
        assert.deepStrictEqual(
          yield* syncs(Effect.scoped(store.create(header("c"), [said(0)]))),
          ["H/2/header.json", "H/2/0.jsonl", "H/2", ""]
        )
        assert.deepStrictEqual(yield* syncs(Effect.scoped(store.open("b"))), ["/b"], "nobody wrote before")
        assert.deepStrictEqual(yield* syncs(Effect.scoped(store.open("c"))), ["/c/0.jsonl", "/c"])

        const last = yield* Scope.make()
        yield* Effect.gen(function*() {
          const log = yield* store.open("c")
          assert.deepStrictEqual(yield* syncs(log.flush), [])
          assert.deepStrictEqual(yield* syncs(Effect.andThen(log.append([said(1)]), log.append([said(2)]))), [])
          assert.deepStrictEqual(yield* syncs(log.flush), ["/c/2.jsonl"])
          assert.deepStrictEqual(yield* syncs(log.flush), [])
          yield* log.append([said(3)])
          yield* Effect.sleep(50)
          assert.deepStrictEqual(yield* syncs(log.flush), ["/c/2.jsonl"], "written before, safe only now")
          assert.deepStrictEqual(yield* syncs(read(store, "c")), [])
          assert.deepStrictEqual(yield* syncs(store.header("c")), [])
          yield* log.append([said(4)])
        }).pipe(Scope.provide(last))
        assert.deepStrictEqual(yield* syncs(Scope.close(last, Exit.void)), ["/c/2.jsonl"])
      }))

    it.live("once for many that wait, and writes once for them", () =>
      Effect.gen(function*() {
        const { calls, store, syncs } = yield* watched()
        const log = yield* store.create(header("a"))
        const many = Effect.forEach(
          range(0, 64),
          (seq) => Effect.andThen(log.append([said(seq)]), log.flush),
          { concurrency: "unbounded" }
        )
        // the first goes at once, the others while it is under way
        assert.strictEqual((yield* syncs(many)).length, 2)
        assert.strictEqual(calls.filter((call) => call.name === "file.write").length, 2)
        assert.deepStrictEqual(yield* read(store, "a"), range(0, 64))
      }))

    it.live("on the store's directory at most twice for sessions that are created at once", () =>
      Effect.gen(function*() {
        const { store, syncs } = yield* watched()
        yield* Effect.scoped(store.create(header("first")))
        const all = yield* syncs(Effect.forEach(range(0, 8), (n) => store.create(header(`s${n}`)), {
          concurrency: "unbounded"
        }))
        assert.isBelow(all.filter((path) => path === "").length, 8)
        assert.strictEqual(all.filter((path) => path !== "").length, 16)
      }))

    it.live("on the parents of a directory that it makes", () =>
      Effect.gen(function*() {
        const root = yield* tempDir
        const synced: Array<string> = []
        yield* Layer.build(Layer.provide(
          FileSessionStore.layer({ directory: join(root, "x", "y") }),
          Watched.layer((call) =>
            Effect.sync(() => {
              if (call.name === "file.sync") synced.push(call.path)
            })
          )
        ))
        assert.deepStrictEqual(synced, [root, join(root, "x")])
      }))
  })

  it.live("costs a write and an fsync to flush, and nothing to append", () =>
    Effect.gen(function*() {
      const { calls, store } = yield* watched()
      const log = yield* store.create(header("a"))
      calls.length = 0
      yield* log.append([said(0)])
      assert.deepStrictEqual(calls, [])
      yield* log.flush
      assert.deepStrictEqual(calls, [{ name: "file.write", path: "H/0/0.jsonl" }, {
        name: "file.sync",
        path: "H/0/0.jsonl"
      }])
    }))

  it.live("writes what nobody flushes, too", () =>
    Effect.gen(function*() {
      const { directory, store } = yield* watched()
      const log = yield* store.create(header("a"))
      yield* log.append([said(0), said(1)])
      yield* log.append([said(2)])
      const file = join(directory, "a", "0.jsonl")
      for (let i = 0; i < 100 && readFileSync(file, "utf8").split("\n").length < 6; i++) yield* Effect.sleep(5)
      assert.strictEqual(readFileSync(file, "utf8").split("\n").length, 6)
    }))

  it.live("makes an append wait when thousands do", () =>
    Effect.gen(function*() {
      const gate = yield* Latch.make(false)
      const directory = yield* tempDir
      const context = yield* Layer.build(Layer.provide(
        FileSessionStore.layer({ directory }),
        Watched.layer((call) => call.name === "file.write" && call.path.endsWith("jsonl") ? gate.await : Effect.void)
      ))
      const store = Context.get(context, SessionStore)
      yield* Effect.addFinalizer(() => gate.open)
      const log = yield* store.create(header("a"))
      let accepted = 0
      const fiber = yield* Effect.forkChild(
        Effect.forEach(range(0, 5_000), (seq) => Effect.map(log.append([said(seq)]), () => void accepted++), {
          discard: true
        })
      )
      yield* Effect.sleep(50)
      assert.isBelow(accepted, 3_000)
      yield* gate.open
      yield* Fiber.join(fiber)
      assert.deepStrictEqual(yield* read(store, "a"), range(0, 5_000))
    }))

  describe("refuses a directory", () => {
    const failure = (directory: string) =>
      Effect.flip(Effect.scoped(Layer.build(FileSessionStore.layerNode({ directory }))))

    it.live("that is a file, or below one", () =>
      Effect.gen(function*() {
        const file = join(makeTempDir(), "file")
        writeFileSync(file, "mine")
        for (const directory of [file, join(file, "x")]) {
          const error = yield* failure(directory)
          assert.strictEqual(error._tag, "StoreFailed")
          assert.match(error.message, /^make the directory of the store failed: /)
          assert.include(error.message, file)
        }
        assert.strictEqual(readFileSync(file, "utf8"), "mine")
      }))

    it.live.skipIf(process.platform !== "linux")("that cannot be made", () =>
      Effect.gen(function*() {
        const error = yield* failure("/proc/sessions")
        assert.strictEqual(error._tag, "StoreFailed")
        assert.include(error.message, "/proc/sessions")
      }))

    it.live("that cannot be written to, but reads it", () =>
      Effect.gen(function*() {
        let readOnly = false
        const { directory, store } = yield* watched((call) =>
          readOnly && ["makeDirectory", "link", "utimes"].includes(call.name) ? "EACCES" : undefined
        )
        readOnly = true
        assert.deepStrictEqual(yield* Stream.runCollect(store.list), [])
        const error = yield* Effect.flip(store.create(header("a")))
        assert.strictEqual(error._tag, "StoreFailed")
        assert.match(error.message, /EACCES/)
        assert.include(error.message, directory)
        assert.deepStrictEqual(readdirSync(directory), [])
        readOnly = false
        yield* store.create(header("a"))
      }))
  })

  it.live("makes a directory that is not there, and finds its sessions again", () =>
    Effect.gen(function*() {
      const directory = join(yield* tempDir, "deep", "er")
      const use = <A, E>(effect: Effect.Effect<A, E, SessionStore | Scope.Scope>) =>
        Effect.scoped(Effect.provide(Effect.scoped(effect), Layer.fresh(FileSessionStore.layerNode({ directory }))))
      yield* use(Effect.gen(function*() {
        const store = yield* SessionStore
        const log = yield* store.create(header("a"))
        yield* log.append(saidMany(0, 3))
      }))
      yield* use(Effect.gen(function*() {
        const store = yield* SessionStore
        assert.deepStrictEqual(yield* read(store, "a"), [0, 1, 2])
        assert.strictEqual((yield* Stream.runCollect(store.list)).length, 1)
      }))
    }))

  it.live("an id that leaves the directory is refused before anything is touched", () =>
    Effect.gen(function*() {
      const { calls, directory, store } = yield* watched()
      mkdirSync(join(directory, "..", "outside"), { recursive: true })
      for (const id of ["../outside", "..", "/tmp/x", "a/../../outside"]) {
        calls.length = 0
        assert.strictEqual((yield* Effect.flip(store.open(id)))._tag, "SessionNotFound")
        const unchecked = { ...header("a"), id } as unknown as ReturnType<typeof header>
        assert.strictEqual((yield* Effect.flip(store.create(unchecked)))._tag, "StoreFailed")
        assert.deepStrictEqual(calls, [])
      }
      assert.isFalse(existsSync(join(directory, "a")))
    }))

  it.live("lists thousands by their headers alone", () =>
    Effect.gen(function*() {
      const { calls, directory, store } = yield* watched()
      for (const n of range(0, 3_000)) {
        const id = `s${n}`
        mkdirSync(join(directory, id))
        writeFileSync(join(directory, id, "header.json"), JSON.stringify(header(id, { createdAt: 5_000 - n })))
        writeFileSync(join(directory, id, "0.jsonl"), "not looked at")
      }
      writeFileSync(join(directory, "s77", "header.json"), "")
      calls.length = 0
      const entries = yield* Stream.runCollect(store.list)
      assert.strictEqual(entries.length, 3_000)
      assert.deepStrictEqual(entries.filter((entry) => entry._tag === "Damaged").map((entry) => entry.id), ["s77"])
      const times = entries.flatMap((entry) => entry._tag === "Session" ? [entry.header.createdAt] : [])
      assert.deepStrictEqual(times, times.toSorted((a, b) => a - b))
      assert.isTrue(calls.every((call) => !call.path.endsWith(".jsonl")))
    }))
})

import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Logger, type Scope, Stream } from "effect"
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  unlinkSync,
  writeFileSync
} from "node:fs"
import { join } from "node:path"
import * as FileSessionStore from "../../src/layers/FileSessionStore.ts"
import type * as Session from "../../src/Session.ts"
import { SessionStore } from "../../src/SessionStore.ts"
import { leakCheck, tempDir } from "../utils/leaks.ts"
import { header, range, said, saidMany, seqs } from "../utils/sessionEvents.ts"

leakCheck()

const read = (id: string, from?: number) =>
  Effect.gen(function*() {
    const store = yield* SessionStore
    return seqs(yield* Stream.runCollect(store.read(id, { from })))
  })

/** Writes a session in one lease a batch. */
const write = (id: string, ...batches: ReadonlyArray<ReadonlyArray<Session.Event>>) =>
  Effect.gen(function*() {
    const store = yield* SessionStore
    for (let i = 0; i < batches.length; i++) {
      yield* Effect.scoped(Effect.gen(function*() {
        const log = yield* i === 0 ? store.create(header(id)) : store.open(id)
        for (const event of batches[i]) yield* log.append([event])
      }))
    }
  })

const append = (id: string, ...events: ReadonlyArray<Session.Event>) =>
  Effect.scoped(Effect.gen(function*() {
    const store = yield* SessionStore
    const log = yield* store.open(id)
    yield* log.append(events)
    yield* log.flush
  }))

const lines = (file: string): Array<string> => readFileSync(file, "utf8").split("\n").slice(0, -1)

const setLines = (file: string, change: (lines: Array<string>) => Array<string>): void =>
  writeFileSync(file, change(lines(file)).map((line) => line + "\n").join(""))

/** Runs with a store in a directory of its own; collects what is logged. */
const inStore = (
  title: string,
  body: (directory: string, logged: Array<string>) => Effect.Effect<void, unknown, SessionStore | Scope.Scope>
) =>
  it.live(title, () =>
    Effect.gen(function*() {
      const directory = yield* tempDir
      const logged: Array<string> = []
      yield* body(directory, logged).pipe(
        Effect.provide(Layer.merge(
          FileSessionStore.layerNode({ directory }),
          Logger.layer([Logger.make(({ logLevel, message }) => {
            logged.push(`${logLevel} ${String(message)}`)
          })])
        ))
      )
    }))

const refuses = (id: string, where: string, what: RegExp, from = 0) =>
  Effect.gen(function*() {
    const store = yield* SessionStore
    const before = readdirSync(join(where.split(`/${id}/`)[0], id))
    for (const attempt of [Effect.scoped(store.open(id)), Stream.runDrain(store.read(id, { from }))]) {
      const error = yield* Effect.flip(attempt)
      assert.strictEqual(error._tag, "Corrupt", error.message)
      if (error._tag !== "Corrupt") return
      assert.strictEqual(error.where, where)
      assert.match(error.what, what)
      assert.strictEqual(error.id, id)
    }
    assert.deepStrictEqual(readdirSync(join(where.split(`/${id}/`)[0], id)), before, "nothing is left behind")
  })

describe("FileSessionStore and damage", () => {
  describe("a torn tail", () => {
    for (const cut of [1, 5, 60]) {
      inStore(
        `of ${cut} missing bytes is set aside, reported and not read`,
        (directory, logged) =>
          Effect.gen(function*() {
            yield* write("a", saidMany(0, 4))
            const file = join(directory, "a", "0.jsonl")
            const whole = readFileSync(file)
            writeFileSync(file, whole.subarray(0, whole.length - cut))
            assert.deepStrictEqual(yield* read("a"), [0, 1, 2])
            assert.isFalse(existsSync(join(directory, "a", "0.torn")), "reading changes nothing")

            yield* append("a", said(3, "again"), said(4))
            const torn = readFileSync(join(directory, "a", "0.torn"), "utf8")
            assert.strictEqual(
              torn + whole.subarray(whole.length - cut).toString(),
              JSON.stringify(JSON.parse(torn + whole.subarray(whole.length - cut).toString())) + "\n"
            )
            assert.deepStrictEqual(yield* read("a"), [0, 1, 2, 3, 4])
            assert.strictEqual(logged.length, 1)
            assert.match(logged[0], /^Warn session a: set \d+ bytes of an unfinished append aside in .*0\.torn$/)

            yield* append("a", said(5))
            assert.strictEqual(logged.length, 1, "it is reported once")
          })
      )
    }

    inStore(
      "takes the whole append with it, however many of its events are there",
      (directory) =>
        Effect.gen(function*() {
          yield* write("a", [said(0)])
          yield* append("a", said(1), said(2), said(3))
          const file = join(directory, "a", "1.jsonl")
          const whole = readFileSync(file)
          // the first two of the three stay
          for (const cut of [1, lines(file).at(-1)!.length + 1]) {
            writeFileSync(file, whole.subarray(0, whole.length - cut))
            assert.deepStrictEqual(yield* read("a"), [0])
          }
          yield* append("a", said(1, "anew"))
          assert.deepStrictEqual(yield* read("a"), [0, 1])
        })
    )

    inStore("of zeros, as power cuts leave them, is one too", (directory, logged) =>
      Effect.gen(function*() {
        yield* write("a", [said(0)])
        const file = join(directory, "a", "0.jsonl")
        writeFileSync(file, Buffer.concat([readFileSync(file), Buffer.alloc(4096)]))
        assert.deepStrictEqual(yield* read("a"), [0])
        yield* append("a", said(1))
        assert.deepStrictEqual(yield* read("a"), [0, 1])
        assert.strictEqual(statSync(join(directory, "a", "0.torn")).size, 4096)
        assert.strictEqual(logged.length, 1)
      }))

    inStore("in the first record leaves an empty log", (directory) =>
      Effect.gen(function*() {
        yield* write("a", [said(0)])
        const file = join(directory, "a", "0.jsonl")
        for (const rest of [readFileSync(file).subarray(0, 20), Buffer.alloc(0)]) {
          writeFileSync(file, rest)
          assert.deepStrictEqual(yield* read("a"), [])
        }
        yield* append("a", said(0))
        assert.deepStrictEqual(yield* read("a"), [0])
      }))

    inStore(
      "in the first record of a later lease leaves what was there before it",
      (directory) =>
        Effect.gen(function*() {
          yield* write("a", [said(0)], [said(1)])
          writeFileSync(join(directory, "a", "1.jsonl"), "{\"segment\":{\"ver")
          assert.deepStrictEqual(yield* read("a"), [0])
          yield* append("a", said(1))
          assert.deepStrictEqual(yield* read("a"), [0, 1])
        })
    )
  })

  describe("damage in the middle is refused with file, line and byte:", () => {
    const damage = (
      title: string,
      change: (lines: Array<string>) => Array<string>,
      line: number,
      what: RegExp
    ) =>
      inStore(title, (directory) =>
        Effect.gen(function*() {
          yield* write("a", saidMany(0, 5))
          const file = join(directory, "a", "0.jsonl")
          setLines(file, change)
          const byte = Buffer.byteLength(lines(file).slice(0, line - 1).map((each) => each + "\n").join(""))
          yield* refuses("a", `${file} line ${line}, byte ${byte}`, what)
          // what is before it can still be had
          const store = yield* SessionStore
          const seen: Array<number> = []
          yield* store.read("a").pipe(
            Stream.runForEach((event) => Effect.sync(() => seen.push(event.seq))),
            Effect.flip
          )
          assert.deepStrictEqual(seen, range(0, line - 2))
        }))

    damage("a line that is no JSON", (all) => all.with(2, "{\"_tag\":\"Mess"), 3, /^not JSON/)
    damage("an empty line", (all) => all.with(3, ""), 4, /^not JSON/)
    damage("another kind of value", (all) => all.with(3, "[1]"), 4, /event/)
    damage("a gap", (all) => all.toSpliced(3, 1), 4, /^seq 3 where 2 was due$/)
    damage("an event twice", (all) => all.toSpliced(3, 0, all[2]), 4, /^seq 1 where 2 was due$/)
    damage("an event without a seq", (all) => all.with(3, "{\"_tag\":\"TurnStarted\",\"turn\":0}"), 4, /seq/)
    damage("a bad last line", (all) => all.toSpliced(5, 1, "garbage"), 6, /^not JSON/)
    damage("another file's text", (all) => all.with(1, "Hello"), 2, /^not JSON/)

    inStore("a byte that is no UTF-8", (directory) =>
      Effect.gen(function*() {
        yield* write("a", saidMany(0, 3))
        const file = join(directory, "a", "0.jsonl")
        const bytes = readFileSync(file)
        bytes[bytes.indexOf("message 1")] = 0xff
        writeFileSync(file, bytes)
        const start = bytes.lastIndexOf(10, bytes.indexOf(0xff)) + 1
        yield* refuses("a", `${file} line 3, byte ${start}`, /^not UTF-8 text$/)
      }))

    inStore("a bad first record", (directory) =>
      Effect.gen(function*() {
        yield* write("a", [said(0)], [said(1)])
        const file = join(directory, "a", "1.jsonl")
        for (
          const [first, what] of [
            ["{}", /first record/],
            ["{\"segment\":{\"version\":2,\"epoch\":1}}", /first record/],
            ["{\"segment\":{\"version\":1,\"epoch\":7}}", /another segment/],
            ["x".repeat(5000), /first record/]
          ] as const
        ) {
          setLines(file, (all) => all.with(0, first))
          yield* refuses("a", `${file} line 1, byte 0`, what)
        }
      }))

    inStore(
      "an earlier segment that is gone, or shorter than its successor says",
      (directory) =>
        Effect.gen(function*() {
          yield* write("a", saidMany(0, 3), [said(3)])
          const file = join(directory, "a", "0.jsonl")
          const whole = readFileSync(file)
          writeFileSync(file, whole.subarray(0, whole.length - 1))
          yield* refuses("a", file, /bytes long where its successor counts/)
          unlinkSync(file)
          yield* refuses("a", file, /missing/)
        })
    )

    inStore("a log that is gone", (directory) =>
      Effect.gen(function*() {
        yield* write("a", [said(0)])
        unlinkSync(join(directory, "a", "0.jsonl"))
        const store = yield* SessionStore
        const error = yield* Effect.flip(Stream.runDrain(store.read("a")))
        assert.deepInclude(error, { _tag: "Corrupt", where: join(directory, "a") })
      }))
  })

  inStore("what a stale writer adds after its lease was taken over is not read", (directory) =>
    Effect.gen(function*() {
      yield* write("a", [said(0)], [said(1)])
      const stale = JSON.stringify({ _tag: "TurnStarted", seq: 1, at: 0, turn: 9 }) + "\n"
      const file = join(directory, "a", "0.jsonl")
      writeFileSync(file, readFileSync(file, "utf8") + stale)
      assert.deepStrictEqual(yield* read("a"), [0, 1])
      yield* append("a", said(2))
      assert.deepStrictEqual(yield* read("a"), [0, 1, 2])
    }))

  describe("a header", () => {
    const broken: ReadonlyArray<readonly [string, string, RegExp]> = [
      ["that is no JSON", "{\"version\":1,", /not JSON/],
      ["that is empty", "", /not JSON/],
      ["of format 2", JSON.stringify({ ...header("a"), version: 2 }), /session format 2 is newer/],
      ["of another session", JSON.stringify(header("b")), /the header of session b/],
      ["without a depth", JSON.stringify({ ...header("a"), depth: undefined }), /depth/]
    ]
    for (const [title, content, what] of broken) {
      inStore(`${title} is refused, and one row of a listing`, (directory) =>
        Effect.gen(function*() {
          const store = yield* SessionStore
          yield* write("a", [said(0)])
          yield* write("z", [said(0)])
          const file = join(directory, "a", "header.json")
          writeFileSync(file, content)
          for (
            const attempt of [store.header("a"), Effect.scoped(store.open("a")), Stream.runDrain(store.read("a"))]
          ) {
            const error = yield* Effect.flip(attempt)
            assert.deepInclude(error, { _tag: "Corrupt", id: "a", where: file })
            assert.match(error.message, what)
          }
          const entries = yield* Stream.runCollect(store.list)
          assert.deepStrictEqual(entries.map((entry) => entry._tag), ["Session", "Damaged"])
          const damaged = entries[1]
          assert.isTrue(damaged._tag === "Damaged" && damaged.id === "a" && what.test(damaged.what))
        }))
    }

    inStore("that is missing beside a log is damage", (directory) =>
      Effect.gen(function*() {
        const store = yield* SessionStore
        yield* write("a", [said(0)])
        unlinkSync(join(directory, "a", "header.json"))
        assert.strictEqual((yield* Effect.flip(store.header("a")))._tag, "Corrupt")
        assert.deepStrictEqual((yield* Stream.runCollect(store.list)).map((entry) => entry._tag), ["Damaged"])
      }))
  })

  inStore(
    "a damaged child is shown to its parent, or to every one if it cannot be told",
    (directory) =>
      Effect.gen(function*() {
        const store = yield* SessionStore
        const parent = header("p").id
        for (const id of ["c1", "c2", "c3"]) yield* Effect.scoped(store.create(header(id, { parent })))
        yield* Effect.scoped(store.create(header("q1", { parent: header("q").id })))
        writeFileSync(join(directory, "c2", "header.json"), JSON.stringify({ ...header("c2", { parent }), version: 2 }))
        writeFileSync(join(directory, "c3", "header.json"), "{")
        const children = (id: string) =>
          Effect.map(Stream.runCollect(store.children(id)), (entries) =>
            entries.map((entry) =>
              entry._tag === "Session" ? String(entry.header.id) : `damaged ${entry.id}`
            ))
        assert.deepStrictEqual(yield* children("p"), ["c1", "damaged c2", "damaged c3"])
        assert.deepStrictEqual(yield* children("q"), ["q1", "damaged c3"])
      })
  )

  inStore("foreign files and directories are left alone and not listed", (directory) =>
    Effect.gen(function*() {
      const store = yield* SessionStore
      yield* write("a", [said(0)])
      writeFileSync(join(directory, "README"), "hello")
      writeFileSync(join(directory, "b"), "")
      mkdirSync(join(directory, "node_modules"))
      mkdirSync(join(directory, "not an id"))
      mkdirSync(join(directory, ".git"))
      writeFileSync(join(directory, "a", "notes.txt"), "mine")
      writeFileSync(join(directory, "a", "007.jsonl"), "mine")
      writeFileSync(join(directory, "a", "x.jsonl"), "mine")
      mkdirSync(join(directory, "a", "mailbox"))
      assert.strictEqual((yield* Stream.runCollect(store.list)).length, 1)
      yield* append("a", said(1))
      assert.deepStrictEqual(yield* read("a"), [0, 1])
      for (const id of ["README", "b", "node_modules"]) {
        assert.strictEqual((yield* Effect.flip(store.header(id)))._tag, "SessionNotFound")
        assert.strictEqual((yield* Effect.flip(Effect.scoped(store.open(id))))._tag, "SessionNotFound")
      }
      const taken = yield* Effect.flip(Effect.scoped(store.create(header("b"))))
      assert.strictEqual(taken._tag, "StoreFailed")
      assert.include(taken.message, join(directory, "b"))
      assert.strictEqual(readFileSync(join(directory, "b"), "utf8"), "")
      assert.strictEqual(readFileSync(join(directory, "a", "007.jsonl"), "utf8"), "mine")
    }))

  inStore("a symbolic link in the place of a session leads nowhere", (directory) =>
    Effect.gen(function*() {
      const store = yield* SessionStore
      const outside = join(yield* tempDir, "real")
      yield* write("real", [said(0)])
      cpSync(join(directory, "real"), outside, { recursive: true })
      symlinkSync(outside, join(directory, "link"))
      assert.strictEqual((yield* Effect.flip(store.header("link")))._tag, "SessionNotFound")
      assert.strictEqual((yield* Effect.flip(Stream.runDrain(store.read("link"))))._tag, "SessionNotFound")
      assert.strictEqual((yield* Effect.flip(Effect.scoped(store.open("link"))))._tag, "SessionNotFound")
      assert.strictEqual((yield* Effect.flip(Effect.scoped(store.create(header("link")))))._tag, "StoreFailed")
      assert.strictEqual((yield* Stream.runCollect(store.list)).length, 1)
      assert.deepStrictEqual(readdirSync(outside).toSorted(), ["0.jsonl", "header.json"])
    }))
})

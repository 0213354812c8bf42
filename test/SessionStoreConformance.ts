/**
 * What every store of sessions has to do, whatever it is made of. Call it in a test file with a fresh store as a layer.
 */
import { assert, describe, it } from "@effect/vitest"
import { Arbitrary, Cause, Effect, Exit, type Layer, Schema, Scope, Stream } from "effect"
import type * as Session from "../src/Session.ts"
import { SessionStore } from "../src/SessionStore.ts"
import {
  called,
  ended,
  header,
  range,
  returned,
  said,
  saidMany,
  seqs,
  started,
  steered
} from "./utils/sessionEvents.ts"

const readAll = (id: string, from?: number) =>
  Effect.gen(function*() {
    const store = yield* SessionStore
    return yield* Stream.runCollect(store.read(id, { from }))
  })

const listed = Effect.gen(function*() {
  const store = yield* SessionStore
  return (yield* Stream.runCollect(store.list)).map((entry) =>
    entry._tag === "Session" ? String(entry.header.id) : entry
  )
})

const tagOf = <A, E extends { readonly _tag: string }, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.map(Effect.flip(effect), (error) => error._tag)

const isDefect = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.map(Effect.exit(effect), (exit) => Exit.isFailure(exit) && Cause.hasDies(exit.cause))

const Step = Schema.Union([
  Schema.TaggedStruct("Append", { count: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 4 })) }),
  Schema.TaggedStruct("Flush", {}),
  Schema.TaggedStruct("Reopen", {}),
  Schema.TaggedStruct("Read", { from: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 12 })) })
])

export const sessionStoreConformance = (
  name: string,
  layer: () => Layer.Layer<SessionStore, unknown>
): void => {
  describe(`${name} conforms`, () => {
    const test = (title: string, body: Effect.Effect<void, unknown, SessionStore | Scope.Scope>) =>
      it.live(title, () => Effect.provide(body, layer()))

    test(
      "creates a session that is empty and has its header",
      Effect.gen(function*() {
        const store = yield* SessionStore
        const full = header("child-1", {
          parent: header("parent").id,
          depth: 3,
          origin: { kind: "subagent", provider: "spawn" },
          label: "ünïcode \u{1F600} \n label",
          seedLength: 0
        })
        const log = yield* store.create(full)
        assert.deepStrictEqual(log.header, full)
        assert.deepStrictEqual(yield* store.header("child-1"), full)
        assert.deepStrictEqual(yield* readAll("child-1"), [])
      })
    )

    test(
      "keeps a session whose scope failed, and forgets one that is unwanted when its lease ends",
      Effect.gen(function*() {
        const store = yield* SessionStore
        const failing = (discard: boolean, id: string) =>
          Effect.gen(function*() {
            const scope = yield* Scope.make()
            yield* Scope.provide(store.create(header(id), [], { unwanted: () => discard }), scope)
            assert.deepStrictEqual(yield* store.header(id), header(id))
            yield* Scope.close(scope, Exit.fail("no"))
          })
        yield* failing(false, "kept")
        yield* failing(true, "discarded")
        assert.deepStrictEqual(yield* listed, ["kept"])
        assert.strictEqual(yield* tagOf(store.header("discarded")), "SessionNotFound")
        const again = yield* store.create(header("discarded"))
        assert.deepStrictEqual(again.header, header("discarded"))
      })
    )

    test(
      "reads back what was appended, equal and in order",
      Effect.gen(function*() {
        const store = yield* SessionStore
        const log = yield* store.create(header("a"))
        const events: ReadonlyArray<Session.Event> = [
          started(0, 0),
          said(1, "line\nbreak \u2028 \u{1F600} \ud800 \"quotes\" \\ \0"),
          called(2, "x", "y"),
          returned(3, "x", { deep: [1, null, "two", { three: true }] }),
          returned(4, "y"),
          steered(5, "now this", "m1"),
          ended(6, 0, { _tag: "Failed", reason: "x", retryable: true, diagnostic: "y" }, {
            inputTokens: 1,
            outputTokens: 2,
            steps: 3,
            elapsed: 4,
            cost: 0.5
          }),
          { _tag: "DescriptorRecorded", seq: 7, at: 1, descriptor: { version: 1, persona: null } },
          { _tag: "RemoteBound", seq: 8, at: 1, remoteId: "r", agent: "codex", version: "1.2" },
          { _tag: "Unknown", seq: 9, at: 1, raw: { _tag: "FromTheFuture", seq: 9, at: 1, more: { a: [1] } } }
        ]
        yield* log.append(events.slice(0, 1))
        yield* log.append(events.slice(1, 6))
        yield* log.append([])
        yield* log.flush
        yield* log.append(events.slice(6))
        assert.deepStrictEqual(yield* readAll("a"), events)
        yield* log.flush
        assert.deepStrictEqual(yield* readAll("a"), events)
      })
    )

    test(
      "reads from a place on",
      Effect.gen(function*() {
        const store = yield* SessionStore
        const log = yield* store.create(header("a"))
        yield* log.append(saidMany(0, 5))
        for (const from of [0, 1, 4, 5, 6]) {
          assert.deepStrictEqual(seqs(yield* readAll("a", from)), range(Math.min(from, 5), 5))
        }
      })
    )

    test(
      "puts a seed before everything else",
      Effect.gen(function*() {
        const store = yield* SessionStore
        const seed = [started(0, 0), said(1), ended(2, 0)]
        const log = yield* store.create(header("fork", { seedLength: 3 }), seed)
        seed.length = 0
        assert.deepStrictEqual(seqs(yield* readAll("fork")), [0, 1, 2])
        yield* log.append([said(3)])
        yield* log.flush
        assert.deepStrictEqual(seqs(yield* readAll("fork")), [0, 1, 2, 3])
        const empty = yield* store.create(header("empty"), [])
        yield* empty.append([said(0)])
        assert.deepStrictEqual(seqs(yield* readAll("empty")), [0])
      })
    )

    test(
      "refuses an id that is taken, and leaves its holder alone",
      Effect.gen(function*() {
        const store = yield* SessionStore
        const log = yield* store.create(header("a"))
        yield* log.append([said(0)])
        assert.strictEqual(yield* tagOf(store.create(header("a", { depth: 2 }), [said(0, "other")])), "SessionExists")
        yield* log.append([said(1)])
        yield* log.flush
        assert.deepStrictEqual(seqs(yield* readAll("a")), [0, 1])
        assert.strictEqual((yield* store.header("a")).depth, 0)
      })
    )

    test(
      "knows nothing of ids that were never stored, whatever they look like",
      Effect.gen(function*() {
        const store = yield* SessionStore
        yield* store.create(header("a"))
        const strange = [
          "b",
          "",
          ".",
          "..",
          "../a",
          "a/../a",
          "/etc",
          "a/",
          "a\0",
          "-a",
          ".a",
          "ü",
          "x".repeat(129),
          "a b"
        ]
        for (const id of strange) {
          assert.strictEqual(yield* tagOf(store.header(id)), "SessionNotFound", JSON.stringify(id))
          assert.strictEqual(yield* tagOf(store.open(id)), "SessionNotFound", JSON.stringify(id))
          assert.strictEqual(yield* tagOf(Stream.runDrain(store.read(id))), "SessionNotFound", JSON.stringify(id))
        }
      })
    )

    test(
      "has one writer at a time",
      Effect.gen(function*() {
        const store = yield* SessionStore
        yield* Effect.scoped(Effect.gen(function*() {
          yield* store.create(header("a"))
          const error = yield* Effect.flip(store.open("a"))
          assert.deepInclude(error, { _tag: "HeldElsewhere", id: "a" })
        }))
        yield* Effect.scoped(Effect.gen(function*() {
          yield* store.open("a")
          assert.strictEqual(yield* tagOf(Effect.scoped(store.open("a"))), "HeldElsewhere")
          assert.strictEqual(yield* tagOf(Effect.scoped(store.open("a"))), "HeldElsewhere")
        }))
        yield* Effect.scoped(store.open("a"))
      })
    )

    test(
      "gives the lease to exactly one of many who ask at once",
      Effect.gen(function*() {
        const store = yield* SessionStore
        yield* Effect.scoped(store.create(header("a")))
        const exits = yield* Effect.forEach(range(0, 10), () => Effect.exit(store.open("a")), {
          concurrency: "unbounded"
        })
        assert.strictEqual(exits.filter(Exit.isSuccess).length, 1)
        const created = yield* Effect.forEach(range(0, 10), () => Effect.exit(store.create(header("b"))), {
          concurrency: "unbounded"
        })
        assert.strictEqual(created.filter(Exit.isSuccess).length, 1)
      })
    )

    test(
      "takes nothing from a writer whose scope is closed",
      Effect.gen(function*() {
        const store = yield* SessionStore
        const scope = yield* Scope.make()
        const log = yield* Scope.provide(store.create(header("a")), scope)
        yield* log.append([said(0)])
        yield* Scope.close(scope, Exit.void)
        assert.strictEqual(yield* tagOf(log.append([said(1)])), "LeaseLost")
        assert.strictEqual(yield* tagOf(log.flush), "LeaseLost")
        const again = yield* store.open("a")
        assert.strictEqual(yield* tagOf(log.append([said(1)])), "LeaseLost")
        yield* again.append([said(1, "mine")])
        assert.deepStrictEqual(yield* readAll("a"), [said(0), said(1, "mine")])
      })
    )

    test(
      "releases the lease of an interrupted writer",
      Effect.gen(function*() {
        const store = yield* SessionStore
        yield* Effect.scoped(
          Effect.flatMap(store.create(header("a")), (log) => Effect.andThen(log.append([said(0)]), Effect.interrupt))
        ).pipe(Effect.exit)
        yield* store.open("a")
        assert.deepStrictEqual(seqs(yield* readAll("a")), [0])
      })
    )

    test(
      "goes on where the log ended",
      Effect.gen(function*() {
        const store = yield* SessionStore
        yield* Effect.scoped(Effect.flatMap(store.create(header("a")), (log) => log.append(saidMany(0, 3))))
        yield* Effect.scoped(store.open("a"))
        yield* Effect.scoped(Effect.flatMap(store.open("a"), (log) => log.append(saidMany(3, 2))))
        const log = yield* store.open("a")
        assert.deepStrictEqual(log.header, header("a"))
        assert.isTrue(yield* isDefect(log.append([said(4)])))
        yield* log.append([said(5)])
        assert.deepStrictEqual(seqs(yield* readAll("a")), range(0, 6))
      })
    )

    test(
      "adds nothing of an append that does not continue the log",
      Effect.gen(function*() {
        const store = yield* SessionStore
        const log = yield* store.create(header("a"))
        yield* log.append([said(0)])
        for (const wrong of [[said(0)], [said(2)], [said(1), said(1)], [said(1), said(2), said(4)]]) {
          assert.isTrue(yield* isDefect(log.append(wrong)))
        }
        yield* log.flush
        assert.deepStrictEqual(seqs(yield* readAll("a")), [0])
        yield* log.append([said(1)])
        yield* log.flush
        assert.deepStrictEqual(seqs(yield* readAll("a")), [0, 1])
      })
    )

    test(
      "keeps the order of appends whoever flushes meanwhile",
      Effect.gen(function*() {
        const store = yield* SessionStore
        const log = yield* store.create(header("a"))
        yield* Effect.forEach(
          range(0, 200),
          (seq) => Effect.andThen(log.append([said(seq)]), seq % 3 === 0 ? log.flush : Effect.yieldNow),
          { concurrency: "unbounded" }
        )
        assert.deepStrictEqual(seqs(yield* readAll("a")), range(0, 200))
      })
    )

    test(
      "is not changed by what its caller does with an array afterwards",
      Effect.gen(function*() {
        const store = yield* SessionStore
        const log = yield* store.create(header("a"))
        const events = [said(0), said(1)]
        yield* log.append(events)
        events.length = 0
        yield* log.flush
        assert.deepStrictEqual(seqs(yield* readAll("a")), [0, 1])
      })
    )

    test(
      "can be read while it is written",
      Effect.gen(function*() {
        const store = yield* SessionStore
        const log = yield* store.create(header("a"))
        yield* log.append(saidMany(0, 100))
        const read = Stream.runCollect(
          store.read("a").pipe(
            Stream.tap((event) => event.seq < 100 ? log.append([said(100 + event.seq)]) : Effect.void)
          )
        )
        const seen = seqs(yield* read)
        assert.isAtLeast(seen.length, 100)
        assert.deepStrictEqual(seen, range(0, seen.length))
        assert.deepStrictEqual(seqs(yield* readAll("a")), range(0, 200))
      })
    )

    test(
      "lists every session, oldest first, and the children of one",
      Effect.gen(function*() {
        const store = yield* SessionStore
        assert.deepStrictEqual(yield* listed, [])
        const parent = header("p1").id
        yield* store.create(header("late", { createdAt: 30 }))
        yield* store.create(header("b", { createdAt: 20, parent }))
        yield* store.create(header("p1", { createdAt: 10 }))
        yield* store.create(header("a", { createdAt: 20, parent }))
        yield* store.create(header("other", { createdAt: 20, parent: header("late").id }))
        assert.deepStrictEqual(yield* listed, ["p1", "a", "b", "other", "late"])
        const children = yield* Stream.runCollect(store.children("p1"))
        assert.deepStrictEqual(children, [
          { _tag: "Session", header: header("a", { createdAt: 20, parent }) },
          { _tag: "Session", header: header("b", { createdAt: 20, parent }) }
        ])
        assert.deepStrictEqual(yield* Stream.runCollect(store.children("nobody")), [])
      })
    )

    it.live("reads back whatever was appended, flushed and opened again in any order", () =>
      Effect.gen(function*() {
        let runs = 0
        const result = yield* Arbitrary.checkEffect(
          Arbitrary.array(Arbitrary.schema(Step), { maxLength: 24 }),
          (steps) =>
            Effect.gen(function*() {
              const store = yield* SessionStore
              const id = `s${runs++}`
              const model: Array<Session.Event> = []
              let scope = yield* Scope.make()
              let log = yield* Scope.provide(store.create(header(id)), scope)
              for (const step of steps) {
                switch (step._tag) {
                  case "Append": {
                    const events = saidMany(model.length, step.count)
                    model.push(...events)
                    yield* log.append(events)
                    break
                  }
                  case "Flush": {
                    yield* log.flush
                    break
                  }
                  case "Reopen": {
                    yield* Scope.close(scope, Exit.void)
                    scope = yield* Scope.make()
                    log = yield* Scope.provide(store.open(id), scope)
                    break
                  }
                  case "Read": {
                    assert.deepStrictEqual(yield* readAll(id, step.from), model.slice(step.from))
                  }
                }
              }
              assert.deepStrictEqual(yield* readAll(id), model)
              yield* Scope.close(scope, Exit.void)
              assert.deepStrictEqual(yield* readAll(id), model)
              return true
            }),
          { runs: 60 }
        )
        assert.strictEqual(result._tag, "Passed", JSON.stringify(result))
      }).pipe(Effect.provide(layer())))
  })
}

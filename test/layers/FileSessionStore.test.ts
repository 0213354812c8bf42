import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Layer, Logger, Stream } from "effect"
import { TestClock } from "effect/testing"
import { cpSync, existsSync, readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import * as FileSessionStore from "../../src/layers/FileSessionStore.ts"
import * as Session from "../../src/Session.ts"
import { SessionStore } from "../../src/SessionStore.ts"
import { sessionStoreConformance } from "../SessionStoreConformance.ts"
import { leakCheck, tempDir } from "../utils/leaks.ts"
import { header as testHeader, range, said, seqs } from "../utils/sessionEvents.ts"

leakCheck()

sessionStoreConformance(
  "the file store",
  () => Layer.unwrap(Effect.map(tempDir, (directory) => FileSessionStore.layerNode({ directory })))
)

describe("FileSessionStore", () => {
  it.live("reads a golden directory, and goes on in it as the format says", () =>
    Effect.gen(function*() {
      const directory = yield* tempDir
      cpSync(fileURLToPath(new URL("../golden/store", import.meta.url)), directory, { recursive: true })
      const golden = new Map(
        readdirSync(join(directory, "s1golden")).map((name) => [name, readFileSync(join(directory, "s1golden", name))])
      )
      const store = Context.get(yield* Layer.build(FileSessionStore.layerNode({ directory })), SessionStore)
      const header = yield* store.header("s1golden")
      assert.deepInclude(header, { label: "golden", depth: 0 })
      const events = yield* Stream.runCollect(store.read("s1golden"))
      assert.deepStrictEqual(seqs(events), range(0, 8))
      assert.deepStrictEqual(Session.validate(header, events), [])
      assert.deepStrictEqual(seqs(yield* Stream.runCollect(store.read("s1golden", { from: 6 }))), [6, 7])

      yield* Effect.scoped(Effect.flatMap(store.open("s1golden"), (log) => log.append([said(8), said(9)])))
      for (const [name, content] of golden) {
        const file = join(directory, "s1golden", name)
        if (existsSync(file)) assert.deepStrictEqual(readFileSync(file), content, name)
      }
      const lines = readFileSync(join(directory, "s1golden", "3.jsonl"), "utf8").split("\n")
      assert.strictEqual(
        lines[0],
        "{\"segment\":{\"version\":1,\"epoch\":3,\"previous\":{\"epoch\":2,\"bytes\":578,\"events\":8}}}"
      )
      assert.strictEqual(lines[1], `{"append":{"events":2,"bytes":${Buffer.byteLength(lines.slice(2).join("\n"))}}}`)
      assert.deepStrictEqual(
        lines.slice(2, 4),
        [said(8), said(9)].map((each) => JSON.stringify(Session.encodeEvent(each)))
      )
      assert.match(readFileSync(join(directory, "s1golden", "2.torn"), "utf8"), /^{"append":{"events":2,/)
      assert.deepStrictEqual(seqs(yield* Stream.runCollect(store.read("s1golden"))), range(0, 10))
    }).pipe(Effect.provide(Logger.layer([]))))

  it.effect("works on a clock that stands still, and on one that jumps", () =>
    Effect.gen(function*() {
      const directory = yield* tempDir
      const store = Context.get(yield* Layer.build(FileSessionStore.layerNode({ directory })), SessionStore)
      const log = yield* store.create(testHeader("a"))
      yield* log.append([said(0)])
      assert.deepStrictEqual(seqs(yield* Stream.runCollect(store.read("a"))), [0])
      yield* TestClock.adjust("1 hour")
      yield* log.append([said(1)])
      yield* log.flush
      yield* TestClock.setTime(Date.now())
      yield* log.append([said(2)])
      yield* log.flush
      assert.deepStrictEqual(seqs(yield* Stream.runCollect(store.read("a"))), [0, 1, 2])
    }))
})

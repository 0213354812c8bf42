import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { basename } from "node:path"
import * as Ours from "../bench/lib/ours.ts"
import { Agents } from "../src/Agent.ts"
import * as FileSessionStore from "../src/layers/FileSessionStore.ts"
import { leakCheck, tempDir } from "./utils/leaks.ts"
import * as Watched from "./utils/watchedFileSystem.ts"

leakCheck()

interface Counts {
  readonly syncs: Record<string, number>
  renames: number
}

/**
 * Sends a prompt to new parents, one after the other, on sessions in files, and counts what is synced by what it is.
 * `onSync` runs before each.
 */
const counted = (options: {
  readonly prompt: string
  readonly times: number
  readonly onSync?: (kind: string, counts: Counts) => Effect.Effect<void>
}) =>
  Effect.gen(function*() {
    const directory = yield* tempDir
    const kindOf = (path: string): string => {
      const name = basename(path)
      if (path === directory) return "store"
      return name.endsWith(".json") ? name : name.endsWith(".jsonl") ? "log" : "draft"
    }
    const counts: Counts = { syncs: {}, renames: 0 }
    const fileSystem = Watched.layer((call) => {
      if (call.name === "rename") counts.renames++
      if (call.name !== "file.sync") return Effect.void
      const kind = kindOf(call.path)
      counts.syncs[kind] = (counts.syncs[kind] ?? 0) + 1
      return options.onSync?.(kind, counts) ?? Effect.void
    })
    const store = FileSessionStore.layer({ directory }).pipe(Layer.provide(fileSystem))
    yield* Effect.gen(function*() {
      const agents = yield* Agents
      for (let i = 0; i < options.times; i++) {
        yield* Effect.scoped(
          Effect.flatMap(Ours.parent(agents, Ours.unlimited), (parent) => Ours.ask(parent, options.prompt))
        )
      }
    }).pipe(Effect.provide(Ours.layer(store)))
    return counts.syncs
  })

describe("delegating on the file store calls fsync", () => {
  it.live("eight times a delegation: for header, draft, store and log of both sessions", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* counted({ prompt: "delegate say", times: 20 }), {
        // once for the whole store: its lease, and its directory
        "lease.json": 1,
        store: 1 + 40,
        "header.json": 40,
        draft: 40,
        log: 40
      })
    }))

  it.live("no more often for a longer turn", () =>
    Effect.gen(function*() {
      const counts = yield* counted({ prompt: "delegate work 50", times: 1 })
      assert.deepStrictEqual(counts, { "lease.json": 1, store: 3, "header.json": 2, draft: 2, log: 2 })
    }))

  it.live("once for the store's directory where children start at the same time", () =>
    Effect.gen(function*() {
      const { store, ...rest } = yield* counted({
        prompt: "fan 20 say",
        times: 1,
        // the first child's takes until the others have to ask as well
        onSync: (kind, counts) =>
          kind !== "store" || counts.syncs["store"] !== 3
            ? Effect.void
            : Effect.sleep(50).pipe(Effect.repeat({ until: () => counts.renames === 21 }))
      })
      assert.deepStrictEqual(rest, { "lease.json": 1, "header.json": 21, draft: 21, log: 21 })
      // the store's own, the parent's, the first child's, and one for all that came while that one went on
      assert.strictEqual(store, 4)
    }))
})

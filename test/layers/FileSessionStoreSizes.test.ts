import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Layer, Stream } from "effect"
import { spawn } from "node:child_process"
import { closeSync, mkdirSync, openSync, writeFileSync, writeSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import * as FileSessionStore from "../../src/layers/FileSessionStore.ts"
import * as Session from "../../src/Session.ts"
import { SessionStore } from "../../src/SessionStore.ts"
import { leakCheck, tempDir } from "../utils/leaks.ts"
import { header, returned, said, seqs } from "../utils/sessionEvents.ts"

leakCheck()

const script = fileURLToPath(new URL("../fixtures/sessionSizes.ts", import.meta.url))

const encode = (event: Session.Event): string => JSON.stringify(Session.encodeEvent(event))

/** Writes a session of `count` events of about `size` bytes as the store would. */
const writeSession = (directory: string, id: string, count: number, size: number): void => {
  mkdirSync(join(directory, id))
  writeFileSync(join(directory, id, "header.json"), JSON.stringify(header(id)) + "\n")
  const file = openSync(join(directory, id, "0.jsonl"), "wx")
  const text = "x".repeat(Math.max(1, size - encode(said(100_000, "")).length))
  let lines = "{\"segment\":{\"version\":1,\"epoch\":0}}\n"
  for (let seq = 0; seq < count; seq++) {
    lines += encode(said(seq, text)) + "\n"
    if (lines.length > 1024 * 1024) {
      writeSync(file, lines)
      lines = ""
    }
  }
  writeSync(file, lines)
  closeSync(file)
}

interface Measured {
  readonly count: number
  readonly heap: number
  readonly rss: number
}

const measure = (directory: string, id: string, what: "read" | "open" | "decode" | "agent") =>
  Effect.callback<Measured>((resume) => {
    const child = spawn(process.execPath, ["--expose-gc", script, directory, id, what], {
      stdio: ["ignore", "pipe", "inherit"]
    })
    let output = ""
    child.stdout.on("data", (chunk) => output += String(chunk))
    child.once("close", () => resume(Effect.sync(() => JSON.parse(output))))
    return Effect.sync(() => void child.kill("SIGKILL"))
  })

describe("FileSessionStore and sizes", () => {
  for (const [count, size] of [[2_000, 50_000], [700_000, 140]] as const) {
    it.live(
      `reads and opens ${count} events of ${size} bytes in little memory, and an agent over them`,
      () =>
        Effect.gen(function*() {
          const directory = yield* tempDir
          writeSession(directory, "small", 10, 100)
          writeSession(directory, "large", count, size)
          const read = yield* measure(directory, "large", "read")
          assert.strictEqual(read.count, count)
          assert.isBelow(read.heap, 64, JSON.stringify(read))
          // garbage that is not collected yet counts here, and depends on how busy the machine is
          assert.isBelow(read.rss, 96, JSON.stringify(read))
          const open = yield* measure(directory, "large", "open")
          assert.isBelow(open.heap, 64, JSON.stringify(open))
          assert.isBelow(open.rss, 96, JSON.stringify(open))

          // an agent keeps the conversation, which is what the log decodes to, and little more
          const decoded = yield* measure(directory, "large", "decode")
          const agent = yield* measure(directory, "large", "agent")
          assert.deepStrictEqual([decoded.count, agent.count], [count, count])
          assert.isAtMost(agent.heap, 2 * decoded.heap, JSON.stringify({ decoded, agent }))
          assert.isAtMost(agent.rss, 2 * decoded.rss, JSON.stringify({ decoded, agent }))
        }),
      120_000
    )
  }

  it.live("a tool result of 20 MB and a text of a million characters pass through whole", () =>
    Effect.gen(function*() {
      const directory = yield* tempDir
      const store = Context.get(yield* Layer.build(FileSessionStore.layerNode({ directory })), SessionStore)
      const events = [
        said(0, "\u{1F600}\n\"x\u0000".repeat(200_000)),
        returned(1, "big", "y".repeat(20 * 1024 * 1024)),
        returned(2, "many", { rows: Array.from({ length: 100_000 }, (_, n) => ({ n, text: `row ${n}` })) }),
        said(3)
      ]
      yield* Effect.scoped(Effect.gen(function*() {
        const log = yield* store.create(header("a"))
        yield* log.append(events.slice(0, 1))
        yield* log.append(events.slice(1, 3))
        yield* log.flush
        yield* log.append(events.slice(3))
      }))
      const read = yield* Stream.runCollect(store.read("a"))
      assert.deepStrictEqual(seqs(read), [0, 1, 2, 3])
      // not deepStrictEqual, which would print it all
      for (const [index, event] of events.entries()) assert.isTrue(encode(read[index]) === encode(event))
      yield* Effect.scoped(Effect.flatMap(store.open("a"), (log) => log.append([said(4)])))
      assert.strictEqual((yield* Stream.runCollect(store.read("a", { from: 4 }))).length, 1)
    }), 60_000)
})

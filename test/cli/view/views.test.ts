import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber, Layer, Option } from "effect"
import { TestClock } from "effect/testing"
import type { TurnOutcome } from "../../../src/Agent.ts"
import { Diagnostics } from "../../../src/cli/diagnostics.ts"
import { Output, OutputClosed } from "../../../src/cli/output.ts"
import type { ViewEvent } from "../../../src/cli/view/events.ts"
import * as Json from "../../../src/cli/view/json.ts"
import * as Live from "../../../src/cli/view/live.ts"
import { seconds, short } from "../../../src/cli/view/numbers.ts"
import * as Plain from "../../../src/cli/view/plain.ts"
import { advance, doing, emptyState } from "../../../src/cli/view/state.ts"
import { fit, oneLine, printable, printableText } from "../../../src/cli/view/text.ts"
import { drawTree } from "../../../src/cli/view/tree.ts"
import { leakCheck } from "../../utils/leaks.ts"
import { screen } from "../utils/screen.ts"

leakCheck()

const usage = (steps: number, tokens: number) => ({ inputTokens: tokens, outputTokens: 0, steps, elapsed: 1 })

const outcome = (cause: TurnOutcome["cause"]): TurnOutcome => ({
  turn: 0,
  cause,
  text: "the report",
  output: [],
  usage: usage(2, 1500),
  concluded: Option.none()
})

const run = (id: string, parent: string, label: string | undefined) => ({
  runId: `r-${id}`,
  provider: "spawn",
  id,
  parent,
  local: true,
  label
})

const began: ViewEvent = {
  _tag: "Began",
  at: 0,
  session: "top",
  model: "offline",
  cwd: "/work",
  store: "/work/.subagents",
  prompt: "Do it"
}
const started = (id: string, parent = "top", label: string | undefined = id): ViewEvent => ({
  _tag: "RunStarted",
  at: 100,
  ...run(id, parent, label)
})
const ended = (id: string, tag: "Completed" | "Failed" = "Completed"): ViewEvent => ({
  _tag: "RunEnded",
  at: 1100,
  ...run(id, "top", id),
  outcome: tag,
  text: "text",
  output: [],
  usage: usage(3, 2_000_000),
  released: true
})
const agent = (session: string, progress: Extract<ViewEvent, { readonly _tag: "Agent" }>["progress"]): ViewEvent => ({
  _tag: "Agent",
  at: 50,
  session,
  progress
})
const tool = (session: string, id: string, name: string, params: unknown) =>
  agent(session, { _tag: "ToolStarted", id, name, params })

const story: ReadonlyArray<ViewEvent> = [
  began,
  agent("top", { _tag: "StepStarted", step: 0 }),
  tool("top", "1", "delegate", { description: "look\nhere", prompt: "…" }),
  started("src"),
  started("日本語"),
  tool("src", "1", "read_file", { path: "src/\u001b[31ma.ts" }),
  tool("src", "2", "read_file", { path: "b.ts" }),
  agent("日本語", { _tag: "Text", delta: "so" }),
  started("deep", "src"),
  ended("deep"),
  agent("src", { _tag: "ToolEnded", id: "1", name: "read_file", isFailure: true })
]

const output = (size = { columns: 80, rows: 24 }, closed = { value: false }) => {
  const written = { out: "", err: "" }
  const write = (stream: "out" | "err") => (text: string) =>
    Effect.suspend(() => {
      if (closed.value) return Effect.fail(new OutputClosed({ stream: "stderr" }))
      written[stream] += text
      return Effect.void
    })
  let sink = (_: string) => {}
  const layer = Layer.mergeAll(
    Layer.succeed(Output, { out: write("out"), err: write("err"), errIsTerminal: true, size: () => size }),
    Layer.succeed(Diagnostics, {
      emit: (line) => sink(line),
      redirect: (taker) =>
        Effect.acquireRelease(Effect.sync(() => void (sink = taker)), () => Effect.sync(() => void (sink = () => {})))
    })
  )
  return { written, layer, emit: (line: string) => sink(line) }
}

describe("the state of a view", () => {
  it("tells what each agent does", () => {
    const state = emptyState()
    const does = (id: string) => doing(state, state.agents.get(id)!)
    for (const event of story.slice(0, 2)) advance(state, event)
    assert.strictEqual(does("top"), "thinking")
    advance(state, story[2]!)
    assert.strictEqual(does("top"), "delegate look here")
    for (const event of story.slice(3, 9)) advance(state, event)
    assert.strictEqual(does("top"), "waiting for 2 children")
    assert.strictEqual(does("src"), "waiting for a child")
    assert.strictEqual(does("日本語"), "writing")
    advance(state, story[9]!)
    assert.strictEqual(does("src"), "read_file src/\\u{1b}[31ma.ts and 1 more")
    assert.strictEqual(does("deep"), "done")
    advance(state, story[10]!)
    assert.strictEqual(does("src"), "read_file b.ts")
    advance(state, ended("src", "Failed"))
    assert.strictEqual(does("src"), "failed")
    // what comes late changes nothing
    advance(state, tool("src", "9", "read_file", {}))
    assert.strictEqual(does("src"), "failed")
    advance(state, agent("nobody", { _tag: "StepStarted", step: 1 }))
    advance(state, { _tag: "Ended", at: 2000, session: "top", outcome: outcome({ _tag: "Completed" }) })
    assert.strictEqual(does("top"), "done")
    assert.deepInclude(state.agents.get("top"), { steps: 2, tokens: 1500, endedAt: 2000 })
  })
})

describe("drawTree", () => {
  const state = emptyState()
  for (const event of story) advance(state, event)

  it("draws branches, activity and numbers in columns", () => {
    const lines = drawTree(state, { now: 2100, columns: 80, rows: 24, color: false, tick: 0 })
    assert.deepStrictEqual(lines.map((line) => line.replace(/ {2,}/g, "  ")), [
      "⠋ agent  waiting for 2 children  1 step  0 tokens  2.1 s",
      "├─ ⠋ src  read_file b.ts  0 steps  0 tokens  2.0 s",
      "│  └─ ✓ deep  done  3 steps  2.0M tokens  1.0 s",
      "└─ ⠋ 日本語  writing  0 steps  0 tokens  2.0 s"
    ])
  })

  it("fits any terminal", () => {
    for (let columns = 1; columns < 130; columns++) {
      for (const rows of [1, 2, 3, 4, 10]) {
        const lines = drawTree(state, { now: 2100, columns, rows, color: columns % 2 === 0, tick: 3 })
        assert.isAtMost(lines.length, Math.max(2, rows), `${columns}x${rows}`)
        for (const line of lines) {
          const shown = screen(Math.max(11, columns), 5)
          shown.write(`${line}`)
          assert.strictEqual(shown.cursor().row, 0, `${columns}x${rows}: ${line}`)
        }
      }
    }
  })

  it("keeps those that run in sight when there are too many", () => {
    const crowd = emptyState()
    advance(crowd, began)
    for (let i = 0; i < 50; i++) advance(crowd, started(`c${i}`))
    for (let i = 0; i < 45; i++) advance(crowd, ended(`c${i}`))
    const lines = drawTree(crowd, { now: 2000, columns: 80, rows: 10, color: false, tick: 0 })
    assert.strictEqual(lines.length, 10)
    for (const name of ["agent", "c45", "c46", "c47", "c48", "c49"]) assert.include(lines.join("\n"), name)
    assert.match(lines.at(-1)!, /… and 42 more/)
  })
})

describe("the live view", () => {
  it.effect("redraws in place, keeps diagnostics above, and gives the cursor back", () =>
    Effect.gen(function*() {
      const { emit, layer, written } = output({ columns: 60, rows: 12 })
      const terminal = screen(60, 12)
      const look = () => {
        terminal.write(written.err.replaceAll("\n", "\r\n"))
        written.err = ""
        return terminal.lines()
      }
      yield* Effect.gen(function*() {
        const view = yield* Live.make({ color: true })
        yield* view.show(began)
        yield* TestClock.adjust("100 millis")
        assert.isFalse((look(), terminal.cursorShown()))
        assert.match(look().join("\n"), /^model: offline[^]*session top[^]*agent {2}starting[^]*$/)
        for (const event of story.slice(1)) yield* view.show(event)
        emit("warning: careful\nsecond line")
        yield* TestClock.adjust("80 millis")
        const lines = look()
        assert.strictEqual(lines.filter((line) => line.includes("agent  ")).length, 1, lines.join("\n"))
        assert.isBelow(lines.indexOf("warning: careful"), lines.findIndex((line) => line.includes("agent  ")))
        for (let i = 0; i < 30; i++) {
          yield* TestClock.adjust("80 millis")
          assert.strictEqual(look().filter((line) => line.includes("src")).length, 1)
        }
        yield* view.show(ended("src"))
        yield* view.show({ _tag: "Ended", at: 2000, session: "top", outcome: outcome({ _tag: "Completed" }) })
      }).pipe(Effect.scoped, Effect.provide(layer))
      const lines = look()
      assert.isTrue(terminal.cursorShown())
      assert.strictEqual(lines.filter((line) => /✓ agent {2}done/.test(line)).length, 1)
      assert.strictEqual(lines.filter((line) => /✓ src {2}done/.test(line)).length, 1)
    }))

  it.effect("gives the cursor back when it is interrupted", () =>
    Effect.gen(function*() {
      const { layer, written } = output()
      const shown = yield* Deferred.make<void>()
      const fiber = yield* Effect.gen(function*() {
        const view = yield* Live.make({ color: false })
        yield* view.show(began)
        yield* Deferred.succeed(shown, undefined)
        return yield* Effect.never
      }).pipe(Effect.scoped, Effect.provide(layer), Effect.forkChild)
      yield* Deferred.await(shown)
      yield* Fiber.interrupt(fiber)
      assert.isAbove(written.err.lastIndexOf("\x1b[?25h"), written.err.lastIndexOf("\x1b[?25l"))
      // without colors there is nothing but moves
      for (const code of [0, 1, 2, 31, 32, 36]) assert.notInclude(written.err, `\x1b[${code}m`)
    }))

  it.effect("fails when its terminal is gone", () =>
    Effect.gen(function*() {
      const closed = { value: false }
      const { layer } = output(undefined, closed)
      yield* Effect.gen(function*() {
        const view = yield* Live.make({ color: false })
        const fiber = yield* Effect.forkChild(view.broken)
        closed.value = true
        yield* TestClock.adjust("1 second")
        assert.strictEqual((yield* Effect.flip(Fiber.join(fiber)))._tag, "OutputClosed")
      }).pipe(Effect.scoped, Effect.provide(layer))
    }))

  it("knows how many lines old lines take after the width has changed", () => {
    assert.strictEqual(Live.linesTaken(["a".repeat(50), "", "b"], 80), 3)
    assert.strictEqual(Live.linesTaken(["a".repeat(50), "", "b"], 20), 5)
  })
})

describe("the plain view", () => {
  it.effect("writes one line for each thing that happens", () =>
    Effect.gen(function*() {
      const { layer, written } = output()
      const view = yield* Effect.provide(Plain.make, layer)
      for (
        const event of [
          ...story,
          agent("src", { _tag: "StepRestarted", step: 1, reason: "too\nmany" }),
          ended("src"),
          { _tag: "Dropped", count: 3 } as const,
          { _tag: "Ended", at: 2000, session: "top", outcome: outcome({ _tag: "MaxTokens" }) } as const
        ]
      ) yield* view.show(event)
      assert.strictEqual(written.out, "")
      assert.deepStrictEqual(written.err.split("\n"), [
        "model: offline, a built-in deterministic program; no language model is asked (--model provider/name asks one)",
        "[agent] session top in /work, stored in /work/.subagents",
        "[agent] delegate look here",
        "[src] started by agent: session src",
        "[日本語] started by agent: session 日本語",
        "[src] read_file src/\\u{1b}[31ma.ts",
        "[src] read_file b.ts",
        "[deep] started by src: session deep",
        "[deep] done: 3 steps, 2.0M tokens, 1.0 s",
        "[src] read_file src/\\u{1b}[31ma.ts failed",
        "[src] asking again: too many",
        "[src] done: 3 steps, 2.0M tokens, 1.0 s",
        "(3 events were missed)",
        "[agent] max tokens: 2 steps, 1.5k tokens, 2.0 s",
        ""
      ])
    }))
})

describe("the JSON view", () => {
  it.effect("writes one object a line, and nothing twice", () =>
    Effect.gen(function*() {
      const { layer, written } = output()
      const view = yield* Effect.provide(Json.make, layer)
      yield* view.show(began)
      yield* view.show(tool("src", "1", "read_file", { path: "a\nb" }))
      yield* view.show(agent("top", { _tag: "ToolProgress", id: "1", name: "delegate", value: {} }))
      yield* view.show(ended("src"))
      yield* view.show({ _tag: "Ended", at: 9, session: "top", outcome: outcome({ _tag: "Completed" }) })
      assert.deepStrictEqual(written.out.split("\n").slice(0, -1).map((line) => JSON.parse(line)), [
        began,
        { _tag: "ToolStarted", id: "1", name: "read_file", params: { path: "a\nb" }, session: "src", at: 50 },
        {
          _tag: "RunEnded",
          at: 1100,
          ...run("src", "top", "src"),
          outcome: "Completed",
          text: "text",
          usage: usage(3, 2_000_000),
          released: true
        },
        {
          _tag: "Ended",
          session: "top",
          at: 9,
          cause: { _tag: "Completed" },
          text: "the report",
          usage: usage(2, 1500)
        }
      ])
      assert.strictEqual(written.err, "")
    }))
})

describe("text for a terminal", () => {
  it("holds nothing that steers it", () => {
    assert.strictEqual(printable("src"), "src")
    assert.strictEqual(printable("a b"), "a b")
    assert.strictEqual(printable(""), "\"\"")
    assert.strictEqual(printable(" a"), "\" a\"")
    assert.strictEqual(printable("a\nb\t\"c\\"), "\"a\\nb\\t\\\"c\\\\\"")
    assert.strictEqual(printable("\x1b[31m"), "\"\\u{1b}[31m\"")
    assert.strictEqual(printable("\u202eabc"), "\"\\u{202e}abc\"")
    assert.strictEqual(oneLine("a\n  b\x07"), "a b\\u{7}")
    assert.strictEqual(printableText("a\r\nb\tc\x1b[2J\u202e👩‍💻"), "a\nb\tc\\u{1b}[2J\\u{202e}👩‍💻")
    assert.strictEqual(fit("日本語", 4), "日…")
    assert.strictEqual(fit("日本語", 6), "日本語")
    assert.strictEqual(fit("abc", 0), "")
  })

  it("writes numbers for people", () => {
    assert.deepStrictEqual([0, 999, 1000, 999_949, 999_950, 12_345_678].map(short), [
      "0",
      "999",
      "1.0k",
      "999.9k",
      "1.0M",
      "12.3M"
    ])
    assert.deepStrictEqual([0, 59_900, 59_960, 61_000, -5].map(seconds), [
      "0.0 s",
      "59.9 s",
      "1 min 0 s",
      "1 min 1 s",
      "0.0 s"
    ])
  })
})

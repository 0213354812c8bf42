import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import * as Fs from "node:fs"
import { join } from "node:path"
import { leakCheck, tempDir } from "../utils/leaks.ts"
import { holder } from "../utils/sessionHolder.ts"
import { jsonLines, runHere } from "./utils/cli.ts"

leakCheck()

/** A store with the sessions of one survey over three folders. */
const survey = Effect.gen(function*() {
  const top = Fs.realpathSync(yield* tempDir)
  const store = join(top, "sessions")
  for (const name of ["a", "b", "c"]) {
    Fs.mkdirSync(join(top, "work", name), { recursive: true })
    Fs.writeFileSync(join(top, "work", name, "x.ts"), `export const ${name} = "${"long ".repeat(300)}"\n`)
  }
  const { code } = yield* runHere("run", "--cwd", join(top, "work"), "--store", store)
  assert.strictEqual(code, 0)
  const json = (...args: ReadonlyArray<string>) =>
    Effect.map(
      runHere(...args, "--store", store, "--json"),
      (outcome) => ({ ...outcome, lines: jsonLines(outcome.stdout) })
    )
  const plain = (...args: ReadonlyArray<string>) => runHere(...args, "--store", store)
  const { lines } = yield* json("list")
  const parent: string = lines.find(({ depth }) => depth === 0).id
  const children: ReadonlyArray<string> = lines.filter(({ depth }) => depth === 1).map(({ id }) => id)
  return { store, json, plain, parent, children, list: lines }
})

const snapshot = (directory: string) =>
  Fs.readdirSync(directory, { recursive: true, encoding: "utf8" }).toSorted().map((path) => {
    const info = Fs.statSync(join(directory, path))
    // a holder that lives says so by the time of its lock
    return [path, info.isFile() ? info.size : 0, path.endsWith(".lock") || path.includes(".holders") ? 0 : info.mtimeMs]
  })

describe("subagent list", () => {
  it.live("shows every session, oldest first", () =>
    Effect.gen(function*() {
      const { children, list, parent, plain } = yield* survey
      assert.strictEqual(list.length, 4)
      assert.strictEqual(children.length, 3)
      assert.deepStrictEqual(list.map(({ createdAt }) => createdAt), list.map(({ createdAt }) => createdAt).toSorted())
      assert.deepInclude(list.find(({ id }) => id === children[0]), {
        parent,
        origin: { kind: "subagent", provider: "spawn" }
      })
      const { code, stderr, stdout } = yield* plain("list")
      assert.deepStrictEqual([code, stderr], [0, ""])
      const [title, ...rows] = stdout.trimEnd().split("\n")
      assert.match(title!, /^SESSION +CREATED/)
      assert.deepStrictEqual(rows.map((row) => row.split(" ")[0]), list.map(({ id }) => id))
      assert.match(rows[0]!, /\d{4}-\d\d-\d\d \d\d:\d\d:\d\d {2}root/)
    }))

  it.live("shows a damaged session as a row that says so", () =>
    Effect.gen(function*() {
      const { children, json, plain, store } = yield* survey
      Fs.writeFileSync(join(store, children[1]!, "header.json"), "{")
      const { code, lines } = yield* json("list")
      assert.strictEqual(code, 0)
      assert.strictEqual(lines.length, 4)
      const damaged = lines.filter((line) => "damaged" in line)
      assert.deepStrictEqual(damaged.map(({ id }) => id), [children[1]])
      assert.match((yield* plain("list")).stdout, new RegExp(`^${children[1]} +damaged: `, "m"))
    }))

  it.live("looks at a store that is not there without making one", () =>
    Effect.gen(function*() {
      const store = join(yield* tempDir, "nothing")
      const list = yield* runHere("list", "--store", store)
      assert.deepStrictEqual([list.code, list.stdout], [0, ""])
      assert.include(list.stderr, store)
      for (const name of ["tree", "show"]) {
        const { code, stderr } = yield* runHere(name, "s1", "--store", store)
        assert.strictEqual(code, 1)
        assert.strictEqual(stderr, "subagent: no session \"s1\" is stored\n")
      }
      assert.isFalse(Fs.existsSync(store))
    }))

  it.live("changes nothing, and reads what another process holds", () =>
    Effect.gen(function*() {
      const { json, parent, plain, store } = yield* survey
      const owner = yield* holder({ directory: store, id: parent })
      assert.strictEqual(yield* owner.ask("open"), "ok")
      const before = snapshot(store)
      for (const args of [["list"], ["tree", parent], ["show", parent]]) {
        assert.strictEqual((yield* plain(...args)).code, 0)
        assert.strictEqual((yield* json(...args)).code, 0)
      }
      assert.deepStrictEqual(snapshot(store), before)
    }))
})

describe("subagent tree", () => {
  it.live("shows a session and all below it, with what came of them", () =>
    Effect.gen(function*() {
      const { children, json, parent, plain } = yield* survey
      const { code, lines } = yield* json("tree", parent)
      assert.strictEqual(code, 0)
      assert.deepStrictEqual(lines.map(({ id }) => id), [parent, ...children])
      for (const line of lines) {
        assert.deepInclude(line, { turns: 1, open: false, cause: { _tag: "Completed" } })
        assert.strictEqual(line.usage.steps, 3)
      }
      assert.deepStrictEqual((yield* json("tree", children[0]!)).lines.map(({ id }) => id), [children[0]])
      const rows = (yield* plain("tree", parent)).stdout.trimEnd().split("\n")
      assert.match(rows[0]!, new RegExp(`^${parent} .*\\(root\\) {2}done, 3 steps, [\\d.]+k? tokens, [\\d.]+ s$`))
      assert.match(rows[1]!, new RegExp(`^├─ ${children[0]} {2}[abc] \\(spawn\\) {2}done`))
      assert.match(rows[3]!, /^└─ /)
    }))

  it.live("shows what is damaged where it belongs, or last", () =>
    Effect.gen(function*() {
      const { children, json, parent, plain, store } = yield* survey
      const [one, two] = children as [string, string]
      const log = join(store, one, "0.jsonl")
      Fs.writeFileSync(log, Fs.readFileSync(log, "utf8").replace("\"TurnStarted\"", "\"TurnStarted"))
      Fs.writeFileSync(join(store, two, "header.json"), "nonsense")
      const { code, lines } = yield* json("tree", parent)
      assert.strictEqual(code, 0)
      assert.isString(lines.find(({ id }) => id === one).damaged)
      assert.isDefined(lines.find(({ id }) => id === one).parent)
      assert.deepStrictEqual(Object.keys(lines.at(-1)), ["id", "damaged"])
      assert.strictEqual(lines.at(-1).id, two)
      const { stdout } = yield* plain("tree", parent)
      assert.match(stdout, new RegExp(`─ ${one} .* damaged: `))
      assert.match(stdout, new RegExp(`^\\? {2}${two} {2}damaged: `, "m"))
      // the session that was asked for
      const asked = yield* json("tree", two)
      assert.strictEqual(asked.code, 1)
      assert.deepStrictEqual(asked.lines.map(({ id }) => id), [two])
      assert.match(asked.stderr, /is damaged/)
    }))

  it.live("ends where parents form a circle", () =>
    Effect.gen(function*() {
      const { children, json, parent, store } = yield* survey
      const path = join(store, parent, "header.json")
      Fs.writeFileSync(
        path,
        JSON.stringify({ ...JSON.parse(Fs.readFileSync(path, "utf8")), parent: children[0] }) + "\n"
      )
      assert.strictEqual((yield* json("tree", parent)).lines.length, 4)
    }))
})

describe("subagent show", () => {
  it.live("shows the conversation, cut, and all of it as JSON", () =>
    Effect.gen(function*() {
      const { children, json, parent, plain } = yield* survey
      const { lines } = yield* json("show", parent)
      assert.deepInclude(lines[0], { _tag: "Header", id: parent, depth: 0 })
      for (const [i, line] of lines.slice(1).entries()) assert.deepInclude(line, { id: parent, seq: i })
      assert.strictEqual(lines.at(-1)._tag, "TurnEnded")
      const { code, stdout } = yield* plain("show", children[0]!)
      assert.strictEqual(code, 0)
      for (
        const word of [
          `session ${children[0]}`,
          `below ${parent}`,
          "--- turn 0\n",
          "user:\n  Read every text file of the folder",
          "  call list_files {",
          "  result read_file {",
          "--json has all",
          "  call structured_output {",
          "--- turn 0 completed: 3 steps"
        ]
      ) assert.include(stdout, word)
      for (const line of stdout.split("\n")) assert.isBelow(line.length, 1000)
    }))

  it.live("shows a damaged session as far as it can be read, and fails", () =>
    Effect.gen(function*() {
      const { json, parent, plain, store } = yield* survey
      const log = join(store, parent, "0.jsonl")
      Fs.writeFileSync(log, Fs.readFileSync(log, "utf8").replace("\"TurnEnded\"", "\"TurnEnded"))
      const shown = yield* json("show", parent)
      assert.strictEqual(shown.code, 1)
      assert.match(shown.stderr, /^subagent: session \S+ is damaged: .*0\.jsonl/)
      assert.deepStrictEqual(Object.keys(shown.lines.at(-1)), ["id", "damaged"])
      assert.isAbove(shown.lines.length, 3)
      const text = yield* plain("show", parent)
      assert.strictEqual(text.code, 1)
      assert.include(text.stdout, "--- turn 0\n")
      const missing = yield* plain("show", "nobody")
      assert.deepStrictEqual([missing.code, missing.stdout], [1, ""])
    }))
})

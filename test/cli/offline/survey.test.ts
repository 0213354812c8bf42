import { assert, describe, it } from "@effect/vitest"
import { Effect, Stream } from "effect"
import { Prompt } from "effect/ai"
import * as Fs from "node:fs"
import { join } from "node:path"
import { folderOf, folderPrompt, FolderReport } from "../../../src/cli/offline/folder.ts"
import { plan } from "../../../src/cli/offline/model.ts"
import { defaultPrompt, ignoredNames } from "../../../src/cli/offline/survey.ts"
import { printable } from "../../../src/cli/view/text.ts"
import * as FileSessionStore from "../../../src/layers/FileSessionStore.ts"
import * as Session from "../../../src/Session.ts"
import { SessionStore } from "../../../src/SessionStore.ts"
import { leakCheck, tempDir } from "../../utils/leaks.ts"
import { runHere } from "../utils/cli.ts"
import { type Counted, countTree, plant } from "../utils/trees.ts"

leakCheck()

const many = (n: number, what: string) => `${n} ${what}${n === 1 ? "" : "s"}`

/** The paragraph of one folder, as the report should have it. */
const paragraph = (rank: number, { binary, bytes, exports, files, lines, name }: Counted): ReadonlyArray<string> => {
  const names = Array.from(exports.values()).flat().length
  return [
    `${rank}. ${printable(name)}: ${many(files, "text file")}, ${many(lines, "line")}, ${many(bytes, "byte")}` +
    (binary === 0 ? "" : `, ${many(binary, "binary file")}`),
    ...(names === 0 ? ["   No exported names."] : [
      `   ${many(names, "exported name")} in ${many(exports.size, "file")}:`,
      ...Array.from(exports).map(([path, all]) => `   - ${printable(path)}: ${all.map(printable).join(", ")}`)
        .toSorted()
    ])
  ]
}

/** The report's paragraphs about folders; lists of files sorted, since only what is in them counts. */
const paragraphs = (report: string): ReadonlyArray<ReadonlyArray<string>> =>
  report.split("\n\n").filter((block) => /^\d+\. /.test(block)).map((block) => {
    const lines = block.split("\n").filter((line) => !line.startsWith("   Not counted: "))
    return lines.filter((line) => !line.startsWith("   - "))
      .concat(lines.filter((line) => line.startsWith("   - ")).toSorted())
  })

const sessionsIn = (directory: string) =>
  Effect.gen(function*() {
    const store = yield* SessionStore
    const entries = yield* Stream.runCollect(store.list)
    return yield* Effect.forEach(entries, (entry) =>
      Effect.gen(function*() {
        if (entry._tag === "Damaged") return assert.fail(entry.what)
        const events = yield* Stream.runCollect(store.read(entry.header.id))
        assert.deepStrictEqual(Session.validate(entry.header, events), [])
        return { header: entry.header, events }
      }))
  }).pipe(Effect.provide(FileSessionStore.layerNode({ directory })))

describe("the survey of the offline model", () => {
  for (let block = 0; block < 5; block++) {
    it.live(`is right for the trees of seeds ${block * 10} to ${block * 10 + 9}`, () =>
      Effect.gen(function*() {
        for (let seed = block * 10; seed < block * 10 + 10; seed++) {
          yield* Effect.scoped(Effect.gen(function*() {
            const top = Fs.realpathSync(yield* tempDir)
            const root = join(top, "work")
            const outside = join(top, "outside")
            Fs.mkdirSync(root)
            Fs.mkdirSync(outside)
            Fs.writeFileSync(join(outside, "secret.ts"), "export const secret = 1\n")
            const counted = countTree(root, plant(root, seed, outside))
            const chosen = counted.slice(0, 3)
            // sometimes the sessions are written into what is read
            const store = join(seed % 2 === 0 ? root : top, ".subagents")
            const { code, stderr, stdout } = yield* runHere("run", "--cwd", root, "--store", store)
            assert.strictEqual(code, 0, stderr)
            assert.deepStrictEqual(
              paragraphs(stdout),
              chosen.map((folder, i) => paragraph(i + 1, folder)),
              `seed ${seed}\n${stdout}`
            )
            if (chosen.length === 0) assert.include(stdout, "There is no source folder here")
            assert.notInclude(stdout, "secret")
            assert.notInclude(stdout, "\x1b")
            for (const smaller of counted.slice(3)) {
              assert.include(stdout, `${printable(smaller.name)} (${many(smaller.bytes, "byte")})`)
            }

            const sessions = yield* sessionsIn(store)
            assert.strictEqual(sessions.length, 1 + chosen.length, `seed ${seed}`)
            const parent = sessions.find(({ header }) => header.depth === 0)!
            for (const { events, header } of sessions) {
              assert.strictEqual(events.at(-1)?._tag, "TurnEnded")
              if (header.depth > 0) assert.strictEqual(header.parent, parent.header.id)
            }
            // all children in one response
            const delegations = parent.events.flatMap((event) =>
              event._tag === "MessageAppended" && event.message.role === "assistant"
                ? [event.message.content.filter((part) => part.type === "tool-call" && part.name === "delegate").length]
                : []
            ).filter((n) => n > 0)
            assert.deepStrictEqual(delegations, chosen.length === 0 ? [] : [chosen.length])
          }))
        }
      }), 60_000)
  }

  it.live("covers none, one, several and many folders, links and binary files", () =>
    Effect.gen(function*() {
      const seen = { none: 0, one: 0, fewer: 0, more: 0, binary: 0, exports: 0, ignored: 0 }
      for (let seed = 0; seed < 50; seed++) {
        yield* Effect.scoped(Effect.gen(function*() {
          const root = yield* tempDir
          const counted = countTree(root, plant(root, seed, root))
          if (counted.length === 0) seen.none++
          else if (counted.length === 1) seen.one++
          else if (counted.length <= 3) seen.fewer++
          else seen.more++
          if (counted.some(({ binary }) => binary > 0)) seen.binary++
          if (counted.some(({ exports }) => exports.size > 0)) seen.exports++
          if (Fs.existsSync(join(root, ".gitignore"))) seen.ignored++
        }))
      }
      for (const [what, times] of Object.entries(seen)) assert.isAtLeast(times, 3, what)
    }))

  it.live("reports what it could not delegate, and still ends", () =>
    Effect.gen(function*() {
      const root = yield* tempDir
      Fs.mkdirSync(join(root, "src"))
      Fs.writeFileSync(join(root, "src/a.ts"), "export const a = 1\n")
      const { code, stdout } = yield* runHere("run", "--cwd", root, "--store", join(root, "s"), "--max-depth", "0")
      assert.strictEqual(code, 0)
      assert.match(stdout, /1\. src: not read: the agent could not be started: .*depth/i)
    }))
})

const request = (prompt: Prompt.RawInput, ...tools: ReadonlyArray<string>) => ({
  prompt: Prompt.make(prompt),
  tools: tools.map((name) => ({ name })) as never
})

describe("the offline model", () => {
  it("says what it is to any other prompt, and delegates nothing", () => {
    for (const text of ["Fix the bug", "", `${defaultPrompt} And then?`, folderPrompt("src")]) {
      const { calls, text: said } = plan(request(text, "delegate", "list_files", "read_file"))
      assert.deepStrictEqual(calls, [], text)
      assert.include(said, "not a language model")
      assert.include(said, "--model")
    }
    // without its tools it cannot do what it can do either
    assert.deepStrictEqual(plan(request(defaultPrompt, "list_files", "read_file")).calls, [])
  })

  it("gives the same answer to the same request", () => {
    const one = request(defaultPrompt, "delegate", "list_files", "read_file")
    assert.deepStrictEqual(plan(one), plan(one))
    assert.deepStrictEqual(plan(one).calls, [
      { name: "list_files", params: { path: ".", recursive: true, limit: 5000 } }
    ])
  })

  it("finds the folder of a task in its words, whatever it is called", () => {
    for (const name of ["src", "a \"b\"", "x\ny", "with your tools, at any depth.", "🙂", "\\"]) {
      assert.strictEqual(folderOf(folderPrompt(name)), name)
    }
    assert.isUndefined(folderOf("Read every text file of the folder src with your tools"))
  })

  it("takes plain names from .gitignore and nothing else", () => {
    const text = "dist\n/build/\ncoverage/\n*.log\n!keep\n# comment\nsrc/generated\n\n  \nfoo?\na b\n[x]\nlast\r\n"
    assert.deepStrictEqual(Array.from(ignoredNames(text)), ["dist", "build", "coverage", "a b", "last"])
  })

  it("reports by a schema with an object at its root", () => {
    assert.hasAllKeys(FolderReport.fields, ["folder", "files", "lines", "bytes", "binary", "exports", "left"])
  })
})

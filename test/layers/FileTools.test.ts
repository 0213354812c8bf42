import { NodeFileSystem, NodePath } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { Tool } from "effect/ai"
import { execFileSync } from "node:child_process"
import * as Fs from "node:fs"
import { dirname, join } from "node:path"
import * as FileTools from "../../src/layers/FileTools.ts"
import { callTool } from "../cli/utils/agent.ts"
import { leakCheck, tempDir } from "../utils/leaks.ts"

leakCheck()

const platform = Layer.merge(NodeFileSystem.layer, NodePath.layer)

const put = (root: string, files: Readonly<Record<string, string | Uint8Array>>) => {
  for (const [path, content] of Object.entries(files)) {
    Fs.mkdirSync(dirname(join(root, path)), { recursive: true })
    Fs.writeFileSync(join(root, path), content)
  }
}

/** A directory with these files, and the tools over it. */
const tree = Effect.fnUntraced(function*(
  files: Readonly<Record<string, string | Uint8Array>>,
  skip: ReadonlyArray<string> = []
) {
  const top = Fs.realpathSync(yield* tempDir)
  const root = join(top, "work")
  Fs.mkdirSync(root)
  put(root, files)
  const layer = FileTools.layer({ skip: skip.map((path) => ({ path: join(root, path), why: "because" })) })
  const kit = yield* Effect.provide(FileTools.toolkit, Layer.provide(layer, platform))
  const call = (name: string, params: unknown, cwd = root) => callTool(kit, cwd, name, params)
  const refused = (name: string, params: unknown, reason: string) =>
    Effect.map(call(name, params), ({ isFailure, result }) => {
      assert.isTrue(isFailure, JSON.stringify(result))
      assert.strictEqual(result.reason, reason, JSON.stringify(result))
      return result
    })
  const fine = (name: string, params: unknown) =>
    Effect.map(call(name, params), ({ isFailure, result }) => {
      assert.isFalse(isFailure, JSON.stringify(result))
      return result
    })
  return { top, root, call, refused, fine }
})

const paths = (listing: { readonly entries: ReadonlyArray<{ readonly path: string }> }) =>
  listing.entries.map(({ path }) => path)

describe("the fence", () => {
  const everyTool = [
    ["list_files", {}],
    ["read_file", {}],
    ["search_text", { text: "secret" }]
  ] as const

  it.live("refuses whatever leaves the working directory", () =>
    Effect.gen(function*() {
      const { refused, root, top } = yield* tree({ "in/a.txt": "a" })
      put(top, { "secret.txt": "secret", "work2/b.txt": "secret" })
      Fs.symlinkSync(join(top, "secret.txt"), join(root, "link.txt"))
      Fs.symlinkSync(top, join(root, "in/up"))
      Fs.symlinkSync("../../secret.txt", join(root, "in/relative"))
      Fs.symlinkSync("up/secret.txt", join(root, "in/chain"))
      const outside = [
        "..",
        "../secret.txt",
        "in/../../secret.txt",
        join(top, "secret.txt"),
        "/",
        "/etc/passwd",
        "/does/not/exist",
        "../does-not-exist",
        // begins with the letters of the working directory
        "../work2/b.txt",
        `${root}2/b.txt`,
        "link.txt",
        "in/up",
        "in/up/secret.txt",
        "in/up/work/../secret.txt",
        "in/relative",
        "in/chain"
      ]
      for (const path of outside) {
        for (const [name, params] of everyTool) {
          const result = yield* refused(name, { ...params, path }, "outside")
          assert.strictEqual(result._tag, "FileRefused")
          assert.notInclude(result.issue, top)
        }
      }
    }))

  it.live("lets every way in that stays inside", () =>
    Effect.gen(function*() {
      const { call, fine, root, top } = yield* tree({ "in/a.txt": "text", "b.txt": "text" })
      Fs.symlinkSync("in", join(root, "dir"))
      Fs.symlinkSync(join(root, "b.txt"), join(root, "file"))
      Fs.symlinkSync(root, join(top, "alias"))
      for (const path of ["in/a.txt", "./in//a.txt", "in/../in/a.txt", join(root, "in/a.txt"), "dir/a.txt"]) {
        assert.deepInclude(yield* fine("read_file", { path }), { path: "in/a.txt", text: "text" })
      }
      assert.deepInclude(yield* fine("read_file", { path: "file" }), { path: "b.txt", text: "text" })
      assert.deepInclude(yield* fine("read_file", { path: "../work/b.txt" }), { path: "b.txt" })
      // a working directory that is a link itself
      for (const path of ["b.txt", join(top, "alias/b.txt"), join(root, "b.txt")]) {
        assert.isFalse((yield* call("read_file", { path }, join(top, "alias"))).isFailure, path)
      }
    }))

  it.live("never opens what is no file", () =>
    Effect.gen(function*() {
      const { fine, refused, root } = yield* tree({ "a.txt": "a" })
      execFileSync("mkfifo", [join(root, "pipe")])
      Fs.symlinkSync("pipe", join(root, "to-pipe"))
      yield* refused("read_file", { path: "pipe" }, "special")
      yield* refused("read_file", { path: "to-pipe" }, "special")
      yield* refused("read_file", { path: "." }, "not-a-file")
      yield* refused("list_files", { path: "a.txt" }, "not-a-directory")
      yield* refused("list_files", { path: "nothing" }, "missing")
      yield* refused("read_file", { path: "a.txt/b" }, "missing")
      yield* refused("read_file", { path: "a\0b" }, "unreadable")
      const { entries } = yield* fine("list_files", {})
      assert.deepStrictEqual(entries, [
        { path: "a.txt", type: "file", bytes: 1, content: "text" },
        { path: "pipe", type: "special" },
        { path: "to-pipe", type: "link", to: "special" }
      ])
      assert.deepInclude(yield* fine("search_text", { text: "a" }), { searched: 1, binary: 0 })
      const { result } = yield* Effect.map(fine("search_text", { text: "a", path: "pipe" }), (result) => ({ result }))
      assert.deepStrictEqual(result.matches, [])
      assert.deepStrictEqual(result.skipped, [{ path: "pipe", why: "it cannot be read" }])
    }))
})

describe("list_files", () => {
  it.live("lists one directory sorted, with sizes and kinds", () =>
    Effect.gen(function*() {
      const { fine, root } = yield* tree({
        "b.txt": "12345",
        "a/x.txt": "",
        "B.bin": new Uint8Array([65, 0, 66]),
        "é.txt": "é"
      })
      Fs.symlinkSync("nowhere", join(root, "broken"))
      Fs.symlinkSync("a", join(root, "dir"))
      Fs.symlinkSync("b.txt", join(root, "file"))
      Fs.symlinkSync("..", join(root, "out"))
      Fs.symlinkSync("loop", join(root, "loop"))
      assert.deepStrictEqual(yield* fine("list_files", {}), {
        path: ".",
        entries: [
          { path: "B.bin", type: "file", bytes: 3, content: "binary" },
          { path: "a", type: "directory" },
          { path: "b.txt", type: "file", bytes: 5, content: "text" },
          { path: "broken", type: "link", to: "broken" },
          { path: "dir", type: "link", to: "directory" },
          { path: "file", type: "link", to: "file" },
          { path: "loop", type: "link", to: "broken" },
          { path: "out", type: "link", to: "outside" },
          { path: "é.txt", type: "file", bytes: 2, content: "text" }
        ],
        skipped: []
      })
      assert.deepStrictEqual(paths(yield* fine("list_files", { path: "a" })), ["a/x.txt"])
      assert.deepStrictEqual(paths(yield* fine("list_files", { path: "dir" })), ["a/x.txt"])
    }))

  it.live("goes down on request, follows no link, and says what it left out", () =>
    Effect.gen(function*() {
      const { fine, root } = yield* tree({
        "a/b/c.txt": "c",
        "a/d.txt": "d",
        "a/node_modules/x/y.js": "y",
        "a-b.txt": "",
        ".git/HEAD": "ref",
        ".hidden/e.txt": "e",
        "node_modules/z/z.js": "z",
        "sessions/s.jsonl": "{}",
        "z/node_modules": "a file of that name"
      }, ["sessions"])
      Fs.symlinkSync("../..", join(root, "a/b/up"))
      const listing = yield* fine("list_files", { recursive: true })
      assert.deepStrictEqual(paths(listing), [
        ".hidden",
        ".hidden/e.txt",
        "a",
        "a/b",
        "a/b/c.txt",
        "a/b/up",
        "a/d.txt",
        "a-b.txt",
        "z",
        "z/node_modules"
      ])
      assert.deepStrictEqual(
        listing.skipped.map(({ path, why }: { path: string; why: string }) => [path, why.split(" ")[0]]),
        [[".git", "left"], ["a/node_modules", "left"], ["node_modules", "left"], ["sessions", "because"]]
      )
      // asked for by its own path, or without going down, nothing is left out
      assert.deepStrictEqual(paths(yield* fine("list_files", { path: "node_modules", recursive: true })), [
        "node_modules/z",
        "node_modules/z/z.js"
      ])
      assert.include(paths(yield* fine("list_files", {})), "node_modules")
    }))

  it.live("gives pages that together are the whole, each left-out path once", () =>
    Effect.gen(function*() {
      const files: Record<string, string> = {}
      for (let i = 0; i < 23; i++) files[`${i % 5}/${i}.txt`] = String(i)
      for (const at of ["0", "2", "4", "9"]) files[`${at}/node_modules/x.js`] = "x"
      const { fine } = yield* tree(files)
      const whole = yield* fine("list_files", { recursive: true })
      assert.isUndefined(whole.next)
      assert.strictEqual(whole.skipped.length, 4)
      for (const limit of [1, 2, 7, 28, 29, 30]) {
        const entries: Array<unknown> = []
        const skipped: Array<unknown> = []
        let offset: number | undefined = 0
        while (offset !== undefined) {
          const page: any = yield* fine("list_files", { recursive: true, limit, offset })
          assert.isAtMost(page.entries.length, limit)
          entries.push(...page.entries)
          skipped.push(...page.skipped)
          offset = page.next
        }
        assert.deepStrictEqual(entries, whole.entries, `limit ${limit}`)
        assert.deepStrictEqual(skipped, whole.skipped, `limit ${limit}`)
      }
      assert.deepStrictEqual((yield* fine("list_files", { recursive: true, offset: 1000 })).entries, [])
    }))

  it.live("bounds a page by default", () =>
    Effect.gen(function*() {
      const files: Record<string, string> = {}
      for (let i = 0; i < 501; i++) files[`${i}.txt`] = ""
      const { fine } = yield* tree(files)
      const page = yield* fine("list_files", {})
      assert.strictEqual(page.entries.length, 500)
      assert.strictEqual(page.next, 500)
    }))

  it.live("takes every name that the system has", () =>
    Effect.gen(function*() {
      const names = [
        "a b",
        "-dash",
        "tab\t",
        "new\nline",
        "quote\"'",
        "日本",
        "🙂",
        "back\\slash",
        "[x]*?",
        "%41",
        "..",
        "...",
        "#"
      ]
        .filter((name) => name !== "..")
      const { fine, root } = yield* tree(Object.fromEntries(names.map((name) => [`${name}/${name}`, name])))
      const listing = yield* fine("list_files", { recursive: true })
      assert.deepStrictEqual(paths(listing), names.toSorted().flatMap((name) => [name, `${name}/${name}`]))
      for (const name of names) {
        assert.deepInclude(yield* fine("read_file", { path: `${name}/${name}` }), { text: name })
      }
      // a name that is not UTF-8 cannot be asked for: it is said to be there all the same
      Fs.writeFileSync(Buffer.concat([Buffer.from(`${root}/#/`), Buffer.from([0xff, 0xfe])]), "x")
      const odd = yield* fine("list_files", { path: "#" })
      assert.deepStrictEqual(paths(odd), ["#/#"])
      assert.strictEqual(odd.skipped.length, 1)
    }))
})

describe("read_file", () => {
  it.live("reads text in parts that join to the whole", () =>
    Effect.gen(function*() {
      const texts: Readonly<Record<string, string>> = {
        "lines.txt": Array.from({ length: 600 }, (_, i) => `line ${i} ${"é".repeat(i % 60)}`).join("\n"),
        "one-line.txt": "日本🙂é".repeat(6000),
        "short-line.txt": "日本🙂é".repeat(100),
        "crlf.txt": "a\r\nb\r\n",
        "bom.txt": "\ufeffa",
        "empty.txt": "",
        "newline.txt": "\n"
      }
      const { fine } = yield* tree(texts)
      for (const [path, text] of Object.entries(texts)) {
        for (const limit of [16, 100, 65_536, undefined]) {
          if (limit !== undefined && limit < 1000 && path === "one-line.txt") continue
          let joined = ""
          let offset: number | undefined = 0
          while (offset !== undefined) {
            const part: any = yield* fine("read_file", { path, offset, ...(limit === undefined ? {} : { limit }) })
            assert.strictEqual(part.bytes, Buffer.byteLength(text))
            assert.strictEqual(part.offset, offset)
            assert.isAtMost(Buffer.byteLength(part.text), limit ?? 65_536)
            if (part.next !== undefined) assert.isAbove(part.next, offset)
            joined += part.text
            offset = part.next
          }
          assert.isTrue(joined === text, `${path} by ${limit}`)
        }
      }
      assert.deepInclude(yield* fine("read_file", { path: "crlf.txt", offset: 100 }), { text: "", bytes: 6 })
    }), 60_000)

  it.live("gets through bytes that are no UTF-8", () =>
    Effect.gen(function*() {
      const bytes = Uint8Array.from({ length: 5000 }, (_, i) => 128 + i % 127)
      const { fine } = yield* tree({ "latin.txt": bytes })
      let offset: number | undefined = 0
      let parts = 0
      while (offset !== undefined) {
        const part: any = yield* fine("read_file", { path: "latin.txt", offset, limit: 16 })
        if (part.next !== undefined) assert.isAtLeast(part.next, offset + 13)
        offset = part.next
        parts++
      }
      assert.isAbove(parts, 300)
    }))

  it.live("says that a file is binary, also further in", () =>
    Effect.gen(function*() {
      const late = Buffer.concat([Buffer.from("a".repeat(7999)), Buffer.from([0])])
      const later = Buffer.concat([Buffer.from("a".repeat(8000)), Buffer.from([0])])
      const { fine, refused } = yield* tree({ "late.bin": late, "later.txt": later })
      const result = yield* refused("read_file", { path: "late.bin" }, "binary")
      assert.include(result.issue, "8000 bytes")
      yield* refused("read_file", { path: "late.bin", offset: 100, limit: 16 }, "binary")
      assert.strictEqual((yield* fine("read_file", { path: "later.txt" })).text.length, 8001)
    }))

  it.live("refuses arguments that it does not take", () =>
    Effect.gen(function*() {
      const { call } = yield* tree({ "a.txt": "a" })
      for (
        const params of [{}, { path: "a.txt", offset: -1 }, { path: "a.txt", limit: 15 }, {
          path: "a.txt",
          limit: 2 ** 30
        }, { path: 1 }]
      ) {
        const { isFailure, result } = yield* call("read_file", params)
        assert.isTrue(isFailure, JSON.stringify(params))
        assert.strictEqual(result._tag, "AiError", JSON.stringify(params))
      }
    }))
})

describe("search_text", () => {
  it.live("finds lines with their number and place", () =>
    Effect.gen(function*() {
      const { fine } = yield* tree({
        "a.txt": "one\ntwo needle é\r\n\nneedle needle\nlast needle",
        "b/c.txt": "é\nNeedle",
        "d.bin": new Uint8Array([...Buffer.from("needle"), 0]),
        "node_modules/e.txt": "needle",
        "f.txt": Buffer.concat([Buffer.from([0xff, 0xc3]), Buffer.from("\nneedle")])
      })
      const found = yield* fine("search_text", { text: "needle" })
      assert.deepStrictEqual(found.matches, [
        { path: "a.txt", line: 2, offset: 4, text: "two needle é" },
        { path: "a.txt", line: 4, offset: 20, text: "needle needle" },
        { path: "a.txt", line: 5, offset: 34, text: "last needle" },
        { path: "f.txt", line: 2, offset: 3, text: "needle" }
      ])
      assert.strictEqual(found.searched, 3)
      assert.strictEqual(found.binary, 1)
      assert.deepStrictEqual(found.skipped.map(({ path }: { path: string }) => path), ["node_modules"])
      // what it says is an offset that read_file takes
      assert.deepInclude(yield* fine("read_file", { path: "a.txt", offset: 20 }), {
        text: "needle needle\nlast needle"
      })
      const insensitive = yield* fine("search_text", { text: "NEEDLE", ignoreCase: true, path: "b" })
      assert.deepStrictEqual(insensitive.matches, [{ path: "b/c.txt", line: 2, offset: 3, text: "Needle" }])
      assert.deepStrictEqual((yield* fine("search_text", { text: "needle", path: "a.txt" })).matches.length, 3)
    }))

  it.live("takes the text literally and shows long lines cut", () =>
    Effect.gen(function*() {
      const { call, fine } = yield* tree({ "a.txt": `a.b\naxb\n${"(a+)+".repeat(1000)}` })
      assert.deepStrictEqual((yield* fine("search_text", { text: "a.b" })).matches.length, 1)
      const [match] = (yield* fine("search_text", { text: "(a+)+" })).matches
      assert.isAtMost(match.text.length, 340)
      assert.include(match.text, "5000 characters")
      assert.isTrue((yield* call("search_text", { text: "" })).isFailure)
      assert.isTrue((yield* call("search_text", { text: "a\nb" })).isFailure)
    }))

  it.live("gives pages, and leaves out files that are too large", () =>
    Effect.gen(function*() {
      const { fine, root } = yield* tree({ "a.txt": "x\n".repeat(150), "b.txt": "x\n".repeat(20) })
      Fs.truncateSync(join(root, "a.txt"), 300)
      Fs.writeFileSync(join(root, "c.txt"), "x\n")
      Fs.truncateSync(join(root, "c.txt"), 16 * 2 ** 20 + 1)
      const first = yield* fine("search_text", { text: "x" })
      assert.strictEqual(first.matches.length, 100)
      assert.strictEqual(first.next, 100)
      const second = yield* fine("search_text", { text: "x", offset: 100 })
      assert.strictEqual(second.matches.length, 70)
      assert.isUndefined(second.next)
      assert.deepStrictEqual(second.skipped.map(({ path }: { path: string }) => path), ["c.txt"])
      assert.isUndefined((yield* fine("search_text", { text: "x", limit: 170 })).next)
    }))
})

describe("the tools", () => {
  it("say their bounds, and that they only read", () => {
    const { list_files, read_file, search_text } = FileTools.toolkit.tools
    for (const bound of ["500", "5000", "node_modules", "offset"]) assert.include(list_files.description, bound)
    for (const bound of ["65536", "262144", "offset", "binary"]) assert.include(read_file.description, bound)
    for (const bound of ["100", "1000", "300", "16777216", "20000"]) assert.include(search_text.description, bound)
    for (const tool of [list_files, read_file, search_text]) {
      const schema = Tool.getJsonSchema(tool) as { readonly type: string; readonly properties: object }
      assert.strictEqual(schema.type, "object")
      for (const [name, property] of Object.entries(schema.properties)) {
        assert.match(JSON.stringify(property), /"description":/, `${tool.name}.${name}`)
      }
    }
  })
})

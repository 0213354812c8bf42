/** Makes trees of files by a seed, and counts them without any of the code under test. */
import { execFileSync } from "node:child_process"
import * as Fs from "node:fs"
import { join } from "node:path"

/** Mulberry32: small, and the same everywhere. */
const random = (seed: number) => {
  let state = seed >>> 0
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0
    let t = state
    t = Math.imul(t ^ (t >>> 15), t | 1)
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61)
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32
  }
  const below = (n: number) => Math.floor(next() * n)
  const pick = <A>(all: ReadonlyArray<A>): A => all[below(all.length)]!
  return { below, pick, chance: (p: number) => next() < p }
}

const folderNames = [
  "src",
  "lib",
  "test",
  "a b",
  "-dash",
  "tab\there",
  "new\nline",
  "quote\"s",
  "apos'trophe",
  "日本語",
  "🙂",
  "back\\slash",
  "[x]*?{y}",
  "%41",
  "..dots",
  ".hidden",
  " lead",
  "trail ",
  "comma, and",
  "constructor",
  "__proto__",
  "\u001b[31mred",
  "node_modules",
  ".git"
]

const fileNames = ["index", "a", "b c", "é", "x\"y", "1", "toString", "-n", "line\nbreak"]

/** Text with a known list of exported names. */
const script = (r: ReturnType<typeof random>): { readonly text: string; readonly names: ReadonlyArray<string> } => {
  const names: Array<string> = []
  const fresh = () => {
    const name = `${r.pick(["alpha", "beta", "$gamma", "_delta", "épsilon"])}${names.length}`
    names.push(name)
    return name
  }
  const lines: Array<string> = []
  const count = r.below(6)
  for (let i = 0; i < count; i++) {
    switch (r.below(12)) {
      case 0:
        lines.push(`export const ${fresh()} = { a: 1, b: [2, 3] }, ${fresh()} = "x, y"`)
        break
      case 1:
        lines.push(`export function ${fresh()}(a, b) { return a < b }`)
        break
      case 2:
        lines.push(`export class ${fresh()} {}`)
        break
      case 3:
        lines.push(`const inner${i} = 1`, `export { inner${i} as ${fresh()}, inner${i} as ${fresh()} }`)
        break
      case 4:
        lines.push(`export type { X as ${fresh()} } from "./x.ts"`, "export * from \"./y.ts\"")
        break
      case 5:
        lines.push(`export interface ${fresh()} { export: string }`)
        break
      case 6:
        lines.push(`export const { p: ${fresh()}, ...${fresh()} } = q`)
        break
      case 7:
        lines.push(
          "// export const no1 = 1",
          "/*",
          "export const no2 = 2",
          "*/",
          "const t = `",
          "export const no3 = 3",
          "`"
        )
        break
      case 8:
        lines.push(`export async function* ${fresh()}() {}`, "const re = /export const no4 = '/")
        break
      case 9:
        if (!names.includes("default")) {
          names.push("default")
          lines.push("export default class Nameless {}")
        }
        break
      case 10:
        lines.push(`export enum ${fresh()} { A }`, `export namespace ${fresh()} { export const no5 = 1 }`)
        break
      default:
        lines.push(`const s = "export const no6 = 1"`)
    }
  }
  const text = lines.join(r.pick(["\n", "\n\n", "\r\n"]))
  return { text: lines.length > 0 && r.chance(0.5) ? `${text}\n` : text, names }
}

/** What is put into a file: its bytes, and the names that it exports if it is a script. */
const content = (r: ReturnType<typeof random>, isScript: boolean) => {
  const kind = r.below(10)
  if (kind === 0) return { bytes: Buffer.alloc(0), names: [] }
  if (kind === 1) return { bytes: Buffer.concat([Buffer.from("\x7fELF"), Buffer.alloc(r.below(300) + 1)]), names: [] }
  // its first NUL comes too late to be seen
  if (kind === 2) {
    return { bytes: Buffer.concat([Buffer.from("x".repeat(7999 + r.below(3)) + "\n"), Buffer.from([0])]), names: [] }
  }
  if (kind === 3) return { bytes: Buffer.from([0xc3, 0x28, 0x0a, 0xff, 0xfe, 0x0a, 0x80]), names: [] }
  if (kind === 4 && r.chance(0.3)) {
    return { bytes: Buffer.from(r.pick(["日本🙂\n", "é", "🙂🙂"]).repeat(60_000)), names: [] }
  }
  if (isScript) {
    const { names, text } = script(r)
    return { bytes: Buffer.from(text), names }
  }
  return { bytes: Buffer.from(Array.from({ length: r.below(40) }, (_, i) => `line ${i}`).join("\n")), names: [] }
}

/** Names of exports by path, for what was put into scripts. */
export type Exports = Map<string, ReadonlyArray<string>>

/** Makes the tree of a seed in an empty directory. Some are of a kind: see the first lines. */
export const plant = (root: string, seed: number, outside: string): Exports => {
  const r = random(seed * 7919 + 1)
  const exports: Exports = new Map()
  const file = (directory: string) => {
    const extension = r.pick([".ts", ".ts", ".js", ".mjs", ".tsx", ".txt", ".md", "", ".bin"])
    const isScript = /\.[mc]?[jt]sx?$/.test(extension)
    const path = join(directory, r.pick(fileNames) + extension)
    const { bytes, names } = content(r, isScript)
    if (Fs.existsSync(path)) return
    Fs.writeFileSync(path, bytes)
    exports.set(path, isScript && !bytes.subarray(0, 8000).includes(0) ? names : [])
  }
  const folder = (parent: string, depth: number) => {
    const path = join(parent, r.pick(folderNames))
    Fs.mkdirSync(path, { recursive: true })
    const files = r.below(6)
    for (let i = 0; i < files; i++) file(path)
    if (depth < 4 && r.chance(0.4)) folder(path, depth + 1)
  }
  const link = (directory: string) => {
    const path = join(directory, `link${r.below(1000)}`)
    const target = r.pick([outside, join(outside, "secret.ts"), root, "nowhere", "..", ".", path, join(root, "src")])
    if (!Fs.existsSync(path) && Fs.lstatSync(path, { throwIfNoEntry: false }) === undefined) {
      Fs.symlinkSync(target, path)
    }
  }
  if (seed === 0) return exports
  if (seed % 10 === 1) { for (let i = 0; i < 3; i++) file(root) }
  if (seed === 1) return exports
  const folders = seed < 8 ? seed - 1 : 1 + r.below(9)
  for (let i = 0; i < folders; i++) folder(root, 0)
  if (r.chance(0.5)) file(root)
  const everywhere = Fs.readdirSync(root, { withFileTypes: true, recursive: true }).filter((one) => one.isDirectory())
  const links = r.below(4)
  for (let i = 0; i < links; i++) {
    const where = everywhere.length === 0 ? undefined : r.pick(everywhere)
    link(where === undefined ? root : join(where.parentPath, where.name))
  }
  if (seed % 10 === 3) execFileSync("mkfifo", [join(root, "pipe")])
  if (seed % 10 === 4) Fs.mkdirSync(join(root, "empty", "deep", "down"), { recursive: true })
  if (seed % 10 === 5) {
    const top = Fs.readdirSync(root, { withFileTypes: true }).find((one) =>
      one.isDirectory() && !/[\n\s[\]*?!#\\]/.test(one.name)
    )
    Fs.writeFileSync(
      join(root, ".gitignore"),
      `# comment\n*.log\n${top === undefined ? "dist" : `/${top.name}/`}\nno/path\n`
    )
  }
  return exports
}

export interface Counted {
  readonly name: string
  readonly files: number
  readonly lines: number
  readonly bytes: number
  readonly binary: number
  /** By path relative to the root. */
  readonly exports: ReadonlyMap<string, ReadonlyArray<string>>
}

/** Counts each top folder that holds a text file, largest first. */
export const countTree = (root: string, planted: Exports): ReadonlyArray<Counted> => {
  const ignoreFile = join(root, ".gitignore")
  const ignored = Fs.existsSync(ignoreFile)
    ? Fs.readFileSync(ignoreFile, "utf8").split("\n").map((line) => line.replace(/^\/|\/$/g, ""))
    : []
  const folders: Array<Counted> = []
  for (const top of Fs.readdirSync(root, { withFileTypes: true })) {
    if (!top.isDirectory() || ["node_modules", ".git"].includes(top.name)) continue
    let files = 0, lines = 0, bytes = 0, binary = 0
    const exports = new Map<string, ReadonlyArray<string>>()
    const visit = (directory: string) => {
      for (const one of Fs.readdirSync(directory, { withFileTypes: true })) {
        const path = join(directory, one.name)
        if (one.isDirectory() && one.name !== "node_modules" && one.name !== ".git") visit(path)
        if (!one.isFile()) continue
        const content = Fs.readFileSync(path)
        if (content.subarray(0, 8000).includes(0)) {
          binary++
          continue
        }
        files++
        bytes += content.length
        for (const byte of content) if (byte === 10) lines++
        if (content.length > 0 && content[content.length - 1] !== 10) lines++
        const names = planted.get(path) ?? []
        if (names.length > 0) exports.set(path.slice(root.length + 1), names)
      }
    }
    visit(join(root, top.name))
    if (files > 0 && !ignored.includes(top.name)) folders.push({ name: top.name, files, lines, bytes, binary, exports })
  }
  return folders.toSorted((a, b) => b.bytes - a.bytes || (a.name < b.name ? -1 : 1))
}

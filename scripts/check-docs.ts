/**
 * Type-checks every `ts` block of README.md and docs as a module of its own, as a user would write it: the package's
 * name stands for `src`. A block that is no code for users says so in its fence: `ts no-check`.
 */
import { spawnSync } from "node:child_process"
import { globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { type Problem, report, root } from "./lib/source.ts"

interface Block {
  readonly page: string
  /** Where the fence stands, counted from 1. */
  readonly line: number
  readonly code: string
}

const problems: Array<Problem> = []
const blocks: Array<Block> = []

const collect = (page: string) => {
  let open: { readonly line: number; readonly fence: string; readonly info: string; lines: Array<string> } | undefined
  for (const [i, text] of readFileSync(join(root, page), "utf8").split("\n").entries()) {
    const fence = /^\s*(`{3,}|~{3,})\s*(.*)$/.exec(text)
    if (open === undefined) {
      if (fence !== null) open = { line: i + 1, fence: fence[1] ?? "", info: (fence[2] ?? "").trim(), lines: [] }
    } else if (fence !== null && (fence[1] ?? "").startsWith(open.fence) && fence[2] === "") {
      const [language, ...flags] = open.info.split(/\s+/)
      if ((language === "ts" || language === "typescript") && !flags.includes("no-check")) {
        blocks.push({ page, line: open.line, code: open.lines.join("\n") })
      }
      open = undefined
    } else {
      open.lines.push(text)
    }
  }
  if (open !== undefined) problems.push({ path: page, line: open.line, message: "this code fence is never closed" })
}

for (const page of globSync(["README.md", "docs/**/*.md"], { cwd: root }).toSorted()) collect(page)

// inside the repository, so that `effect` and the SDKs are found as they are for src
const directory = mkdtempSync(join(root, ".doc-check-"))
try {
  const origin = new Map<string, Block>()
  for (const [i, block] of blocks.entries()) {
    const file = `block${i}.ts`
    origin.set(file, block)
    // empty lines before the code make the compiler's line numbers those of the page; the export makes it a module
    writeFileSync(join(directory, file), "\n".repeat(block.line) + block.code + "\nexport {}\n")
  }
  const compilerOptions = {
    noUnusedLocals: false,
    noEmit: true,
    paths: { "effect-subagent": ["../src/index.ts"], "effect-subagent/*": ["../src/*.ts"] }
  }
  const tsconfig = { extends: "../tsconfig.json", compilerOptions, include: ["*.ts"] }
  writeFileSync(join(directory, "tsconfig.json"), JSON.stringify(tsconfig))
  if (blocks.length > 0) {
    const tsc = join(root, "node_modules/.bin/tsc")
    const result = spawnSync(process.execPath, [tsc, "--pretty", "false", "-p", directory], {
      cwd: directory,
      encoding: "utf8"
    })
    if (result.error !== undefined) throw result.error
    // a mistake inside src is for `check:types` to tell
    const mine = result.stdout.split("\n").map((text) => /^(block\d+\.ts)\((\d+),\d+\): (.*)$/.exec(text))
    for (const [, file = "", line, message = ""] of mine.filter((match) => match !== null)) {
      const block = origin.get(file)
      if (block !== undefined) problems.push({ path: block.page, line: Number(line), message })
    }
    if (result.status !== 0 && problems.length === 0) {
      problems.push({ path: "src", message: `does not type-check, so the pages cannot:\n${result.stdout.trim()}` })
    }
  }
} finally {
  rmSync(directory, { recursive: true, force: true })
}

report(problems, `${blocks.length} code blocks type-check`)

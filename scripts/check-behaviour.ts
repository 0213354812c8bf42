/**
 * Checks that docs/behaviour.md answers for every scenario S1 to S602 exactly once, and that a row which names a test
 * names one that exists: its file holds a title with that number.
 */
import { existsSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { lineAt, literal, type Node, parse, type Problem, report, root, walk } from "./lib/source.ts"

const page = "docs/behaviour.md"
const last = 602
const form = "write `test/X.test.ts`, `test/X.test.ts: \"words of the title\"`, `planned`, or `n/a: why`"

/** The scenario numbers in a text; `S3–S5` stands for all three. */
const numbers = (text: string): ReadonlyArray<number> =>
  Array.from(text.matchAll(/\bS(\d+)(?:\s*[–-]\s*S(\d+))?\b/g)).flatMap((match) => {
    const from = Number(match[1])
    const to = match[2] === undefined ? from : Number(match[2])
    return Array.from({ length: Math.max(to - from + 1, 0) }, (_, i) => from + i)
  })

const callRoot = (node: Node): string => {
  const inner = (node["callee"] ?? node["object"] ?? node["tag"]) as Node | undefined
  if (inner === undefined) return String(node["name"])
  const property = (node["property"] as Node | undefined)?.["name"]
  return callRoot(inner) + (property === undefined ? "" : `.${String(property)}`)
}

const textOf = (node: Node | undefined): string | undefined => {
  if (node?.type !== "TemplateLiteral") return literal(node)
  const quasis = node["quasis"] as ReadonlyArray<{ readonly value: { readonly raw: string } }>
  return quasis.map((quasi) => quasi.value.raw).join("…")
}

/** Titles of tests, rows of tables that tests are made from, and the comments of files that only the compiler runs. */
const titlesOf = (path: string): ReadonlyArray<string> => {
  const file = parse(path)
  if (!path.endsWith(".test.ts")) return file.comments.map((comment) => comment.value)
  const titles: Array<string> = []
  walk(file.body, (node, ancestors) => {
    const skipped = [...ancestors, node].some((each) =>
      each.type === "CallExpression" && /\.(skip|todo|fails)\b/.test(callRoot(each))
    )
    if (skipped) return
    const text = textOf(node)
    const call = ancestors.at(-1)
    const isTitle = call?.type === "CallExpression" && /^(it|test|describe)\b/.test(callRoot(call)) &&
      (call["arguments"] as ReadonlyArray<Node>)[0] === node
    if (text !== undefined && (isTitle || /^S\d+\b/.test(text))) titles.push(text)
  })
  return titles
}

const cache = new Map<string, ReadonlyArray<string>>()
const titles = (path: string): ReadonlyArray<string> => {
  const known = cache.get(path)
  if (known !== undefined) return known
  const found = titlesOf(path)
  cache.set(path, found)
  return found
}

const problems: Array<Problem> = []
const rows = new Map<number, number>()
const count = { tested: 0, planned: 0, "n/a": 0 }

const checkStatus = (line: number, scenarios: ReadonlyArray<number>, status: string) => {
  const add = (message: string) => problems.push({ path: page, line, message })
  if (status === "planned") {
    count.planned += scenarios.length
    return
  }
  if (/^n\/a: \S/.test(status)) {
    count["n/a"] += scenarios.length
    return
  }
  const references = Array.from(status.matchAll(/(test\/[\w./-]+\.ts)(?:: "([^"]*)")?/g))
  if (references.length === 0) return add(`"${status}" is no status: ${form}`)
  for (const [, path = ""] of references) {
    if (!existsSync(join(root, path))) return add(`${path} does not exist`)
  }
  for (const scenario of scenarios) {
    const found = references.some(([, path = "", words = ""]) =>
      titles(path).some((title) => title.replaceAll("`", "").includes(words) && numbers(title).includes(scenario))
    )
    if (!found) {
      const where = references.map(([text]) => text).join(" or ")
      add(`no test title of ${where} contains S${scenario}`)
    }
  }
  count.tested += scenarios.length
}

const check = (text: string) => {
  for (const match of text.matchAll(/^\|\s*(S\d.*)$/gm)) {
    const line = lineAt(text, match.index)
    const cells = (match[1] ?? "").split(/(?<!\\)\|/).map((cell) => cell.trim())
    const scenarios = numbers(cells[0] ?? "")
    const status = cells[2]?.replaceAll("`", "")
    if (cells.length !== 4 || status === undefined || status === "") {
      problems.push({ path: page, line, message: `is no row of | number | text | status |: ${form}` })
      continue
    }
    for (const scenario of scenarios) {
      const before = rows.get(scenario)
      if (before !== undefined) {
        problems.push({ path: page, line, message: `S${scenario} has a row already, in line ${before}` })
      } else if (scenario < 1 || scenario > last) {
        problems.push({ path: page, line, message: `there is no S${scenario}; the last is S${last}` })
      }
      rows.set(scenario, line)
    }
    checkStatus(line, scenarios, status)
  }
  const missing = Array.from({ length: last }, (_, i) => i + 1).filter((scenario) => !rows.has(scenario))
  if (missing.length > 0) {
    problems.push({ path: page, message: `no row for ${missing.map((scenario) => `S${scenario}`).join(" ")}` })
  }
}

if (existsSync(join(root, page))) {
  check(readFileSync(join(root, page), "utf8"))
} else {
  problems.push({ path: page, message: "does not exist; it needs one row | S12 | text | status | a scenario" })
}

report(problems, `${last} scenarios: ${count.tested} tested, ${count.planned} planned, ${count["n/a"]} not applicable`)

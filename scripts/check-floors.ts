/**
 * Checks that every import of `src` goes down the floors or sideways, never up and never around in a circle, and that
 * an SDK is imported only under the file named after it. Type imports count: they are what a reader follows.
 */
import { posix } from "node:path"
import { type Import, importsOf, type Problem, report, sources } from "./lib/source.ts"

/** The first matching row decides; a file that matches none has no place in the house. */
const floors: ReadonlyArray<readonly [files: RegExp, floor: number]> = [
  [/^src\/cli\//, 8],
  [/^src\/serve\//, 7],
  [/^src\/layers\//, 6],
  [/^src\/(SubagentTool|SubagentControl|TaskTool|Timeline)\.ts$/, 5],
  [/^src\/internal\/tool\//, 5],
  [/^src\/providers\//, 4],
  [/^src\/(Children|Workspace)\.ts$/, 4],
  [/^src\/(Subagent|SubagentLimits|OutputSchema|Descriptor)\.ts$/, 3],
  [/^src\/internal\/seam\//, 3],
  [/^src\/(Agent|Task)\.ts$/, 2],
  [/^src\/internal\/(agent|task)\//, 2],
  [/^src\/(AgentTools|SystemPrompt|AgentModels|Approvals)\.ts$/, 1],
  [/^src\/internal\/tools\//, 1],
  [/^src\/(CurrentAgent|Session|SessionStore)\.ts$/, 0],
  [/^src\/internal\/session\//, 0]
]

/** Stands beside the house: may look at floors 0 to 4, and nobody inside may look at it. */
const side = /^src\/testing\//
const sideSees = 4

/** The front door: shows floors 0 to 5, and nobody inside goes out to come in again. */
const door = "src/index.ts"
const doorShows = 5

/** The seam knows the agent only by its type. */
const agentAsType = { from: 3, module: "src/Agent.ts" }

/** Where each package may be imported; `effect` is at home everywhere. */
const packages: Readonly<Record<string, RegExp>> = {
  "@effect/platform-node":
    /^src\/(layers\/((FileSessionStore|Local|NodeSqliteClient)(\.ts$|\/)|internal\/(fileSessionStore|local|nodeSqlite))|cli\/|serve\/)/,
  // what the command brings for the models that it knows by name
  "@ai-sdk/anthropic": /^src\/cli\/model\.ts$/,
  "@ai-sdk/openai": /^src\/cli\/model\.ts$/,
  "@ai-sdk/openai-compatible": /^src\/cli\/model\.ts$/,
  "@ai-sdk/provider": /^src\/layers\/(AiSdkModel(\.ts$|\/)|internal\/aiSdk)/,
  "node:": /^src\/(layers|serve|cli)\//
}

const files = sources("src/**/*.ts")
const known = new Set(files.map((file) => file.path))
const problems: Array<Problem> = []
const graph = new Map<string, Array<{ readonly path: string; readonly line: number }>>()

const floorOf = (path: string): number | undefined => floors.find(([pattern]) => pattern.test(path))?.[1]

const packageOf = (specifier: string): string => {
  if (specifier.startsWith("node:")) return "node:"
  return specifier.split("/").slice(0, specifier.startsWith("@") ? 2 : 1).join("/")
}

const checkPackage = (path: string, { line, specifier }: Import) => {
  const name = packageOf(specifier)
  if (name === "effect") return
  const place = packages[name]
  if (place === undefined) {
    problems.push({ path, line, message: `imports ${specifier}, which scripts/check-floors.ts gives no place in src` })
  } else if (!place.test(path)) {
    problems.push({ path, line, message: `imports ${specifier}; only files that match ${place.source} may` })
  }
}

const checkRelative = (path: string, target: string, { line, typeOnly }: Import) => {
  if (target === door) {
    return problems.push({ path, line, message: `imports ${door}; import the module itself` })
  }
  if (side.test(target)) {
    if (side.test(path)) return
    return problems.push({ path, line, message: `imports ${target}; only testing/ may import testing/` })
  }
  const own = side.test(path) ? sideSees : path === door ? doorShows : floorOf(path)
  const other = floorOf(target)
  if (own === undefined || other === undefined) return
  if (other > own) {
    const rule = path === door || side.test(path) ? `may see floors 0 to ${own}` : `is on floor ${own}`
    return problems.push({ path, line, message: `imports ${target} of floor ${other}, but ${rule}` })
  }
  if (own === agentAsType.from && target === agentAsType.module && !typeOnly) {
    return problems.push({ path, line, message: `imports ${target} as a value; the seam needs \`import type\`` })
  }
}

for (const file of files) {
  const { path } = file
  if (path !== door && !side.test(path) && floorOf(path) === undefined) {
    problems.push({ path, message: "is on no floor: add it to the table in scripts/check-floors.ts, or move it" })
  }
  const edges: Array<{ readonly path: string; readonly line: number }> = []
  graph.set(path, edges)
  for (const found of importsOf(file)) {
    if (!found.specifier.startsWith(".")) {
      checkPackage(path, found)
      continue
    }
    const target = posix.join(posix.dirname(path), found.specifier)
    if (!known.has(target)) {
      problems.push({ path, line: found.line, message: `imports ${found.specifier}, which is no file of src` })
      continue
    }
    edges.push({ path: target, line: found.line })
    checkRelative(path, target, found)
  }
}

// depth first; a file is done once everything below it is, so each circle is met once
const done = new Set<string>()
const visit = (path: string, trail: ReadonlyArray<string>) => {
  if (done.has(path)) return
  for (const edge of graph.get(path) ?? []) {
    const start = [...trail, path].indexOf(edge.path)
    if (start !== -1) {
      const circle = [...trail, path].slice(start)
      problems.push({ path, line: edge.line, message: `closes a circle: ${[...circle, edge.path].join(" -> ")}` })
    } else {
      visit(edge.path, [...trail, path])
    }
  }
  done.add(path)
}
for (const path of graph.keys()) visit(path, [])

report(problems, `${files.length} files, each on its floor`)

/**
 * Says where the time goes, or the memory: the functions of two profiles side by side, for one unit.
 */
import { existsSync, readFileSync } from "node:fs"
import type { HeapProfiler } from "node:inspector"
import { fileURLToPath } from "node:url"

export interface CpuProfile {
  readonly nodes: ReadonlyArray<{
    readonly id: number
    readonly callFrame: {
      readonly functionName: string
      readonly url: string
      readonly lineNumber: number
      readonly columnNumber: number
    }
    readonly children?: ReadonlyArray<number>
  }>
  readonly startTime: number
  readonly samples: ReadonlyArray<number>
  readonly timeDeltas: ReadonlyArray<number>
}

/**
 * What a profiled process says of itself. Of its time: `from` and `to` in milliseconds since it started, and the `time`
 * of CPU that its main thread took between them, in microseconds for one unit.
 */
export type Profiled =
  | { readonly of: "time"; readonly from: number; readonly to: number; readonly time: number }
  | { readonly of: "heap"; readonly profile: HeapProfiler.SamplingHeapProfile; readonly children: number }

export interface Cost {
  readonly where: string
  readonly module: "ours" | "effect" | "bench" | "node" | "gc" | "idle"
  self: number
  /** With all that it calls which is not ours: what disappears when this function does. */
  under: number
}

const root = fileURLToPath(new URL("../../", import.meta.url))

const sources = new Map<string, ReadonlyArray<string>>()

const source = (path: string): ReadonlyArray<string> => {
  let lines = sources.get(path)
  if (lines === undefined) sources.set(path, lines = existsSync(path) ? readFileSync(path, "utf8").split("\n") : [])
  return lines
}

/** What a function without a name is part of: the last declaration at the margin before it. */
const enclosing = (url: string, line: number): string => {
  if (!url.startsWith("file:")) return "(anonymous)"
  const lines = source(fileURLToPath(url))
  for (let i = Math.min(line, lines.length - 1); i >= 0; i--) {
    const name = /^(?:export )?(?:async )?(?:const|let|class|function\*?) (\w+)/.exec(lines[i])?.[1]
    if (name !== undefined) return `(in ${name})`
  }
  return "(anonymous)"
}

const place = (frame: CpuProfile["nodes"][number]["callFrame"]): Pick<Cost, "where" | "module"> => {
  const { functionName, lineNumber, url } = frame
  const name = functionName === "" ? enclosing(url, lineNumber) : functionName
  if (url === "" || url.startsWith("node:")) {
    const module = name === "(garbage collector)" ? "gc" : name === "(idle)" ? "idle" : "node"
    return { where: url === "" ? name : `${name} ${url}:${lineNumber + 1}`, module }
  }
  const path = url.startsWith("file:") ? fileURLToPath(url) : url
  const inPackage = path.lastIndexOf("/node_modules/")
  if (inPackage >= 0) {
    return { where: `${name} ${path.slice(inPackage + "/node_modules/".length)}:${lineNumber + 1}`, module: "effect" }
  }
  const local = path.startsWith(root) ? path.slice(root.length) : path
  return { where: `${name} ${local}:${lineNumber + 1}`, module: local.startsWith("bench/") ? "bench" : "ours" }
}

/** The costs of one unit by function. Samples before and behind what was measured do not count. */
export const costs = (profile: CpuProfile, profiled: Profiled & { readonly of: "time" }): ReadonlyMap<string, Cost> => {
  const all = new Map<string, Cost>()
  const byId = new Map<number, Cost>()
  const oursAbove = new Map<number, Cost | undefined>()
  const parents = new Map<number, number>()
  for (const node of profile.nodes) for (const child of node.children ?? []) parents.set(child, node.id)
  for (const node of profile.nodes) {
    const { module, where } = place(node.callFrame)
    let cost = all.get(where)
    if (cost === undefined) all.set(where, cost = { where, module, self: 0, under: 0 })
    byId.set(node.id, cost)
  }
  const above = (id: number): Cost | undefined => {
    if (oursAbove.has(id)) return oursAbove.get(id)
    const cost = byId.get(id)!
    const parent = parents.get(id)
    const found = cost.module === "ours" ? cost : parent === undefined ? undefined : above(parent)
    oursAbove.set(id, found)
    return found
  }
  const deltas = new Map<number, number>()
  let at = 0
  let busy = 0
  for (let i = 0; i < profile.samples.length; i++) {
    // a sample stands for the time to the next one
    const delta = profile.timeDeltas[i + 1] ?? 0
    at += profile.timeDeltas[i]
    if (at < profiled.from * 1000 || at > profiled.to * 1000 || delta < 0) continue
    const id = profile.samples[i]
    if (byId.get(id)!.module === "idle") continue
    busy += delta
    deltas.set(id, (deltas.get(id) ?? 0) + delta)
  }
  // samples count what other processes took as well, so they only say how the time is shared out
  for (const [id, delta] of deltas) {
    const time = delta / busy * profiled.time
    byId.get(id)!.self += time
    const ours = above(id)
    if (ours !== undefined) ours.under += time
  }
  return all
}

const round = (n: number): string => n.toFixed(2).padStart(9)

/** The bytes that are alive by the function that allocated them, for each of so many. */
export const weights = (
  profile: HeapProfiler.SamplingHeapProfile,
  count: number
): ReadonlyMap<string, Cost> => {
  const all = new Map<string, Cost>()
  const visit = (node: HeapProfiler.SamplingHeapProfileNode, above: Cost | undefined): void => {
    const { module, where } = place(node.callFrame)
    let cost = all.get(where)
    if (cost === undefined) all.set(where, cost = { where, module, self: 0, under: 0 })
    const bytes = node.selfSize / count
    cost.self += bytes
    const ours = module === "ours" ? cost : above
    if (ours !== undefined) ours.under += bytes
    for (const child of node.children) visit(child, ours)
  }
  visit(profile.head, undefined)
  return all
}

/** The report of a profile of ours and one of its floor. */
export const report = (
  ours: ReadonlyMap<string, Cost>,
  floor: ReadonlyMap<string, Cost>,
  unit: string,
  top: number
): ReadonlyArray<string> => {
  const modules = new Map<string, [number, number]>()
  for (const [side, all] of [[0, ours], [1, floor]] as const) {
    for (const cost of all.values()) {
      if (cost.self === 0) continue
      const sums = modules.get(cost.module) ?? [0, 0]
      sums[side] += cost.self
      modules.set(cost.module, sums)
    }
  }
  const names = new Set([...ours.keys(), ...floor.keys()])
  const beyond = Array.from(names, (where) => {
    const mine = ours.get(where)?.self ?? 0
    const theirs = floor.get(where)?.self ?? 0
    return { where, mine, theirs, more: mine - theirs, module: (ours.get(where) ?? floor.get(where))!.module }
  }).toSorted((a, b) => b.more - a.more)
  const total = beyond.reduce((sum, { more }) => sum + more, 0)
  const under = Array.from(ours.values()).filter(({ module }) => module === "ours").toSorted((a, b) =>
    b.under - a.under
  )
  return [
    `by module, ${unit}`.padEnd(38) + "ours    floor   beyond",
    ...Array.from(
      modules,
      ([module, [mine, theirs]]) => `  ${module.padEnd(32)}${round(mine)}${round(theirs)}${round(mine - theirs)}`
    ),
    "",
    `by function, what ours has beyond the floor: ${total.toFixed(1)} ${unit} in all`,
    "   beyond     ours    floor  share",
    ...beyond.slice(0, top).map(({ mine, module, more, theirs, where }) =>
      `${round(more)}${round(mine)}${round(theirs)} ${(100 * more / total).toFixed(1).padStart(5)}%  ` +
      `[${module}] ${where}`
    ),
    "",
    `by our functions, each with what it calls that is not ours, ${unit}`,
    ...under.slice(0, top).map((cost) => `${round(cost.under)} (self ${cost.self.toFixed(2)})  ${cost.where}`)
  ]
}

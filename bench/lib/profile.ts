/**
 * Says where the time goes: the functions of two CPU profiles side by side, in microseconds for one repetition.
 */
import { fileURLToPath } from "node:url"

interface CpuProfile {
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

/** What a profiled run measured of itself: `from` and `to` in milliseconds since the process started. */
export interface Profiled {
  readonly from: number
  readonly to: number
  readonly repeat: number
  readonly per: number
}

export interface Cost {
  readonly where: string
  readonly module: "ours" | "effect" | "bench" | "node" | "gc" | "idle"
  self: number
  /** With all that it calls which is not ours: what disappears when this function does. */
  under: number
}

const root = fileURLToPath(new URL("../../", import.meta.url))

const place = (frame: CpuProfile["nodes"][number]["callFrame"]): Pick<Cost, "where" | "module"> => {
  const { functionName, lineNumber, url } = frame
  const name = functionName === "" ? "(anonymous)" : functionName
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

/** The costs by function, of one unit. Samples before and behind what was measured do not count. */
export const costs = (profile: CpuProfile, profiled: Profiled): ReadonlyMap<string, Cost> => {
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
  const units = profiled.repeat * profiled.per
  let at = 0
  for (let i = 0; i < profile.samples.length; i++) {
    // the time between this sample and the next one
    const delta = profile.timeDeltas[i + 1] ?? 0
    at += profile.timeDeltas[i]
    if (at < profiled.from * 1000 || at > profiled.to * 1000 || delta < 0) continue
    byId.get(profile.samples[i])!.self += delta / units
    const ours = above(profile.samples[i])
    if (ours !== undefined) ours.under += delta / units
  }
  return all
}

const round = (n: number): string => n.toFixed(2).padStart(9)

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
  }).filter(({ module }) => module !== "idle").toSorted((a, b) => b.more - a.more)
  const total = beyond.reduce((sum, { more }) => sum + more, 0)
  const under = Array.from(ours.values()).filter(({ module }) => module === "ours").toSorted((a, b) => b.under - a.under)
  return [
    `self time by module, ${unit}            ours    floor   beyond`,
    ...Array.from(modules, ([module, [mine, theirs]]) =>
      `  ${module.padEnd(32)}${round(mine)}${round(theirs)}${round(mine - theirs)}`),
    "",
    `self time by function, what ours has beyond the floor (${total.toFixed(1)} ${unit} in all)`,
    "   beyond     ours    floor  share",
    ...beyond.slice(0, top).map(({ mine, module, more, theirs, where }) =>
      `${round(more)}${round(mine)}${round(theirs)} ${(100 * more / total).toFixed(1).padStart(5)}%  ` +
      `[${module}] ${where}`
    ),
    "",
    `time under our functions, with all that they call directly and is not ours, ${unit}`,
    ...under.slice(0, top).map((cost) => `${round(cost.under)} (self ${cost.self.toFixed(2)})  ${cost.where}`)
  ]
}

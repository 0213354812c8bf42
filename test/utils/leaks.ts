/**
 * Fails a test file that leaves something running: call `leakCheck()` at its top. What counts is what this process has
 * more of than when the file began, after a grace for things that are still on their way out.
 */
import { Effect, type Fiber, type Metric } from "effect"
import { execFileSync } from "node:child_process"
import { existsSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll } from "vitest"

/** Test files run in processes of their own, side by side; the pid tells whose directory one is. */
const tempPrefix = `effect-subagent-test-${process.pid}-`

// ----- fibers

const liveFibers = new Map<Fiber.Fiber<unknown, unknown>, Error>()

/**
 * Effect keeps no list of its fibers, but tells a service in their context of each start and end. Contexts are made in
 * many places, so the service is put where every fiber reads it from: the cache that it derives from its context.
 */
const trackFibers = (): void => {
  // a prototype of a running fiber is that of all fibers; the cache is declared readonly, yet a plain object
  const prototype = Object.getPrototypeOf(Effect.runFork(Effect.void)) as Fiber.Fiber<unknown>
  const setContext = prototype.setContext
  const ours = new WeakSet<object>()
  let starting: Fiber.Fiber<unknown, unknown> | undefined

  const observe = (service: Metric.FiberRuntimeMetricsService | undefined): Metric.FiberRuntimeMetricsService => {
    const observed: Metric.FiberRuntimeMetricsService = {
      recordFiberStart(context) {
        service?.recordFiberStart(context)
        const fiber = starting
        if (fiber === undefined) return
        starting = undefined
        const limit = Error.stackTraceLimit
        Error.stackTraceLimit = 30
        liveFibers.set(fiber, new Error("started"))
        Error.stackTraceLimit = limit
        fiber.addObserver(() => liveFibers.delete(fiber))
      },
      recordFiberEnd(context, exit) {
        service?.recordFiberEnd(context, exit)
      }
    }
    ours.add(observed)
    return observed
  }

  prototype.setContext = function(context) {
    const isNew = this.context === undefined
    setContext.call(this, context)
    const cache = this.cache as { runtimeMetrics: Metric.FiberRuntimeMetricsService | undefined }
    if (cache.runtimeMetrics === undefined || !ours.has(cache.runtimeMetrics)) {
      cache.runtimeMetrics = observe(cache.runtimeMetrics)
    }
    // oxlint-disable-next-line typescript/no-this-alias -- the new fiber itself, kept until it tells of its start
    if (isNew) starting = this
  }

  const probe = Effect.runFork(Effect.never)
  const seen = liveFibers.has(probe)
  probe.interruptUnsafe()
  if (!seen || liveFibers.has(probe)) throw new Error("this version of effect does not let its fibers be counted")
}

trackFibers()

const describeFiber = (fiber: Fiber.Fiber<unknown, unknown>, started: Error): string => {
  const span = fiber.cache.span
  const names = [
    span !== undefined && span._tag === "Span" ? `in span ${span.name}` : undefined,
    fiber.cache.stackFrame === undefined ? undefined : `in ${fiber.cache.stackFrame.name}`,
    started.stack?.split("\n").find((line) => /\/(src|test)\//.test(line) && !/node_modules|leaks\.ts/.test(line))
      ?.trim()
  ]
  return [`fiber #${fiber.id}`, ...names.filter((name) => name !== undefined)].join(" ")
}

// ----- processes

const processState = (pid: string): { readonly state: string; readonly command: string } | undefined => {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8")
    const command = readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ").trim()
    return { state: stat.slice(stat.lastIndexOf(")") + 2)[0] ?? "?", command }
  } catch {
    return undefined
  }
}

/** The living children of this process by pid. A zombie is dead, whoever is late to reap it. */
const childProcesses = (): ReadonlyMap<string, string> => {
  const children = new Map<string, string>()
  if (existsSync("/proc/self/task")) {
    for (const task of readdirSync("/proc/self/task")) {
      const path = `/proc/self/task/${task}/children`
      for (const pid of existsSync(path) ? readFileSync(path, "utf8").split(" ").filter((each) => each !== "") : []) {
        const found = processState(pid)
        if (found !== undefined && found.state !== "Z") children.set(pid, found.command)
      }
    }
  } else {
    for (
      const line of execFileSync("ps", ["-A", "-o", "pid=,ppid=,stat=,command="], { encoding: "utf8" }).split("\n")
    ) {
      const [, pid = "", parent, state = "", command = ""] = /^\s*(\d+)\s+(\d+)\s+(\S+)\s+(.*)$/.exec(line) ?? []
      if (parent === String(process.pid) && !state.startsWith("Z") && !command.startsWith("ps ")) {
        children.set(pid, command)
      }
    }
  }
  return children
}

// ----- what the event loop waits for, and open files

/** Timers, sockets, servers and requests that keep the process alive, counted by kind. */
const activeResources = (): ReadonlyMap<string, number> => {
  const counts = new Map<string, number>()
  for (const kind of process.getActiveResourcesInfo()) counts.set(kind, (counts.get(kind) ?? 0) + 1)
  return counts
}

/** Open descriptors of files and directories; a file handle does not show among the active resources. */
const openFiles = (): ReadonlyMap<string, number> => {
  const counts = new Map<string, number>()
  if (!existsSync("/proc/self/fd")) return counts
  for (const descriptor of readdirSync("/proc/self/fd")) {
    let path: string
    try {
      path = readlinkSync(`/proc/self/fd/${descriptor}`)
    } catch {
      continue
    }
    if (path.startsWith("/") && !/^\/(dev|proc)\//.test(path)) counts.set(path, (counts.get(path) ?? 0) + 1)
  }
  return counts
}

// ----- temporary directories

const plainDirectories = new Set<string>()

/** Makes an empty temporary directory that is removed when the test file ends. */
export const makeTempDir = (): string => {
  const path = mkdtempSync(join(tmpdir(), tempPrefix))
  plainDirectories.add(path)
  return path
}

const removePlainDirectories = (): void => {
  for (const path of plainDirectories) rmSync(path, { recursive: true, force: true })
  plainDirectories.clear()
}

/** An empty temporary directory that lives as long as the scope. */
export const tempDir = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), tempPrefix))),
  (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true }))
)

const tempEntries = (): ReadonlyArray<string> =>
  readdirSync(tmpdir()).filter((name) => name.startsWith(tempPrefix)).map((name) => join(tmpdir(), name))

// ----- the check

/** What runs and is open at one moment. */
export interface Snapshot {
  readonly fibers: ReadonlySet<Fiber.Fiber<unknown, unknown>>
  readonly processes: ReadonlyMap<string, string>
  readonly resources: ReadonlyMap<string, number>
  readonly files: ReadonlyMap<string, number>
  readonly temporary: ReadonlySet<string>
}

/**
 * Takes stock of this process. Timers are not excused by being there already: the runner's own come and go within
 * moments and would hide one of ours.
 */
export const snapshot = (): Snapshot => ({
  fibers: new Set(liveFibers.keys()),
  processes: childProcesses(),
  resources: new Map(Array.from(activeResources()).filter(([kind]) => kind !== "Timeout" && kind !== "Immediate")),
  files: openFiles(),
  temporary: new Set(tempEntries())
})

const more = (label: string, before: ReadonlyMap<string, number>, now: ReadonlyMap<string, number>) =>
  Array.from(now).flatMap(([key, count]) => {
    const extra = count - (before.get(key) ?? 0)
    return extra > 0 ? [`${extra} ${label} ${key}`] : []
  })

/** Everything that is there now and was not at the snapshot, one line each. */
export const leaksSince = (start: Snapshot): ReadonlyArray<string> => [
  ...Array.from(liveFibers)
    .filter(([fiber]) => !start.fibers.has(fiber))
    .map(([fiber, started]) => describeFiber(fiber, started)),
  ...Array.from(childProcesses())
    .filter(([pid]) => !start.processes.has(pid))
    .map(([pid, command]) => `process ${pid}: ${command}`),
  ...more("active", start.resources, activeResources()),
  ...more("open", start.files, openFiles()),
  ...tempEntries().filter((path) => !start.temporary.has(path)).map((path) => `temporary ${path}`)
]

/** Waits until nothing is left since the snapshot, at most `graceMillis`, and throws what is left then. */
export const assertNoLeaks = async (start: Snapshot, graceMillis = 2_000): Promise<void> => {
  const deadline = performance.now() + graceMillis
  let leaks = leaksSince(start)
  while (leaks.length > 0 && performance.now() < deadline) {
    await new Promise((resolve) => setTimeout(resolve, 20))
    leaks = leaksSince(start)
  }
  if (leaks.length > 0) throw new Error(`left behind by this file:\n${leaks.map((leak) => `- ${leak}`).join("\n")}`)
}

afterAll(removePlainDirectories)

/** Call at the top of a test file, before any other hook: its check then runs after all of them. */
export const leakCheck = (): void => {
  let start: Snapshot
  beforeAll(() => {
    start = snapshot()
  })
  afterAll(() => {
    removePlainDirectories()
    return assertNoLeaks(start)
  })
}

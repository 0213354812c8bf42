/**
 * Says which process on which host this is, and whether the process that a lease names is dead.
 *
 * A process id alone proves nothing: it is used again. What counts is the process id together with the moment the
 * process started and the boot of the machine, as far as the system tells them.
 */
import * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"

/**
 * Who holds a session: the content of a lease.
 *
 * - `started`: when the process started, in clock ticks since the boot (Linux)
 * - `boot`: the boot of the machine (Linux)
 * - `namespace`: the process ids' namespace (Linux); another container on the same host numbers its processes itself
 * - `lease`: for how many milliseconds after its last sign of life others have to believe in a holder they cannot see
 *
 * @internal
 */
export const Lease = Schema.Struct({
  token: Schema.String,
  pid: Schema.Int.check(Schema.isGreaterThan(0)),
  host: Schema.String,
  started: Schema.optionalKey(Schema.String),
  boot: Schema.optionalKey(Schema.String),
  namespace: Schema.optionalKey(Schema.String),
  lease: Schema.Int.check(Schema.isGreaterThan(0))
})

/** @internal */
export type Lease = typeof Lease.Type

/** @internal */
export type Host = Omit<Lease, "token" | "lease">

/** @internal */
export const describe = (lease: Lease): string => `pid ${lease.pid} on host ${lease.host}`

const readText = (fs: FileSystem.FileSystem, path: string): Effect.Effect<string | undefined> =>
  Effect.orElseSucceed(Effect.map(fs.readFileString(path), (text) => text.trim()), () => undefined)

// the command's name stands in parentheses and may hold anything, so the fields are counted from the last one
const parseStat = (text: string): { readonly pid: number; readonly state: string; readonly started: string } => {
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ")
  return { pid: Number.parseInt(text, 10), state: fields[0], started: fields[19] }
}

/**
 * This process. Everywhere but on Linux only its id and host are known.
 *
 * @internal
 */
export const thisHost = (fs: FileSystem.FileSystem, name: string | undefined): Effect.Effect<Host> =>
  Effect.gen(function*() {
    const stat = yield* readText(fs, "/proc/self/stat")
    const self = stat === undefined ? undefined : parseStat(stat)
    const host = name ?? (yield* readText(fs, "/proc/sys/kernel/hostname")) ?? "localhost"
    const boot = yield* readText(fs, "/proc/sys/kernel/random/boot_id")
    const namespace = yield* Effect.orElseSucceed(fs.readLink("/proc/self/ns/pid"), () => undefined)
    return {
      pid: self?.pid ?? process.pid,
      host,
      ...(self === undefined ? undefined : { started: self.started }),
      ...(boot === undefined ? undefined : { boot }),
      ...(namespace === undefined ? undefined : { namespace })
    }
  })

const isGone = (pid: number): boolean => {
  const signalled = Result.try(() => process.kill(pid, 0))
  // a process of somebody else refuses the signal, and lives
  return Result.isFailure(signalled) &&
    typeof signalled.failure === "object" && signalled.failure !== null &&
    "code" in signalled.failure && signalled.failure.code === "ESRCH"
}

/**
 * Whether the process of a lease can be looked for from here.
 *
 * @internal
 */
export const isLocal = (self: Host, lease: Lease): boolean =>
  lease.host === self.host && (lease.boot !== self.boot || lease.namespace === self.namespace)

/**
 * Whether the process of a local lease is certainly dead. A zombie is.
 *
 * @internal
 */
export const isDead = (fs: FileSystem.FileSystem, self: Host, lease: Lease): Effect.Effect<boolean> => {
  if (lease.boot !== undefined && self.boot !== undefined && lease.boot !== self.boot) return Effect.succeed(true)
  if (isGone(lease.pid)) return Effect.succeed(true)
  return Effect.map(readText(fs, `/proc/${lease.pid}/stat`), (text) => {
    if (text === undefined || lease.started === undefined) return false
    const found = parseStat(text)
    return found.started !== lease.started || found.state === "Z" || found.state === "X"
  })
}

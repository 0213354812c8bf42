/**
 * Decides who may write a session: one process, one store in it, at a time.
 *
 * The lease of a session is a file `<epoch>.lock` beside its segments, and the epochs only grow. Two rules make it
 * safe without any lock that could be left behind:
 *
 * - The right to an epoch is won by creating its lock file with a hard link, which the file system does for exactly
 *   one contender, content included. Taking over never touches the lock that is taken over; it wins the next epoch.
 *   So two contenders that both found the holder dead cannot both follow it, and one that was slow cannot push out a
 *   successor it has not seen: after winning it looks again, and gives its epoch back if a higher one exists or if any
 *   other lock turns out to be alive after all.
 * - A lock is alive while its process is, on this host; elsewhere while its last sign of life is younger than its
 *   lease. A store gives its sign of life to all its sessions at once: their locks are hard links to one file,
 *   `.holders/<token>/lease.json`, whose modification time it renews every third of a lease. A store that has not
 *   managed to for half a lease looks for a higher epoch each time before it says that something is stored, and renews
 *   before it looks: either it sees the successor's lock, or the successor, which looks again after linking it, sees
 *   the renewal.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import type * as Path from "effect/Path"
import * as Random from "effect/Random"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import { HeldElsewhere, type StoreFailed } from "../../SessionStore.ts"
import { alreadyExists, isNotFound, makeDirectory, storeFailed } from "./fileCalls.ts"
import * as Host from "./fileHost.ts"

const decodeLease = Schema.decodeUnknownResult(Schema.fromJsonString(Host.Lease))
const encodeLease = Schema.encodeSync(Schema.fromJsonString(Host.Lease))

/** How long what a store left behind on another host may lie around: a day. */
const abandonedAfter = 24 * 60 * 60 * 1000

// -----------------------------------------------------------------------------
// epochs
// -----------------------------------------------------------------------------

/**
 * The epochs of a session that have a segment, and those that have a lock, in no order.
 *
 * @internal
 */
export interface Epochs {
  readonly segments: ReadonlyArray<number>
  readonly locks: ReadonlyArray<number>
}

const epochFile = /^(0|[1-9][0-9]{0,14})\.(jsonl|lock)$/

/** @internal */
export const listEpochs = (
  fs: FileSystem.FileSystem,
  directory: string,
  operation: string
): Effect.Effect<Epochs, StoreFailed> =>
  Effect.mapBoth(fs.readDirectory(directory), {
    onFailure: storeFailed(operation, directory),
    onSuccess: (names) => {
      const segments: Array<number> = []
      const locks: Array<number> = []
      for (const name of names) {
        const match = epochFile.exec(name)
        if (match !== null) (match[2] === "lock" ? locks : segments).push(Number(match[1]))
      }
      return { segments, locks }
    }
  })

const highest = (epochs: Epochs): number => Math.max(-1, ...epochs.segments, ...epochs.locks)

// -----------------------------------------------------------------------------
// presence
// -----------------------------------------------------------------------------

type Verdict =
  | { readonly _tag: "Free" }
  | { readonly _tag: "Held"; readonly holder: string; readonly until?: number }

const free: Verdict = { _tag: "Free" }

/**
 * A store that may hold sessions.
 *
 * - `directory`: a directory of its own inside the store's, where new sessions are put together
 * - `record`: the lease that its locks are links to
 * - `isFresh`: whether others are certain to still respect its locks, so that nobody has to look
 * - `beat`: gives a sign of life
 *
 * @internal
 */
export interface Presence {
  readonly directory: string
  readonly record: string
  readonly isFresh: () => boolean
  readonly beat: Effect.Effect<void, StoreFailed>
  readonly judge: (lock: string, operation: string) => Effect.Effect<Verdict, StoreFailed>
}

/**
 * Becomes present in a store, for as long as the scope lives. `onLate` runs after a sign of life that came so late that
 * sessions may have been taken over, and has to find out which.
 *
 * @internal
 */
export const present = Effect.fnUntraced(function*(options: {
  readonly fs: FileSystem.FileSystem
  readonly path: Path.Path
  readonly directory: string
  readonly host: string | undefined
  readonly lease: number
  readonly isNeeded: () => boolean
  readonly onLate: Effect.Effect<void, StoreFailed>
}): Effect.fn.Return<Presence, StoreFailed, Scope.Scope> {
  const { fs, lease, path } = options
  const operation = "become a holder"
  const clock = yield* Clock.Clock
  const self = yield* Host.thisHost(fs, options.host)
  const random = yield* Random.Random

  const holders = path.join(options.directory, ".holders")
  const token = `${self.pid}-${clock.currentTimeMillisUnsafe().toString(36)}-${
    Math.abs(random.nextIntUnsafe()).toString(36)
  }`
  const directory = path.join(holders, token)
  const record = path.join(directory, "lease.json")

  let lastBeat = 0
  const beat = Effect.suspend(() => {
    const at = clock.currentTimeMillisUnsafe()
    const late = Math.abs(at - lastBeat) > lease / 2
    return fs.utimes(record, at / 1000, at / 1000).pipe(
      Effect.mapError(storeFailed("renew the leases", record)),
      Effect.andThen(late && lastBeat !== 0 ? options.onLate : Effect.void),
      // only now: until the look is over every writer has to look for itself
      Effect.andThen(Effect.sync(() => {
        lastBeat = at
      }))
    )
  })

  yield* Effect.mapError(makeDirectory(fs, holders), storeFailed(operation, holders))
  // it must not be there, so that no two stores ever share a token
  yield* Effect.acquireRelease(
    fs.makeDirectory(directory).pipe(Effect.mapError(storeFailed(operation, directory))),
    () => Effect.ignore(fs.remove(directory, { recursive: true, force: true }))
  )
  yield* Effect.scoped(Effect.gen(function*() {
    const file = yield* fs.open(record, { flag: "wx" })
    yield* file.writeAll(new TextEncoder().encode(encodeLease({ ...self, token, lease })))
    // once a store, so that a power cut leaves no lock without a name in it
    yield* file.sync
  })).pipe(Effect.mapError(storeFailed(operation, record)))
  yield* beat

  const judge = (lock: string, operation: string): Effect.Effect<Verdict, StoreFailed> =>
    Effect.gen(function*() {
      const content = yield* fs.readFileString(lock)
      const info = yield* fs.stat(lock)
      const seen = Option.match(info.mtime, { onNone: () => 0, onSome: (mtime) => mtime.getTime() })
      const now = clock.currentTimeMillisUnsafe()
      const decoded = decodeLease(content)
      if (Result.isFailure(decoded)) {
        const until = seen + lease
        return now < until ? { _tag: "Held" as const, holder: "an unreadable lease", until } : free
      }
      const found = decoded.success
      const holder = Host.describe(found)
      const until = seen + found.lease
      if (!Host.isLocal(self, found)) return now < until ? { _tag: "Held" as const, holder, until } : free
      if (yield* Host.isDead(fs, self, found)) return free
      // the last link to its record: the store is closed and could not remove this lock
      const orphaned = Option.contains(info.nlink, BigInt(1)) && now >= until
      return orphaned ? free : { _tag: "Held" as const, holder }
    }).pipe(
      Effect.catchIf(isNotFound, () => Effect.succeed(free)),
      Effect.mapError((error) => storeFailed(operation, lock)(error))
    )

  yield* Effect.sleep(lease / 3).pipe(
    Effect.andThen(Effect.suspend(() => options.isNeeded() ? beat : Effect.void)),
    // a store that cannot renew goes on: its writers look for themselves
    Effect.catch((error) => Effect.logWarning(error.message)),
    Effect.forever,
    Effect.forkScoped
  )
  yield* Effect.ignore(sweep(fs, path, holders, token, self, clock))

  return {
    directory,
    record,
    judge,
    beat,
    isFresh: () => Math.abs(clock.currentTimeMillisUnsafe() - lastBeat) <= lease / 2
  }
})

/** Removes what dead holders left in their directories: new sessions that never were. */
const sweep = Effect.fnUntraced(function*(
  fs: FileSystem.FileSystem,
  path: Path.Path,
  holders: string,
  token: string,
  self: Host.Host,
  clock: Clock.Clock
) {
  for (const name of yield* fs.readDirectory(holders)) {
    if (name === token) continue
    const directory = path.join(holders, name)
    const record = path.join(directory, "lease.json")
    const lease = yield* Effect.option(fs.readFileString(record))
    const decoded = Option.map(lease, decodeLease)
    const isOver = Option.isSome(decoded) && Result.isSuccess(decoded.value) &&
        Host.isLocal(self, decoded.value.success)
      ? yield* Host.isDead(fs, self, decoded.value.success)
      : yield* fs.stat(Option.isSome(lease) ? record : directory).pipe(
        Effect.map((info) => Option.map(info.mtime, (mtime) => mtime.getTime())),
        Effect.map(Option.exists((seen) => seen + abandonedAfter < clock.currentTimeMillisUnsafe())),
        Effect.orElseSucceed(() => false)
      )
    if (isOver) yield* Effect.ignore(fs.remove(directory, { recursive: true, force: true }))
  }
})

// -----------------------------------------------------------------------------
// acquisition
// -----------------------------------------------------------------------------

/**
 * A won epoch: its segment, created empty, and the other epochs as they were when it was won. The segment is removed
 * again with the scope unless it was `claimed`.
 *
 * @internal
 */
export interface Won {
  readonly epoch: number
  readonly segment: string
  readonly file: FileSystem.File
  readonly epochs: Epochs
  claimed: boolean
}

/** @internal */
export interface AcquireOptions {
  readonly fs: FileSystem.FileSystem
  readonly path: Path.Path
  readonly presence: Presence
  readonly id: string
  readonly directory: string
  readonly operation: string
}

const liveLock = Effect.fnUntraced(function*(options: AcquireOptions, locks: ReadonlyArray<number>) {
  for (const epoch of locks) {
    const verdict = yield* options.presence.judge(
      options.path.join(options.directory, `${epoch}.lock`),
      options.operation
    )
    if (verdict._tag === "Held") return verdict
  }
  return undefined
})

const attempt = Effect.fnUntraced(function*(
  options: AcquireOptions,
  scope: Scope.Scope
): Effect.fn.Return<Won | undefined, HeldElsewhere | StoreFailed> {
  const { directory, fs, operation, path } = options
  const before = yield* listEpochs(fs, directory, operation)
  const held = yield* liveLock(options, before.locks)
  if (held !== undefined) {
    return yield* new HeldElsewhere({
      id: options.id,
      holder: held.holder,
      ...(held.until === undefined ? undefined : { until: held.until })
    })
  }

  const epoch = highest(before) + 1
  const lock = path.join(directory, `${epoch}.lock`)
  const segment = path.join(directory, `${epoch}.jsonl`)
  const linked = yield* fs.link(options.presence.record, lock).pipe(
    Effect.as(true),
    Effect.catchIf(alreadyExists, () => Effect.succeed(false)),
    Effect.mapError(storeFailed(operation, lock))
  )
  if (!linked) return undefined
  yield* Scope.addFinalizer(scope, removeLock(fs, lock))
  const file = yield* fs.open(segment, { flag: "wx" }).pipe(
    Effect.map((file): FileSystem.File | undefined => file),
    Effect.catchIf(alreadyExists, () => Effect.succeed(undefined)),
    Effect.mapError(storeFailed(operation, segment)),
    Scope.provide(scope)
  )
  if (file === undefined) return undefined
  const epochs: Won = {
    epoch,
    segment,
    file,
    epochs: yield* Effect.onError(
      listEpochs(fs, directory, operation),
      () => Effect.ignore(fs.remove(segment, { force: true }))
    ),
    claimed: false
  }
  yield* Scope.addFinalizer(
    scope,
    Effect.suspend(() => epochs.claimed ? Effect.void : Effect.ignore(fs.remove(segment, { force: true })))
  )
  const others = epochs.epochs.locks.filter((other) => other !== epoch)
  return highest(epochs.epochs) > epoch || (yield* liveLock(options, others)) !== undefined ? undefined : epochs
})

/**
 * Wins the next epoch of a stored session, or says who holds it. The lock is given back with the scope.
 *
 * @internal
 */
export const acquire = Effect.fnUntraced(function*(
  options: AcquireOptions
): Effect.fn.Return<Won, HeldElsewhere | StoreFailed, Scope.Scope> {
  const scope = yield* Scope.Scope
  for (let round = 0; round < 16; round++) {
    const own = yield* Scope.fork(scope)
    const exit = yield* Effect.exit(attempt(options, own))
    const won = yield* Exit.isFailure(exit) ? Effect.andThen(Scope.close(own, exit), exit) : exit
    if (won !== undefined) return won
    yield* Scope.close(own, exit)
    yield* Effect.yieldNow
  }
  return yield* new HeldElsewhere({ id: options.id, holder: "another process that is opening it" })
})

/** @internal */
export const removeLock = (fs: FileSystem.FileSystem, lock: string): Effect.Effect<void> =>
  Effect.catch(
    fs.remove(lock, { force: true }),
    (error) => Effect.logWarning(storeFailed("give a lease back", lock)(error).message)
  )

/**
 * Whether an epoch is still the highest one and its lock in place.
 *
 * @internal
 */
export const isHeld = (
  fs: FileSystem.FileSystem,
  directory: string,
  epoch: number
): Effect.Effect<boolean, StoreFailed> =>
  Effect.map(
    listEpochs(fs, directory, "check a lease"),
    (epochs) => epochs.locks.includes(epoch) && highest(epochs) === epoch
  )

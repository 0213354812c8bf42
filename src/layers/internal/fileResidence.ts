/**
 * Keeps what a store needs while it holds sessions, and the list of those it holds.
 *
 * It is made when the store first takes a lease: a store that only reads writes nothing.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Latch from "effect/Latch"
import type * as PlatformError from "effect/PlatformError"
import * as Scope from "effect/Scope"
import * as Semaphore from "effect/Semaphore"
import type { SessionLog, StoreFailed } from "../../SessionStore.ts"
import { syncDirectory } from "./fileCalls.ts"
import type { Store } from "./fileHeader.ts"
import * as Lease from "./fileLease.ts"
import type { FileLog } from "./fileLog.ts"
import { shared } from "./fileShared.ts"

/** How long events wait for a flush before they are written without one, in milliseconds. */
const linger = 10

/** How many logs are attended to at once. */
const concurrency = 16

/**
 * - `sync`: makes what a directory lists survive a power cut
 * - `syncStore`: the same for the store's own directory, one `fsync` for all that ask at the same time
 *
 * @internal
 */
export interface Residence {
  readonly presence: Lease.Presence
  readonly sync: (directory: string) => Effect.Effect<void, PlatformError.PlatformError>
  readonly syncStore: Effect.Effect<void, PlatformError.PlatformError>
}

/**
 * - `resident`: the residence, with the leases fresh enough to take another
 * - `held`: the log of a session that this store holds
 * - `hold`: holds a log until the scope that it was opened in is closed, or the store is
 * - `onAppend`: has a log written soon
 *
 * @internal
 */
export interface Resident {
  readonly resident: Effect.Effect<Residence, StoreFailed>
  readonly held: (id: string) => FileLog | undefined
  readonly hold: (own: Scope.Closeable, log: FileLog) => Effect.Effect<SessionLog>
  readonly onAppend: (log: FileLog) => void
  readonly fork: (effect: Effect.Effect<void>) => void
}

interface Held {
  readonly log: FileLog
  readonly scope: Scope.Closeable
}

/** @internal */
export const make = Effect.fnUntraced(function*(
  store: Store,
  options: { readonly host: string | undefined; readonly lease: number }
): Effect.fn.Return<Resident, never, Scope.Scope> {
  const { fs, path, directory } = store
  const scope = yield* Scope.Scope
  const fork = Effect.runForkWith(yield* Effect.context<never>())
  const sessions = new Map<string, Held>()
  const unwritten = new Set<FileLog>()
  const hasUnwritten = Latch.makeUnsafe(false)

  const writeWhatWaits = Effect.suspend(() => {
    const logs = Array.from(unwritten)
    unwritten.clear()
    hasUnwritten.closeUnsafe()
    // a failure shows to whoever appends or flushes next
    return Effect.forEach(logs, (log) => Effect.ignore(log.drain), { concurrency, discard: true })
  })

  const settle = Effect.gen(function*(): Effect.fn.Return<Residence, StoreFailed, Scope.Scope> {
    const presence = yield* Lease.present({
      fs,
      path,
      directory,
      host: options.host,
      lease: options.lease,
      isNeeded: () => sessions.size > 0,
      onLate: Effect.suspend(() =>
        Effect.forEach(Array.from(sessions.values()), (each) => each.log.verify, { concurrency, discard: true })
      )
    })
    const opened = yield* fs.open(directory, { flag: "r" }).pipe(Effect.tap((file) => file.sync), Effect.option)
    yield* hasUnwritten.await.pipe(
      Effect.andThen(Effect.sleep(linger)),
      Effect.andThen(writeWhatWaits),
      Effect.forever,
      Effect.forkScoped
    )
    // added last and so run first: the sessions need all of the above until they are closed
    yield* Effect.addFinalizer(() =>
      Effect.forEach(Array.from(sessions.values()), (each) => Scope.close(each.scope, Exit.void), { discard: true })
    )
    return opened._tag === "None"
      // a system that cannot sync directories: there a power cut may take a new session back
      ? { presence, sync: () => Effect.void, syncStore: Effect.void }
      : { presence, sync: (each) => syncDirectory(fs, each), syncStore: shared(opened.value.sync, fork) }
  })

  const settling = yield* Semaphore.make(1)
  let residence: Residence | undefined
  const reside = settling.withPermit(Effect.suspend(() =>
    residence !== undefined
      ? Effect.succeed(residence)
      : Effect.map(transfer(scope, (own) => Scope.provide(settle, own)), (made) => residence = made)
  ))

  return {
    resident: Effect.suspend(() =>
      residence !== undefined && residence.presence.isFresh()
        ? Effect.succeed(residence)
        : Effect.tap(reside, (made) => made.presence.isFresh() ? Effect.void : made.presence.beat)
    ),
    held: (id) => sessions.get(id)?.log,
    hold: (own, log) => {
      const id = log.log.header.id
      const entry: Held = { log, scope: own }
      sessions.set(id, entry)
      const release = Effect.suspend(() => {
        unwritten.delete(log)
        return Effect.ensuring(
          log.close,
          Effect.sync(() => {
            // after a take-over the session may have come back to this store under another lease
            if (sessions.get(id) === entry) sessions.delete(id)
          })
        )
      })
      return Effect.as(Scope.addFinalizer(own, release), log.log)
    },
    onAppend: (log) => {
      unwritten.add(log)
      hasUnwritten.openUnsafe()
    },
    fork
  }
})

/**
 * Runs an acquisition in a scope of its own, which becomes part of `outer` when it succeeds and is closed when it does
 * not. To be run uninterruptibly.
 *
 * @internal
 */
export const transfer = <A, E>(
  outer: Scope.Scope,
  acquisition: (own: Scope.Closeable) => Effect.Effect<A, E>
): Effect.Effect<A, E> =>
  Effect.flatMap(Scope.make(), (own) =>
    Effect.flatMap(Effect.exit(acquisition(own)), (exit) =>
      Exit.isFailure(exit)
        ? Effect.andThen(Scope.close(own, exit), exit)
        : Effect.as(Scope.addFinalizer(outer, Scope.close(own, Exit.void)), exit.value)))

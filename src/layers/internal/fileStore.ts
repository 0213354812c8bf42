/**
 * Stores each session in a directory of its own: its header, the segments of its log, and the locks of its writers.
 *
 * A session comes into being by the rename of a finished directory, so that there is never half a one.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as FileSystem from "effect/FileSystem"
import * as Latch from "effect/Latch"
import * as Path from "effect/Path"
import type * as PlatformError from "effect/PlatformError"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import * as Semaphore from "effect/Semaphore"
import * as Stream from "effect/Stream"
import * as Session from "../../Session.ts"
import {
  Corrupt,
  type CreateError,
  type Entry,
  type OpenError,
  type ReadError,
  SessionExists,
  type SessionLog,
  SessionNotFound,
  SessionStore,
  StoreFailed
} from "../../SessionStore.ts"
import { isNotFound, storeFailed, syncDirectory } from "./fileError.ts"
import * as Lease from "./fileLease.ts"
import * as FileLog from "./fileLog.ts"
import * as Segment from "./fileSegment.ts"
import { shared } from "./fileShared.ts"

/** How long events wait for a flush before they are written without one, in milliseconds. */
const linger = 10

/** How many headers a listing reads at once. */
const concurrency = 16

const isSessionId = Schema.is(Session.SessionId)

interface Held {
  readonly log: FileLog.FileLog
  readonly scope: Scope.Closeable
}

/** What a store needs to hold sessions, made when it first does. */
interface Residence {
  readonly presence: Lease.Presence
  readonly sync: (directory: string) => Effect.Effect<void, PlatformError.PlatformError>
  readonly syncStore: Effect.Effect<void, PlatformError.PlatformError>
}

/** What a directory turned out to be; `parent` is what a damaged header says of it, if it can be told. */
interface Found {
  readonly entry: Entry
  readonly parent: string | undefined
}

/** @internal */
export const make = Effect.fnUntraced(function*(options: {
  readonly directory: string
  readonly host: string | undefined
  readonly lease: number
}): Effect.fn.Return<SessionStore["Service"], StoreFailed, FileSystem.FileSystem | Path.Path | Scope.Scope> {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const scope = yield* Scope.Scope
  const fork = Effect.runForkWith(yield* Effect.context<never>())
  const directory = path.resolve(options.directory)

  yield* makeStoreDirectory(fs, path, directory)

  // ---------------------------------------------------------------------------
  // residence
  // ---------------------------------------------------------------------------

  const held = new Map<string, Held>()
  const unwritten = new Set<FileLog.FileLog>()
  const hasUnwritten = Latch.makeUnsafe(false)

  const writeWhatWaits = Effect.suspend(() => {
    const logs = Array.from(unwritten)
    unwritten.clear()
    hasUnwritten.closeUnsafe()
    // a failure shows to whoever appends or flushes next
    return Effect.forEach(logs, (log) => Effect.ignore(log.drain), { concurrency, discard: true })
  })

  const becomeResident = Effect.gen(function*(): Effect.fn.Return<Residence, StoreFailed, Scope.Scope> {
    const presence = yield* Lease.present({
      fs,
      path,
      directory,
      host: options.host,
      lease: options.lease,
      isNeeded: () => held.size > 0,
      onLate: Effect.suspend(() =>
        Effect.forEach(Array.from(held.values()), (each) => each.log.verify, { concurrency, discard: true })
      )
    })
    const opened = yield* fs.open(directory, { flag: "r" }).pipe(
      Effect.tap((file) => file.sync),
      Effect.option
    )
    yield* hasUnwritten.await.pipe(
      Effect.andThen(Effect.sleep(linger)),
      Effect.andThen(writeWhatWaits),
      Effect.forever,
      Effect.forkScoped
    )
    // after everything that its sessions need, and so before it when the store ends
    yield* Effect.addFinalizer(() =>
      Effect.forEach(Array.from(held.values()), (each) => Scope.close(each.scope, Exit.void), { discard: true })
    )
    return opened._tag === "None"
      // a system that cannot sync directories: there a power cut may take a new session back
      ? { presence, sync: () => Effect.void, syncStore: Effect.void }
      : { presence, sync: (each) => syncDirectory(fs, each), syncStore: shared(opened.value.sync, fork) }
  })

  const residing = yield* Semaphore.make(1)
  let residence: Residence | undefined
  const reside: Effect.Effect<Residence, StoreFailed> = residing.withPermit(Effect.suspend(() =>
    residence !== undefined
      ? Effect.succeed(residence)
      : Effect.tap(transfer(scope, becomeResident), (made) => Effect.sync(() => void (residence = made)))
  ))

  /** Held, and fresh enough to take a lease. */
  const present = Effect.suspend(() =>
    residence !== undefined && residence.presence.isFresh()
      ? Effect.succeed(residence)
      : Effect.tap(reside, (made) => made.presence.isFresh() ? Effect.void : made.presence.beat)
  )

  const hold = (
    own: Scope.Closeable,
    log: FileLog.FileLog
  ): Effect.Effect<SessionLog> => {
    const id = log.log.header.id
    const entry: Held = { log, scope: own }
    held.set(id, entry)
    const release = Effect.suspend(() => {
      unwritten.delete(log)
      return Effect.ensuring(
        log.close,
        Effect.sync(() => {
          if (held.get(id) === entry) held.delete(id)
        })
      )
    })
    return Effect.as(Scope.addFinalizer(own, release), log.log)
  }

  const makeLog = (
    header: Session.Header,
    segment: {
      readonly epoch: number
      readonly file: FileSystem.File
      readonly path: string
      readonly claim: string
      readonly next: number
    },
    made: Residence
  ): FileLog.FileLog =>
    FileLog.make({
      header,
      file: segment.file,
      path: segment.path,
      claim: segment.claim,
      next: segment.next,
      isFresh: made.presence.isFresh,
      isHeld: Lease.isHeld(fs, path.join(directory, header.id), segment.epoch),
      fork,
      onAppend: (log) => {
        unwritten.add(log)
        hasUnwritten.openUnsafe()
      }
    })

  // ---------------------------------------------------------------------------
  // create
  // ---------------------------------------------------------------------------

  let created = 0

  const create = Effect.fnUntraced(function*(
    header: Session.Header,
    seed: ReadonlyArray<Session.Event> | undefined
  ): Effect.fn.Return<SessionLog, CreateError, Scope.Scope> {
    const operation = `create session ${header.id}`
    if (!isSessionId(header.id)) return yield* new StoreFailed({ operation, what: "not a session id" })
    const misplaced = seed?.findIndex((event, index) => event.seq !== index) ?? -1
    if (seed !== undefined && misplaced >= 0) {
      return yield* Effect.die(new Error(`seq ${seed[misplaced].seq} where ${misplaced} was due`))
    }
    const encoded = JSON.stringify(Session.encodeHeader(header)) + "\n"
    const made = yield* present
    const temporary = path.join(made.presence.directory, String(created++))
    const target = path.join(directory, header.id)
    const own = yield* Scope.Scope
    const failedAt = (name: string) => storeFailed(operation, path.join(temporary, name))

    yield* Effect.mapError(fs.makeDirectory(temporary), failedAt(""))
    let place = temporary
    yield* Scope.addFinalizerExit(own, (exit) =>
      Exit.isSuccess(exit) ? Effect.void : Effect.ignore(fs.remove(place, { recursive: true, force: true })))

    yield* Effect.scoped(Effect.gen(function*() {
      const file = yield* fs.open(path.join(temporary, "header.json"), { flag: "wx" })
      yield* file.writeAll(new TextEncoder().encode(encoded))
      yield* file.sync
    })).pipe(Effect.mapError(failedAt("header.json")))

    const file = yield* fs.open(path.join(temporary, "0.jsonl"), { flag: "wx" }).pipe(
      Effect.mapError(failedAt("0.jsonl"))
    )
    const claim = Segment.encodeClaim(0, undefined)
    if (seed !== undefined && seed.length > 0) {
      // each on its own line and whole all the same: the rename is what lets them count
      yield* FileLog.writeEvents(file, claim, seed.map((event) => [event])).pipe(
        Effect.andThen(file.sync),
        Effect.mapError(failedAt("0.jsonl"))
      )
    }
    yield* Effect.mapError(made.sync(temporary), failedAt(""))
    yield* Effect.mapError(fs.link(made.presence.record, path.join(temporary, "0.lock")), failedAt("0.lock"))

    yield* Effect.catch(fs.rename(temporary, target), (error) =>
      Effect.flatMap(Effect.option(fs.lstat(target)), (info) =>
        info._tag === "None"
          ? Effect.fail(storeFailed(operation, target)(error))
          : info.value.type === "Directory"
          ? Effect.fail(new SessionExists({ id: header.id }))
          : Effect.fail(new StoreFailed({ operation, what: `something else is in its place: ${target}` }))))
    place = target
    yield* Scope.addFinalizer(own, Lease.removeLock(fs, path.join(target, "0.lock")))
    yield* Effect.mapError(made.syncStore, storeFailed(operation, directory))

    const log = makeLog(header, {
      epoch: 0,
      file,
      path: path.join(target, "0.jsonl"),
      claim: seed !== undefined && seed.length > 0 ? "" : claim,
      next: seed?.length ?? 0
    }, made)
    // sound: `Scope.Scope` is provided by `transfer`, which makes it closeable
    return yield* hold(own as Scope.Closeable, log)
  })

  // ---------------------------------------------------------------------------
  // read
  // ---------------------------------------------------------------------------

  const locate = (
    id: string,
    operation: string
  ): Effect.Effect<Segment.Place, SessionNotFound | StoreFailed> => {
    if (!isSessionId(id)) return Effect.fail(new SessionNotFound({ id }))
    const place: Segment.Place = { fs, path, id, directory: path.join(directory, id), operation }
    return Effect.matchEffect(fs.lstat(place.directory), {
      onFailure: (error) =>
        Effect.fail(isNotFound(error) ? new SessionNotFound({ id }) : storeFailed(operation, place.directory)(error)),
      // a link to elsewhere is no session of this store
      onSuccess: (info) =>
        info.type === "Directory" ? Effect.succeed(place) : Effect.fail(new SessionNotFound({ id }))
    })
  }

  const headerOf = (place: Segment.Place): Effect.Effect<Session.Header, ReadError> => {
    const file = path.join(place.directory, "header.json")
    return Effect.matchEffect(fs.readFileString(file), {
      onFailure: (error): Effect.Effect<never, ReadError> =>
        isNotFound(error)
          ? Effect.flatMap(
            // a directory that has nothing of a session in it is somebody else's
            Lease.listEpochs(fs, place.directory, place.operation),
            ({ segments }) =>
              segments.length === 0
                ? Effect.fail(new SessionNotFound({ id: place.id }))
                : Effect.fail(new Corrupt({ id: place.id, where: file, what: "the header is missing" }))
          )
          : error.reason._tag === "BadResource"
          ? Effect.fail(new Corrupt({ id: place.id, where: file, what: "not a file" }))
          : Effect.fail(storeFailed(place.operation, file)(error)),
      onSuccess: (text) => {
        const header = Result.flatMap(parse(text), Session.decodeHeader)
        if (Result.isFailure(header)) {
          return Effect.fail(new Corrupt({ id: place.id, where: file, what: header.failure }))
        }
        return header.success.id === place.id
          ? Effect.succeed(header.success)
          : Effect.fail(new Corrupt({ id: place.id, where: file, what: `the header of session ${header.success.id}` }))
      }
    })
  }

  const header = (id: string): Effect.Effect<Session.Header, ReadError> =>
    Effect.flatMap(locate(id, `read session ${id}`), headerOf)

  const chainOf = (place: Segment.Place): Effect.Effect<ReadonlyArray<Segment.Piece>, Corrupt | StoreFailed> =>
    Lease.listEpochs(fs, place.directory, place.operation).pipe(
      Effect.flatMap(({ segments }) => Segment.resolve(place, segments)),
      Effect.retry({ times: 3, while: (error) => error._tag === "PlatformError" && isNotFound(error) }),
      Effect.catchTag("PlatformError", (error) => Effect.fail(storeFailed(place.operation, place.directory)(error)))
    )

  const read: SessionStore["Service"]["read"] = (id, readOptions) =>
    Stream.unwrap(Effect.gen(function*() {
      const place = yield* locate(id, `read session ${id}`)
      yield* headerOf(place)
      // who appended here reads it here
      const mine = held.get(id)
      if (mine !== undefined) yield* Effect.ignore(mine.log.drain)
      const chain = yield* chainOf(place)
      const from = readOptions?.from ?? 0
      return Stream.flatMap(Stream.fromIterable(chain), (piece) => Segment.read(place, piece, from))
    }))

  // ---------------------------------------------------------------------------
  // open
  // ---------------------------------------------------------------------------

  const open = Effect.fnUntraced(function*(
    id: string,
    restore: <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
  ): Effect.fn.Return<SessionLog, OpenError, Scope.Scope> {
    const operation = `open session ${id}`
    const place = yield* locate(id, operation)
    const header = yield* headerOf(place)
    const made = yield* present
    const own = yield* Scope.Scope
    const won = yield* Lease.acquire({
      fs,
      path,
      presence: made.presence,
      id,
      directory: place.directory,
      operation
    })
    const failedAt = (file: string) => storeFailed(operation, file)

    const chain = yield* Segment.resolve(place, won.epochs.segments.filter((epoch) => epoch !== won.epoch)).pipe(
      Effect.catchTag("PlatformError", (error) => Effect.fail(failedAt(place.directory)(error)))
    )
    // the longest part, and the only one that a caller may give up
    const scans = yield* restore(Effect.forEach(chain, (piece) => Segment.scan(place, piece)))
    const last = scans.at(-1)
    const head = chain.at(-1)
    let previous: Segment.End | undefined
    if (last !== undefined && head !== undefined) {
      if (last.size > last.end.bytes) {
        const torn = path.join(place.directory, `${head.epoch}.torn`)
        yield* Effect.mapError(Segment.copyTail(fs, head.path, last.end.bytes, torn), failedAt(torn))
        yield* Effect.logWarning(
          `session ${id}: ${last.size - last.end.bytes} bytes of an append that was never finished are set aside in ${torn}`
        )
      }
      if (last.end.events === head.start) {
        // nothing in it, so its own predecessor is followed instead
        previous = chain.at(-2)?.end
      } else {
        previous = last.end
        // what the claim counts must not be less after a power cut than the claim says
        yield* Effect.scoped(Effect.flatMap(fs.open(head.path, { flag: "r+" }), (file) => file.sync)).pipe(
          Effect.mapError(failedAt(head.path))
        )
      }
    }
    const claim = new TextEncoder().encode(Segment.encodeClaim(won.epoch, previous))
    yield* Effect.mapError(won.file.writeAll(claim), failedAt(won.segment))
    yield* Effect.mapError(made.sync(place.directory), failedAt(place.directory))
    won.claimed = true

    // what no claim leads to and holds nothing, and the locks that were taken over
    const useless = won.epochs.segments.filter((epoch) => epoch !== won.epoch && epoch > (previous?.epoch ?? -1))
    const stale = [
      ...won.epochs.locks.filter((epoch) => epoch < won.epoch).map((epoch) => `${epoch}.lock`),
      ...useless.map((epoch) => `${epoch}.jsonl`)
    ]
    for (const name of stale) yield* Effect.ignore(fs.remove(path.join(place.directory, name), { force: true }))

    const log = makeLog(header, {
      epoch: won.epoch,
      file: won.file,
      path: won.segment,
      claim: "",
      next: last?.end.events ?? 0
    }, made)
    // sound: `Scope.Scope` is provided by `transfer`, which makes it closeable
    return yield* hold(own as Scope.Closeable, log)
  })

  // ---------------------------------------------------------------------------
  // list
  // ---------------------------------------------------------------------------

  const find = Effect.fnUntraced(function*(id: string): Effect.fn.Return<Found | undefined> {
    const place: Segment.Place = { fs, path, id, directory: path.join(directory, id), operation: "list sessions" }
    const found = yield* Effect.result(headerOf(place))
    if (Result.isSuccess(found)) {
      return { entry: { _tag: "Session", header: found.success }, parent: found.success.parent }
    }
    const error = found.failure
    if (error._tag === "SessionNotFound") return undefined
    const raw = yield* Effect.orElseSucceed(fs.readFileString(path.join(place.directory, "header.json")), () => "")
    const json = Result.getOrElse(parse(raw), () => undefined)
    const parent = typeof json === "object" && json !== null && "parent" in json && typeof json.parent === "string"
      ? json.parent
      : undefined
    return { entry: { _tag: "Damaged", id, what: error.message }, parent }
  })

  const entries = (keep: (found: Found) => boolean): Stream.Stream<Entry, StoreFailed> =>
    Stream.fromIterableEffect(
      fs.readDirectoryEntries(directory).pipe(
        Effect.mapError(storeFailed("list sessions", directory)),
        Effect.flatMap((all) =>
          Effect.forEach(
            all.filter((each) => each.type === "Directory" && isSessionId(each.name)),
            (each) => find(each.name),
            { concurrency }
          )
        ),
        Effect.map((found) =>
          found.filter((each) => each !== undefined).filter(keep).map((each) => each.entry).sort(oldestFirst)
        )
      )
    )

  return SessionStore.of({
    durability: "durable",
    create: (header, seed) =>
      Effect.flatMap(Scope.Scope, (outer) => Effect.uninterruptible(transfer(outer, create(header, seed)))),
    open: (id) =>
      Effect.flatMap(Scope.Scope, (outer) =>
        Effect.uninterruptibleMask((restore) => transfer(outer, open(id, restore)))),
    header,
    read,
    list: entries(() => true),
    children: (parent) =>
      entries((found) => found.parent === parent || (found.entry._tag === "Damaged" && found.parent === undefined))
  })
})

/** Runs an acquisition in a scope of its own, which becomes part of `outer` when it succeeds and is closed when not. */
const transfer = <A, E>(outer: Scope.Scope, acquisition: Effect.Effect<A, E, Scope.Scope>): Effect.Effect<A, E> =>
  Effect.flatMap(Scope.make(), (own) =>
    Effect.flatMap(Effect.exit(Scope.provide(acquisition, own)), (exit) =>
      Exit.isFailure(exit)
        ? Effect.andThen(Scope.close(own, exit), exit)
        : Effect.as(Scope.addFinalizerExit(outer, () => Scope.close(own, Exit.void)), exit.value)))

const makeStoreDirectory = Effect.fnUntraced(function*(
  fs: FileSystem.FileSystem,
  path: Path.Path,
  directory: string
): Effect.fn.Return<void, StoreFailed> {
  const missing: Array<string> = []
  let at = directory
  while (!(yield* Effect.orElseSucceed(fs.exists(at), () => true)) && path.dirname(at) !== at) {
    missing.push(at)
    at = path.dirname(at)
  }
  yield* fs.makeDirectory(directory, { recursive: true }).pipe(
    Effect.mapError(storeFailed("make the store's directory", directory))
  )
  // where directories cannot be synced there is nothing to be done about it
  for (const each of missing) yield* Effect.ignore(syncDirectory(fs, path.dirname(each)))
})

const parse = (text: string): Result.Result<unknown, string> =>
  Result.mapError(Result.try((): unknown => JSON.parse(text)), (cause) => `not JSON: ${String(cause)}`)

const rank = (entry: Entry): readonly [number, string] =>
  entry._tag === "Session" ? [entry.header.createdAt, entry.header.id] : [Number.POSITIVE_INFINITY, entry.id]

const oldestFirst = (a: Entry, b: Entry): number => {
  const [timeA, idA] = rank(a)
  const [timeB, idB] = rank(b)
  return timeA !== timeB ? timeA - timeB : idA < idB ? -1 : idA > idB ? 1 : 0
}

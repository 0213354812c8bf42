/**
 * Stores each session in a directory of its own: its header, the segments of its log, and the locks of its writers.
 *
 * A session comes into being by the rename of a finished directory, so that there is never half a one.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as FileSystem from "effect/FileSystem"
import * as Path from "effect/Path"
import type * as PlatformError from "effect/PlatformError"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as Session from "../../Session.ts"
import {
  type Corrupt,
  type CreateError,
  type OpenError,
  SessionExists,
  type SessionLog,
  SessionStore,
  StoreFailed
} from "../../SessionStore.ts"
import { isNotFound, makeDirectory, storeFailed, syncDirectory } from "./fileCalls.ts"
import * as Header from "./fileHeader.ts"
import * as Lease from "./fileLease.ts"
import * as FileLog from "./fileLog.ts"
import * as Residence from "./fileResidence.ts"
import * as Segment from "./fileSegment.ts"

const encoder = new TextEncoder()

/** @internal */
export const make = Effect.fnUntraced(function*(options: {
  readonly directory: string
  readonly host: string | undefined
  readonly lease: number
}): Effect.fn.Return<SessionStore["Service"], StoreFailed, FileSystem.FileSystem | Path.Path | Scope.Scope> {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const store: Header.Store = { fs, path, directory: path.resolve(options.directory) }
  yield* makeStoreDirectory(store)
  const residence = yield* Residence.make(store, options)

  const makeLog = (
    header: Session.Header,
    presence: Lease.Presence,
    segment: Pick<FileLog.Options, "file" | "path" | "claim" | "next"> & { readonly epoch: number }
  ): FileLog.FileLog =>
    FileLog.make({
      header,
      file: segment.file,
      path: segment.path,
      claim: segment.claim,
      next: segment.next,
      isFresh: presence.isFresh,
      isHeld: Lease.isHeld(fs, path.join(store.directory, header.id), segment.epoch),
      fork: residence.fork,
      onAppend: residence.onAppend
    })

  let created = 0

  const create = Effect.fnUntraced(function*(
    own: Scope.Closeable,
    header: Session.Header,
    seed: ReadonlyArray<Session.Event>,
    unwanted: (() => boolean) | undefined
  ): Effect.fn.Return<SessionLog, CreateError> {
    const operation = `create session ${header.id}`
    if (!Header.isSessionId(header.id)) return yield* new StoreFailed({ operation, what: "not a session id" })
    const misplaced = seed.findIndex((event, index) => event.seq !== index)
    if (misplaced >= 0) {
      return yield* Effect.die(new Error(`seq ${seed[misplaced].seq} where ${misplaced} was due`))
    }
    const encoded = encoder.encode(JSON.stringify(Session.encodeHeader(header)) + "\n")
    const { presence, sync, syncStore } = yield* residence.resident

    const draft = path.join(presence.directory, String(created++))
    const target = path.join(store.directory, header.id)
    let place = draft
    const at = (name: string) => storeFailed(operation, path.join(draft, name))
    yield* Effect.mapError(fs.makeDirectory(draft), at(""))
    yield* Scope.addFinalizerExit(
      own,
      // the last of its finalizers: the log is closed by then, and its lock gone
      (exit) =>
        Exit.isSuccess(exit) && unwanted?.() !== true
          ? Effect.void
          : Effect.ignore(fs.remove(place, { recursive: true, force: true }))
    )

    yield* writeSynced(fs, path.join(draft, Header.headerFile), encoded).pipe(Effect.mapError(at(Header.headerFile)))
    const file = yield* Scope.provide(
      Effect.mapError(fs.open(path.join(draft, "0.jsonl"), { flag: "wx" }), at("0.jsonl")),
      own
    )
    const claim = Segment.encodeClaim(0, undefined)
    if (seed.length > 0) {
      // each on its own, and all or none of them even so: the rename is what lets them count
      yield* FileLog.writeEvents(file, claim, seed.map((event) => [event])).pipe(
        Effect.andThen(file.sync),
        Effect.mapError(at("0.jsonl"))
      )
    }
    yield* Effect.mapError(sync(draft), at(""))
    yield* Effect.mapError(fs.link(presence.record, path.join(draft, "0.lock")), at("0.lock"))
    yield* Effect.catch(
      fs.rename(draft, target),
      (error) =>
        Effect.flatMap(inTheWay(target), (found): Effect.Effect<never, CreateError> => {
          if (found === undefined) return Effect.fail(storeFailed(operation, target)(error))
          return found === "Directory"
            ? Effect.fail(new SessionExists({ id: header.id }))
            : Effect.fail(new StoreFailed({ operation, what: `something else is in its place: ${target}` }))
        })
    )
    place = target
    yield* Scope.addFinalizer(own, Lease.removeLock(fs, path.join(target, "0.lock")))
    yield* Effect.mapError(syncStore, storeFailed(operation, store.directory))

    return yield* residence.hold(
      own,
      makeLog(header, presence, {
        epoch: 0,
        file,
        path: path.join(target, "0.jsonl"),
        claim: seed.length > 0 ? "" : claim,
        next: seed.length
      })
    )
  })

  const inTheWay = (target: string): Effect.Effect<FileSystem.File.Type | undefined> =>
    Effect.orElseSucceed(Effect.map(fs.lstat(target), (info) => info.type), () => undefined)

  const open = Effect.fnUntraced(function*(
    own: Scope.Closeable,
    id: string,
    restore: <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
  ): Effect.fn.Return<SessionLog, OpenError> {
    const operation = `open session ${id}`
    const place = yield* Header.locate(store, id, operation)
    const header = yield* Header.readHeader(place)
    const { presence, sync } = yield* residence.resident
    const won = yield* Scope.provide(Lease.acquire({ ...place, presence }), own)

    const chain = yield* Segment.resolve(place, won.epochs.segments.filter((epoch) => epoch !== won.epoch)).pipe(
      Effect.catchTag("PlatformError", (error) => Effect.fail(storeFailed(operation, place.directory)(error)))
    )
    // as long as the log is, and the only part that a caller can give up
    const scans = yield* restore(Effect.forEach(chain, (piece) => Segment.scan(place, piece)))
    const head = chain.at(-1)
    const last = scans.at(-1)
    let previous: Segment.End | undefined
    if (head !== undefined && last !== undefined) {
      yield* setAside(place, head, last)
      // an empty one is left out of the chain
      previous = last.end.events === head.start ? chain.at(-2)?.end : last.end
    }
    if (head !== undefined && previous !== undefined && previous.epoch === head.epoch) {
      // after a power cut there must not be less of it than the claim counts
      yield* Effect.scoped(Effect.flatMap(fs.open(head.path, { flag: "r+" }), (file) => file.sync)).pipe(
        Effect.mapError(storeFailed(operation, head.path))
      )
    }
    const claim = encoder.encode(Segment.encodeClaim(won.epoch, previous))
    yield* Effect.mapError(won.file.writeAll(claim), storeFailed(operation, won.segment))
    yield* Effect.mapError(sync(place.directory), storeFailed(operation, place.directory))
    won.claimed = true
    yield* clearAway(place, won, previous?.epoch ?? -1)

    return yield* residence.hold(
      own,
      makeLog(header, presence, {
        epoch: won.epoch,
        file: won.file,
        path: won.segment,
        claim: "",
        next: last?.end.events ?? 0
      })
    )
  })

  const setAside = (
    place: Segment.Place,
    head: Segment.Piece,
    last: { readonly end: Segment.End; readonly size: number }
  ): Effect.Effect<void, StoreFailed> => {
    const bytes = last.size - last.end.bytes
    if (bytes <= 0) return Effect.void
    const torn = path.join(place.directory, `${head.epoch}.torn`)
    return Segment.copyTail(fs, head.path, last.end.bytes, torn).pipe(
      Effect.mapError(storeFailed(place.operation, torn)),
      Effect.andThen(
        Effect.logWarning(`session ${place.id}: set ${bytes} bytes of an unfinished append aside in ${torn}`)
      )
    )
  }

  /** Removes the locks that were taken over, and the segments that hold nothing and that no claim leads to. */
  const clearAway = (place: Segment.Place, won: Lease.Won, previous: number): Effect.Effect<void> =>
    Effect.forEach(
      [
        ...won.epochs.locks.filter((epoch) => epoch < won.epoch).map((epoch) => `${epoch}.lock`),
        ...won.epochs.segments.filter((epoch) => epoch > previous && epoch < won.epoch).map((epoch) => `${epoch}.jsonl`)
      ],
      (name) => Effect.ignore(fs.remove(path.join(place.directory, name), { force: true })),
      { discard: true }
    )

  const chainOf = (place: Segment.Place): Effect.Effect<ReadonlyArray<Segment.Piece>, Corrupt | StoreFailed> =>
    Lease.listEpochs(fs, place.directory, place.operation).pipe(
      Effect.flatMap(({ segments }) => Segment.resolve(place, segments)),
      Effect.retry({ times: 3, while: (error) => error._tag === "PlatformError" && isNotFound(error) }),
      Effect.catchTag("PlatformError", (error) => Effect.fail(storeFailed(place.operation, place.directory)(error)))
    )

  const read: SessionStore["Service"]["read"] = (id, readOptions) =>
    Stream.unwrap(Effect.gen(function*() {
      const place = yield* Header.locate(store, id, `read session ${id}`)
      yield* Header.readHeader(place)
      // what was appended through this store is read through it
      const log = residence.held(id)
      if (log !== undefined) yield* Effect.ignore(log.drain)
      const chain = yield* chainOf(place)
      const from = readOptions?.from ?? 0
      return Stream.flatMap(Stream.fromIterable(chain), (piece) => Segment.read(place, piece, from))
    }))

  return SessionStore.of({
    durability: "durable",
    create: (header, seed, options) =>
      Effect.flatMap(
        Scope.Scope,
        (outer) =>
          Effect.uninterruptible(Residence.transfer(outer, (own) => create(own, header, seed ?? [], options?.unwanted)))
      ),
    open: (id) =>
      Effect.flatMap(
        Scope.Scope,
        (outer) => Effect.uninterruptibleMask((restore) => Residence.transfer(outer, (own) => open(own, id, restore)))
      ),
    header: (id) => Effect.flatMap(Header.locate(store, id, `read session ${id}`), Header.readHeader),
    read,
    list: Header.list(store),
    children: (parent) => Header.children(store, parent)
  })
})

const writeSynced = (
  fs: FileSystem.FileSystem,
  path: string,
  bytes: Uint8Array
): Effect.Effect<void, PlatformError.PlatformError> =>
  Effect.scoped(Effect.flatMap(
    fs.open(path, { flag: "wx" }),
    (file) => Effect.andThen(file.writeAll(bytes), file.sync)
  ))

const makeStoreDirectory = Effect.fnUntraced(function*(
  { directory, fs, path }: Header.Store
): Effect.fn.Return<void, StoreFailed> {
  const operation = "make the directory of the store"
  const missing: Array<string> = []
  let at = directory
  while (!(yield* Effect.orElseSucceed(fs.exists(at), () => true)) && path.dirname(at) !== at) {
    missing.push(at)
    at = path.dirname(at)
  }
  // one by one, because making them all at once never returns where a system refuses with "no such directory"
  for (const each of missing.toReversed()) {
    yield* Effect.mapError(makeDirectory(fs, each), storeFailed(operation, each))
    // where directories cannot be synced there is nothing to be done about it
    yield* Effect.ignore(syncDirectory(fs, path.dirname(each)))
  }
  const info = yield* Effect.mapError(fs.stat(directory), storeFailed(operation, directory))
  if (info.type !== "Directory") return yield* new StoreFailed({ operation, what: `not a directory: ${directory}` })
})

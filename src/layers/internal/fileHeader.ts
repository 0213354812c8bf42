/**
 * Finds the sessions of a store by their directories, and reads their headers and nothing more.
 *
 * An id becomes a path only here, after it was checked: no id leads out of the store, and no symbolic link does.
 */
import * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import type * as Path from "effect/Path"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as Session from "../../Session.ts"
import { Corrupt, type Entry, type ReadError, SessionNotFound, type StoreFailed } from "../../SessionStore.ts"
import { isNotFound, storeFailed } from "./fileCalls.ts"
import { listEpochs } from "./fileLease.ts"
import type { Place } from "./fileSegment.ts"

/** How many headers a listing reads at once. */
const concurrency = 16

/** @internal */
export const headerFile = "header.json"

/** @internal */
export const isSessionId = Schema.is(Session.SessionId)

/**
 * Where the sessions are.
 *
 * @internal
 */
export interface Store {
  readonly fs: FileSystem.FileSystem
  readonly path: Path.Path
  readonly directory: string
}

const placeOf = (store: Store, id: string, operation: string): Place => ({
  fs: store.fs,
  path: store.path,
  id,
  directory: store.path.join(store.directory, id),
  operation
})

/** @internal */
export const locate = (
  store: Store,
  id: string,
  operation: string
): Effect.Effect<Place, SessionNotFound | StoreFailed> => {
  if (!isSessionId(id)) return Effect.fail(new SessionNotFound({ id }))
  const place = placeOf(store, id, operation)
  return Effect.matchEffect(store.fs.lstat(place.directory), {
    onFailure: (error): Effect.Effect<never, SessionNotFound | StoreFailed> =>
      Effect.fail(isNotFound(error) ? new SessionNotFound({ id }) : storeFailed(operation, place.directory)(error)),
    onSuccess: (info) => info.type === "Directory" ? Effect.succeed(place) : Effect.fail(new SessionNotFound({ id }))
  })
}

const parse = (text: string): Result.Result<unknown, string> =>
  Result.mapError(Result.try((): unknown => JSON.parse(text)), (cause) => `not JSON: ${String(cause)}`)

/** @internal */
export const readHeader = Effect.fnUntraced(function*(place: Place): Effect.fn.Return<Session.Header, ReadError> {
  const where = place.path.join(place.directory, headerFile)
  const read = yield* Effect.result(place.fs.readFileString(where))
  if (Result.isFailure(read)) {
    if (read.failure.reason._tag === "BadResource") {
      return yield* new Corrupt({ id: place.id, where, what: "not a file" })
    }
    if (!isNotFound(read.failure)) return yield* storeFailed(place.operation, where)(read.failure)
    // a directory that has nothing of a session in it is somebody else's
    const { segments } = yield* listEpochs(place.fs, place.directory, place.operation)
    if (segments.length === 0) return yield* new SessionNotFound({ id: place.id })
    return yield* new Corrupt({ id: place.id, where, what: "the header is missing" })
  }
  const header = Result.flatMap(parse(read.success), Session.decodeHeader)
  if (Result.isFailure(header)) return yield* new Corrupt({ id: place.id, where, what: header.failure })
  if (header.success.id === place.id) return header.success
  return yield* new Corrupt({ id: place.id, where, what: `the header of session ${header.success.id}` })
})

/** What a directory turned out to be; `parent` is what even a damaged header says of it, if it can be told. */
interface Found {
  readonly entry: Entry
  readonly parent: string | undefined
}

const find = Effect.fnUntraced(function*(store: Store, id: string): Effect.fn.Return<Found | undefined> {
  const place = placeOf(store, id, "list sessions")
  const header = yield* Effect.result(readHeader(place))
  if (Result.isSuccess(header)) {
    return { entry: { _tag: "Session", header: header.success }, parent: header.success.parent }
  }
  if (header.failure._tag === "SessionNotFound") return undefined
  const text = yield* Effect.orElseSucceed(
    store.fs.readFileString(store.path.join(place.directory, headerFile)),
    () => ""
  )
  const json = Result.getOrElse(parse(text), () => undefined)
  const parent = typeof json === "object" && json !== null && "parent" in json && typeof json.parent === "string"
    ? json.parent
    : undefined
  return { entry: { _tag: "Damaged", id, what: header.failure.message }, parent }
})

const entries = (store: Store, keep: (found: Found) => boolean): Stream.Stream<Entry, StoreFailed> =>
  store.fs.readDirectoryEntries(store.directory).pipe(
    Effect.mapError(storeFailed("list sessions", store.directory)),
    Effect.flatMap((all) =>
      Effect.forEach(
        all.filter((each) => each.type === "Directory" && isSessionId(each.name)),
        (each) => find(store, each.name),
        { concurrency }
      )
    ),
    Effect.map((found) =>
      found.filter((each) => each !== undefined).filter(keep).map((each) => each.entry).toSorted(oldestFirst)
    ),
    Stream.fromIterableEffect
  )

/**
 * Every session, oldest first, and at the end those that cannot be read.
 *
 * @internal
 */
export const list = (store: Store): Stream.Stream<Entry, StoreFailed> => entries(store, () => true)

/**
 * The sessions of a parent, and those whose header is too damaged to say whose they are.
 *
 * @internal
 */
export const children = (store: Store, parent: string): Stream.Stream<Entry, StoreFailed> =>
  entries(store, (found) => found.parent === parent || (found.entry._tag === "Damaged" && found.parent === undefined))

const rank = (entry: Entry): readonly [number, string] =>
  entry._tag === "Session" ? [entry.header.createdAt, entry.header.id] : [Number.POSITIVE_INFINITY, entry.id]

const oldestFirst = (a: Entry, b: Entry): number => {
  const [timeA, idA] = rank(a)
  const [timeB, idB] = rank(b)
  if (timeA !== timeB) return timeA - timeB
  return idA < idB ? -1 : idA > idB ? 1 : 0
}

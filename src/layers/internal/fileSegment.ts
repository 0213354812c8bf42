/**
 * Reads the segments of a session: which of them count and how far, and the events in them.
 *
 * The first record of a segment claims its place: it names the segment before it and how many of its bytes, and of the
 * log's events, were valid when the lease changed hands. What a stale writer adds behind that is nobody's. A segment
 * without a whole first record claims nothing and is skipped, as is every one that no claim leads to.
 */
import * as Arr from "effect/Array"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import type * as Path from "effect/Path"
import * as PlatformError from "effect/PlatformError"
import type * as Pull from "effect/Pull"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as Session from "../../Session.ts"
import { Corrupt, type StoreFailed } from "../../SessionStore.ts"
import { isNotFound, storeFailed } from "./fileCalls.ts"
import * as Lines from "./fileLines.ts"

// -----------------------------------------------------------------------------
// records
// -----------------------------------------------------------------------------

const Natural = Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))

/**
 * Where a log ends: `bytes` into the segment `epoch`, after `events` events counted over the whole log.
 *
 * @internal
 */
export const End = Schema.Struct({ epoch: Natural, bytes: Natural, events: Natural })

/** @internal */
export type End = typeof End.Type

/** The first record of a segment. */
const Claim = Schema.Struct({
  segment: Schema.Struct({ version: Schema.Literal(1), epoch: Natural, previous: Schema.optionalKey(End) })
})

/** The record before the events that were appended together: they count only when all their bytes are there. */
const Append = Schema.Struct({ append: Schema.Struct({ events: Natural, bytes: Natural }) })

const decodeClaim = Schema.decodeUnknownResult(Schema.fromJsonString(Claim))
const decodeAppend = Schema.decodeUnknownResult(Schema.fromJsonString(Append))

/** @internal */
export const encodeClaim = (epoch: number, previous: End | undefined): string =>
  JSON.stringify({ segment: { version: 1, epoch, ...(previous === undefined ? undefined : { previous }) } }) + "\n"

/** @internal */
export const encodeAppend = (events: number, bytes: number): string =>
  JSON.stringify({ append: { events, bytes } }) + "\n"

/** How many bytes follow that were appended together, if this line says so. */
const togetherBytes = (text: string): number | undefined => {
  if (!text.startsWith("{\"append\":")) return undefined
  const record = decodeAppend(text)
  return Result.isSuccess(record) ? record.success.append.bytes : undefined
}

// -----------------------------------------------------------------------------
// chain
// -----------------------------------------------------------------------------

/**
 * One segment that counts: its first event is the `start`th of the log. `end` is where its successor says that it ends;
 * the last one of a chain has none and ends where its file does.
 *
 * @internal
 */
export interface Piece {
  readonly epoch: number
  readonly path: string
  readonly start: number
  readonly end: End | undefined
}

/** @internal */
export interface Place {
  readonly fs: FileSystem.FileSystem
  readonly path: Path.Path
  readonly id: string
  readonly directory: string
  readonly operation: string
}

const corrupt = (place: Place, where: string, what: string): Corrupt => new Corrupt({ id: place.id, where, what })

const at = (path: string, line: number, offset: number): string => `${path} line ${line}, byte ${offset}`

const readClaim = (
  place: Place,
  epoch: number
): Effect.Effect<{ readonly previous?: End } | undefined, Corrupt | PlatformError.PlatformError> => {
  const file = segmentPath(place, epoch)
  return Effect.scoped(Effect.flatMap(place.fs.open(file, { flag: "r" }), Lines.firstLine)).pipe(
    Effect.catchIf(
      (error) => error instanceof Lines.NotText,
      () => Effect.fail(corrupt(place, at(file, 1, 0), "not UTF-8 text"))
    ),
    Effect.flatMap((text) => {
      if (text === undefined) return Effect.succeed(undefined)
      const claim = decodeClaim(text)
      if (Result.isFailure(claim)) {
        return Effect.fail(
          corrupt(place, at(file, 1, 0), `not the first record of a segment: ${claim.failure.message}`)
        )
      }
      const { epoch: claimed, previous } = claim.success.segment
      if (claimed !== epoch || (previous !== undefined && previous.epoch >= epoch)) {
        return Effect.fail(corrupt(place, at(file, 1, 0), `the first record is of another segment`))
      }
      return Effect.succeed(previous === undefined ? {} : { previous })
    })
  )
}

const segmentPath = (place: Place, epoch: number): string => place.path.join(place.directory, `${epoch}.jsonl`)

/**
 * The segments that count, in the order of the log. Segments can vanish under a reader when a writer clears away what
 * no claim leads to: that shows as a failure of the reason `NotFound`, and a second look succeeds.
 *
 * @internal
 */
export const resolve = Effect.fnUntraced(function*(
  place: Place,
  epochs: ReadonlyArray<number>
): Effect.fn.Return<ReadonlyArray<Piece>, Corrupt | PlatformError.PlatformError> {
  if (epochs.length === 0) return yield* corrupt(place, place.directory, "no segment of its log is there")
  const chain: Array<Piece> = []
  let head: { readonly epoch: number; readonly end: End | undefined } | undefined
  let next: { readonly previous?: End } | undefined
  for (const epoch of epochs.toSorted((a, b) => b - a)) {
    next = yield* readClaim(place, epoch)
    if (next === undefined) continue
    head = { epoch, end: undefined }
    break
  }
  while (head !== undefined && next !== undefined) {
    const end: End | undefined = next.previous
    chain.push({ epoch: head.epoch, path: segmentPath(place, head.epoch), start: end?.events ?? 0, end: head.end })
    if (end === undefined) break
    if (!epochs.includes(end.epoch)) {
      return yield* corrupt(place, segmentPath(place, end.epoch), "the segment is missing")
    }
    head = { epoch: end.epoch, end }
    next = yield* readClaim(place, end.epoch)
    if (next === undefined) {
      return yield* corrupt(place, at(segmentPath(place, end.epoch), 1, 0), "the segment is empty")
    }
  }
  return chain.toReversed()
})

// -----------------------------------------------------------------------------
// events
// -----------------------------------------------------------------------------

/** Bytes that are read at a time where each becomes events, and where none does. */
const readSize = 32 * 1024
const scanSize = 128 * 1024

/** What an open file of a segment still has to give, and how far it goes. */
interface Opened {
  readonly lines: Pull.Pull<Lines.Lines, PlatformError.PlatformError | Lines.NotText>
  readonly size: number
}

const open = Effect.fnUntraced(function*(place: Place, piece: Piece, chunkSize: number) {
  const file = yield* place.fs.open(piece.path, { flag: "r" })
  const size = Number((yield* file.stat).size)
  const limit = piece.end?.bytes ?? size
  if (size < limit) {
    return yield* corrupt(place, piece.path, `${size} bytes long where its successor counts ${limit}`)
  }
  const opened: Opened = { lines: Lines.pullLines(file, limit, chunkSize), size: limit }
  return opened
})

type ReadFailure = PlatformError.PlatformError | Lines.NotText | Corrupt

const toError = (place: Place, piece: Piece) => (error: ReadFailure): Corrupt | StoreFailed =>
  error instanceof Lines.NotText
    ? corrupt(place, at(piece.path, error.line, error.offset), "not UTF-8 text")
    : error instanceof Corrupt
    ? error
    : storeFailed(place.operation, piece.path)(error)

/**
 * Walks through the whole lines of a segment. `event` judges the text of one event; it returns what is wrong with it, or
 * `undefined`, and throws when it is no JSON.
 */
const makeWalker = (
  place: Place,
  piece: Piece,
  size: number,
  from: number,
  event: (text: string, seq: number) => string | undefined
) => {
  let seq = piece.start
  let bytes = 0
  let ended = false
  return {
    seq: () => seq,
    bytes: () => bytes,
    isEnded: () => ended,
    walk: (lines: Lines.Lines): Corrupt | undefined => {
      let i = 0
      // around all of them: one for each costs as much as parsing a short one
      const walked = Result.try(() => {
        for (; i < lines.texts.length; i++) {
          const text = lines.texts[i]
          const after = i + 1 < lines.texts.length ? lines.offsets[i + 1] : lines.end
          // the first line is the claim, which is known already
          if (lines.first + i > 1) {
            const together = togetherBytes(text)
            if (together === undefined) {
              const issue = seq < from ? undefined : event(text, seq)
              if (issue !== undefined) return issue
              seq++
            } else if (after + together > size) {
              ended = true
              return undefined
            }
          }
          bytes = after
        }
        return undefined
      })
      const issue = Result.isFailure(walked) ? `not JSON: ${String(walked.failure)}` : walked.success
      return issue === undefined
        ? undefined
        : corrupt(place, at(piece.path, lines.first + i, lines.offsets[i]), issue)
    }
  }
}

const misplaced = (found: unknown, due: number): string => `seq ${String(found)} where ${due} was due`

const checkCount = (place: Place, piece: Piece, seq: number): Effect.Effect<void, Corrupt> =>
  piece.end === undefined || piece.end.events === seq
    ? Effect.void
    : Effect.fail(
      corrupt(
        place,
        piece.path,
        `holds ${seq - piece.start} events where its successor counts ${piece.end.events - piece.start}`
      )
    )

/**
 * The events of one segment from `from` on. A segment that is still written is read as far as it reached when it was
 * opened.
 *
 * @internal
 */
export const read = (
  place: Place,
  piece: Piece,
  from: number
): Stream.Stream<Session.Event, Corrupt | StoreFailed> =>
  piece.end !== undefined && piece.end.events <= from ? Stream.empty : Stream.unwrap(Effect.map(
    open(place, piece, readSize),
    ({ lines, size }) => {
      let events: Array<Session.Event> = []
      let damage: Corrupt | undefined
      const walker = makeWalker(place, piece, size, from, (text, seq) => {
        const event = Session.decodeEvent(JSON.parse(text))
        if (Result.isFailure(event)) return event.failure
        if (event.success.seq !== seq) return misplaced(event.success.seq, seq)
        events.push(event.success)
        return undefined
      })
      const finish = Effect.suspend(() => Effect.flatMap(checkCount(place, piece, walker.seq()), () => Cause.done()))
      const pull: Pull.Pull<Arr.NonEmptyReadonlyArray<Session.Event>, ReadFailure> = Effect.suspend(() => {
        // what came before the damage is good and was given out already
        if (damage !== undefined) return Effect.fail(damage)
        if (walker.isEnded()) return finish
        return Effect.flatMap(Effect.catchIf(lines, Cause.isDone, () => Effect.succeed(undefined)), (found) => {
          if (found === undefined) return finish
          events = []
          damage = walker.walk(found)
          return Arr.isReadonlyArrayNonEmpty(events) ? Effect.succeed(events) : pull
        })
      })
      return Stream.fromPull(Effect.succeed(pull))
    }
  )).pipe(Stream.catch((error) =>
    // a last segment vanishes only when it holds nothing
    piece.end === undefined && PlatformError.isPlatformError(error) && isNotFound(error)
      ? Stream.empty
      : Stream.fail(toError(place, piece)(error))
  ))

const eventStart = "{\"_tag\":\""

/**
 * Judges an event by its place alone. One that starts as this module writes events needs no parsing for that.
 */
const judgePlace = (text: string, seq: number): string | undefined => {
  if (text.startsWith(eventStart)) {
    const end = text.indexOf("\"", eventStart.length)
    if (text.startsWith(`,"seq":${seq},"at":`, end + 1) && text.endsWith("}")) return undefined
  }
  const event: unknown = JSON.parse(text)
  if (typeof event !== "object" || event === null || !("_tag" in event) || typeof event._tag !== "string") {
    return "not an event"
  }
  const found = "seq" in event ? event.seq : undefined
  return found === seq ? undefined : misplaced(found, seq)
}

/**
 * Goes through a whole segment without looking into its events: where its valid part ends, and the size of the file.
 *
 * @internal
 */
export const scan = (
  place: Place,
  piece: Piece
): Effect.Effect<{ readonly end: End; readonly size: number }, Corrupt | StoreFailed> =>
  Effect.scoped(Effect.gen(function*() {
    const { lines, size } = yield* open(place, piece, scanSize)
    const walker = makeWalker(place, piece, size, 0, judgePlace)
    let more = true
    while (more && !walker.isEnded()) {
      const found: Lines.Lines | undefined = yield* Effect.catchIf(lines, Cause.isDone, () => Effect.succeed(undefined))
      if (found === undefined) {
        more = false
      } else {
        const damage = walker.walk(found)
        if (damage !== undefined) return yield* damage
      }
    }
    yield* checkCount(place, piece, walker.seq())
    return { end: { epoch: piece.epoch, bytes: walker.bytes(), events: walker.seq() }, size }
  })).pipe(Effect.mapError(toError(place, piece)))

/**
 * Copies the bytes of a segment from `offset` on.
 *
 * @internal
 */
export const copyTail = Effect.fnUntraced(function*(
  fs: FileSystem.FileSystem,
  from: string,
  offset: number,
  to: string
) {
  const source = yield* fs.open(from, { flag: "r" })
  const target = yield* fs.open(to, { flag: "w" })
  yield* source.seek(BigInt(offset), "start")
  let chunk = yield* source.readAlloc(64 * 1024)
  while (Option.isSome(chunk)) {
    yield* target.writeAll(chunk.value)
    chunk = yield* source.readAlloc(64 * 1024)
  }
}, Effect.scoped)

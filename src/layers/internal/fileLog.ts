/**
 * Writes one segment: takes events at once, and brings all that piled up to the file with one write, and one `fsync`
 * for all that wait for it.
 *
 * After the first failure nothing more is written, so that the log never has a hole. What is acknowledged by `flush` was
 * in the file *before* the lease was looked at: a successor, which measures the file after it has the lease, counts it.
 */
import * as Cause from "effect/Cause"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as FileSystem from "effect/FileSystem"
import * as Session from "../../Session.ts"
import { type AppendError, LeaseLost, type SessionLog, StoreFailed } from "../../SessionStore.ts"
import { storeFailed } from "./fileCalls.ts"
import { encodeAppend } from "./fileSegment.ts"

/** How many events may wait for the file before an append waits too. */
const highWater = 1024

/** About how many bytes one write holds. */
const writeSize = 1024 * 1024

/**
 * - `claim`: the first record, where it is not written yet
 * - `next`: the `seq` of the next event
 * - `isFresh`: whether the lease is certain to be respected, so that nobody has to look
 * - `isHeld`: looks whether the lease is still this writer's
 * - `fork`: runs the writer
 * - `onAppend`: called when events begin to wait that nobody asked to be written yet
 *
 * @internal
 */
export interface Options {
  readonly header: Session.Header
  readonly file: FileSystem.File
  readonly path: string
  readonly claim: string
  readonly next: number
  readonly isFresh: () => boolean
  readonly isHeld: Effect.Effect<boolean, StoreFailed>
  readonly fork: (effect: Effect.Effect<void>) => void
  readonly onAppend: (log: FileLog) => void
}

/**
 * The writer of a segment.
 *
 * - `drain`: returns when all that was accepted before is in the file, if not yet safe
 * - `verify`: looks whether the lease is still this writer's, and ends the writer if not
 * - `close`: brings what was accepted to safety, and ends the writer
 *
 * @internal
 */
export interface FileLog {
  readonly log: SessionLog
  readonly drain: Effect.Effect<void, AppendError>
  readonly verify: Effect.Effect<void, StoreFailed>
  readonly close: Effect.Effect<void>
}

interface Waiter {
  readonly done: Deferred.Deferred<void, AppendError>
  readonly sync: boolean
}

const encoder = new TextEncoder()

const encodeLine = (event: Session.Event): string => JSON.stringify(Session.encodeEvent(event)) + "\n"

/** The bytes of events that were appended together. */
const encodeTogether = (events: ReadonlyArray<Session.Event>): ReadonlyArray<Uint8Array> => {
  if (events.length === 1) return [encoder.encode(encodeLine(events[0]))]
  const lines = events.map((event) => encoder.encode(encodeLine(event)))
  const bytes = lines.reduce((sum, line) => sum + line.length, 0)
  return [encoder.encode(encodeAppend(events.length, bytes)), ...lines]
}

const concat = (parts: ReadonlyArray<Uint8Array>, length: number): Uint8Array => {
  const all = new Uint8Array(length)
  let at = 0
  for (const part of parts) {
    all.set(part, at)
    at += part.length
  }
  return all
}

/**
 * Writes events one a line. A batch of several is preceded by a record of its length, so that it counts only whole.
 *
 * @internal
 */
export const writeEvents = Effect.fnUntraced(function*(
  file: FileSystem.File,
  claim: string,
  batches: Iterable<ReadonlyArray<Session.Event>>
) {
  let parts: Array<Uint8Array> = claim === "" ? [] : [encoder.encode(claim)]
  let length = claim.length
  for (const batch of batches) {
    for (const part of encodeTogether(batch)) {
      parts.push(part)
      length += part.length
      if (length >= writeSize) {
        yield* file.writeAll(concat(parts, length))
        parts = []
        length = 0
      }
    }
  }
  if (length > 0) yield* file.writeAll(concat(parts, length))
})

/** @internal */
export const make = (options: Options): FileLog => {
  const { file, header, isFresh, path } = options
  const id = header.id
  const operation = `append to session ${id}`

  let next = options.next
  let claim = options.claim
  let pending: Array<ReadonlyArray<Session.Event>> = []
  let waiting = 0
  let waiters: Array<Waiter> = []
  let running = false
  // bytes that were written since the last `fsync`
  let unsynced = false
  let failure: AppendError | undefined
  let closed = false

  const checkLease: Effect.Effect<void, AppendError> = Effect.suspend(() =>
    isFresh() ? Effect.void : Effect.flatMap(
      options.isHeld,
      (held) => held ? Effect.void : Effect.fail(new LeaseLost({ id }))
    )
  )

  const write = Effect.suspend(() => {
    if (pending.length === 0) return Effect.void
    const batches = pending
    const first = claim
    pending = []
    waiting = 0
    claim = ""
    unsynced = true
    return Effect.andThen(
      // before the write only to be quiet: what counts is the look behind it
      checkLease,
      Effect.mapError(writeEvents(file, first, batches), storeFailed(operation, path))
    )
  })

  const sync = Effect.suspend(() => {
    if (!unsynced) return Effect.void
    return Effect.map(
      Effect.mapError(file.sync, storeFailed(`flush session ${id}`, path)),
      () => {
        unsynced = false
      }
    )
  })

  const round = Effect.suspend((): Effect.Effect<void, AppendError> => {
    const served = waiters
    waiters = []
    const wantsSync = served.some((waiter) => waiter.sync)
    return write.pipe(
      Effect.andThen(wantsSync ? Effect.andThen(sync, checkLease) : Effect.void),
      Effect.onExit((exit) => {
        if (Exit.isFailure(exit)) poison(exit.cause)
        for (const waiter of served) Deferred.doneUnsafe(waiter.done, exit)
        return Effect.void
      })
    )
  })

  const poison = (cause: Cause.Cause<AppendError>): void => {
    const reason = cause.reasons.find((reason) => reason._tag === "Fail")
    failure ??= reason?.error ??
      new StoreFailed({ operation, what: `an event has no encoding: ${Cause.pretty(cause)}` })
    pending = []
    waiting = 0
  }

  const writer: Effect.Effect<void> = Effect.suspend(() => {
    if (failure !== undefined) {
      const left = waiters
      waiters = []
      for (const waiter of left) Deferred.doneUnsafe(waiter.done, Exit.fail(failure))
    }
    if (waiters.length === 0) {
      running = false
      if (pending.length > 0) options.onAppend(self)
      return Effect.void
    }
    return Effect.flatMap(Effect.exit(round), () => writer)
  })

  const request = (sync: boolean): Effect.Effect<void, AppendError> =>
    Effect.suspend(() => {
      const waiter: Waiter = { done: Deferred.makeUnsafe(), sync }
      waiters.push(waiter)
      if (!running) {
        running = true
        options.fork(Effect.uninterruptible(writer))
      }
      return Deferred.await(waiter.done)
    })

  const drain = Effect.suspend(() => {
    if (failure !== undefined) return Effect.fail(failure)
    return pending.length === 0 && !running ? Effect.void : request(false)
  })

  const flush = Effect.suspend(() => {
    if (failure !== undefined) return Effect.fail(failure)
    return pending.length === 0 && !running && !unsynced ? checkLease : request(true)
  })

  const append = (events: ReadonlyArray<Session.Event>): Effect.Effect<void, AppendError> =>
    Effect.suspend(() => {
      if (failure !== undefined) return Effect.fail(failure)
      if (closed) return Effect.fail(new LeaseLost({ id }))
      if (events.length === 0) return Effect.void
      for (let i = 0; i < events.length; i++) {
        if (events[i].seq !== next + i) {
          return Effect.die(new Error(`seq ${events[i].seq} where ${next + i} was due`))
        }
      }
      next += events.length
      waiting += events.length
      // copied: the caller may go on with its array
      if (pending.push(events.slice()) === 1 && !running) options.onAppend(self)
      return waiting > highWater ? drain : Effect.void
    })

  const self: FileLog = {
    log: {
      header,
      append,
      flush: Effect.suspend(() => closed ? Effect.fail(failure ?? new LeaseLost({ id })) : flush)
    },
    drain,
    verify: Effect.suspend(() =>
      failure !== undefined ? Effect.void : Effect.map(options.isHeld, (held) => {
        if (!held) failure ??= new LeaseLost({ id })
      })
    ),
    close: Effect.suspend(() => {
      closed = true
      // a writer at work has to end before its file is closed under it, whatever became of the lease
      if (failure !== undefined) return running ? Effect.ignore(request(false)) : Effect.void
      return Effect.catchCause(
        flush,
        (cause) => Effect.logError(`the last events of session ${id} could not be written`, cause)
      )
    })
  }
  return self
}

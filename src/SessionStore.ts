/**
 * Stores sessions: a header and an append-only log each, with one writer at a time.
 *
 * Creating or opening a session yields its log in a `Scope`, and that scope *is* the writer's lease: nobody appends
 * without holding it, and closing the scope gives it back.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { type Created, type CreateNow, withCreateNow, withFlushNow } from "./internal/session/atOnce.ts"
import type * as Session from "./Session.ts"

// -----------------------------------------------------------------------------
// errors
// -----------------------------------------------------------------------------

/**
 * No session of this id is stored.
 *
 * @category errors
 * @since 0.1.0
 */
export class SessionNotFound extends Schema.TaggedError<SessionNotFound>("effect-subagent/SessionNotFound")(
  "SessionNotFound",
  { id: Schema.String }
) {
  override get message(): string {
    return `no session ${JSON.stringify(this.id)} is stored`
  }
}

/**
 * A session of this id is stored already.
 *
 * @category errors
 * @since 0.1.0
 */
export class SessionExists extends Schema.TaggedError<SessionExists>("effect-subagent/SessionExists")(
  "SessionExists",
  { id: Schema.String }
) {
  override get message(): string {
    return `a session ${JSON.stringify(this.id)} is stored already`
  }
}

/**
 * A stored session cannot be read: `where` names the file and line, or the row; `what` the damage.
 *
 * @category errors
 * @since 0.1.0
 */
export class Corrupt extends Schema.TaggedError<Corrupt>("effect-subagent/Corrupt")("Corrupt", {
  id: Schema.String,
  where: Schema.String,
  what: Schema.String
}) {
  override get message(): string {
    return `session ${this.id} is damaged at ${this.where}: ${this.what}`
  }
}

/**
 * Another writer holds the session: `holder` names it (process and host), `until` is when its lease ends in
 * milliseconds since the epoch, absent when the lease lasts as long as the holder lives.
 *
 * @category errors
 * @since 0.1.0
 */
export class HeldElsewhere extends Schema.TaggedError<HeldElsewhere>("effect-subagent/HeldElsewhere")("HeldElsewhere", {
  id: Schema.String,
  holder: Schema.String,
  until: Schema.optionalKey(Schema.Number)
}) {
  override get message(): string {
    return `session ${this.id} is held by ${this.holder}`
  }
}

/**
 * The writer's lease is gone, by its end or by another writer's take-over: nothing was written.
 *
 * @category errors
 * @since 0.1.0
 */
export class LeaseLost extends Schema.TaggedError<LeaseLost>("effect-subagent/LeaseLost")("LeaseLost", {
  id: Schema.String
}) {
  override get message(): string {
    return `the lease on session ${this.id} is lost`
  }
}

/**
 * The storage itself failed. After a failed write every later append of that log fails as well, so that the log never
 * has a hole.
 *
 * @category errors
 * @since 0.1.0
 */
export class StoreFailed extends Schema.TaggedError<StoreFailed>("effect-subagent/StoreFailed")("StoreFailed", {
  operation: Schema.String,
  what: Schema.String
}) {
  override get message(): string {
    return `${this.operation} failed: ${this.what}`
  }
}

/**
 * What creating a session can fail with.
 *
 * @category errors
 * @since 0.1.0
 */
export type CreateError = SessionExists | StoreFailed

/**
 * What opening a session can fail with.
 *
 * @category errors
 * @since 0.1.0
 */
export type OpenError = SessionNotFound | Corrupt | HeldElsewhere | StoreFailed

/**
 * What reading a session can fail with.
 *
 * @category errors
 * @since 0.1.0
 */
export type ReadError = SessionNotFound | Corrupt | StoreFailed

/**
 * What appending and flushing can fail with.
 *
 * @category errors
 * @since 0.1.0
 */
export type AppendError = LeaseLost | StoreFailed

// -----------------------------------------------------------------------------
// models
// -----------------------------------------------------------------------------

/**
 * The right to write one session, for as long as the scope it was acquired in lives.
 *
 * - `append`: adds events, in order and together: either all of them or none are in the log. Their `seq` must continue
 *   the log; anything else is a defect. Returns when the events are accepted, which on a durable store is not yet when
 *   they are safe.
 * - `appendUnsafe`: the same, done by the call itself, for logs whose append only hands the events over
 * - `flush`: returns when all that was accepted before is as safe as the store can make it.
 *
 * @category models
 * @since 0.1.0
 */
export interface SessionLog {
  readonly header: Session.Header
  readonly append: (events: ReadonlyArray<Session.Event>) => Effect.Effect<void, AppendError>
  readonly appendUnsafe?: ((events: ReadonlyArray<Session.Event>) => Exit.Exit<void, AppendError>) | undefined
  readonly flush: Effect.Effect<void, AppendError>
}

/**
 * A stored session as a listing shows it: its header, or why it cannot be read.
 *
 * @category models
 * @since 0.1.0
 */
export type Entry =
  | { readonly _tag: "Session"; readonly header: Session.Header }
  | { readonly _tag: "Damaged"; readonly id: string; readonly what: string }

/**
 * Storage of sessions.
 *
 * - `durability`: whether what was flushed survives the process
 * - `create`: stores a new session, with the copied events of a fork before any of its own, and acquires its lease.
 *   `unwanted` is asked when the lease ends: whether the session goes with it, as if it had never been
 * - `open`: acquires the lease of a stored session. Does not repair: see `Agents.open`
 * - `header`: reads one header
 * - `read`: the events from `from` on (0 by default), as they are stored now; needs no lease
 * - `list`: every session, oldest first, one `Damaged` entry for each that cannot be read
 * - `children`: the sessions whose header names this parent, oldest first
 *
 * @category services
 * @since 0.1.0
 */
export class SessionStore extends Context.Service<SessionStore, {
  readonly durability: "volatile" | "durable"
  readonly create: (
    header: Session.Header,
    seed?: ReadonlyArray<Session.Event> | undefined,
    options?: { readonly unwanted?: (() => boolean) | undefined } | undefined
  ) => Effect.Effect<SessionLog, CreateError, Scope.Scope>
  readonly open: (id: string) => Effect.Effect<SessionLog, OpenError, Scope.Scope>
  readonly header: (id: string) => Effect.Effect<Session.Header, ReadError>
  readonly read: (
    id: string,
    options?: { readonly from?: number | undefined } | undefined
  ) => Stream.Stream<Session.Event, ReadError>
  readonly list: Stream.Stream<Entry, StoreFailed>
  readonly children: (parent: string) => Stream.Stream<Entry, StoreFailed>
}>()("effect-subagent/SessionStore") {}

// -----------------------------------------------------------------------------
// memory
// -----------------------------------------------------------------------------

interface MemorySession {
  readonly header: Session.Header
  readonly events: Array<Session.Event>
  holder: object | undefined
}

const makeMemory = (): SessionStore["Service"] => {
  const sessions = new Map<string, MemorySession>()

  const take = (session: MemorySession, unwanted: (() => boolean) | undefined): Created<SessionLog> => {
    const token = {}
    session.holder = token
    const release = () => {
      if (session.holder !== token) return
      session.holder = undefined
      if (unwanted?.() === true) sessions.delete(session.header.id)
    }
    const appendUnsafe = (events: ReadonlyArray<Session.Event>): Exit.Exit<void, AppendError> => {
      if (session.holder !== token) return Exit.fail(new LeaseLost({ id: session.header.id }))
      const misplaced = events.findIndex((event, index) => event.seq !== session.events.length + index)
      if (misplaced >= 0) {
        const due = session.events.length + misplaced
        return Exit.die(new Error(`seq ${events[misplaced].seq} where ${due} was due`))
      }
      for (const event of events) session.events.push(event)
      return Exit.void
    }
    const flushNow = (): Exit.Exit<void, AppendError> =>
      session.holder === token ? Exit.void : Exit.fail(new LeaseLost({ id: session.header.id }))
    const log: SessionLog = {
      header: session.header,
      append: (events) => Effect.suspend(() => appendUnsafe(events)),
      appendUnsafe,
      flush: withFlushNow(Effect.suspend(flushNow), flushNow)
    }
    return { log, release }
  }

  const lease = ({ log, release }: Created<SessionLog>): Effect.Effect<SessionLog, never, Scope.Scope> =>
    Effect.contextWith((context: Context.Context<Scope.Scope>) =>
      Effect.as(
        Scope.addFinalizerExit(Context.get(context, Scope.Scope), () => {
          release()
          return Effect.void
        }),
        log
      )
    )

  const createNow: CreateNow<SessionLog, CreateError> = (header, seed, unwanted) => {
    if (sessions.has(header.id)) return Exit.fail(new SessionExists({ id: header.id }))
    const session: MemorySession = { header, events: seed === undefined ? [] : [...seed], holder: undefined }
    sessions.set(header.id, session)
    return Exit.succeed(take(session, unwanted))
  }

  const find = (id: string): Effect.Effect<MemorySession, SessionNotFound> =>
    Effect.suspend(() => {
      const session = sessions.get(id)
      return session === undefined ? Effect.fail(new SessionNotFound({ id })) : Effect.succeed(session)
    })

  const entries = (keep: (header: Session.Header) => boolean): Stream.Stream<Entry> =>
    Stream.suspend(() =>
      Stream.fromIterable(
        Array.from(sessions.values(), (session) => session.header)
          .filter(keep)
          .toSorted((a, b) => a.createdAt - b.createdAt || (a.id < b.id ? -1 : 1))
          .map((header): Entry => ({ _tag: "Session", header }))
      )
    )

  return SessionStore.of({
    durability: "volatile",
    create: withCreateNow<SessionLog, CreateError, SessionStore["Service"]["create"]>(
      (header, seed, options) =>
        Effect.uninterruptible(
          Effect.flatMap(Effect.suspend(() => createNow(header, seed, options?.unwanted)), lease)
        ),
      createNow
    ),
    open: (id) =>
      Effect.flatMap(
        find(id),
        (session): Effect.Effect<SessionLog, OpenError, Scope.Scope> =>
          session.holder === undefined
            ? lease(take(session, undefined))
            : Effect.fail(new HeldElsewhere({ id, holder: "this process" }))
      ),
    header: (id) => Effect.map(find(id), (session) => session.header),
    read: (id, options) =>
      Stream.unwrap(Effect.map(find(id), (session) => Stream.fromIterable(session.events.slice(options?.from ?? 0)))),
    list: entries(() => true),
    children: (parent) => entries((header) => header.parent === parent)
  })
}

/**
 * Keeps sessions in memory, for as long as the layer lives.
 *
 * @category layers
 * @since 0.1.0
 */
export const layerMemory: Layer.Layer<SessionStore> = Layer.sync(SessionStore, makeMemory)

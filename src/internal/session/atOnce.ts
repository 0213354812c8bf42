/**
 * Lets a store that only keeps what it is given create a session, and flush one, by the call itself.
 *
 * How is found by the store's own `create` and `flush`: whoever puts others in their place is not passed over.
 */
import type * as Effect from "effect/Effect"
import type * as Exit from "effect/Exit"
import type * as Scope from "effect/Scope"
import type { Event, Header } from "./events.ts"

/** @internal A session that was created, with what gives it back. */
export interface Created<out Log> {
  readonly log: Log
  readonly release: () => void
}

/** @internal As the `create` of a store, for whoever sees to the release. */
export type CreateNow<Log, E> = (
  header: Header,
  seed: ReadonlyArray<Event> | undefined,
  unwanted: (() => boolean) | undefined
) => Exit.Exit<Created<Log>, E>

type Create<Log, E> = (header: Header, seed?: ReadonlyArray<Event>) => Effect.Effect<Log, E, Scope.Scope>

const creates = new WeakMap<object, CreateNow<unknown, unknown>>()

/** @internal */
export const withCreateNow = <Log, E, F extends Create<Log, E>>(create: F, now: CreateNow<Log, E>): F => {
  creates.set(create, now)
  return create
}

/** @internal */
export const createNowOf = <Log, E>(create: Create<Log, E>): CreateNow<Log, E> | undefined =>
  // sound: an entry was made with a `create` of the same types as its key
  creates.get(create) as CreateNow<Log, E> | undefined

type FlushNow<E> = () => Exit.Exit<void, E>

const flushes = new WeakMap<object, FlushNow<unknown>>()

/** @internal */
export const withFlushNow = <E>(flush: Effect.Effect<void, E>, now: FlushNow<E>): Effect.Effect<void, E> => {
  flushes.set(flush, now)
  return flush
}

/** @internal */
export const flushNowOf = <E>(flush: Effect.Effect<void, E>): FlushNow<E> | undefined =>
  // sound: an entry was made with a `flush` of the same type as its key
  flushes.get(flush) as FlushNow<E> | undefined

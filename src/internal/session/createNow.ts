/**
 * Lets a store that only keeps what it is given create a session by the call itself.
 *
 * It is found by the store's own `create`: whoever puts another one in its place is not passed over.
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

const all = new WeakMap<object, CreateNow<unknown, unknown>>()

/** @internal */
export const withCreateNow = <Log, E, F extends Create<Log, E>>(create: F, now: CreateNow<Log, E>): F => {
  all.set(create, now)
  return create
}

/** @internal */
export const createNowOf = <Log, E>(create: Create<Log, E>): CreateNow<Log, E> | undefined =>
  // sound: an entry was made with a `create` of the same types as its key
  all.get(create) as CreateNow<Log, E> | undefined

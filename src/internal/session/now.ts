/**
 * Goes on at once where an effect is done already, without the steps of the runtime in between.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Result from "effect/Result"

/** @internal What an effect is known to come to without being run; `undefined` for one that has to be run. */
export const exitOf = <A, E, R>(self: Effect.Effect<A, E, R>): Exit.Exit<A, E> | undefined =>
  // sound: an exit is an effect of its own success and error
  Exit.isExit(self) ? self as Exit.Exit<A, E> : undefined

/** @internal As `Effect.flatMap`, but calls `f` at once when `self` is an exit. */
export const flatMapNow = <A, E, R, B, E2, R2>(
  self: Effect.Effect<A, E, R>,
  f: (a: A) => Effect.Effect<B, E2, R2>
): Effect.Effect<B, E | E2, R | R2> => {
  const exit = exitOf(self)
  if (exit === undefined) return Effect.flatMap(self, f)
  return Exit.isSuccess(exit) ? f(exit.value) : Effect.failCause(exit.cause)
}

/** @internal What `f` gives, or its defect when it throws: for what others wrote and is called where no fiber catches it. */
export const attempt = <A, E, R>(f: () => Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Result.merge(Result.try({ try: f, catch: Exit.die }))

/**
 * @internal Whether an agent of this depth goes on from the top of the stack, where others go on at once. What is done
 * at once at every level of a chain of delegations would overflow the stack of a deep one.
 */
export const fromTop = (depth: number): boolean => depth % 16 === 15

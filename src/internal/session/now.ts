/**
 * Goes on at once where an effect is done already, without the steps of the runtime in between.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"

/** @internal As `Effect.flatMap`, but calls `f` at once when `self` is an exit. */
export const flatMapNow = <A, E, R, B, E2, R2>(
  self: Effect.Effect<A, E, R>,
  f: (a: A) => Effect.Effect<B, E2, R2>
): Effect.Effect<B, E | E2, R | R2> => {
  // sound: an exit is an effect of the same success and error
  if (!Exit.isExit(self)) return Effect.flatMap(self, f)
  const exit = self as Exit.Exit<A, E>
  return Exit.isSuccess(exit) ? f(exit.value) : exit
}

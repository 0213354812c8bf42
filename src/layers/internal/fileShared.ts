/**
 * Shares one run of an effect among all that ask for it while another run is under way.
 */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"

/**
 * Whoever asks gets the outcome of a run that began after they asked.
 *
 * @internal
 */
export const shared = <E>(
  run: Effect.Effect<void, E>,
  fork: (effect: Effect.Effect<void>) => void
): Effect.Effect<void, E> => {
  let running = false
  let next: Deferred.Deferred<void, E> | undefined

  const loop: Effect.Effect<void> = Effect.suspend(() => {
    const current = next
    if (current === undefined) {
      running = false
      return Effect.void
    }
    next = undefined
    return Effect.flatMap(Effect.exit(run), (exit) => {
      Deferred.doneUnsafe(current, exit)
      return loop
    })
  })

  return Effect.suspend(() => {
    const mine = next ??= Deferred.makeUnsafe<void, E>()
    if (!running) {
      running = true
      fork(Effect.uninterruptible(loop))
    }
    return Deferred.await(mine)
  })
}

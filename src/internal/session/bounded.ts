/**
 * Bounds what would otherwise be unbounded: text by its bytes, waiting by its time.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"

const encoder = new TextEncoder()
const decoder = new TextDecoder()
const marker = " … (cut)"

/** @internal The most bytes of a diagnostic (S557). */
export const maxDiagnosticBytes = 4096

/** @internal Cuts a text to at most `bytes` UTF-8 bytes on a character boundary, with a visible marker. */
export const boundText = (text: string, bytes: number = maxDiagnosticBytes): string => {
  // a UTF-16 unit is at most 3 bytes of UTF-8
  if (text.length * 3 <= bytes) return text
  const encoded = encoder.encode(text)
  if (encoded.length <= bytes) return text
  let end = Math.max(0, bytes - encoder.encode(marker).length)
  while (end > 0 && (encoded[end] & 0b1100_0000) === 0b1000_0000) end--
  return decoder.decode(encoded.subarray(0, end)) + marker
}

// effect takes a NaN for no time at all
const hasNaN = (input: Duration.Input): boolean =>
  Number.isNaN(input) ||
  (typeof input === "object" && !Duration.isDuration(input) && Object.values(input).some(Number.isNaN))

/** @internal How long something may take, from no time to forever; `undefined` for what says no such thing. */
export const toBound = (input: Duration.Input): Duration.Duration | undefined =>
  hasNaN(input)
    ? undefined
    : Option.getOrUndefined(Option.filter(Duration.fromInput(input), (duration) => !Duration.isNegative(duration)))

/**
 * @internal Waits for a fiber, but no longer than `grace`; `undefined` when it is still alive then. Keeps its bound
 * inside an uninterruptible region too, where a timeout could not.
 */
export const awaitWithin = <A, E>(
  fiber: Fiber.Fiber<A, E>,
  grace: Duration.Input
): Effect.Effect<Exit.Exit<A, E> | undefined> =>
  Effect.suspend(() => {
    const exit = fiber.pollUnsafe()
    if (exit !== undefined) return Effect.succeed(exit)
    return Effect.raceFirst(Fiber.await(fiber), Effect.as(Effect.sleep(grace), undefined))
  })

/**
 * @internal Runs what others wrote, in a fiber of its own: its exit, or `undefined` when it took longer than `grace` and
 * was told to go.
 */
export const runWithin = <A, E, R>(
  effect: Effect.Effect<A, E, R>,
  grace: Duration.Input
): Effect.Effect<Exit.Exit<A, E> | undefined, never, R> =>
  Effect.flatMap(
    Effect.forkDetach(effect, { startImmediately: true }),
    (fiber) =>
      Effect.map(awaitWithin(fiber, grace), (exit) => {
        if (exit === undefined) fiber.interruptUnsafe()
        return exit
      })
  )

/**
 * A clock whose milliseconds are turns of the event loop: what waits for a time waits for so much work of others, however
 * fast the machine is and however long it stood still. Nothing that needs more than work may wait by it.
 */
import { type Clock, Duration, Effect } from "effect"

interface Sleeper {
  readonly due: number
  readonly wake: () => void
}

/** Starts at some time in 2023; moves only while somebody sleeps. */
export const turnClock = (): Clock.Clock => {
  let now = 1_700_000_000_000
  let turning = false
  const sleepers = new Set<Sleeper>()
  const turn = () => {
    now++
    for (const sleeper of sleepers) {
      if (sleeper.due > now) continue
      sleepers.delete(sleeper)
      sleeper.wake()
    }
    turning = sleepers.size > 0
    if (turning) setImmediate(turn)
  }
  const nanos = () => BigInt(now) * 1_000_000n
  return {
    currentTimeMillisUnsafe: () => now,
    currentTimeMillis: Effect.sync(() => now),
    currentTimeNanosUnsafe: nanos,
    currentTimeNanos: Effect.sync(nanos),
    monotonicTimeNanosUnsafe: nanos,
    monotonicTimeNanos: Effect.sync(nanos),
    sleep: (duration) =>
      Effect.callback<void>((resume) => {
        const sleeper: Sleeper = { due: now + Duration.toMillis(duration), wake: () => resume(Effect.void) }
        sleepers.add(sleeper)
        if (!turning) setImmediate(turn)
        turning = true
        return Effect.sync(() => sleepers.delete(sleeper))
      })
  }
}

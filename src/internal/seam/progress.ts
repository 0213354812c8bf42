/**
 * Shows what a child does to readers who can rely on an end: what the provider's stream has given by the time its run
 * is over is theirs, and a stream that goes on, hangs or dies holds none of them up.
 */
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import type { Progress } from "../agent/model.ts"
import { awaitWithin } from "../session/bounded.ts"
import { Broadcast } from "../session/broadcast.ts"
import { report } from "./claim.ts"

// what the child did by the end of its run may still be on its way through buffers of its provider's own
const longest = Duration.millis(500)

// whoever comes when the run is over gets what is at hand, and waits for nothing
const atHand = Effect.repeat(Effect.yieldNow, { times: 9 })

/** @internal Is told when a stream had to be cut off, so that a provider can be held to ending its own. */
export const CutOff: Context.Reference<() => void> = Context.Reference<() => void>(
  "effect-subagent/Subagent/ProgressCutOff",
  { defaultValue: () => () => {} }
)

/** @internal The progress of a run whose `result` is done at its end. Each reader reads the provider's on its own. */
export const progressOf = <A, E>(
  provider: string,
  progress: () => Stream.Stream<Progress>,
  result: Deferred.Deferred<A, E>,
  grace: Duration.Duration
): Stream.Stream<Progress> =>
  Stream.scoped(Stream.fromPull(Effect.gen(function*() {
    const late = Deferred.isDoneUnsafe(result)
    const patience = Duration.min(grace, longest)
    const shown = new Broadcast<Progress>((count) => ({ _tag: "Dropped", count }))
    const pull = yield* Stream.toPull(shown.stream({ capacity: 1024 }))
    // in a fiber of its own, for what hangs in it cannot be interrupted
    const reading = yield* Effect.acquireRelease(
      Effect.forkDetach(
        Effect.catchCause(
          Stream.runForEachArray(Stream.suspend(progress), (events) =>
            Effect.sync(() => {
              for (const event of events) shown.publish(event)
            })),
          (cause) => report(`the progress of a run of provider ${JSON.stringify(provider)} died`, cause)
        ),
        { startImmediately: true }
      ),
      (fiber) => {
        fiber.interruptUnsafe()
        return awaitWithin(fiber, patience)
      }
    )
    reading.addObserver(() => shown.end())
    if (reading.pollUnsafe() === undefined) {
      const cutOff = yield* CutOff
      yield* Effect.forkScoped(Effect.gen(function*() {
        yield* Effect.exit(Deferred.await(result))
        yield* late ? atHand : Effect.sleep(patience)
        if (!late && reading.pollUnsafe() === undefined) cutOff()
        shown.end()
      }))
    }
    return pull
  })))

/**
 * Holds what a delegation owns from its first moment until its start failed or its run ended: its place in the queue,
 * its provider's scope, and its ears for whatever cancels it.
 *
 * The caller's scope has one finalizer for it, which cancels it and waits until it is over. It goes away by itself when
 * the delegation is over: a scope may outlive thousands of runs.
 */
import * as Cause from "effect/Cause"
import * as Deferred from "effect/Deferred"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"
import type { CurrentAgent } from "../../CurrentAgent.ts"
import type { AbortCause } from "../../Session.ts"
import { awaitWithin } from "../session/bounded.ts"
import { exitOf } from "../session/now.ts"
import type { ReleaseFailed } from "./errors.ts"
import type { Place } from "./gate.ts"

/** @internal What cancels a delegation: first come, first served, and nothing any more once it has settled. */
export class Canceller {
  #cause: AbortCause | undefined
  #action: (() => void) | undefined
  #settled = false

  get cause(): AbortCause | undefined {
    return this.#cause
  }

  cancel(cause: AbortCause): void {
    if (this.#settled || this.#cause !== undefined) return
    this.#cause = cause
    this.#action?.()
  }

  /** Sets what a cancellation does from now on, which is done at once if it has come already. */
  onCancel(action: (() => void) | undefined): void {
    this.#action = action
    if (this.#cause !== undefined) action?.()
  }

  settle(): void {
    this.#settled = true
    this.#action = undefined
  }
}

/** @internal */
export interface Claim {
  readonly canceller: Canceller
  readonly place: Place
  /** The provider's: whatever it acquires for the child. */
  readonly scope: Scope.Closeable
  /** In the caller's scope. */
  readonly guard: Scope.Closeable
  /** Done when nothing of it is alive, or what is left has been given up. */
  readonly released: Deferred.Deferred<void, ReleaseFailed>
  readonly unlisten: Array<() => void>
  /** Tells the delegating turn that it need not be patient any more. */
  readonly letGo: () => void
}

/**
 * @internal Claims on behalf of `parent` in the scope of the caller, by the call itself, which is to be followed by the
 * effect; nothing when that scope is closed.
 */
export const claim = (
  caller: Scope.Scope,
  parent: CurrentAgent["Service"],
  signal: AbortSignal | undefined,
  place: Place
): Effect.Effect<Claim | undefined> => {
  const guard = Scope.forkUnsafe(caller)
  if (guard.state._tag === "Closed") return Effect.undefined
  const canceller = new Canceller()
  const released = Deferred.makeUnsafe<void, ReleaseFailed>()
  const unlisten = [parent.lifetime.onEnd(() => canceller.cancel("parent"))]
  if (signal !== undefined) {
    const onAbort = () => canceller.cancel("parent")
    signal.addEventListener("abort", onAbort, { once: true })
    unlisten.push(() => signal.removeEventListener("abort", onAbort))
    // an aborted signal tells nobody who comes later
    if (signal.aborted) onAbort()
  }
  return Effect.as(
    Scope.addFinalizerExit(guard, () => {
      canceller.cancel(parent.lifetime.ended === undefined ? "disposed" : "parent")
      return Effect.exit(Deferred.await(released))
    }),
    { canceller, place, scope: Scope.makeUnsafe(), guard, released, unlisten, letGo: parent.lifetime.hold() }
  )
}

/** @internal Stops listening to whatever could cancel it. */
export const silence = (claim: Claim): void => {
  for (const unlisten of claim.unlisten.splice(0)) unlisten()
}

/** @internal Tells everybody who waits for the end. */
export const over = (claim: Claim, exit: Exit.Exit<void, ReleaseFailed>): void => {
  Deferred.doneUnsafe(claim.released, exit)
  claim.letGo()
  // takes its finalizer out of the caller's scope; there is nothing left for it to do
  Scope.closeUnsafe(claim.guard, Exit.void)
}

/** @internal Logs what a foreigner did wrong, whatever it threw. */
export const report = (what: string, cause: Cause.Cause<unknown>): Effect.Effect<void> =>
  Effect.asVoid(Effect.exit(Effect.logError(what, cause)))

/** @internal What went wrong with a release, and whether it is still going on. */
export interface Unreleased {
  readonly problem: string
  readonly closing: boolean
}

/** @internal Closes the provider's scope: what went wrong, and whether it is still closing when the grace is over. */
export const closeScope = (
  claim: Claim,
  exit: Exit.Exit<unknown, unknown>,
  grace: Duration.Duration,
  whose: () => string
): Effect.Effect<Unreleased | undefined> => {
  const closing = Scope.closeUnsafe(claim.scope, exit)
  if (closing === undefined) return Effect.undefined
  const done = exitOf(closing)
  if (done !== undefined) return unreleased(done, whose)
  return Effect.flatMap(
    Effect.forkDetach(closing, { startImmediately: true, uninterruptible: true }),
    (fiber) => Effect.flatMap(awaitWithin(fiber, grace), (closed) => unreleased(closed, whose))
  )
}

const unreleased = (
  closed: Exit.Exit<void> | undefined,
  whose: () => string
): Effect.Effect<Unreleased | undefined> => {
  if (closed === undefined) {
    return Effect.succeed({ problem: "its provider did not release it in time", closing: true })
  }
  if (Exit.isSuccess(closed)) return Effect.undefined
  return Effect.andThen(
    report(`the release of ${whose()} died`, closed.cause),
    // a defect may be anything, and even refuse to be shown (S62)
    Effect.map(Effect.exit(Effect.sync(() => Cause.pretty(closed.cause).split("\n")[0])), (shown) => ({
      problem: Exit.isSuccess(shown) ? shown.value : "its provider's release died",
      closing: false
    }))
  )
}

/** @internal Gives up a start that failed or was cancelled: nothing of it is left, or it is named in the log. */
export const abandon = Effect.fnUntraced(function*(
  claim: Claim,
  cause: Cause.Cause<unknown>,
  grace: Duration.Duration,
  whose: () => string
) {
  silence(claim)
  const failed = yield* closeScope(claim, Exit.failCause(cause), grace, whose)
  if (failed?.closing === true) yield* Effect.exit(Effect.logError(`${whose()} was given up: ${failed.problem}`))
  claim.place.leave()
  over(claim, Exit.void)
})

/**
 * Whatever cancels a delegation, for tests that try all of it.
 */
import { Effect, Exit, Scope } from "effect"
import { getEventListeners } from "node:events"
import { Lifetime } from "../../src/CurrentAgent.ts"
import { agent } from "./seam.ts"

/** Counts who listens. */
export class CountedLifetime extends Lifetime {
  listeners = 0
  override onEnd(listener: () => void): () => void {
    const off = super.onEnd(listener)
    this.listeners++
    return () => {
      this.listeners--
      off()
    }
  }
}

export const listeners = (signal: AbortSignal) => getEventListeners(signal, "abort").length

/** Everything that cancels a start or a run on the parent's behalf, or the caller's. */
export const cancellers = [
  ["its signal", { abort: "signal", cancelled: { _tag: "Cancelled", cause: "parent" }, aborted: "parent" }],
  ["its parent's interruption", {
    abort: "interrupted",
    cancelled: { _tag: "Cancelled", cause: "parent" },
    aborted: "parent"
  }],
  ["its parent's end", {
    abort: "closed",
    cancelled: { _tag: "StartFailed", reason: "ParentClosed" },
    aborted: "parent"
  }],
  ["its caller's scope", { abort: "scope", cancelled: { _tag: "Cancelled", cause: "disposed" }, aborted: "disposed" }]
] as const

export const cancelWith = Effect.fnUntraced(function*(how: typeof cancellers[number][1]["abort"]) {
  const lifetime = new CountedLifetime()
  const controller = new AbortController()
  const scope = yield* Scope.make()
  return {
    lifetime,
    signal: controller.signal,
    parent: agent({ lifetime, limits: { maxChildren: 1 } }),
    inScope: Scope.provide(scope),
    /** Returns at once for a signal and a lifetime, and when nothing is left for a scope. */
    cancel: Effect.suspend(() => {
      switch (how) {
        case "signal":
          return Effect.sync(() => controller.abort())
        case "scope":
          return Scope.close(scope, Exit.void)
        default:
          return Effect.sync(() => lifetime.end(how))
      }
    }),
    close: Scope.close(scope, Exit.void)
  }
})

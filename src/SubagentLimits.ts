/**
 * Narrows what may be delegated, for a part of a program or for everything below it.
 *
 * Limits travel in `CurrentAgent` from parent to child and only ever shrink on the way: no child can allow itself
 * more than its parent had.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import { CurrentAgent, defaultLimits, type Limits, narrow } from "./CurrentAgent.ts"
import { InvalidRequest } from "./internal/seam/errors.ts"
import { limitsIssue } from "./internal/session/limits.ts"

export {
  /**
   * The limits that hold where nobody set others.
   *
   * @category constants
   * @since 0.1.0
   */
  defaultLimits,
  /**
   * Limits on the tree below an agent.
   *
   * @category models
   * @since 0.1.0
   */
  type Limits
}

/**
 * Narrows the limits of whoever delegates inside `effect`. A limit that is wider than the one that holds changes
 * nothing; one that is no natural number fails `InvalidRequest`, and `effect` does not begin.
 *
 * @category combinators
 * @since 0.1.0
 */
export const within =
  (limits: Partial<Limits>) =>
  <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E | InvalidRequest, R | CurrentAgent> =>
    Effect.flatMap(CurrentAgent, (current): Effect.Effect<A, E | InvalidRequest, R> => {
      const issue = limitsIssue(limits)
      return issue === undefined
        ? Effect.provideService(effect, CurrentAgent, { ...current, limits: narrow(current.limits, limits) })
        : Effect.fail(new InvalidRequest(issue))
    })

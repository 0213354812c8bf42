/**
 * Makes identifiers that are short, safe as file names and never the same twice in practice.
 */
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"
import type { SessionId } from "../../Session.ts"

const part = (n: number): string => Math.abs(n).toString(36)

const randomId: Effect.Effect<string> = Effect.map(
  Random.Random,
  // two of them hold 106 random bits
  (random) => part(random.nextIntUnsafe()) + part(random.nextIntUnsafe())
)

/** @internal */
export const sessionId: Effect.Effect<SessionId> = Effect.map(
  randomId,
  // sound: lower-case letters and digits only, of bounded length
  (id) => ("s" + id) as SessionId
)

/** @internal */
export const messageId: Effect.Effect<string> = Effect.map(randomId, (id) => "m" + id)

/** @internal */
export const runId: Effect.Effect<string> = Effect.map(randomId, (id) => "r" + id)

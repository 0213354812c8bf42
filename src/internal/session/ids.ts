/**
 * Makes identifiers that are short, safe as file names and never the same twice in practice.
 */
import type * as Fiber from "effect/Fiber"
import * as Random from "effect/Random"
import type { SessionId } from "../../Session.ts"

interface Series {
  /** 106 random bits, so that no two processes count from the same place. */
  readonly prefix: string
  count: number
}

const part = (n: number): string => Math.abs(n).toString(36)

const allSeries = new WeakMap<object, Series>()

const begin = (random: typeof Random.Random.Service): Series => ({
  prefix: part(random.nextIntUnsafe()) + part(random.nextIntUnsafe()),
  count: 0
})

const next = (random: typeof Random.Random.Service, letter: string): string => {
  let series = allSeries.get(random)
  if (series === undefined) {
    series = begin(random)
    allSeries.set(random, series)
  }
  return `${letter}${series.prefix}-${(series.count++).toString(36)}`
}

/** Where an id is made from inside a running fiber. */
type Randomness = Pick<Fiber.Fiber<unknown, unknown>, "getRef">

/** @internal */
export const sessionIdUnsafe = (fiber: Randomness): SessionId =>
  // sound: lower-case letters, digits and a dash, of bounded length
  next(fiber.getRef(Random.Random), "s") as SessionId

/**
 * @internal As {@link sessionIdUnsafe}, in a series of its own that all ids from now on belong to. It is not drawn from
 * what the program draws from: where that is seeded, it has been drawn from there before.
 */
export const otherSessionIdUnsafe = (fiber: Randomness): SessionId => {
  allSeries.set(fiber.getRef(Random.Random), begin(Random.Random.defaultValue()))
  return sessionIdUnsafe(fiber)
}

/** @internal */
export const messageIdUnsafe = (fiber: Randomness): string => next(fiber.getRef(Random.Random), "m")

/** @internal */
export const runIdUnsafe = (fiber: Randomness): string => next(fiber.getRef(Random.Random), "r")

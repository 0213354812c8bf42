/**
 * Tells the numbers that count something from those that do not.
 */

/** @internal A whole number from 0 to 2^53 - 1; -0 is none. */
export const isNatural = (n: unknown): n is number =>
  typeof n === "number" && Number.isSafeInteger(n) && n >= 0 && !Object.is(n, -0)

/** @internal A natural number above 0. */
export const isPositive = (n: unknown): n is number => isNatural(n) && n > 0

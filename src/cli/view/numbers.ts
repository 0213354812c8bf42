/**
 * Writes numbers for people.
 *
 * @since 0.1.0
 */

/** @internal `17`, `1.2k`, `3.4M`. */
export const short = (n: number): string =>
  n < 1000 ? String(n) : n < 999_950 ? `${(n / 1000).toFixed(1)}k` : `${(n / 1_000_000).toFixed(1)}M`

/** @internal Milliseconds as seconds with one digit, from a minute on as minutes and seconds. */
export const seconds = (millis: number): string => {
  const all = Math.max(0, millis) / 1000
  if (all < 59.95) return `${all.toFixed(1)} s`
  const whole = Math.round(all)
  return `${Math.floor(whole / 60)} min ${whole % 60} s`
}

/** @internal `1 step`, `2 steps`. */
export const count = (n: number, one: string, many = `${one}s`): string => `${n} ${n === 1 ? one : many}`

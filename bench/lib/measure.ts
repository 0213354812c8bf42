/**
 * Measures several sides of a comparison against each other, in alternating blocks of one run.
 *
 * By CPU time, the whole process's: that counts the garbage collector's and the file system's threads, and does not
 * count what else the machine does.
 */

/** One way to do the same thing. `prepare` and `dispose` are not measured. */
export interface Side {
  readonly prepare: () => Promise<{
    readonly run: (size: number, repeat: number) => Promise<void>
    readonly dispose: () => Promise<void>
  }>
}

/** Everything that was measured of one side: microseconds of CPU time per repetition, by block and size. */
export type Samples = ReadonlyArray<ReadonlyArray<number>>

export interface Plan {
  readonly blocks: number
  readonly warmup: number
  /** What is passed to `run`, and how often in a block. */
  readonly sizes: ReadonlyArray<{ readonly size: number; readonly repeat: number }>
}

// a full collection would throw optimized code away, and its return would be measured instead
const collect = (): void => void globalThis.gc?.({ type: "minor" })

/** Measures one half of a block, with the clock of the process or of its main thread alone. */
export const once = async (
  side: Side,
  size: number,
  repeat: number,
  clock: typeof process.cpuUsage = process.cpuUsage
): Promise<number> => {
  const prepared = await side.prepare()
  collect()
  const start = clock()
  await prepared.run(size, repeat)
  const { system, user } = clock(start)
  await prepared.dispose()
  return (system + user) / repeat
}

/** Runs the blocks: forward and backward in turn, so that what drifts falls on all sides alike. */
export const measure = async <Name extends string>(
  sides: Readonly<Record<Name, Side>>,
  plan: Plan
): Promise<Record<Name, Samples>> => {
  const names = Object.keys(sides) as Array<Name>
  const samples = Object.fromEntries(names.map((name) => [name, []])) as unknown as Record<Name, Array<Array<number>>>
  for (let block = -plan.warmup; block < plan.blocks; block++) {
    const taken = new Map<Name, Array<number>>(names.map((name) => [name, []]))
    for (const { repeat, size } of plan.sizes) {
      for (const name of block % 2 === 0 ? names : names.toReversed()) {
        taken.get(name)!.push(await once(sides[name], size, repeat))
      }
    }
    if (block >= 0) { for (const name of names) samples[name].push(taken.get(name)!) }
  }
  return samples
}

/** The value below which a share of the sorted values lies, interpolated. */
export const quantile = (values: ReadonlyArray<number>, share: number): number => {
  const sorted = values.toSorted((a, b) => a - b)
  const at = (sorted.length - 1) * share
  const low = Math.floor(at)
  const high = Math.min(low + 1, sorted.length - 1)
  return sorted[low] + (sorted[high] - sorted[low]) * (at - low)
}

export const median = (values: ReadonlyArray<number>): number => quantile(values, 0.5)

/** How a time grows with a size: the slope of the best line through both logarithms. */
export const exponent = (points: ReadonlyArray<readonly [size: number, time: number]>): number => {
  const logs = points.map(([size, time]) => [Math.log(size), Math.log(time)] as const)
  const meanX = logs.reduce((sum, [x]) => sum + x, 0) / logs.length
  const meanY = logs.reduce((sum, [, y]) => sum + y, 0) / logs.length
  return logs.reduce((sum, [x, y]) => sum + (x - meanX) * (y - meanY), 0) /
    logs.reduce((sum, [x]) => sum + (x - meanX) ** 2, 0)
}

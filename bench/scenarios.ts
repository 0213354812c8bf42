/**
 * The scenarios: what is compared with what, and what is made of the measurements.
 */
import { measure, median, quantile, type Samples, type Side } from "./lib/measure.ts"
import { bare, ours, plain, type Prompts } from "./lib/sides.ts"

/** The line that `--json` prints. `ratio` and `spread`, its quartiles, are over the blocks. */
export interface Line {
  readonly scenario: string
  readonly ours: number
  readonly floor: number
  readonly ratio: number
  readonly unit: string
  readonly spread: readonly [lower: number, upper: number]
}

/** A line with what only people want to see: what it should be, and figures beside it. */
export interface Report {
  readonly line: Line
  readonly target: { readonly text: string; readonly met: boolean } | undefined
  readonly notes: ReadonlyArray<string>
}

export interface Scenario {
  readonly about: string
  readonly unit: string
  readonly run: (quick: boolean) => Promise<Report>
  /** The sides that `--profile` compares, and how often it has them do what. */
  readonly profile?: {
    readonly ours: Side
    readonly floor: Side
    readonly size: number
    readonly repeat: number
    /** What one repetition counts for, in `unit`s. */
    readonly per: number
  }
}

const blocks = 10

const ratios = (ours: ReadonlyArray<number>, floor: ReadonlyArray<number>): ReadonlyArray<number> =>
  ours.map((value, block) => value / floor[block])

const line = (
  scenario: string,
  unit: string,
  ours: ReadonlyArray<number>,
  floor: ReadonlyArray<number>
): Line => {
  const all = ratios(ours, floor)
  return {
    scenario,
    ours: median(ours),
    floor: median(floor),
    ratio: median(all),
    unit,
    spread: [quantile(all, 0.25), quantile(all, 0.75)]
  }
}

const atMost = (max: number, ratio: number): Report["target"] => ({ text: `≤ ${max}`, met: ratio <= max })

/** Compares the time of one thing that is done over and over. */
const rounds = (options: {
  readonly scenario: string
  readonly about: string
  readonly unit: string
  /** The units in one repetition. */
  readonly per: number
  readonly prompts: Prompts
  readonly sides?: { readonly ours: Side; readonly floor: Side }
  readonly repeat: number
  readonly max?: number
}): Scenario => {
  const { max, per, prompts, repeat, scenario, unit } = options
  const sides = options.sides ?? { ours: ours(prompts), floor: bare(prompts) }
  return {
    about: options.about,
    unit,
    profile: { ...sides, size: 1, repeat, per },
    run: async (quick) => {
      const samples = await measure({ ...sides, async: plain(prompts) }, {
        blocks,
        warmup: 2,
        sizes: [{ size: 1, repeat: quick ? Math.ceil(repeat / 5) : repeat }]
      })
      const each = (name: Samples) => name.map(([time]) => time / per)
      const result = line(scenario, unit, each(samples.ours), each(samples.floor))
      return {
        line: result,
        target: max === undefined ? undefined : atMost(max, result.ratio),
        notes: [`a plain async loop: ${median(each(samples.async)).toFixed(1)} ${unit}`]
      }
    }
  }
}

export const scenarios: Readonly<Record<string, Scenario>> = {
  seq: rounds({
    scenario: "seq",
    about: "parent, delegate, child, parent: 3 model calls",
    unit: "µs/round",
    per: 1,
    prompts: () => ["delegate say"],
    repeat: 1000,
    max: 1.25
  }),
  seq3: rounds({
    scenario: "seq3",
    about: "the same, and the child makes 3 tool calls: 6 model calls",
    unit: "µs/round",
    per: 1,
    prompts: () => ["delegate work 3"],
    repeat: 600,
    max: 1.25
  }),
  fan100: rounds({
    scenario: "fan100",
    about: "one turn with 100 parallel delegations",
    unit: "µs/delegation",
    per: 100,
    prompts: () => ["fan 100 say"],
    repeat: 20,
    max: 1.25
  })
}

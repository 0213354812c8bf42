/**
 * The scenarios: what is compared with what, and what is made of the measurements.
 */
import { makeImports } from "./lib/imports.ts"
import { exponent, measure, median, quantile, type Samples, type Side } from "./lib/measure.ts"
import * as resident from "./lib/resident.ts"
import { bare, bareOnFiles, ours, oursOnFiles, plain, type Prompts } from "./lib/sides.ts"

/** The line that `--json` prints. `ratio` and `spread`, its quartiles, are over the blocks. */
export interface Line {
  readonly scenario: string
  readonly ours: number
  readonly floor: number
  readonly ratio: number
  readonly unit: string
  readonly spread: readonly [lower: number, upper: number]
}

/** A line, with what only people want to see: what it should be, and figures beside it. */
export interface Report {
  readonly line: Line
  readonly target: { readonly text: string; readonly met: boolean } | undefined
  readonly notes: ReadonlyArray<string>
}

export interface Scenario {
  readonly about: string
  readonly unit: string
  readonly run: (quick: boolean) => Promise<Report>
  /**
   * What `--profile` compares. `time`: both sides, how often they do what, and for how many units each of these counts.
   * `heap`: both sides, and how many children each has.
   */
  readonly profile?:
    | {
      readonly of: "time"
      readonly ours: Side
      readonly floor: Side
      readonly size: number
      readonly repeat: number
      readonly per: number
    }
    | {
      readonly of: "heap"
      readonly ours: resident.Family
      readonly floor: resident.Family
      readonly children: number
    }
}

const blocks = 10
const warmup = 3

const toLine = (scenario: string, unit: string, ours: ReadonlyArray<number>, floor: ReadonlyArray<number>): Line => {
  const ratios = ours.map((value, block) => value / floor[block])
  return {
    scenario,
    ours: median(ours),
    floor: median(floor),
    ratio: median(ratios),
    unit,
    spread: [quantile(ratios, 0.25), quantile(ratios, 0.75)]
  }
}

const atMost = (max: number | undefined, ratio: number): Report["target"] =>
  max === undefined ? undefined : { text: `≤ ${max}`, met: ratio <= max }

interface Sides {
  readonly ours: Side
  readonly floor: Side
}

const inMemory = (prompts: Prompts): Sides => ({ ours: ours(prompts), floor: bare(prompts) })

/** The time of one thing that is done over and over. `per` is how many units one repetition counts for. */
const rounds = (scenario: string, options: {
  readonly about: string
  readonly unit: string
  readonly per?: number
  readonly prompts: Prompts
  readonly sides?: Sides
  readonly repeat: number
  readonly max?: number
}): Scenario => {
  const { about, max, per = 1, prompts, repeat, unit } = options
  const sides = options.sides ?? inMemory(prompts)
  return {
    about,
    unit,
    profile: { of: "time", ...sides, size: 1, repeat, per },
    run: async (quick) => {
      const samples = await measure({ ...sides, async: plain(prompts) }, {
        blocks,
        warmup,
        sizes: [{ size: 1, repeat: quick ? Math.ceil(repeat / 5) : repeat }]
      })
      const each = (side: Samples) => side.map(([time]) => time / per)
      const line = toLine(scenario, unit, each(samples.ours), each(samples.floor))
      return {
        line,
        target: atMost(max, line.ratio),
        notes: [`a plain async loop: ${median(each(samples.async)).toFixed(1)} ${unit}`]
      }
    }
  }
}

/** How time grows with the size of a conversation. What is compared is the exponent, or the time of the largest. */
const growth = (scenario: string, options: {
  readonly about: string
  readonly prompts: Prompts
  readonly sizes: ReadonlyArray<number>
  /** How much of it makes a block: a size is repeated until it comes to this. */
  readonly volume: number
  readonly compare: "exponent" | "largest"
}): Scenario => {
  const { about, compare, prompts, sizes, volume } = options
  const sides = inMemory(prompts)
  const largest = Math.max(...sizes)
  const unit = compare === "exponent" ? "exponent" : `µs at ${largest}`
  return {
    about,
    unit,
    profile: { of: "time", ...sides, size: largest, repeat: Math.max(1, Math.round(volume / largest)), per: largest },
    run: async (quick) => {
      const samples = await measure({ ...sides, async: plain(prompts) }, {
        blocks,
        warmup,
        sizes: sizes.map((size) => ({ size, repeat: Math.max(1, Math.round(volume / size / (quick ? 5 : 1))) }))
      })
      const exponents = (side: Samples) => side.map((times) => exponent(times.map((time, i) => [sizes[i], time])))
      const at = (side: Samples, i: number) => side.map((times) => times[i])
      const value = (side: Samples) => compare === "exponent" ? exponents(side) : at(side, sizes.indexOf(largest))
      const line = toLine(scenario, unit, value(samples.ours), value(samples.floor))
      return {
        line,
        target: compare === "exponent" ? { text: "≤ floor + 0.05", met: line.ours <= line.floor + 0.05 } : undefined,
        notes: [
          ...sizes.map((size, i) => {
            const { floor, ours, ratio } = toLine("", "", at(samples.ours, i), at(samples.floor, i))
            return `at ${String(size).padStart(4)}: ${ours.toFixed(0)} µs against ${floor.toFixed(0)}: ${
              ratio.toFixed(3)
            }`
          }),
          `exponents: ${
            Object.entries(samples).map(([name, side]) => `${name} ${median(exponents(side)).toFixed(3)}`).join(", ")
          }`
        ]
      }
    }
  }
}

export const scenarios: Readonly<Record<string, Scenario>> = {
  seq: rounds("seq", {
    about: "parent, delegate, child, parent, one after the other: 3 model calls a round",
    unit: "µs/round",
    prompts: () => ["delegate say"],
    repeat: 1000,
    max: 1.25
  }),
  seq3: rounds("seq3", {
    about: "the same with a child that makes 3 tool calls: 6 model calls a round",
    unit: "µs/round",
    prompts: () => ["delegate work 3"],
    repeat: 600,
    max: 1.25
  }),
  fan100: rounds("fan100", {
    about: "one turn with 100 delegations at once",
    unit: "µs/delegation",
    per: 100,
    prompts: () => ["fan 100 say"],
    repeat: 20,
    max: 1.25
  }),
  chain: growth("chain", {
    about: "a delegates to b, b to c, and so on, 1 to 20 deep",
    prompts: (depth) => [`chain ${depth}`],
    sizes: [1, 2, 5, 10, 20],
    volume: 400,
    compare: "largest"
  }),
  turns: growth("turns", {
    about: "a child makes 1 to 500 tool calls, one after the other in one turn",
    prompts: (calls) => [`delegate work ${calls}`],
    sizes: [1, 5, 25, 100, 250, 500],
    volume: 500,
    compare: "exponent"
  }),
  serial: growth("serial", {
    about: "one parent delegates 50 to 1000 times in one session, one turn each",
    prompts: (delegations) => Array.from({ length: delegations }, () => "delegate say"),
    sizes: [50, 100, 250, 500, 1000],
    volume: 250,
    compare: "exponent"
  }),
  resident: {
    about: "1000 children that wait for their model at the same time: heap after a garbage collection",
    unit: "bytes/child",
    profile: { of: "heap", ours: resident.ours, floor: resident.bare, children: 1000 },
    run: async (quick) => {
      const weights = { ours: [] as Array<number>, floor: [] as Array<number> }
      const families = [["ours", resident.ours], ["floor", resident.bare]] as const
      const children = quick ? 200 : 1000
      for (let block = -1; block < blocks; block++) {
        for (const [name, family] of block % 2 === 0 ? families : families.toReversed()) {
          const weight = await resident.weigh(family, children)
          if (block >= 0) weights[name].push(weight)
        }
      }
      const line = toLine("resident", "bytes/child", weights.ours, weights.floor)
      return { line, target: atMost(1.4, line.ratio), notes: [] }
    }
  },
  file: rounds("file", {
    about: "seq with the sessions in files, against the bare loop with the same file operations",
    unit: "µs/round",
    prompts: () => ["delegate say"],
    sides: { ours: oursOnFiles(() => ["delegate say"]), floor: bareOnFiles(() => ["delegate say"]) },
    repeat: 100,
    max: 1.5
  }),
  import: {
    about: "the cold import of effect-subagent/Subagent against that of the effect modules it imports",
    unit: "µs",
    run: async (quick) => {
      const imports = makeImports("Subagent.js")
      try {
        const times = { ours: [] as Array<number>, floor: [] as Array<number> }
        const runs = quick ? 1 : 3
        const names = ["ours", "floor"] as const
        for (let block = -1; block < blocks; block++) {
          for (const name of block % 2 === 0 ? names : names.toReversed()) {
            const time = median(Array.from({ length: runs }, imports[name]))
            if (block >= 0) times[name].push(time)
          }
        }
        const line = toLine("import", "µs", times.ours, times.floor)
        return { line, target: atMost(1.15, line.ratio), notes: [`against ${imports.modules.length} modules`] }
      } finally {
        imports.dispose()
      }
    }
  },
  "default-limits": rounds("default-limits", {
    about: "fan100 with the limits that hold by default: 10 children of one parent at once, the others queue",
    unit: "µs/delegation",
    per: 100,
    prompts: () => ["fan 100 say"],
    sides: { ours: ours(() => ["fan 100 say"], {}), floor: bare(() => ["fan 100 say"]) },
    repeat: 20
  })
}

/**
 * Compares the library with the least that the same work can cost: `npm run bench -- --help`.
 *
 * Every scenario runs in a process of its own, so that none inherits another's heap or compiled code.
 */
import { spawn } from "node:child_process"
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { parseArgs } from "node:util"
import { type Cost, costs, type CpuProfile, type Profiled, report, weights } from "./lib/profile.ts"
import { type Report, scenarios } from "./scenarios.ts"

const { values: options } = parseArgs({
  options: {
    json: { type: "boolean", default: false },
    quick: { type: "boolean", default: false },
    only: { type: "string" },
    profile: { type: "string" },
    top: { type: "string", default: "25" },
    help: { type: "boolean", default: false }
  }
})

const names = Object.keys(scenarios)

const chosen = (list: string | undefined): ReadonlyArray<string> => {
  if (list === undefined) return names
  const wanted = list.split(",").map((name) => name.trim()).filter((name) => name !== "")
  const unknown = wanted.filter((name) => !names.includes(name))
  if (unknown.length === 0) return wanted
  console.error(`no scenario ${unknown.join(", ")}; there are: ${names.join(", ")}`)
  process.exit(2)
}

/** Runs a scenario in a process of its own and returns what it prints. */
const inChild = (name: string, mode: string, flags: ReadonlyArray<string> = []): Promise<string> =>
  new Promise((resolve, reject) => {
    const script = fileURLToPath(new URL("./run.ts", import.meta.url))
    const child = spawn(process.execPath, ["--expose-gc", ...flags, script, name, mode], {
      stdio: ["ignore", "pipe", "inherit"]
    })
    let output = ""
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      output += text
    })
    child.on("error", reject)
    child.on("close", (code) => code === 0 ? resolve(output) : reject(new Error(`${name} ended with ${code}`)))
  })

const show = (value: number): string => value.toFixed(value < 10 ? 3 : 1)

const line = ({ line, target }: Report): string =>
  [
    line.scenario.padEnd(15),
    show(line.ours).padStart(9),
    show(line.floor).padStart(9),
    line.ratio.toFixed(3).padStart(8),
    `${line.spread[0].toFixed(3)}–${line.spread[1].toFixed(3)}`.padStart(14),
    `  ${line.unit.padEnd(14)}`,
    target === undefined ? "" : `${target.text}: ${target.met ? "met" : "MISSED"}`
  ].join(" ")

const profile = async (name: string): Promise<void> => {
  const one = async (side: "ours" | "floor"): Promise<ReadonlyMap<string, Cost>> => {
    const directory = mkdtempSync(join(tmpdir(), "effect-subagent-bench-"))
    try {
      const output = await inChild(name, side, [
        "--cpu-prof",
        "--cpu-prof-interval=200",
        `--cpu-prof-dir=${directory}`
      ])
      const profiled = JSON.parse(output) as Profiled
      if (profiled.of === "heap") return weights(profiled.profile, profiled.children)
      const [file] = readdirSync(directory)
      return costs(JSON.parse(readFileSync(join(directory, file), "utf8")) as CpuProfile, profiled)
    } finally {
      rmSync(directory, { recursive: true, force: true })
    }
  }
  if (scenarios[name].profile === undefined) {
    console.error(`${name} has no profile`)
    process.exit(2)
  }
  const ours = await one("ours")
  const floor = await one("floor")
  console.log(report(ours, floor, scenarios[name].unit, Number(options.top)).join("\n"))
}

if (options.help) {
  console.log([
    "node bench/main.ts [--json] [--quick] [--only a,b] [--profile scenario [--top 25]]",
    "",
    ...names.map((name) => `  ${name.padEnd(15)} ${scenarios[name].about}`)
  ].join("\n"))
} else if (options.profile !== undefined) {
  for (const name of chosen(options.profile)) await profile(name)
} else {
  if (!options.json) {
    console.log("scenario             ours     floor    ratio      quartiles   unit            target")
  }
  for (const name of chosen(options.only)) {
    const result = JSON.parse(await inChild(name, options.quick ? "quick" : "measure")) as Report
    if (options.json) console.log(JSON.stringify(result.line))
    else {
      console.log(line(result))
      for (const note of result.notes) console.log(`                ${note}`)
    }
  }
}

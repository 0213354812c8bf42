/**
 * Runs one scenario in this process and prints what came of it as JSON: `node run.ts <scenario> measure|quick|ours|floor`.
 * The last two are for a profile.
 */
import { once } from "./lib/measure.ts"
import type { Profiled } from "./lib/profile.ts"
import { sample } from "./lib/resident.ts"
import { scenarios } from "./scenarios.ts"

const [name, mode] = process.argv.slice(2)
const scenario = scenarios[name]

const profiled = async (side: "ours" | "floor"): Promise<Profiled> => {
  const { profile } = scenario
  if (profile === undefined) throw new Error(`${name} cannot be profiled`)
  if (profile.of === "heap") {
    return { of: "heap", profile: await sample(profile[side], profile.children), children: profile.children }
  }
  const { per, repeat, size } = profile
  // without a warm-up the profile would show how code is compiled
  for (let i = 0; i < 4; i++) await once(profile[side], size, repeat)
  const blocks = 8
  const from = performance.now()
  let time = 0
  for (let i = 0; i < blocks; i++) time += await once(profile[side], size, repeat, process.threadCpuUsage)
  return { of: "time", from, to: performance.now(), time: time / blocks / per }
}

const result = mode === "ours" || mode === "floor" ? await profiled(mode) : await scenario.run(mode === "quick")
console.log(JSON.stringify(result))

/**
 * Runs one scenario in this process and prints what came of it as JSON: `node run.ts <scenario> measure|quick|ours|floor`.
 * The last two are for a profile.
 */
import { once } from "./lib/measure.ts"
import type { Profiled } from "./lib/profile.ts"
import { scenarios } from "./scenarios.ts"

const [name, mode] = process.argv.slice(2)
const scenario = scenarios[name]

if (mode === "ours" || mode === "floor") {
  const { profile } = scenario
  if (profile === undefined) throw new Error(`${name} cannot be profiled`)
  const { per, repeat, size } = profile
  // without a warm-up the profile would show how code is compiled
  for (let i = 0; i < 4; i++) await once(profile[mode], size, repeat)
  const from = performance.now()
  const blocks = 6
  for (let i = 0; i < blocks; i++) await once(profile[mode], size, repeat)
  const profiled: Profiled = { from, to: performance.now(), repeat: repeat * blocks, per }
  console.log(JSON.stringify(profiled))
} else {
  console.log(JSON.stringify(await scenario.run(mode === "quick")))
}

/** Runs every `check:*` script of package.json, two at a time, and prints each one's seconds and what it found. */
import { spawn } from "node:child_process"
import { readFileSync } from "node:fs"
import { delimiter, join } from "node:path"

const root = join(import.meta.dirname, "..")
const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as {
  readonly scripts: Readonly<Record<string, string>>
}
const queue = Object.entries(manifest.scripts).filter(([name]) => name.startsWith("check:"))
const env = { ...process.env, PATH: join(root, "node_modules/.bin") + delimiter + process.env["PATH"] }
const failed: Array<string> = []

const run = (name: string, command: string): Promise<void> =>
  new Promise((resolve) => {
    const start = performance.now()
    const output: Array<Buffer> = []
    const child = spawn(command, { cwd: root, env, shell: true, stdio: ["ignore", "pipe", "pipe"] })
    child.stdout.on("data", (chunk: Buffer) => output.push(chunk))
    child.stderr.on("data", (chunk: Buffer) => output.push(chunk))
    child.on("close", (code) => {
      const seconds = ((performance.now() - start) / 1000).toFixed(1)
      console.log(`${code === 0 ? "ok  " : "FAIL"} ${name} (${seconds} s)`)
      if (code !== 0) {
        failed.push(name)
        console.log(Buffer.concat(output).toString().trimEnd())
      }
      resolve()
    })
  })

const worker = async () => {
  for (let next = queue.shift(); next !== undefined; next = queue.shift()) await run(...next)
}
await Promise.all([worker(), worker()])

if (failed.length > 0) {
  console.log(`\nfailed: ${failed.join(", ")}; run one alone with npm run NAME`)
  process.exitCode = 1
}

/**
 * Checks what the package shows: its public subpaths resolve, everything internal is closed, and the front door and the
 * seam load neither an SDK nor a `node:` module.
 */
import { spawnSync } from "node:child_process"
import { existsSync, globSync } from "node:fs"
import { join } from "node:path"
import { pathToFileURL } from "node:url"
import { type Problem, report, root } from "./lib/source.ts"

const name = "effect-subagent"
const problems: Array<Problem> = []
const manifest = "package.json"

/** Where a subpath leads by the `exports` of package.json, or why it leads nowhere. */
const resolve = (subpath: string): string => {
  try {
    return import.meta.resolve(name + subpath)
  } catch (error) {
    return (error as NodeJS.ErrnoException).code ?? String(error)
  }
}

const expectOpen = (subpath: string, file: string) => {
  const found = resolve(subpath)
  const expected = pathToFileURL(join(root, file)).href
  if (found === expected) return
  problems.push({ path: manifest, message: `${name}${subpath} leads to ${found}; exports must lead to ${file}` })
}

const expectClosed = (subpath: string, pattern: string) => {
  const found = resolve(subpath)
  if (found === "ERR_PACKAGE_PATH_NOT_EXPORTED") return
  problems.push({
    path: manifest,
    message: `${name}${subpath} leads to ${found}; it must be closed by "${pattern}": null in exports`
  })
}

expectOpen("", "dist/index.js")
for (const subpath of ["/Subagent", "/providers/Spawn", "/layers/Local"]) expectOpen(subpath, `dist${subpath}.js`)
expectClosed("/index", "./index")
expectClosed("/internal/x", "./internal/*")
expectClosed("/providers/internal/x", "./providers/internal/*")

// a public module stands in src or directly in one of its folders; what lies deeper is a module's own
for (const path of globSync("src/**/*.ts", { cwd: root })) {
  const subpath = path.slice("src".length, -".ts".length)
  const folders = subpath.split("/").slice(1, -1)
  const closed = folders.includes("internal") ? folders.slice(0, folders.indexOf("internal") + 1) : folders
  // the command is run, and never imported
  if (folders[0] === "cli") {
    expectClosed(subpath, "./cli/*")
  } else if (folders.includes("internal") || folders.length > 1) {
    expectClosed(subpath, `./${closed.join("/")}/*`)
  } else if (subpath !== "/index") {
    expectOpen(subpath, `dist${subpath}.js`)
  }
}

// a module loaded by the entry is one that every user pays for, whatever they use
const recorder = `
  import { registerHooks } from "node:module"
  const seen = new Map()
  registerHooks({
    resolve(specifier, context, next) {
      const found = next(specifier, context)
      if (!seen.has(found.url)) seen.set(found.url, context.parentURL)
      return found
    }
  })
  await import(process.argv[1])
  process.stdout.write("\\n" + JSON.stringify([...seen]))
`

// where node finds them, which is elsewhere when node_modules is a link
const homes = [pathToFileURL(join(root, "src/")).href, new URL("../", import.meta.resolve("effect")).href]
const isHome = (url: string) => homes.some((home) => url.startsWith(home))

for (const entry of ["src/index.ts", "src/Subagent.ts"]) {
  if (!existsSync(join(root, entry))) {
    problems.push({ path: entry, message: "does not exist, so what it loads cannot be checked" })
    continue
  }
  const target = pathToFileURL(join(root, entry)).href
  const child = spawnSync(process.execPath, ["--input-type=module", "--eval", recorder, target], { encoding: "utf8" })
  if (child.status !== 0) {
    problems.push({ path: entry, message: `cannot be imported:\n${child.stderr.trim()}` })
    continue
  }
  // what the recorder just wrote: pairs of a module and who asked for it first
  const loaded = JSON.parse(child.stdout.slice(child.stdout.lastIndexOf("\n"))) as ReadonlyArray<[string, string?]>
  for (const [url, parent = target] of loaded) {
    // what a stranger loads in its turn is no news
    if (isHome(url) || !isHome(parent)) continue
    const by = parent.replace(pathToFileURL(root).href + "/", "")
    problems.push({ path: entry, message: `loads ${url} (through ${by}); it may load only src and effect` })
  }
}

report(problems, "the package shows what it should and loads nothing else")

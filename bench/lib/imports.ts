/**
 * Compares the cold import of a built module with that of the effect modules that it imports.
 */
import { execFileSync, spawnSync } from "node:child_process"
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join, relative, resolve } from "node:path"
import { fileURLToPath, pathToFileURL } from "node:url"

const root = fileURLToPath(new URL("../../", import.meta.url))

const importsOf = (file: string): ReadonlyArray<string> =>
  Array.from(
    readFileSync(file, "utf8").matchAll(/^(?:import|export)\s(?:[^"';]*\sfrom\s)?"([^"]+)"/gm),
    (match) => match[1]
  )

/** The modules of packages that a module imports, itself or through others of its own package. */
const packageImports = (entry: string): ReadonlyArray<string> => {
  const seen = new Set<string>()
  const found = new Set<string>()
  const visit = (file: string): void => {
    if (seen.has(file)) return
    seen.add(file)
    for (const specifier of importsOf(file)) {
      if (specifier.startsWith(".")) visit(resolve(dirname(file), specifier))
      else found.add(specifier)
    }
  }
  visit(entry)
  return Array.from(found).toSorted()
}

export interface Imports {
  readonly ours: () => number
  readonly floor: () => number
  readonly modules: ReadonlyArray<string>
  readonly dispose: () => void
}

/** Builds the package and returns what imports a module of it in a new process: microseconds of CPU time to its end. */
export const makeImports = (module: string): Imports => {
  const directory = mkdtempSync(join(tmpdir(), "effect-subagent-bench-"))
  const dist = join(directory, "dist")
  const compiler = join(dirname(fileURLToPath(import.meta.resolve("typescript/package.json"))), "bin", "tsc")
  execFileSync(process.execPath, [compiler, "-p", join(root, "tsconfig.build.json"), "--outDir", dist], {
    stdio: ["ignore", "ignore", "inherit"]
  })
  symlinkSync(join(root, "node_modules"), join(directory, "node_modules"), "dir")
  writeFileSync(join(directory, "package.json"), `{ "type": "module" }`)
  const entry = join(dist, module)
  const modules = packageImports(entry)

  const script = (name: string, specifiers: ReadonlyArray<string>): string => {
    const path = join(directory, name)
    const imports = specifiers.map((each) => `import ${JSON.stringify(each)}\n`).join("")
    // as late as can be: what happens in the process after that is the same for both
    writeFileSync(path, `${imports}process.on("exit", () => console.log(JSON.stringify(process.cpuUsage())))\n`)
    return path
  }
  const ours = script("ours.js", [`./${relative(directory, entry)}`])
  const floor = script("floor.js", modules)

  const run = (path: string) => (): number => {
    const { status, stdout } = spawnSync(process.execPath, [path], {
      encoding: "utf8",
      stdio: ["ignore", "pipe", "inherit"]
    })
    if (status !== 0) throw new Error(`${pathToFileURL(path).href} ended with ${status}`)
    const { system, user } = JSON.parse(stdout) as NodeJS.CpuUsage
    return system + user
  }
  return {
    ours: run(ours),
    floor: run(floor),
    modules,
    dispose: () => rmSync(directory, { recursive: true, force: true })
  }
}

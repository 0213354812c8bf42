/**
 * Installs the package as `npm pack` makes it into empty projects, and uses it there as a stranger would: the library
 * beside nothing but `effect`, the command beside `@effect/platform-node` as well.
 */
import { assert, beforeAll, describe, it } from "@effect/vitest"
import { execFile } from "node:child_process"
import { cpSync, existsSync, globSync, mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { leakCheck, makeTempDir } from "../utils/leaks.ts"

leakCheck()

const root = join(import.meta.dirname, "../..")
const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as {
  readonly version: string
  readonly devDependencies: Readonly<Record<string, string>>
}
const example = join(root, "examples/packed.ts")

interface Outcome {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

const run = (cwd: string, file: string, args: ReadonlyArray<string>, timeout = 60_000): Promise<Outcome> =>
  new Promise((resolve) => {
    execFile(file, args, { cwd, timeout, maxBuffer: 2 ** 26 }, (error, stdout, stderr) => {
      // no code means that it could not be started or was killed: as much of a failure as any other
      const code = error === null ? 0 : typeof error.code === "number" ? error.code : 1
      resolve({ code, stdout, stderr: error === null ? stderr : `${stderr}\n${error.message}` })
    })
  })

const node = (cwd: string, ...args: ReadonlyArray<string>) => run(cwd, process.execPath, args)

const assertFine = ({ code, stderr, stdout }: Outcome) => {
  assert.strictEqual(code, 0, `${stdout}\n${stderr}`)
}

/** A new project with the packed package and exact versions of others. */
const project = async (tarball: string, ...names: ReadonlyArray<string>): Promise<string> => {
  const directory = makeTempDir()
  writeFileSync(join(directory, "package.json"), JSON.stringify({ name: "stranger", private: true, type: "module" }))
  const wanted = names.map((name) => `${name}@${manifest.devDependencies[name]}`)
  const flags = ["--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline"]
  assertFine(await run(directory, "npm", ["install", ...flags, tarball, ...wanted], 110_000))
  return directory
}

let tarball: string
let library: string
let command: string

beforeAll(async () => {
  const packed = makeTempDir()
  assertFine(await run(root, "npm", ["pack", "--pack-destination", packed], 110_000))
  tarball = join(packed, globSync("*.tgz", { cwd: packed })[0] ?? "no tarball")
  library = await project(tarball, "effect")
  command = await project(tarball, "effect", "@effect/platform-node")
})

describe("the library, with effect only", () => {
  it("has no optional peer at hand", () => {
    for (const name of ["@effect/platform-node", "@ai-sdk/provider", "@types/node"]) {
      assert.isFalse(existsSync(join(library, "node_modules", name)), name)
    }
  })

  it("contains the code, its types and its maps, and no test", () => {
    const files = globSync("**/*", { cwd: join(library, "node_modules/effect-subagent") })
    for (const name of ["index", "Subagent", "SubagentTool", "testing/ScriptedModel", "layers/Local", "cli/main"]) {
      for (const ending of [".js", ".js.map", ".d.ts", ".d.ts.map"]) assert.include(files, `dist/${name}${ending}`)
      assert.include(files, `src/${name}.ts`)
    }
    for (const name of ["LICENSE", "README.md", "CHANGELOG.md"]) assert.include(files, name)
    assert.deepStrictEqual(files.filter((file) => /(^|\/)(test|bench|scripts)\/|tsbuildinfo/.test(file)), [])
  })

  it("shows the README's first example in examples/packed.ts, word for word", () => {
    const block = /^```ts\n([\s\S]*?)^```$/m.exec(readFileSync(join(root, "README.md"), "utf8"))?.[1]
    assert.isDefined(block, "README.md has no ts block")
    assert.include(readFileSync(example, "utf8"), block.trim())
  })

  it("type-checks the example", async () => {
    cpSync(example, join(library, "packed.ts"))
    const compilerOptions = {
      target: "ES2022",
      lib: ["ES2023", "DOM", "DOM.Iterable"],
      module: "NodeNext",
      strict: true,
      exactOptionalPropertyTypes: true,
      // our declarations are part of what is checked: they must not need a type that a user lacks
      skipLibCheck: false,
      noEmit: true,
      types: []
    }
    writeFileSync(join(library, "tsconfig.json"), JSON.stringify({ compilerOptions, include: ["packed.ts"] }))
    assertFine(await node(library, join(root, "node_modules/typescript/lib/tsc.js"), "--pretty", "false"))
  })

  it("runs the example", async () => {
    cpSync(example, join(library, "packed.ts"))
    const outcome = await node(library, "packed.ts")
    assertFine(outcome)
    assert.notStrictEqual(outcome.stdout.trim(), "", "the example prints nothing")
    assert.match(readFileSync(example, "utf8"), /from "effect-subagent\/SubagentTool"/)
  })

  it("keeps what is internal to itself", async () => {
    for (const subpath of ["internal/x", "providers/internal/x", "index"]) {
      const outcome = await node(library, "--input-type=module", "--eval", `await import("effect-subagent/${subpath}")`)
      assert.include(outcome.stderr, "ERR_PACKAGE_PATH_NOT_EXPORTED", subpath)
    }
  })

  it("loads the packed entry and the seam without node's modules or an SDK", async () => {
    for (const subpath of ["", "/Subagent"]) {
      const code = `
        import { registerHooks } from "node:module"
        registerHooks({ resolve: (name, context, next) => {
          const found = next(name, context)
          if (found.url.startsWith("node:")) throw new Error("loads " + found.url)
          return found
        } })
        await import("effect-subagent${subpath}")`
      assertFine(await node(library, "--input-type=module", "--eval", code))
    }
  })
})

describe("the command, with @effect/platform-node", () => {
  it("has one bin", () => {
    assert.deepStrictEqual(globSync("subagent*", { cwd: join(command, "node_modules/.bin") }), ["subagent"])
  })

  it("tells its version", async () => {
    const outcome = await node(command, "node_modules/effect-subagent/dist/cli/main.js", "--version")
    assertFine(outcome)
    assert.include(outcome.stdout, manifest.version)
  })

  it("delegates over a small tree and keeps every session", async () => {
    const tree = join(command, "tree")
    for (const [folder, text] of [["alpha", "export const one = 1\n"], ["beta", "export const two = 2\n"]] as const) {
      mkdirSync(join(tree, folder), { recursive: true })
      writeFileSync(join(tree, folder, "code.ts"), text.repeat(folder.length))
    }
    const bin = join(command, "node_modules/.bin/subagent")
    const store = join(command, "sessions")
    // the bin's first line asks for `node`, which a clean machine may have in another version
    const outcome = await node(command, bin, "run", "--cwd", tree, "--store", store)
    assertFine(outcome)
    for (const word of ["alpha", "beta", "one", "two"]) assert.include(outcome.stdout, word)

    const list = await node(command, bin, "list", "--store", store, "--json")
    assertFine(list)
    const ids = list.stdout.trim().split("\n").map((line) => (JSON.parse(line) as { readonly id: string }).id)
    // the parent, and one child for each folder
    assert.strictEqual(new Set(ids).size, 3)
  })
})

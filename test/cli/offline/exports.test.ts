import { assert, describe, it } from "@effect/vitest"
import { globSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { parseSync } from "vite"
import { exportedNames, isScript } from "../../../src/cli/offline/exports.ts"
import { leakCheck } from "../../utils/leaks.ts"

leakCheck()

const root = join(import.meta.dirname, "../../..")

interface Node {
  readonly type: string
  readonly [key: string]: any
}

const bound = (pattern: Node | null): ReadonlyArray<string> => {
  switch (pattern?.type) {
    case "Identifier":
      return [pattern["name"]]
    case "ObjectPattern":
      return pattern["properties"].flatMap((property: Node) => bound(property["value"] ?? property))
    case "ArrayPattern":
      return pattern["elements"].flatMap(bound)
    case "AssignmentPattern":
      return bound(pattern["left"])
    case "RestElement":
      return bound(pattern["argument"])
    default:
      return []
  }
}

const nameOf = (node: Node): string => node["name"] ?? node["value"]

/** What a real parser says; nothing of a file that it does not take. */
const parsedNames = (path: string, code: string): ReadonlyArray<string> | undefined => {
  const { errors, program } = parseSync(path, code)
  if (errors.length > 0) return undefined
  return Array.from(
    new Set(program.body.flatMap((statement: Node): ReadonlyArray<string> => {
      switch (statement.type) {
        case "ExportDefaultDeclaration":
          return ["default"]
        case "TSExportAssignment":
          return ["export="]
        case "ExportAllDeclaration":
          return statement["exported"] ? [nameOf(statement["exported"])] : []
        case "ExportNamedDeclaration": {
          const { declaration, specifiers } = statement
          if (declaration === null) return specifiers.map((one: Node) => nameOf(one["exported"]))
          if (declaration.type !== "VariableDeclaration") return [nameOf(declaration.id)]
          return declaration.declarations.flatMap((one: Node) => bound(one["id"]))
        }
        default:
          return []
      }
    }))
  )
}

const check = (code: string, expected: ReadonlyArray<string>, path = "a.ts") => {
  assert.deepStrictEqual(exportedNames(path, code).toSorted(), expected.toSorted(), code)
}

describe("exportedNames", () => {
  it("knows every form of the statement", () => {
    check("export const a = 1", ["a"])
    check("export let a, b = 2, c: number", ["a", "b", "c"])
    check("export var a = f(1, 2), b = [3, 4], c = { d: 5, e: 6 }", ["a", "b", "c"])
    check("export const { a, b: c, d = 1, ...e } = x, [f, , g = 2, ...h] = y", ["a", "c", "d", "e", "f", "g", "h"])
    check("export const { a: { b, c: [d] }, \"e\": f, [g]: h } = x", ["b", "d", "f", "h"])
    check("export function a() {}\nexport async function* b() {}\nexport function* c() {}", ["a", "b", "c"])
    check("export class A {}\nexport abstract class B {}\nexport @dec(class {}) class C {}", ["A", "B", "C"])
    check("export interface A {}\nexport type B = 1\nexport enum C {}\nexport const enum D {}", ["A", "B", "C", "D"])
    check("export declare const a: 1\nexport declare function b(): void\nexport namespace C.D {}", ["a", "b", "C"])
    check("export default function a() {}", ["default"])
    check("export default 1", ["default"])
    check("export { a, b as c, d as default, e as \"f g\", type H, type I as J, }", [
      "a",
      "c",
      "default",
      "f g",
      "H",
      "J"
    ])
    check("export { a } from \"x\"\nexport * from \"y\"\nexport * as z from \"z\"", ["a", "z"])
    check("export type { A, B as C } from \"x\"\nexport type * as D from \"y\"\nexport type * from \"z\"", [
      "A",
      "C",
      "D"
    ])
    check("export import a = b.c\nexport import type D = require(\"d\")", ["a", "D"])
    check("export = a", ["export="])
    check("export as namespace a", ["a"])
    check("export\nconst\na\n=\n1", ["a"])
  })

  it("takes the further declarations of a statement, and nothing else for one", () => {
    check("export const a = 1\nfoo, bar", ["a"])
    check("export const a = 1,\n  b = 2\nc, d", ["a", "b"])
    check("export const a: Map<string, number> = new Map<string, number>(), b = 1", ["a", "b"])
    check("export const a = <A, B = string>(x: A, y: B): [A, B] => [x, y], b = 2", ["a", "b"])
    check("export const a = x < y, b = x > y", ["a", "b"])
    check("export const f: <A, B>(a: A) => B = null as any\nexport const g = 1", ["f", "g"])
    check("export const a = 1\nexport const b = 2", ["a", "b"])
    check("export const a = async\n  (b, c) => d", ["a"])
    check("export const a = cond\n  ? b\n  : c\nd, e", ["a"])
    check("export const a = f`x${g(1, 2)}y`, b = 1", ["a", "b"])
  })

  it("is not led astray by what only looks like an export", () => {
    check("// export const a = 1\n/* export const b = 2 */\nexport const c = 3", ["c"])
    check("const s = \"export const a = 1\"\nconst t = `\nexport const b = 2\n${`export const c = 3`}`", [])
    check("const r = /export const a/, q = x / y / z\nexport const b = 1", ["b"])
    check("if (x) /[/'\"`{]/.test(y)\nexport const b = 1", ["b"])
    check("const o = { export: 1 }\nx.export\nnamespace N {\nexport const a = 1\n}", [])
    check("declare module \"m\" {\nexport const a: 1\n}\nexport const b = 1", ["b"])
    check("const a = '\\'', b = 'it\\'s'; export const c = `\\`${'}'}`", ["c"])
    check("#!/usr/bin/env node\nexport const a = 1", ["a"])
    check("\ufeffexport const a = 1", ["a"])
    check("class A { #export = 1; static { export } }\nexport { A }", ["A"])
  })

  it("goes on after text between tags", () => {
    check(
      "const a = <p>It's {b} and, c</p>\nexport const d = <p>don't, e</p>\nexport function F() { return <>`</> }\n" +
        "export default F",
      ["d", "F", "default"],
      "a.tsx"
    )
  })

  it("never fails, whatever it is given", () => {
    for (
      const code of [
        "export",
        "export {",
        "export const",
        "export const {",
        "`${",
        "'",
        "/",
        "export @",
        "}])>",
        "\\u{"
      ]
    ) {
      assert.isArray(exportedNames("a.ts", code), code)
      assert.isArray(exportedNames("a.jsx", code), code)
    }
    check("export const __proto__ = 1, constructor = 2", ["__proto__", "constructor"])
  })

  it("knows scripts by their names", () => {
    const names = [
      "a.ts",
      "a.mts",
      "a.cts",
      "a.d.ts",
      "a.tsx",
      "a.js",
      "a.mjs",
      "a.cjs",
      "a.jsx",
      "a.json",
      "a.css",
      "ts",
      "a.ts.map"
    ]
    assert.deepStrictEqual(names.filter(isScript), names.slice(0, 9))
  })

  it("agrees with a parser on this repository and on the library it is written with", () => {
    const files = globSync(["{src,test,bench,scripts,examples}/**/*.ts", "node_modules/effect/src/*.ts"], { cwd: root })
    let compared = 0
    for (const path of files) {
      const code = readFileSync(join(root, path), "utf8")
      const expected = parsedNames(path, code)
      if (expected === undefined) continue
      compared++
      assert.deepStrictEqual(exportedNames(path, code).toSorted(), expected.toSorted(), path)
    }
    assert.isAbove(compared, 150)
  })
})

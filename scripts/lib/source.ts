/** Reads the repository's TypeScript files as syntax trees, and gathers what a check finds wrong in them. */
import { globSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { parseSync } from "vite"

/** The repository's root, without a trailing slash. */
export const root = join(import.meta.dirname, "../..")

/** A syntax node, as far as the checks look into one. */
export interface Node {
  readonly type: string
  readonly start: number
  readonly end: number
  readonly [key: string]: unknown
}

/** A comment between nodes. */
export interface Comment {
  readonly type: "Line" | "Block"
  readonly value: string
  readonly start: number
  readonly end: number
}

/** One parsed file; `path` is relative to the repository's root. */
export interface SourceFile {
  readonly path: string
  readonly text: string
  readonly body: ReadonlyArray<Node>
  readonly comments: ReadonlyArray<Comment>
}

/** One reason for a check to fail. */
export interface Problem {
  readonly path: string
  readonly line?: number | undefined
  readonly message: string
}

const isNode = (value: unknown): value is Node =>
  typeof value === "object" && value !== null && typeof (value as { readonly type?: unknown }).type === "string"

/** The direct child nodes of a node, in the order of the text. */
export const childNodes = (node: Node): ReadonlyArray<Node> =>
  Object.values(node).flatMap((value) => Array.isArray(value) ? value.filter(isNode) : isNode(value) ? [value] : [])

/** Calls `visit` with each node and its ancestors, outermost first. */
export const walk = (
  nodes: ReadonlyArray<Node>,
  visit: (node: Node, ancestors: ReadonlyArray<Node>) => void,
  ancestors: ReadonlyArray<Node> = []
): void => {
  for (const node of nodes) {
    visit(node, ancestors)
    walk(childNodes(node), visit, [...ancestors, node])
  }
}

/** A string literal's value, or `undefined` where the node is anything else. */
export const literal = (node: unknown): string | undefined => {
  if (!isNode(node)) return undefined
  if (node.type === "Literal" && typeof node["value"] === "string") return node["value"]
  return undefined
}

/** Parses one file. */
export const parse = (path: string): SourceFile => {
  const text = readFileSync(join(root, path), "utf8")
  const result = parseSync(path, text)
  if (result.errors.length > 0) throw new Error(`${path}: ${result.errors[0]?.message}`)
  // oxc's own node types are a closed union per syntax form; the checks need only the shape all of them share
  const body = result.program.body as unknown as ReadonlyArray<Node>
  return { path, text, body, comments: result.comments }
}

/** Every file that the patterns name, parsed, in the order of their paths. */
export const sources = (...patterns: ReadonlyArray<string>): ReadonlyArray<SourceFile> =>
  patterns.flatMap((pattern) => globSync(pattern, { cwd: root })).toSorted().map((path) => parse(path))

/** The line, counted from 1, of an offset in a text. */
export const lineAt = (text: string, offset: number): number => {
  let line = 1
  for (let i = text.indexOf("\n"); i !== -1 && i < offset; i = text.indexOf("\n", i + 1)) line++
  return line
}

/** Prints the outcome of a check and sets the exit code. */
export const report = (problems: ReadonlyArray<Problem>, whenFine: string): void => {
  for (const problem of problems) {
    const place = problem.line === undefined ? problem.path : `${problem.path}:${problem.line}`
    console.error(`${place}: ${problem.message}`)
  }
  if (problems.length > 0) {
    console.error(`${problems.length} problem${problems.length === 1 ? "" : "s"}`)
    process.exitCode = 1
  } else {
    console.log(whenFine)
  }
}

/** One module that a file imports or re-exports. */
export interface Import {
  readonly specifier: string
  readonly line: number
  /** Vanishes when types are stripped. */
  readonly typeOnly: boolean
}

/** Every import of a file: static, re-exported, dynamic, and `import("…")` in a type. */
export const importsOf = (file: SourceFile): ReadonlyArray<Import> => {
  const found: Array<Import> = []
  const add = (specifier: string | undefined, node: Node, typeOnly: boolean) => {
    if (specifier !== undefined) found.push({ specifier, line: lineAt(file.text, node.start), typeOnly })
  }
  walk(file.body, (node) => {
    switch (node.type) {
      // `import { type X }` still loads the module under verbatimModuleSyntax; only `import type` does not
      case "ImportDeclaration":
        return add(literal(node["source"]), node, node["importKind"] === "type")
      case "ExportNamedDeclaration":
      case "ExportAllDeclaration":
        return add(literal(node["source"]), node, node["exportKind"] === "type")
      case "ImportExpression":
        return add(literal(node["source"]), node, false)
      case "TSImportType":
        return add(literal(node["source"] ?? node["argument"]), node, true)
    }
  })
  return found
}

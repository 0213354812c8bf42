/**
 * Checks the rules of `src` that no linter knows: effects instead of promises and ambient state, modules instead of
 * barrels, and a documented, dated public surface.
 */
import type { Comment, Node, Problem, SourceFile } from "./lib/source.ts"
import { childNodes, importsOf, lineAt, literal, report, sources, walk } from "./lib/source.ts"

/** The thin edges that touch a foreign SDK or the process itself, and what each of them may use. */
const edges: ReadonlyArray<readonly [files: RegExp, allowed: ReadonlyArray<string>]> = [
  [/^src\/layers\/AiSdkModel(\.ts$|\/)/, ["async", "try"]]
]

const instead: Readonly<Record<string, string>> = {
  async: "use Effect.gen, or Effect.tryPromise around the one foreign promise",
  try: "use Effect.try, or a Schema decode",
  "Date.now": "use Clock.currentTimeMillis",
  "new Date()": "use DateTime.now",
  "Math.random": "use Random, or Crypto for identifiers",
  "process.env": "use Config"
}

const memberName = (node: Node): string | undefined => {
  if (node.type !== "MemberExpression") return undefined
  const { object, property } = node as { readonly object?: Node; readonly property?: Node }
  if (object?.type !== "Identifier") return undefined
  return `${object["name"]}.${property?.type === "Identifier" ? property["name"] : literal(property)}`
}

const ambient = (node: Node): string | undefined => {
  switch (node.type) {
    case "ArrowFunctionExpression":
    case "FunctionExpression":
    case "FunctionDeclaration":
      return node["async"] === true ? "async" : undefined
    case "AwaitExpression":
      return "async"
    case "TryStatement":
      return "try"
    case "NewExpression": {
      const { arguments: args, callee } = node as { readonly arguments?: ReadonlyArray<Node>; readonly callee?: Node }
      return callee?.["name"] === "Date" && args?.length === 0 ? "new Date()" : undefined
    }
    default: {
      const name = memberName(node)
      return name !== undefined && Object.hasOwn(instead, name) ? name : undefined
    }
  }
}

/** A package's index gathers every module of it, and so does an index of one of its folders. */
const isBarrel = (specifier: string): boolean => /^effect(\/[a-z][a-z-]*)?$/.test(specifier)

const declared = (node: Node): string => {
  const { declarations, id } = node as { readonly declarations?: ReadonlyArray<Node>; readonly id?: Node }
  const names = declarations?.map((each) => each["id"] as Node) ?? (id === undefined ? [] : [id])
  return names.map((name) => String(name["name"])).join(", ")
}

const docOf = (file: SourceFile, node: Node): Comment | undefined =>
  file.comments.findLast((comment) =>
    comment.end <= node.start &&
    comment.type === "Block" &&
    comment.value.startsWith("*") &&
    file.text.slice(comment.end, node.start).trim() === ""
  )

/** Exports at the top of a file, and those inside its exported namespaces. */
const checkDocs = (file: SourceFile, body: ReadonlyArray<Node>, problems: Array<Problem>) => {
  let overloaded: string | undefined
  for (const node of body) {
    const declaration = node["declaration"] as Node | undefined | null
    if (!node.type.startsWith("Export") || declaration === undefined || declaration === null) {
      // an overload's implementation carries no export of its own documentation
      overloaded = undefined
      continue
    }
    const name = declared(declaration)
    const doc = docOf(file, node)
    const isOverload = /Function/.test(declaration.type) && name === overloaded
    overloaded = /Function/.test(declaration.type) ? name : undefined
    if (isOverload && doc === undefined) continue
    const place = { path: file.path, line: lineAt(file.text, node.start) }
    if (doc === undefined) {
      problems.push({ ...place, message: `export ${name} has no JSDoc` })
    } else if (!/@since \d+\.\d+\.\d+/.test(doc.value) && !/@internal\b/.test(doc.value)) {
      problems.push({ ...place, message: `the JSDoc of export ${name} lacks @since, such as @since 0.1.0` })
    }
    if (declaration.type === "TSModuleDeclaration") {
      checkDocs(file, childNodes(declaration).flatMap(childNodes), problems)
    }
  }
}

const problems: Array<Problem> = []
const files = sources("src/**/*.ts")
for (const file of files) {
  const allowed = edges.find(([pattern]) => pattern.test(file.path))?.[1] ?? []
  walk(file.body, (node) => {
    const found = ambient(node)
    if (found === undefined || allowed.includes(found)) return
    const line = lineAt(file.text, node.start)
    problems.push({ path: file.path, line, message: `${found} has no place here: ${instead[found]}` })
  })
  for (const { line, specifier } of importsOf(file)) {
    if (!isBarrel(specifier)) continue
    const example = `import * as Effect from "${specifier}/Effect"`
    problems.push({ path: file.path, line, message: `${specifier} is a barrel: import one module a line (${example})` })
  }
  if (!/(^|\/)internal\//.test(file.path)) checkDocs(file, file.body, problems)
}

report(problems, `${files.length} files keep the rules of src`)

/**
 * Makes one plain JSON Schema, fit to be the parameters of a tool, out of an Effect Schema.
 *
 * The generator of `effect` drops an annotation that is not JSON without a word; here it is a violation, because a
 * model that never sees an example is a fault nobody finds (S418).
 */
import * as Cause from "effect/Cause"
import * as Exit from "effect/Exit"
import * as JsonPointer from "effect/JsonPointer"
import type * as JsonSchema from "effect/JsonSchema"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type * as SchemaAST from "effect/SchemaAST"
import type { Finding, Path } from "./jsonValue.ts"
import { at, copyJson, describe, isRecord, reportFaults } from "./jsonValue.ts"

/**
 * The document with its root resolved to an object and the definitions it needs under `$defs`, frozen; or everything
 * that keeps it from being one.
 *
 * @internal
 */
export const documentOf = (schema: Schema.Constraint): Result.Result<JsonSchema.JsonSchema, ReadonlyArray<Finding>> => {
  const generated = Result.try(() => Schema.toJsonSchemaDocument(schema))
  if (Result.isFailure(generated)) {
    const reason = generated.failure instanceof Error ? generated.failure.message : String(generated.failure)
    return Result.fail([{ path: undefined, issue: `must have a JSON Schema, but none can be made of it: ${reason}` }])
  }
  const findings: Array<Finding> = []
  const report = (path: Path, issue: string) => {
    findings.push({ path, issue })
  }
  checkAnnotations(schema.ast, report)
  const root = resolveRoot(generated.success)
  if (root["type"] !== "object") report(undefined, notAnObject(root))
  const copy = copyJson(withDefinitions(root, generated.success.definitions))
  if (copy.faulty) reportFaults(copy.value, undefined, report)
  // The root is a record, and without a fault the copy of a record is one.
  return findings.length === 0 ? Result.succeed(copy.value as JsonSchema.JsonSchema) : Result.fail(findings)
}

const resolveRoot = (document: JsonSchema.Document<"draft-2020-12">): JsonSchema.JsonSchema => {
  const seen = new Set<unknown>()
  let root = document.schema
  while (typeof root["$ref"] === "string" && !seen.has(root["$ref"])) {
    const { $ref, ...siblings } = root
    seen.add($ref)
    const definition = definitionName(root["$ref"])
    if (definition === undefined || !Object.hasOwn(document.definitions, definition)) break
    root = { ...document.definitions[definition], ...siblings }
  }
  return root
}

const definitionName = ($ref: string): string | undefined => {
  const tokens = $ref.startsWith("#") ? JsonPointer.parseUriFragment($ref) : undefined
  return tokens?.length === 2 && tokens[0] === "$defs" ? tokens[1] : undefined
}

// Inlining the root can leave its definition without a user: what nothing leads to would only cost the model tokens.
const withDefinitions = (root: JsonSchema.JsonSchema, all: JsonSchema.Definitions): JsonSchema.JsonSchema => {
  const needed = new Map<string, JsonSchema.JsonSchema>()
  const seen = new Set<unknown>()
  const todo: Array<object> = [root]
  for (let next = todo.pop(); next !== undefined; next = todo.pop()) {
    if (seen.has(next)) continue
    seen.add(next)
    const $ref = isRecord(next) ? next["$ref"] : undefined
    const definition = typeof $ref === "string" ? definitionName($ref) : undefined
    if (definition !== undefined && Object.hasOwn(all, definition)) {
      needed.set(definition, all[definition])
      todo.push(all[definition])
    }
    for (const value of Object.values(next)) {
      if (typeof value === "object" && value !== null) todo.push(value)
    }
  }
  return needed.size === 0 ? root : { ...root, $defs: Object.fromEntries(needed) }
}

const notAnObject = (root: JsonSchema.JsonSchema): string => {
  const found = typeof root["type"] === "string"
    ? `"type": ${JSON.stringify(root["type"])}`
    : Array.isArray(root["anyOf"]) || Array.isArray(root["oneOf"])
    ? "a union"
    : "a root without a type"
  return `must be an object at the root, not ${found}: wrap it in a property of a Struct`
}

const strings = ["title", "description", "format", "contentEncoding", "contentMediaType"]

const checkAnnotations = (root: SchemaAST.AST, report: (path: Path, issue: string) => void): void => {
  const seen = new Set<unknown>()
  const todo: Array<readonly [ast: SchemaAST.AST, path: Path]> = [[root, undefined]]
  for (let next = todo.pop(); next !== undefined; next = todo.pop()) {
    const [ast, path] = next
    if (seen.has(ast)) continue
    seen.add(ast)
    for (const annotations of annotationsOf(ast)) {
      // A class and its encoded side share their annotations.
      if (seen.has(annotations)) continue
      seen.add(annotations)
      checkOne(ast, annotations, path, report)
    }
    todo.push(...childrenOf(ast, path).toReversed())
  }
}

const checkOne = (
  ast: SchemaAST.AST,
  annotations: Readonly<Record<string, unknown>>,
  path: Path,
  report: (path: Path, issue: string) => void
): void => {
  for (const key of strings) {
    const value = annotations[key]
    if (value !== undefined && typeof value !== "string") {
      report(at(path, key), `must be a string, not ${describe(value)}`)
    }
  }
  const { default: fallback, examples } = annotations
  if (fallback !== undefined && !isEncodable(ast, fallback)) {
    reportFaults(copyJson(fallback).value, at(path, "default"), report)
  }
  if (Array.isArray(examples)) {
    for (const [index, example] of examples.entries()) {
      if (!isEncodable(ast, example)) reportFaults(copyJson(example).value, at(at(path, "examples"), index), report)
    }
  } else if (examples !== undefined) {
    report(at(path, "examples"), `must be an array of values, not ${describe(examples)}`)
  }
}

// An example has the decoded type: a Date is right for `Schema.Date`, and has a JSON form there.
const isEncodable = (ast: SchemaAST.AST, value: unknown): boolean => {
  if (!copyJson(value).faulty) return true
  // The services are not known to be none: one that is missing is a defect of the exit, which counts for nothing here.
  const exit = Schema.encodeUnknownExit(Schema.toCodecJson(Schema.make<Schema.Codec<unknown>>(ast)))(value)
  if (Exit.isSuccess(exit)) return !copyJson(exit.value).faulty
  // An encoding that is asynchronous or needs a service cannot be tried here, so it is not held against the value.
  return Option.isNone(Cause.findErrorOption(exit.cause))
}

const annotationsOf = (ast: SchemaAST.AST): ReadonlyArray<Readonly<Record<string, unknown>>> => {
  const found = [ast.annotations, ast.context?.annotations]
  const checks: Array<SchemaAST.Check<never>> = [...(ast.checks ?? [])]
  for (let check = checks.pop(); check !== undefined; check = checks.pop()) {
    found.push(check.annotations)
    if (check._tag === "FilterGroup") checks.push(...check.checks)
  }
  return found.filter((annotations) => annotations !== undefined)
}

const childrenOf = (ast: SchemaAST.AST, path: Path): Array<readonly [ast: SchemaAST.AST, path: Path]> => {
  const children: Array<readonly [SchemaAST.AST, Path]> = []
  switch (ast._tag) {
    case "Declaration":
      for (const parameter of ast.typeParameters) children.push([parameter, path])
      break
    case "Objects":
      for (const { name, type } of ast.propertySignatures) {
        children.push([type, at(at(path, "properties"), String(name))])
      }
      for (const { type } of ast.indexSignatures) children.push([type, at(path, "additionalProperties")])
      break
    case "Arrays":
      for (const [index, element] of ast.elements.entries()) {
        children.push([element, at(at(path, "prefixItems"), index)])
      }
      for (const rest of ast.rest) children.push([rest, at(path, "items")])
      break
    case "Union":
      for (const [index, type] of ast.types.entries()) children.push([type, at(at(path, "anyOf"), index)])
      break
    case "Suspend":
      children.push([ast.thunk(), path])
      break
  }
  for (const link of ast.encoding ?? []) children.push([link.to, path])
  return children
}

/**
 * Checks that a user's JSON is a schema of the supported subset of JSON Schema, and compiles it for validation (S169–S179).
 *
 * Every violation is reported in document order, a fault inside a shared sub-schema once, at the first path that leads
 * to it. Neither the depth of the schema nor the number of ways to a shared part costs stack or time.
 */
import type { Finding, Path } from "./jsonValue.ts"
import { at, copyJson, describe, Fault, isRecord, notJson, reportFaults } from "./jsonValue.ts"

/** @internal */
export type ScalarType = "string" | "number" | "integer" | "boolean" | "null"

/** @internal */
export type Kind = ScalarType | "object" | "array" | "oneOf" | "any"

/**
 * A compiled schema node. `enum` and `const` have become `values`; of the rest, a kind uses what its name says. Filled
 * in while its schema is walked, and never changed after that.
 *
 * @internal
 */
export class JsonNode {
  kind: Kind = "any"
  branches: Array<JsonNode> = []
  properties: Map<string, JsonNode> = new Map()
  required: Array<string> = []
  closed = false
  items: JsonNode | undefined = undefined
  values: ReadonlyArray<unknown> | undefined = undefined
}

/**
 * What became of a user's schema: `json` is a frozen copy of it, and `root` counts only when there are no `violations`.
 *
 * @internal
 */
export interface Compiled {
  readonly json: unknown
  readonly root: JsonNode
  readonly violations: ReadonlyArray<Finding>
}

/**
 * Whether a copied value is of the scalar type `type`.
 *
 * @internal
 */
export const isScalar = (type: ScalarType, value: unknown): boolean => {
  switch (type) {
    case "null":
      return value === null
    case "integer":
      return Number.isInteger(value)
    default:
      return typeof value === type
  }
}

/**
 * Compiles a schema of any root; `compileObject` is what structured output uses.
 *
 * @internal
 */
export const compile = (input: unknown): Compiled => {
  const json = copyJson(input).value
  const violations: Array<Finding> = []
  const report = (path: Path, issue: string) => {
    violations.push({ path, issue })
  }
  const known = new Map<unknown, JsonNode>()
  const walked = new Set<JsonNode>()
  const todo: Array<() => void> = []

  // The last one pushed runs first, so what a step schedules runs before what was waiting: document order.
  const schedule = (steps: ReadonlyArray<() => void>) => {
    for (const step of steps.toReversed()) todo.push(step)
  }

  const nodeOf = (schema: unknown): JsonNode => {
    let node = known.get(schema)
    if (node === undefined) known.set(schema, node = new JsonNode())
    return node
  }

  const walk = (schema: unknown, path: Path) => {
    if (!isRecord(schema)) return report(path, `must be a schema object, not ${describe(schema)}`)
    const node = nodeOf(schema)
    if (walked.has(node)) return
    walked.add(node)
    const kind = kindOf(schema)
    if (kind !== undefined) node.kind = kind
    schedule(Object.keys(schema).map((key) => () => keyword(schema, node, kind, key, at(path, key))))
  }

  const keyword = (
    schema: Readonly<Record<string, unknown>>,
    node: JsonNode,
    kind: Kind | undefined,
    key: string,
    path: Path
  ): void => {
    const value = schema[key]
    if (Object.hasOwn(annotations, key)) {
      return annotations[key] === "json" || value instanceof Fault
        ? reportFaults(value, path, report)
        : typeof value === "string"
        ? undefined
        : report(path, `must be a string, not ${describe(value)}`)
    }
    if (!Object.hasOwn(constraints, key)) return report(path, unsupported(key))
    const misplaced = kind === undefined ? undefined : misplacement(key, kind)
    if (misplaced !== undefined) return report(path, misplaced)
    switch (key) {
      case "type":
        return kind === undefined ? report(path, badType(value)) : undefined
      case "oneOf": {
        if (!Array.isArray(value)) {
          return report(path, `must be an array of two or more schemas, not ${describe(value)}`)
        }
        if (value.length < 2) report(path, `must have two or more branches, not ${value.length}`)
        node.branches = value.map(nodeOf)
        return schedule(value.map((branch, index) => () => walk(branch, at(path, index))))
      }
      case "properties": {
        if (!isRecord(value)) return report(path, `must be an object of schemas, not ${describe(value)}`)
        const entries = Object.entries(value)
        node.properties = new Map(entries.map(([name, property]) => [name, nodeOf(property)]))
        return schedule(entries.map(([name, property]) => () => walk(property, at(path, name))))
      }
      case "items":
        if (Array.isArray(value)) return report(path, "must be one schema for every item: tuples are not supported")
        node.items = nodeOf(value)
        return walk(value, path)
      case "additionalProperties":
        if (typeof value !== "boolean") return report(path, `must be true or false, not ${describe(value)}`)
        node.closed = !value
        return
      case "required":
        return required(schema, node, value, path)
      case "enum":
        return enumeration(schema, node, kind, value, path)
      case "const":
        return constant(schema, node, kind, value, path)
    }
  }

  const required = (schema: Readonly<Record<string, unknown>>, node: JsonNode, value: unknown, path: Path): void => {
    if (!Array.isArray(value)) return report(path, `must be an array of property names, not ${describe(value)}`)
    const properties = Object.hasOwn(schema, "properties") ? schema["properties"] : {}
    for (const [index, name] of value.entries()) {
      if (typeof name !== "string") report(at(path, index), `must be a property name, not ${describe(name)}`)
      else if (isRecord(properties) && !Object.hasOwn(properties, name)) {
        report(at(path, index), `must name a property declared in properties; ${JSON.stringify(name)} is not`)
      }
    }
    node.required = value
  }

  const enumeration = (
    schema: Readonly<Record<string, unknown>>,
    node: JsonNode,
    kind: Kind | undefined,
    value: unknown,
    path: Path
  ): void => {
    if (!Array.isArray(value)) return report(path, `must be an array of values, not ${describe(value)}`)
    if (value.length === 0) report(path, "must list at least one value")
    for (const [index, item] of value.entries()) scalar(kind, item, at(path, index))
    if (!Object.hasOwn(schema, "const")) node.values = value
  }

  const constant = (
    schema: Readonly<Record<string, unknown>>,
    node: JsonNode,
    kind: Kind | undefined,
    value: unknown,
    path: Path
  ): void => {
    if (!scalar(kind, value, path)) return
    node.values = [value]
    const listed = Object.hasOwn(schema, "enum") ? schema["enum"] : undefined
    if (Array.isArray(listed) && !listed.includes(value)) report(path, "must be one of the values of enum")
  }

  const scalar = (kind: Kind | undefined, value: unknown, path: Path): boolean => {
    if (value instanceof Fault) report(path, notJson(value))
    else if (isScalarKind(kind) && !isScalar(kind, value)) {
      report(path, `must be of the type ${kind}, not ${describe(value)}`)
    } else return true
    return false
  }

  walk(json, undefined)
  for (let step = todo.pop(); step !== undefined; step = todo.pop()) step()
  return { json, root: nodeOf(json), violations }
}

/**
 * Compiles a schema whose root must be an object, which is said only of a schema that is right otherwise (S177).
 *
 * @internal
 */
export const compileObject = (input: unknown): Compiled => {
  const compiled = compile(input)
  return compiled.violations.length > 0 || compiled.root.kind === "object"
    ? compiled
    : { ...compiled, violations: [{ path: undefined, issue: `must have "type": "object" at the root of the schema` }] }
}

const scalarTypes: ReadonlyArray<string> = ["string", "number", "integer", "boolean", "null"]
const types: ReadonlyArray<string> = ["object", "array", ...scalarTypes]

const isScalarKind = (kind: Kind | undefined): kind is ScalarType => kind !== undefined && scalarTypes.includes(kind)

// `undefined` is a type nobody knows: what belongs beside it cannot be said.
const kindOf = (schema: Readonly<Record<string, unknown>>): Kind | undefined => {
  if (Object.hasOwn(schema, "oneOf")) return "oneOf"
  if (!Object.hasOwn(schema, "type")) return "any"
  const type = schema["type"]
  // The list of types holds nothing but kinds.
  return typeof type === "string" && types.includes(type) ? type as Kind : undefined
}

const annotations: Readonly<Record<string, "json" | "string">> = {
  title: "string",
  description: "string",
  default: "json",
  examples: "json"
}

const constraints: Readonly<Record<string, string>> = {
  type: "",
  oneOf: "",
  properties: `"type": "object"`,
  required: `"type": "object"`,
  additionalProperties: `"type": "object"`,
  items: `"type": "array"`,
  enum: "a scalar type (string, number, integer, boolean or null)",
  const: "a scalar type (string, number, integer, boolean or null)"
}

const unsupported = (key: string): string =>
  `${JSON.stringify(key)} is not supported; a schema may have ${
    [...Object.keys(constraints), ...Object.keys(annotations)].join(", ")
  }`

const badType = (value: unknown): string =>
  Array.isArray(value)
    ? "must be a single type, not an array of types: use oneOf with a branch for each"
    : `must be one of ${types.join(", ")}, not ${typeof value === "string" ? JSON.stringify(value) : describe(value)}`

const misplacement = (key: string, kind: Kind): string | undefined => {
  if (kind === "oneOf") {
    return key === "oneOf" ? undefined : `${key} must not stand beside oneOf: it belongs in the branches`
  }
  if (key === "type" || key === "oneOf") return undefined
  const scalar = key === "enum" || key === "const"
  if (scalar ? isScalarKind(kind) : kind === (key === "items" ? "array" : "object")) return undefined
  return kind === "any"
    ? `${key} needs ${constraints[key]} beside it`
    : `${key} must not stand beside "type": "${kind}": it needs ${constraints[key]}`
}

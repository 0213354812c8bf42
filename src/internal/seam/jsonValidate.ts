/**
 * Validates a value against a compiled schema of the supported subset (S180).
 *
 * A value is first copied, so a hostile one is read once and judged as what was read; the copy is what a caller gets.
 * Iterative: neither the depth of the schema nor that of the value costs stack.
 */
import type { JsonNode, Kind } from "./jsonSubset.ts"
import { isScalar } from "./jsonSubset.ts"
import type { Finding, Path } from "./jsonValue.ts"
import { at, copyJson, describe, Fault, isRecord, reportFaults } from "./jsonValue.ts"

/**
 * `value` is the frozen copy; it is lossless JSON that satisfies the schema when there are no `violations`.
 *
 * @internal
 */
export interface Validated {
  readonly value: unknown
  readonly violations: ReadonlyArray<Finding>
}

/** Where violations go: those of a branch of `oneOf` only fail it. A branch that met a fault decides nothing. */
interface Sink {
  readonly violations: Array<Finding> | undefined
  failed: boolean
  undecided: boolean
}

const sinkOf = (violations: Array<Finding> | undefined): Sink => ({ violations, failed: false, undecided: false })

/** @internal */
export const validate = (root: JsonNode, input: unknown): Validated => {
  const { faulty, value } = copyJson(input)
  const violations: Array<Finding> = []
  // What is not JSON is wrong under any schema. It is reported here and passes below, so that it is reported once.
  if (faulty) reportFaults(value, undefined, (path, issue) => violations.push({ path, issue }))

  const todo: Array<() => void> = []
  const schedule = (steps: ReadonlyArray<() => void>) => {
    for (const step of steps.toReversed()) todo.push(step)
  }
  // How many branches matched: branches that share parts would otherwise double the work at every level.
  const matched = new Map<JsonNode, Map<unknown, number | undefined>>()

  const fail = (sink: Sink, path: Path, issue: string): void => {
    sink.failed = true
    sink.violations?.push({ path, issue })
  }

  const check = (node: JsonNode, value: unknown, path: Path, sink: Sink): void => {
    if (sink.failed && sink.violations === undefined) return
    if (value instanceof Fault) {
      sink.undecided = true
      return
    }
    switch (node.kind) {
      case "any":
        return
      case "oneOf":
        return oneOf(node, value, path, sink)
      case "object":
        return isRecord(value) ? members(node, value, path, sink) : fail(sink, path, mismatch(node.kind, value))
      case "array": {
        if (!Array.isArray(value)) return fail(sink, path, mismatch(node.kind, value))
        const { items } = node
        return items === undefined
          ? undefined
          : schedule(value.map((item, index) => () => check(items, item, at(path, index), sink)))
      }
      default:
        if (!isScalar(node.kind, value)) fail(sink, path, mismatch(node.kind, value))
        else if (node.values !== undefined && !node.values.includes(value)) {
          fail(sink, path, `must be ${node.values.map((allowed) => JSON.stringify(allowed)).join(" or ")}`)
        }
    }
  }

  const members = (node: JsonNode, value: Readonly<Record<string, unknown>>, path: Path, sink: Sink): void => {
    for (const name of node.required) {
      if (!Object.hasOwn(value, name)) fail(sink, at(path, name), "is missing: the property is required")
    }
    const steps: Array<() => void> = []
    for (const key of Object.keys(value)) {
      const property = node.properties.get(key)
      if (property !== undefined) steps.push(() => check(property, value[key], at(path, key), sink))
      else if (node.closed) {
        steps.push(() =>
          fail(sink, at(path, key), "must be left out: the schema does not declare it and allows no others")
        )
      }
    }
    schedule(steps)
  }

  const oneOf = (node: JsonNode, value: unknown, path: Path, sink: Sink): void => {
    const results = matched.get(node) ?? new Map<unknown, number | undefined>()
    matched.set(node, results)
    const decide = (count: number | undefined) => {
      results.set(value, count)
      if (count === undefined) sink.undecided = true
      else if (count !== 1) {
        fail(
          sink,
          path,
          `must match exactly one of the ${node.branches.length} branches of oneOf, but matches ${count}`
        )
      }
    }
    if (results.has(value)) return decide(results.get(value))
    const branches = node.branches.map(() => sinkOf(undefined))
    schedule([
      ...node.branches.map((branch, index) => () => check(branch, value, path, branches[index])),
      () => {
        const matching = branches.filter((branch) => !branch.failed)
        decide(matching.some((branch) => branch.undecided) ? undefined : matching.length)
      }
    ])
  }

  check(root, value, undefined, sinkOf(violations))
  for (let step = todo.pop(); step !== undefined; step = todo.pop()) step()
  return { value, violations }
}

const names = {
  object: "an object",
  array: "an array",
  string: "a string",
  number: "a number",
  integer: "an integer",
  boolean: "true or false",
  null: "null"
}

const mismatch = (kind: Exclude<Kind, "oneOf" | "any">, value: unknown): string =>
  kind === "integer" && typeof value === "number"
    ? "must be an integer, not a fraction"
    : `must be ${names[kind]}, not ${describe(value)}`

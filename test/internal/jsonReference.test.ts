import { assert, describe, it } from "@effect/vitest"
import { Arbitrary, Schema } from "effect"
import { compile } from "../../src/internal/seam/jsonSubset.ts"
import { validate } from "../../src/internal/seam/jsonValidate.ts"

// ---------------------------------------------------------------------------------------------------------------------
// The reference: the same rules, recursive and without paths, as short as they can be said.
// ---------------------------------------------------------------------------------------------------------------------

type Json = Record<string, any>

const has = (value: object, key: string) => Object.prototype.hasOwnProperty.call(value, key)

const isJson = (value: unknown, above: ReadonlyArray<unknown> = []): boolean => {
  if (typeof value === "number") return Number.isFinite(value) && !Object.is(value, -0)
  if (value === null || typeof value === "string" || typeof value === "boolean") return true
  if (typeof value !== "object" || above.includes(value)) return false
  const within = [...above, value]
  if (Array.isArray(value)) {
    return Array.from({ length: value.length }, (_, i) => i).every((i) =>
      has(value, `${i}`) && isJson(value[i], within)
    )
  }
  return Object.getPrototypeOf(value) === Object.prototype && Object.values(value).every((v) => isJson(v, within))
}

const isScalar = (type: unknown, value: unknown): boolean =>
  type === "integer" ? Number.isInteger(value) : type === "null" ? value === null : typeof value === type

const isPlain = (value: unknown): value is Json => typeof value === "object" && value !== null && !Array.isArray(value)

const scalars = ["string", "number", "integer", "boolean", "null"]

const isSupported = (schema: unknown): boolean => {
  if (!isPlain(schema) || !isJson(schema)) return false
  const { default: _, description, examples: __, title, ...rest } = schema
  const texts = [title, description].every((text) => text === undefined || typeof text === "string")
  const only = (...keys: Array<string>) => texts && Object.keys(rest).every((key) => keys.includes(key))
  if (has(schema, "oneOf")) {
    return only("oneOf") && Array.isArray(schema["oneOf"]) && schema["oneOf"].length >= 2 &&
      schema["oneOf"].every(isSupported)
  }
  if (!has(schema, "type")) return only()
  if (schema["type"] === "array") {
    return only("type", "items") && (!has(schema, "items") || isSupported(schema["items"]))
  }
  if (schema["type"] === "object") {
    const { additionalProperties = true, properties = {}, required = [] } = schema
    return only("type", "properties", "required", "additionalProperties") &&
      isPlain(properties) && Object.values(properties).every(isSupported) &&
      Array.isArray(required) && required.every((name) => typeof name === "string" && has(properties, name)) &&
      typeof additionalProperties === "boolean"
  }
  const { const: constant, enum: listed, type } = schema
  return scalars.includes(type) && only("type", "enum", "const") &&
    (listed === undefined ||
      (Array.isArray(listed) && listed.length > 0 && listed.every((value) => isScalar(type, value)))) &&
    (constant === undefined || (isScalar(type, constant) && (listed === undefined || listed.includes(constant))))
}

const matches = (schema: Json, value: unknown): boolean => {
  if (!isJson(value)) return false
  if (has(schema, "oneOf")) return schema["oneOf"].filter((branch: Json) => matches(branch, value)).length === 1
  const {
    additionalProperties = true,
    const: constant,
    enum: listed,
    items = {},
    properties = {},
    required = [],
    type
  } = schema
  if (type === undefined) return true
  if (type === "array") return Array.isArray(value) && value.every((item) => matches(items, item))
  if (type === "object") {
    return isPlain(value) && required.every((name: string) => has(value, name)) &&
      Object.entries(value).every(([key, member]) =>
        has(properties, key) ? matches(properties[key], member) : additionalProperties
      )
  }
  return isScalar(type, value) && (listed === undefined || listed.includes(value)) &&
    (constant === undefined || constant === value)
}

// ---------------------------------------------------------------------------------------------------------------------
// Generation: a seed is an endless row of choices.
// ---------------------------------------------------------------------------------------------------------------------

type Choose = (options: number) => number

const chooser = (seed: number): Choose => {
  let state = seed
  return (options) => {
    state = (state * 48_271) % 2_147_483_647
    return Math.floor(state / 7) % options
  }
}

const names = ["a", "b", "toString", "__proto__"]

const define = (entries: ReadonlyArray<readonly [string, unknown]>): Json => Object.fromEntries(entries)

const sampleOf: Record<string, ReadonlyArray<unknown>> = {
  string: ["", "x", "y"],
  number: [0, 1, 1.5],
  integer: [0, 1, 2],
  boolean: [true, false],
  null: [null]
}

// Now and then a part is one that was made before: sharing must not change an answer.
const makeSchema = (choose: Choose, depth: number, made: Array<Json> = []): Json => {
  if (made.length > 0 && choose(6) === 0) return made[choose(made.length)]
  const schema = makeNode(choose, depth, made)
  made.push(schema)
  return schema
}

const makeNode = (choose: Choose, depth: number, made: Array<Json>): Json => {
  const kind = [0, 1, 2, 3, 4, 5, 6, 6, 6, 7, 8, 8][choose(depth === 0 ? 6 : 12)]
  if (kind < 5) {
    const type = scalars[kind]
    const samples = sampleOf[type]
    const listed = samples.slice(0, 1 + choose(samples.length))
    return [
      { type },
      { type, enum: listed },
      { type, const: samples[0] },
      { type, enum: listed, const: listed[0], title: "t" }
    ][choose(4)]
  }
  if (kind === 5) return [{}, { description: "any", default: [1] }, { type: "object" }, { type: "array" }][choose(4)]
  if (kind === 6) {
    const picked = names.filter(() => choose(2) === 1)
    const properties = define(picked.map((name) => [name, makeSchema(choose, depth - 1, made)]))
    return {
      type: "object",
      properties,
      required: picked.filter(() => choose(2) === 1),
      ...([{}, { additionalProperties: false }, { additionalProperties: true }][choose(3)])
    }
  }
  if (kind === 7) return { type: "array", items: makeSchema(choose, depth - 1, made) }
  return { oneOf: Array.from({ length: 2 + choose(2) }, () => makeSchema(choose, depth - 1, made)) }
}

const sparse: Array<unknown> = [1]
sparse[2] = 1
const strange = [undefined, NaN, -0, 1n, new Date(0), () => 1, sparse, new Map(), Symbol("a")]
const plain = [null, "x", 1, 1.5, true, [], {}, [1, "x"], { a: 1 }]

// Mostly what the schema wants, with something else here and there.
const makeValue = (choose: Choose, schema: Json): unknown => {
  const detour = choose(12)
  if (detour === 11) return plain[choose(plain.length)]
  if (detour === 10 && choose(3) === 0) return strange[choose(strange.length)]
  if (has(schema, "oneOf")) return makeValue(choose, schema["oneOf"][choose(schema["oneOf"].length)])
  const { items = {}, properties = {}, required = [], type } = schema
  if (type === undefined) return plain[choose(plain.length)]
  if (type === "array") return Array.from({ length: choose(3) }, () => makeValue(choose, items))
  if (type === "object") {
    const present = Object.keys(properties).filter((name) => required.includes(name) ? choose(8) < 7 : choose(2) === 1)
    const extra = choose(8) === 7 ? [names[choose(names.length)]] : []
    return define([...present, ...extra].map((name) => [
      name,
      has(properties, name) ? makeValue(choose, properties[name]) : plain[choose(plain.length)]
    ]))
  }
  const wanted = has(schema, "const") ? [schema["const"]] : schema["enum"] ?? sampleOf[type]
  return wanted[choose(wanted.length)]
}

const keywords: ReadonlyArray<readonly [string, ReadonlyArray<unknown>]> = [
  ["type", ["string", "object", "array", "text", ["string"], null]],
  ["oneOf", [[], [{}], [{}, {}], {}, [{}, null]]],
  ["properties", [{}, [], { a: { type: "null" } }, { a: 1 }]],
  ["required", [[], ["a"], ["toString"], [1], "a"]],
  ["additionalProperties", [true, false, {}]],
  ["items", [{}, [{}], { type: "x" }]],
  ["enum", [[], ["x"], [1], [NaN], [null]]],
  ["const", ["x", 1, null, -0]],
  ["title", ["x", 1]],
  ["examples", [[1], [() => 1]]],
  ["pattern", ["x"]]
]

// One keyword of one node set, replaced or removed.
const mutate = (choose: Choose, schema: Json): Json => {
  const children: Array<(child: Json) => Json> = []
  const nodes: Array<Json> = []
  for (const [name, property] of Object.entries(schema["properties"] ?? {})) {
    nodes.push(property as Json)
    children.push((child) => ({
      ...schema,
      properties: define([...Object.entries(schema["properties"]), [name, child]])
    }))
  }
  if (has(schema, "items")) {
    nodes.push(schema["items"])
    children.push((items) => ({ ...schema, items }))
  }
  for (const [index, branch] of (schema["oneOf"] ?? []).entries()) {
    nodes.push(branch)
    children.push((child) => ({ ...schema, oneOf: schema["oneOf"].toSpliced(index, 1, child) }))
  }
  const into = choose(nodes.length + 1)
  if (into < nodes.length) return children[into](mutate(choose, nodes[into]))
  const [key, values] = keywords[choose(keywords.length)]
  const { [key]: _, ...rest } = schema
  return choose(4) === 0 ? rest : { ...rest, [key]: values[choose(values.length)] }
}

const seeds = Arbitrary.map(
  Arbitrary.schema(Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 2_000_000 }))),
  // Small seeds are generated more often than others, and neighbours would begin alike.
  (seed) => (seed * 999_983) % 2_147_483_646 + 1
)

describe("jsonReference", () => {
  it.prop("S169 accepts every generated schema of the subset", [seeds], ([seed]) => {
    const schema = makeSchema(chooser(seed), 3)
    assert.isTrue(isSupported(schema))
    assert.deepStrictEqual(compile(schema).violations, [])
    assert.deepStrictEqual(compile(schema).json, schema)
  }, { arbitrary: { runs: 300 } })

  it.prop("S169 rejects exactly what the reference rejects", [seeds], ([seed]) => {
    const choose = chooser(seed)
    const schema = mutate(choose, makeSchema(choose, 3))
    assert.strictEqual(compile(schema).violations.length === 0, isSupported(schema))
  }, { arbitrary: { runs: 1_000 } })

  it.prop("S180 takes exactly the values that the reference takes", [seeds], ([seed]) => {
    const choose = chooser(seed)
    const schema = makeSchema(choose, 3)
    const value = makeValue(choose, schema)
    const validated = validate(compile(schema).root, value)
    assert.strictEqual(validated.violations.length === 0, matches(schema, value))
    if (validated.violations.length === 0) assert.deepStrictEqual(validated.value, value)
  }, { arbitrary: { runs: 2_000 } })

  it("the generated cases are of both kinds", () => {
    // A property that only ever saw valid cases, or only invalid ones, proves little.
    const seen = { supported: 0, unsupported: 0, matching: 0, failing: 0 }
    for (let run = 1; run <= 500; run++) {
      const choose = chooser(run * 7_919)
      const schema = makeSchema(choose, 3)
      seen[matches(schema, makeValue(choose, schema)) ? "matching" : "failing"]++
      seen[isSupported(mutate(choose, schema)) ? "supported" : "unsupported"]++
    }
    for (const count of Object.values(seen)) assert.isAbove(count, 50)
  })
})

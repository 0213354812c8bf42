import { assert, describe, it } from "@effect/vitest"
import { compile } from "../../src/internal/seam/jsonSubset.ts"
import { validate } from "../../src/internal/seam/jsonValidate.ts"
import { toPointer } from "../../src/internal/seam/jsonValue.ts"

const violations = (schema: unknown, value: unknown): Array<string> => {
  const { root, violations } = compile(schema)
  assert.deepStrictEqual(violations, [])
  return validate(root, value).violations.map(({ issue, path }) => `${toPointer(path)} ${issue}`)
}

const accepts = (schema: unknown, value: unknown) => assert.deepStrictEqual(violations(schema, value), [])

const rejects = (schema: unknown, value: unknown, ...expected: Array<string>) =>
  assert.deepStrictEqual(violations(schema, value).map((violation) => violation.split(":")[0]), expected)

const object = (properties: Record<string, unknown>, required: ReadonlyArray<string> = [], open = true) => ({
  type: "object",
  properties,
  required,
  additionalProperties: open
})

describe("jsonValidate", () => {
  it("S171 tells the types apart", () => {
    const samples: Record<string, unknown> = {
      "an object": {},
      "an array": [],
      "a string": "1",
      "a number": 1.5,
      "a boolean": true,
      null: null
    }
    const types: Record<string, string> = {
      object: "an object",
      array: "an array",
      string: "a string",
      number: "a number",
      boolean: "a boolean",
      null: "null"
    }
    for (const [type, own] of Object.entries(types)) {
      for (const [name, sample] of Object.entries(samples)) {
        if (name === own) accepts({ type }, sample)
        else rejects({ type }, sample, ` must be ${type === "boolean" ? "true or false" : own}, not ${name}`)
      }
    }
    accepts({ type: "integer" }, 3)
    accepts({ type: "integer" }, 1e300)
    accepts({ type: "number" }, 3)
    rejects({ type: "integer" }, 1.5, " must be an integer, not a fraction")
  })

  it("S172 takes any JSON where there is no constraint", () => {
    accepts({ description: "any" }, { a: [1, null, { b: "x" }] })
    accepts({ type: "array" }, [1, "a", {}])
    rejects({ description: "any" }, { a: [NaN] }, "/a/0 is NaN")
  })

  it("S174 S180 rejects undeclared keys only of closed objects", () => {
    accepts(object({ a: { type: "string" } }), { a: "x", b: 1 })
    rejects(
      object({ a: { type: "string" } }, [], false),
      { b: 1, a: 1, c: 2 },
      "/b must be left out",
      "/a must be a string, not a number",
      "/c must be left out"
    )
    rejects({ type: "object", additionalProperties: false }, { toString: 1 }, "/toString must be left out")
  })

  it("S180 looks at own properties alone", () => {
    rejects(object({ toString: {} }, ["toString"]), {}, "/toString is missing")
    accepts(object({ toString: {} }, ["toString"]), { toString: 1 })
    accepts(object({ toString: { type: "string" } }), {})
    const proto: unknown = JSON.parse(`{"__proto__": 1}`)
    accepts(object({}, [], true), proto)
    rejects(object({}, [], false), proto, "/__proto__ must be left out")
    const declared: unknown = JSON.parse(
      `{"type": "object", "properties": {"__proto__": {"type": "string"}}, "required": ["__proto__"]}`
    )
    accepts(declared, JSON.parse(`{"__proto__": "x"}`))
    rejects(declared, proto, "/__proto__ must be a string, not a number")
    rejects(declared, {}, "/__proto__ is missing")
  })

  it("S180 counts a required property that is undefined as missing", () => {
    const schema = object({ a: { type: "string" } }, ["a"])
    rejects(schema, {}, "/a is missing")
    rejects(schema, { a: undefined }, "/a is undefined, which counts as missing")
    rejects(object({ a: { type: "string" } }), { a: undefined }, "/a is undefined, which counts as missing")
  })

  it("S180 takes only lossless JSON", () => {
    const any = object({})
    const loop: Record<string, unknown> = {}
    loop["self"] = [loop]
    const sparse: Array<unknown> = [1]
    sparse[2] = 2
    rejects(any, { a: undefined }, "/a is undefined, which counts as missing")
    rejects(any, { a: -0, b: Infinity }, "/a is -0", "/b is Infinity")
    rejects(any, { a: sparse }, "/a is an array with holes")
    rejects(any, loop, "/self/0 is a reference back to what contains it")
    rejects({ type: "number" }, NaN, " is NaN")
    rejects({ type: "object" }, new Map(), " is an instance of Map")
    const shared = { x: 1 }
    accepts(any, { a: shared, b: [shared, shared] })
  })

  it("S446 makes one violation of a throwing getter, under any schema", () => {
    const value = {
      get a(): unknown {
        throw new Error("boom")
      }
    }
    const threw = "/a is a property that throws when it is read"
    rejects(object({ a: { type: "string" } }, ["a"], false), value, threw)
    rejects({ type: "object" }, value, threw)
    const branch = object({ a: { type: "string" } }, ["a"])
    rejects({ oneOf: [branch, object({ a: { type: "null" } }), { type: "null" }] }, value, threw)
    rejects({ oneOf: [{ type: "null" }, { oneOf: [branch, branch] }] }, value, threw)
    rejects(
      object({}),
      new Proxy({}, {
        ownKeys: () => {
          throw new Error("boom")
        }
      }),
      " is an object that throws when it is read"
    )
  })

  it("S173 S445 wants exactly one branch of oneOf", () => {
    const numbers = { oneOf: [{ type: "number" }, { type: "integer" }] }
    accepts(numbers, 1.5)
    rejects(numbers, 1, " must match exactly one of the 2 branches of oneOf, but matches 2")
    rejects(numbers, "1", " must match exactly one of the 2 branches of oneOf, but matches 0")
    const tagged = (tag: string) => object({ tag: { type: "string", const: tag }, next: {} }, ["tag"])
    const either = { type: "array", items: { oneOf: [tagged("a"), tagged("b")] } }
    accepts(either, [{ tag: "a" }, { tag: "b", next: { tag: "c" } }])
    rejects(either, [{ tag: "a" }, { tag: "c" }], "/1 must match exactly one of the 2 branches of oneOf, but matches 0")
  })

  it("S176 compares with enum and const", () => {
    accepts({ type: "string", enum: ["a", "b"] }, "b")
    rejects({ type: "string", enum: ["a", "b"] }, "c", ` must be "a" or "b"`)
    accepts({ type: "number", enum: [1, 2], const: 2 }, 2)
    rejects({ type: "number", enum: [1, 2], const: 2 }, 1, " must be 2")
    accepts({ type: "null", const: null }, null)
    accepts({ type: "boolean", enum: [false] }, false)
  })

  it("S179 lists every violation in document order", () => {
    rejects(
      object(
        { list: { type: "array", items: object({ n: { type: "integer" } }, ["n"]) }, z: { type: "null" } },
        ["z"]
      ),
      { list: [{ n: 1 }, {}, { n: "2" }, 3], z: 1 },
      "/list/1/n is missing",
      "/list/2/n must be an integer, not a string",
      "/list/3 must be an object, not a number",
      "/z must be null, not a number"
    )
  })

  it("never shows a value", () => {
    assert.notInclude(violations(object({ a: { type: "number" } }), { a: "hunter2" }).join(), "hunter2")
  })

  it("S444 validates 5,000 levels without a stack", () => {
    let schema: unknown = { type: "string" }
    for (let level = 0; level < 5_000; level++) schema = { oneOf: [{ type: "null" }, schema] }
    accepts(schema, "x")
    rejects(schema, 1, " must match exactly one of the 2 branches of oneOf, but matches 0")
    // The innermost level takes null once, so every second one takes it twice.
    rejects(schema, null, " must match exactly one of the 2 branches of oneOf, but matches 2")

    let nested: unknown = { type: "string" }
    let value: unknown = "x"
    for (let level = 0; level < 5_000; level++) {
      nested = level % 2 === 0 ? { type: "array", items: nested } : object({ a: nested }, ["a"], false)
      value = level % 2 === 0 ? [value] : { a: value }
    }
    accepts(nested, value)
    accepts({}, value)
  })

  it("S443 does not multiply work by shared branches", () => {
    let schema: unknown = object({ leaf: { type: "string" } })
    let value: unknown = { leaf: "x" }
    for (let level = 0; level < 40; level++) {
      schema = { oneOf: [object({ a: schema, x: { type: "null" } }, ["a"]), object({ a: schema, x: {} }, ["x"])] }
      value = { a: value }
    }
    accepts(schema, value)
  })

  it("gives back a detached copy of what was checked", () => {
    const input = { a: [1] }
    const { value } = validate(compile({ type: "object" }).root, input)
    assert.deepStrictEqual(value, input)
    assert.notStrictEqual(value, input)
  })
})

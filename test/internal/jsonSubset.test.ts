import { assert, describe, it } from "@effect/vitest"
import * as vm from "node:vm"
import { compile, compileObject } from "../../src/internal/seam/jsonSubset.ts"
import { toPointer } from "../../src/internal/seam/jsonValue.ts"

const violations = (schema: unknown, of = compile): Array<string> =>
  of(schema).violations.map(({ issue, path }) => `${toPointer(path)} ${issue}`)

const paths = (schema: unknown, of = compile): Array<string> => of(schema).violations.map(({ path }) => toPointer(path))

const one = (schema: unknown, path: string, issue: RegExp): void => {
  const found = compile(schema).violations
  assert.deepStrictEqual(found.map((violation) => toPointer(violation.path)), [path])
  assert.match(found[0].issue, issue)
}

const boom = () => {
  throw new Error("boom")
}

describe("jsonSubset", () => {
  it("S432 accepts every supported node", () => {
    const schema = {
      type: "object",
      title: "All",
      description: "Everything there is",
      default: { any: [1, null] },
      examples: [{}, { s: "x" }],
      additionalProperties: false,
      required: ["s", "closed"],
      properties: {
        s: { type: "string", enum: ["a", "b"], const: "a" },
        n: { type: "number", enum: [1, 1.5] },
        i: { type: "integer", const: 3 },
        b: { type: "boolean", const: false },
        z: { type: "null", enum: [null] },
        any: {},
        described: { description: "any JSON" },
        open: { type: "object" },
        closed: {
          type: "object",
          properties: { deep: { type: "object", properties: {}, required: [], additionalProperties: false } },
          required: ["deep"],
          additionalProperties: false
        },
        list: { type: "array", items: { type: "array" } },
        either: { description: "one of", oneOf: [{ type: "string" }, { type: "null" }, { type: "integer" }] }
      }
    }
    assert.deepStrictEqual(violations(schema, compileObject), [])
    assert.deepStrictEqual(compileObject(schema).json, schema)
  })

  it("S433 S177 rejects a root that is not an object, and only when nothing else is wrong", () => {
    for (
      const schema of [{}, { type: "string" }, { type: "array" }, { oneOf: [{ type: "object" }, { type: "null" }] }]
    ) {
      assert.deepStrictEqual(violations(schema), [])
      assert.deepStrictEqual(violations(schema, compileObject), [
        ` must have "type": "object" at the root of the schema`
      ])
    }
    assert.deepStrictEqual(paths({ type: "array", items: { type: "text" } }, compileObject), ["/items/type"])
  })

  it("S434 S178 rejects what is no schema object", () => {
    for (const schema of [null, [], "string", true, 1, undefined, new Map(), new Date(), () => 1, Symbol("a")]) {
      one(schema, "", /^must be a schema object, not /)
      one({ type: "object", properties: { a: schema } }, "/properties/a", /^must be a schema object, not /)
      one({ oneOf: [{}, schema] }, "/oneOf/1", /^must be a schema object, not /)
    }
    one({ type: "object", properties: [] }, "/properties", /^must be an object of schemas, not an array$/)
  })

  it("S178 rejects class instances, symbols, hidden keys, forged prototypes and throwing proxies", () => {
    class Typed {
      readonly type = "string"
    }
    for (
      const schema of [
        new Typed(),
        { type: "string", [Symbol("a")]: 1 },
        Object.defineProperty({ type: "string" }, "title", { value: "a", enumerable: false }),
        Object.create({ type: "string" }),
        new Proxy({ type: "string" }, { ownKeys: boom }),
        new Proxy({ type: "string" }, { get: boom })
      ]
    ) {
      one(schema, "", /^must be a schema object, not an? /)
      one({ type: "array", items: schema }, "/items", /^must be a schema object, not an? /)
    }
    one(
      {
        get type() {
          return boom()
        }
      },
      "/type",
      /a property that throws when it is read$/
    )
    one({ type: undefined }, "/type", /not undefined$/)
  })

  it("S178 accepts plain objects of another realm", () => {
    assert.deepStrictEqual(
      violations(vm.runInNewContext(`({ type: "object", properties: { a: { type: "string" } }, required: ["a"] })`)),
      []
    )
  })

  it("S171 S435 rejects unknown types and arrays of types", () => {
    one({ type: ["string", "null"] }, "/type", /^must be a single type, not an array of types: use oneOf/)
    one({ type: "text" }, "/type", /^must be one of object, array, string, .*, not "text"$/)
    one({ type: null }, "/type", /not null$/)
    one({ type: { type: "string" } }, "/type", /not an object$/)
    one({ type: "toString" }, "/type", /^must be one of/)
  })

  it("S172 S173 S417 rejects constraints beside oneOf", () => {
    const oneOf = [{ type: "string" }, { type: "null" }]
    one({ type: "object", oneOf }, "/type", /^type must not stand beside oneOf/)
    assert.deepStrictEqual(
      paths({ type: "object", properties: {}, required: [], additionalProperties: true, oneOf }, compileObject),
      ["/type", "/properties", "/required", "/additionalProperties"]
    )
    assert.deepStrictEqual(paths({ oneOf, items: {}, enum: [1], const: 1 }), ["/items", "/enum", "/const"])
  })

  it("S436 rejects a oneOf that is no dense plain array of two or more", () => {
    class Sub extends Array<unknown> {}
    const sparse: Array<unknown> = []
    sparse[0] = {}
    sparse[2] = {}
    one({ oneOf: [] }, "/oneOf", /^must have two or more branches, not 0$/)
    one({ oneOf: [{}] }, "/oneOf", /^must have two or more branches, not 1$/)
    one({ oneOf: { 0: {}, 1: {}, length: 2 } }, "/oneOf", /^must be an array of two or more schemas, not an object$/)
    one({ oneOf: sparse }, "/oneOf", /not an array with holes$/)
    one({ oneOf: Sub.from([{}, {}]) }, "/oneOf", /not an array with a prototype of its own$/)
    one({ oneOf: new Proxy([{}, {}], { get: boom }) }, "/oneOf", /not an object that throws when it is read$/)
    one({ oneOf: new Proxy([{}, {}], { ownKeys: boom }) }, "/oneOf", /not an object that throws when it is read$/)
  })

  it("S170 S437 rejects every other keyword, and says which there are", () => {
    const others = {
      anyOf: [{}],
      allOf: [{}],
      not: {},
      if: {},
      else: {},
      pattern: "a",
      format: "date",
      minimum: 1,
      maximum: 1,
      minLength: 1,
      maxLength: 1,
      minItems: 1,
      $ref: "#",
      $defs: {},
      $schema: "x",
      nullable: true,
      prefixItems: [],
      toString: "x"
    }
    for (const [key, value] of Object.entries(others)) {
      one({ type: "string", [key]: value }, `/${key}`, /is not supported; a schema may have type, oneOf, .*, examples$/)
      one({ [key]: value }, `/${key}`, /is not supported/)
    }
  })

  it("S170 S418 checks the values of annotations", () => {
    one({ title: 1 }, "/title", /^must be a string, not a number$/)
    one({ type: "string", description: null }, "/description", /^must be a string, not null$/)
    one({ description: () => "a" }, "/description", /^is a function/)
    one({ type: "string", examples: ["a", () => "b"] }, "/examples/1", /^is a function: JSON has only/)
    one({ default: { a: [{ b: NaN }] } }, "/default/a/0/b", /^is NaN/)
    assert.deepStrictEqual(violations({ type: "string", default: 1, examples: "not a list" }), [])
  })

  it("S438 S174 S175 S176 rejects misplaced keywords", () => {
    one(
      { type: "object", items: {} },
      "/items",
      /^items must not stand beside "type": "object": it needs "type": "array"$/
    )
    one({ type: "array", properties: {} }, "/properties", /it needs "type": "object"$/)
    one({ type: "string", required: [] }, "/required", /it needs "type": "object"$/)
    one({ type: "array", additionalProperties: false }, "/additionalProperties", /it needs "type": "object"$/)
    one({ type: "object", enum: [{}] }, "/enum", /it needs a scalar type/)
    one({ type: "array", const: [] }, "/const", /it needs a scalar type/)
  })

  it("S439 S172 reports each constraint that has neither type nor oneOf beside it", () => {
    const found = compile({
      description: "fine",
      properties: {},
      required: [],
      additionalProperties: false,
      items: {},
      enum: [1],
      const: 1
    }).violations
    assert.deepStrictEqual(found.map(({ path }) => toPointer(path)), [
      "/properties",
      "/required",
      "/additionalProperties",
      "/items",
      "/enum",
      "/const"
    ])
    for (const { issue } of found) assert.match(issue, / needs .* beside it$/)
  })

  it("S440 S179 finds three independent errors, in document order", () => {
    assert.deepStrictEqual(
      paths({
        type: "object",
        properties: {
          "a/b": { type: "string", pattern: "x" },
          list: { type: "array", items: { type: ["string"] } },
          ok: { type: "string" }
        },
        required: ["ok", "missing"]
      }, compileObject),
      ["/properties/a~1b/pattern", "/properties/list/items/type", "/required/1"]
    )
    // Keywords of a node count in the order in which they were written.
    assert.deepStrictEqual(paths({ required: ["x"], properties: { a: { not: {} } }, type: "object", not: {} }), [
      "/required/0",
      "/properties/a/not",
      "/not"
    ])
  })

  it("S174 S441 checks required against the declared properties alone", () => {
    one({ type: "object", properties: { a: {} }, required: ["a", "b"] }, "/required/1", /"b" is not$/)
    one({ type: "object", properties: {}, required: ["toString"] }, "/required/0", /"toString" is not$/)
    one({ type: "object", required: ["constructor"] }, "/required/0", /"constructor" is not$/)
    one({ type: "object", properties: {}, required: "a" }, "/required", /^must be an array of property names/)
    one({ type: "object", properties: {}, required: [1] }, "/required/0", /^must be a property name, not a number$/)
    one({ type: "object", properties: { a: {} }, required: { 0: "a" } }, "/required", /not an object$/)
    assert.deepStrictEqual(violations({ type: "object", properties: { toString: {} }, required: ["toString"] }), [])
    // Properties that cannot be read are one error, not one more for each name.
    assert.deepStrictEqual(paths({ type: "object", properties: [], required: ["a", "b"] }), ["/properties"])
  })

  it("S174 takes only a boolean for additionalProperties", () => {
    one({ type: "object", additionalProperties: { type: "string" } }, "/additionalProperties", /^must be true or false/)
    one({ type: "object", additionalProperties: 0 }, "/additionalProperties", /^must be true or false, not a number$/)
  })

  it("S175 takes only a single schema for items", () => {
    one({ type: "array", items: [{}] }, "/items", /tuples are not supported$/)
    one({ type: "array", items: false }, "/items", /^must be a schema object, not a boolean$/)
  })

  it("S176 S442 checks the values of enum and const", () => {
    one({ type: "string", enum: [] }, "/enum", /^must list at least one value$/)
    one({ type: "string", enum: "a" }, "/enum", /^must be an array of values, not a string$/)
    one({ type: "string", enum: ["a", 1] }, "/enum/1", /^must be of the type string, not a number$/)
    one({ type: "integer", enum: [1, 1.5] }, "/enum/1", /^must be of the type integer/)
    one({ type: "number", enum: [1, NaN] }, "/enum/1", /^is NaN/)
    one({ type: "number", const: -0 }, "/const", /^is -0/)
    one({ type: "null", const: false }, "/const", /^must be of the type null, not a boolean$/)
    one({ type: "string", enum: ["a"], const: "b" }, "/const", /^must be one of the values of enum$/)
    one({ type: "boolean", const: undefined }, "/const", /^is undefined/)
    const sparse: Array<unknown> = ["a"]
    sparse[2] = "b"
    one({ type: "string", enum: sparse }, "/enum", /not an array with holes$/)
  })

  it("S443 S178 rejects a cycle by its path and accepts shared parts", () => {
    const cyclic: Record<string, unknown> = { type: "object" }
    cyclic["properties"] = { child: { type: "array", items: cyclic } }
    one(cyclic, "/properties/child/items", /^must be a schema object, not a reference back to what contains it$/)
    const viaRecord: Record<string, unknown> = {}
    viaRecord["self"] = { type: "object", properties: viaRecord }
    one({ type: "object", properties: viaRecord }, "/properties/self/properties", /a reference back/)

    const leaf = { type: "string" }
    assert.deepStrictEqual(
      violations({ type: "object", properties: { a: leaf, b: leaf, c: { oneOf: [leaf, leaf] } } }),
      []
    )
    // A fault in a shared part is one fault, at the first path that leads to it.
    const bad = { type: "object", properties: { x: { type: "strin" } } }
    assert.deepStrictEqual(
      paths({ type: "object", properties: { outer: { type: "array", items: bad }, bad } }),
      ["/properties/outer/items/properties/x/type"]
    )
    let doubled: unknown = leaf
    for (let level = 0; level < 60; level++) doubled = { type: "object", properties: { a: doubled, b: doubled } }
    assert.deepStrictEqual(violations(doubled), [])
  })

  it("S444 S179 takes 5,000 levels of oneOf, properties and items", () => {
    let schema: unknown = { type: "string" }
    for (let level = 0; level < 5_000; level++) schema = { oneOf: [{ type: "null" }, schema] }
    assert.deepStrictEqual(violations(schema), [])
    let mixed: unknown = { type: "strin" }
    for (let level = 0; level < 5_000; level++) {
      mixed = level % 2 === 0 ? { type: "array", items: mixed } : { type: "object", properties: { a: mixed } }
    }
    assert.strictEqual(paths(mixed).join("").length, "/properties/a/items".length * 2_500 + "/type".length)
  })

  it("reads a schema once: what it holds later does not matter", () => {
    const schema = { type: "object", properties: { a: { type: "string" } } }
    const { json } = compileObject(schema)
    schema.properties.a.type = "number"
    assert.deepStrictEqual(json, { type: "object", properties: { a: { type: "string" } } })
  })
})

// @effect-diagnostics missingEffectContext:off - what must not compile is marked below
import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Option, Result, Schema, SchemaGetter, SchemaIssue } from "effect"
import { Tool } from "effect/ai"
import * as OutputSchema from "../src/OutputSchema.ts"

const paths = (error: OutputSchema.UnsupportedSchema) => error.violations.map(({ path }) => path)

const issuesOf = (error: Schema.SchemaError) =>
  SchemaIssue.makeFormatterStandardSchemaV1()(error.issue).issues.map(({ message, path }) => [path, message])

class Finding extends Schema.Class<Finding>("Finding")({ file: Schema.String, line: Schema.Int }) {
  get place() {
    return `${this.file}:${this.line}`
  }
}

interface Tree {
  readonly name: string
  readonly children: ReadonlyArray<Tree>
}
const Tree = Schema.Struct({
  name: Schema.String,
  children: Schema.Array(Schema.suspend((): Schema.Codec<Tree> => Tree))
}).annotate({ identifier: "Tree" })

describe("OutputSchema.fromSchema", () => {
  it.effect("makes a plain JSON Schema and a typed decoder of a struct", () =>
    Effect.gen(function*() {
      const codec = yield* OutputSchema.fromSchema(Schema.Struct({
        risk: Schema.Literals(["low", "high"]),
        at: Schema.Date,
        note: Schema.optionalKey(Schema.String.annotate({ description: "why", examples: ["because"] }))
      }))
      assert.deepStrictEqual(codec.jsonSchema, {
        type: "object",
        properties: {
          risk: { type: "string", enum: ["low", "high"] },
          at: { type: "string" },
          note: { type: "string", description: "why", examples: ["because"] }
        },
        required: ["risk", "at"],
        additionalProperties: true
      })
      assert.isFrozen(codec.jsonSchema)
      const value = yield* codec.decode({ risk: "high", at: "2026-01-01T00:00:00.000Z" })
      const risk: "low" | "high" = value.risk
      const at: Date = value.at
      assert.strictEqual(risk, "high")
      assert.strictEqual(at.getTime(), Date.UTC(2026, 0, 1))
    }))

  it.effect("lists everything that is wrong with a value", () =>
    Effect.gen(function*() {
      const codec = yield* OutputSchema.fromSchema(Schema.Struct({ a: Schema.String, b: Schema.Int, c: Schema.Null }))
      const error = yield* Effect.flip(codec.decode({ a: 1, b: 1.5 }))
      assert.deepStrictEqual(issuesOf(error).map(([path]) => path), [["a"], ["b"], ["c"]])
    }))

  it.effect("resolves the root, keeps the definitions it needs and no others", () =>
    Effect.gen(function*() {
      const finding = yield* OutputSchema.fromSchema(Finding)
      assert.deepStrictEqual(finding.jsonSchema, {
        type: "object",
        properties: {
          file: { type: "string" },
          line: { type: "integer", minimum: Number.MIN_SAFE_INTEGER, maximum: Number.MAX_SAFE_INTEGER }
        },
        required: ["file", "line"],
        additionalProperties: true
      })
      const decoded: Finding = yield* finding.decode({ file: "a.ts", line: 3 })
      assert.strictEqual(decoded.place, "a.ts:3")

      const tree = yield* OutputSchema.fromSchema(Tree)
      const node = {
        type: "object",
        properties: { name: { type: "string" }, children: { type: "array", items: { $ref: "#/$defs/Tree" } } },
        required: ["name", "children"],
        additionalProperties: true
      }
      assert.deepStrictEqual(tree.jsonSchema, { ...node, $defs: { Tree: node } })
      assert.deepStrictEqual(yield* tree.decode({ name: "a", children: [{ name: "b", children: [] }] }), {
        name: "a",
        children: [{ name: "b", children: [] }]
      })

      const report = yield* OutputSchema.fromSchema(Schema.Struct({ findings: Schema.Array(Finding) }))
      assert.deepStrictEqual(Object.keys(report.jsonSchema), [
        "type",
        "properties",
        "required",
        "additionalProperties",
        "$defs"
      ])
    }))

  it.effect("S577 accepts records, a suspended root and a struct with a check", () =>
    Effect.gen(function*() {
      for (
        const schema of [
          Schema.Record(Schema.String, Schema.Int),
          Schema.JsonObject,
          Schema.suspend(() => Schema.Struct({ a: Schema.String })),
          Schema.Struct({ a: Schema.String }).check(Schema.makeFilter((value) => value.a !== "")),
          Schema.Struct({ a: Schema.String }).annotate({ identifier: "Named", description: "A named one" })
        ]
      ) {
        const codec: OutputSchema.OutputCodec<unknown> = yield* OutputSchema.fromSchema(schema)
        assert.strictEqual(codec.jsonSchema["type"], "object")
      }
    }))

  it.effect("S417 S433 rejects a root that is not an object", () =>
    Effect.gen(function*() {
      const Shape = Schema.TaggedUnion({ Circle: { r: Schema.Int }, Square: { side: Schema.Int } })
      for (
        const [schema, found] of [
          [Shape, "a union"],
          [Schema.Array(Schema.String), `"type": "array"`],
          [Schema.ReadonlyMap(Schema.String, Schema.Int), `"type": "array"`],
          [Schema.Date, `"type": "string"`],
          [Schema.Struct({}), "a root without a type"],
          [Schema.instanceOf(Map), "a root without a type"]
        ] as const
      ) {
        const error = yield* Effect.flip(OutputSchema.fromSchema(schema))
        assert.deepStrictEqual(error.violations, [{
          path: "",
          issue: `must be an object at the root, not ${found}: wrap it in a property of a Struct`
        }])
      }
    }))

  it.effect("rejects what has no JSON Schema, and says why", () =>
    Effect.gen(function*() {
      const error = yield* Effect.flip(OutputSchema.fromSchema(Schema.Struct({ [Symbol.for("a")]: Schema.String })))
      assert.strictEqual(
        error.message,
        "The output schema is not supported:\n" +
          "  (root): must have a JSON Schema, but none can be made of it: Objects property names must be strings"
      )
    }))

  it.effect("S418 S194 rejects annotations that are not JSON", () =>
    Effect.gen(function*() {
      // What a caller without types may do.
      const wrong: any = () => "a"
      const error = yield* Effect.flip(OutputSchema.fromSchema(Schema.Struct({
        fine: Schema.String.annotate({ examples: ["a"], default: "b" }),
        string: Schema.String.annotate({ examples: ["a", wrong] }),
        number: Schema.Number.annotate({ default: wrong }),
        key: Schema.String.annotateKey({ examples: [wrong] }),
        title: Schema.String.annotate({ title: wrong }),
        list: Schema.Array(Schema.Union([Schema.Null, Schema.Int.annotate({ examples: wrong })])),
        checked: Schema.String.check(Schema.isMinLength(1, { examples: [wrong] })),
        nested: Schema.Struct({ option: Schema.Option(Schema.String.annotate({ default: wrong })) })
      })))
      assert.deepStrictEqual(paths(error), [
        "/properties/string/examples/1",
        "/properties/number/default",
        "/properties/key/examples/0",
        "/properties/title/title",
        "/properties/list/items/anyOf/1/examples",
        "/properties/checked/examples/0",
        "/properties/nested/properties/option/default"
      ])
      assert.match(error.violations[0].issue, /^is a function: JSON has only/)
    }))

  it.effect("S418 accepts examples that have a JSON form under their schema", () =>
    Effect.gen(function*() {
      yield* OutputSchema.fromSchema(Schema.Struct({
        at: Schema.Date.annotate({ examples: [new Date(0)] }),
        finding: Finding.annotate({ examples: [new Finding({ file: "a", line: 1 })] }),
        maybe: Schema.Option(Schema.String).annotate({ default: Option.none() })
      }))
      const error = yield* Effect.flip(OutputSchema.fromSchema(Schema.Struct({
        any: Schema.Unknown.annotate({ examples: [new Date(0)] })
      })))
      assert.deepStrictEqual(paths(error), ["/properties/any/examples/0"])
    }))

  it.effect("answers a schema once", () =>
    Effect.gen(function*() {
      let generated = 0
      const schema = Schema.Struct({ a: Schema.String }).check(Schema.makeFilter(() => true, {
        toJsonSchema: () => {
          generated++
          return { maxProperties: 3 }
        }
      }))
      const first = yield* OutputSchema.fromSchema(schema)
      assert.strictEqual(yield* OutputSchema.fromSchema(schema), first)
      assert.strictEqual(generated, 1)
      assert.strictEqual(first.jsonSchema["maxProperties"], 3)
      const failing = Schema.Array(Schema.String)
      assert.strictEqual(
        yield* Effect.flip(OutputSchema.fromSchema(failing)),
        yield* Effect.flip(OutputSchema.fromSchema(failing))
      )
    }))

  it.effect("keeps the services of decoding and encoding in the types", () =>
    Effect.gen(function*() {
      class Prefix extends Context.Service<Prefix, string>()("test/Prefix") {}
      const Prefixed = Schema.Struct({
        name: Schema.String.pipe(Schema.decodeTo(Schema.String, {
          decode: SchemaGetter.transformEffect((name: string) => Effect.map(Prefix, (prefix) => prefix + name)),
          encode: SchemaGetter.passthrough()
        }))
      })
      const codec = yield* OutputSchema.fromSchema(Prefixed)
      const decode: Effect.Effect<{ readonly name: string }, Schema.SchemaError, Prefix> = codec.decode({ name: "b" })
      // @ts-expect-error: the service is required
      const closed: Effect.Effect<unknown, Schema.SchemaError> = codec.decode({ name: "b" })
      assert.strictEqual(closed === undefined, false)
      assert.deepStrictEqual(yield* Effect.provideService(decode, Prefix, "a"), { name: "ab" })
    }))

  it("does not compile for a schema that is no object on its encoded side", () => {
    // @ts-expect-error
    void OutputSchema.fromSchema(Schema.String)
    // @ts-expect-error
    void OutputSchema.fromSchema(Schema.NullOr(Schema.Struct({ a: Schema.String })))
  })
})

describe("OutputSchema.fromJsonSchema", () => {
  const user = {
    type: "object",
    title: "Review",
    properties: {
      verdict: { type: "string", enum: ["accept", "reject"], description: "what you decide" },
      notes: { type: "array", items: { oneOf: [{ type: "string" }, { type: "null" }] } },
      $ref: { type: "integer" }
    },
    required: ["verdict"],
    additionalProperties: false
  }

  it.effect("gives back the user's JSON as the JSON Schema", () =>
    Effect.gen(function*() {
      const schema = yield* OutputSchema.fromJsonSchema(user)
      const codec = yield* OutputSchema.fromSchema(schema)
      assert.deepStrictEqual(codec.jsonSchema, user)
      assert.deepStrictEqual(Object.keys(codec.jsonSchema), Object.keys(user))
      // The same through the generator of effect, whole, annotated, as a part and as the parameters of a tool.
      assert.deepStrictEqual(Schema.toJsonSchemaDocument(schema).schema, user)
      assert.deepStrictEqual(Schema.toJsonSchemaDocument(codec.schema).schema, user)
      const annotated = yield* OutputSchema.fromSchema(schema.annotate({ description: "more" }))
      assert.deepStrictEqual(annotated.jsonSchema, { ...user, description: "more" })
      const part = yield* OutputSchema.fromSchema(Schema.Struct({ review: schema }))
      assert.deepStrictEqual(part.jsonSchema["properties"], { review: user })
      const tool = Tool.make("structured_output", { parameters: codec.schema })
      assert.deepStrictEqual(Tool.getJsonSchema(tool), user)
    }))

  it.effect("S180 decodes with the exact validation, and lists every violation with its path", () =>
    Effect.gen(function*() {
      const schema = yield* OutputSchema.fromJsonSchema(user)
      const codec = yield* OutputSchema.fromSchema(schema)
      const value: Schema.JsonObject = yield* codec.decode({ verdict: "accept", notes: ["a", null], $ref: 1 })
      assert.deepStrictEqual(value, { verdict: "accept", notes: ["a", null], $ref: 1 })

      const error = yield* Effect.flip(codec.decode({ notes: ["a", 1], extra: true, $ref: 1.5 }))
      assert.deepStrictEqual(issuesOf(error), [
        [["verdict"], "is missing: the property is required"],
        [["notes", 1], "must match exactly one of the 2 branches of oneOf, but matches 0"],
        [["extra"], "must be left out: the schema does not declare it and allows no others"],
        [["$ref"], "must be an integer, not a fraction"]
      ])
      assert.match(error.message, /at \["notes"\]\[1\]/)
      assert.deepStrictEqual(issuesOf(yield* Effect.flip(codec.decode("text"))), [[
        [],
        "must be an object, not a string"
      ]])

      const nested = yield* OutputSchema.fromSchema(Schema.Struct({ review: schema }))
      const inner = yield* Effect.flip(nested.decode({ review: { verdict: "maybe" } }))
      assert.deepStrictEqual(issuesOf(inner), [[["review", "verdict"], `must be "accept" or "reject"`]])
    }))

  it.effect("S446 fails on a throwing getter with one violation, and never dies", () =>
    Effect.gen(function*() {
      const codec = yield* OutputSchema.fromSchema(yield* OutputSchema.fromJsonSchema(user))
      const boom = () => {
        throw new Error("boom")
      }
      for (
        const value of [
          {
            get verdict() {
              return boom()
            }
          },
          new Proxy({}, { ownKeys: boom }),
          new Proxy({}, { getPrototypeOf: boom })
        ]
      ) {
        assert.strictEqual(issuesOf(yield* Effect.flip(codec.decode(value))).length, 1)
      }
    }))

  it.effect("encodes what it decodes", () =>
    Effect.gen(function*() {
      const schema = yield* OutputSchema.fromJsonSchema(user)
      assert.deepStrictEqual(yield* Schema.encodeEffect(Schema.toCodecJson(schema))({ verdict: "reject" }), {
        verdict: "reject"
      })
      yield* Effect.flip(Schema.encodeEffect(schema)({ verdict: 1 }))
    }))

  it("S51 S179 S440 lists all violations in its message, with paths", () => {
    const result = OutputSchema.fromJsonSchemaResult({
      type: "object",
      properties: { a: { type: ["string"] }, b: { type: "array", items: [{}] } },
      required: ["c"]
    })
    assert(Result.isFailure(result))
    assert.strictEqual(result.failure._tag, "UnsupportedSchema")
    assert.deepStrictEqual(paths(result.failure), ["/properties/a/type", "/properties/b/items", "/required/0"])
    assert.strictEqual(
      result.failure.message,
      [
        "The output schema is not supported:",
        "  /properties/a/type: must be a single type, not an array of types: use oneOf with a branch for each",
        "  /properties/b/items: must be one schema for every item: tuples are not supported",
        `  /required/0: must name a property declared in properties; "c" is not`
      ].join("\n")
    )
  })

  it.effect("S433 S177 wants an object at the root", () =>
    Effect.gen(function*() {
      for (const root of [{}, { type: "string" }, { type: "array" }, { oneOf: [{}, { type: "null" }] }]) {
        const { violations } = yield* Effect.flip(OutputSchema.fromJsonSchema(root))
        assert.deepStrictEqual(violations, [{
          path: "",
          issue: `must have "type": "object" at the root of the schema`
        }])
      }
    }))

  it.effect("S434 S418 fails, and never dies, on what is no JSON", () =>
    Effect.gen(function*() {
      const { proxy, revoke } = Proxy.revocable({}, {})
      revoke()
      for (const input of [null, undefined, [], "x", 1n, Symbol("a"), () => 1, new Map(), proxy]) {
        assert.deepStrictEqual(paths(yield* Effect.flip(OutputSchema.fromJsonSchema(input))), [""])
      }
      const fn = yield* Effect.flip(OutputSchema.fromJsonSchema({ type: "object", examples: [() => 1] }))
      assert.deepStrictEqual(paths(fn), ["/examples/0"])
    }))

  it.effect("S444 takes 5,000 levels through schema, codec and error", () =>
    Effect.gen(function*() {
      let deep: unknown = { type: "string" }
      let value: unknown = "x"
      for (let level = 0; level < 5_000; level++) {
        deep = { oneOf: [{ type: "null" }, { type: "array", items: deep }] }
        value = [value]
      }
      const schema = yield* OutputSchema.fromJsonSchema({ type: "object", properties: { deep } })
      const codec = yield* OutputSchema.fromSchema(schema)
      yield* codec.decode({ deep: value })
      const error = yield* Effect.flip(codec.decode({ deep: [value] }))
      assert.deepStrictEqual(issuesOf(error).map(([path]) => path), [["deep"]])
      const open = yield* OutputSchema.fromSchema(yield* OutputSchema.fromJsonSchema({ type: "object" }))
      let bad: unknown = NaN
      for (let level = 0; level < 5_000; level++) bad = [bad]
      const far = yield* Effect.flip(open.decode({ bad }))
      assert.strictEqual(issuesOf(far).length, 1)
      assert.isAbove(far.message.length, 5_000)
    }))

  it.effect("the error crosses a boundary and comes back", () =>
    Effect.gen(function*() {
      const codec = Schema.toCodecJson(OutputSchema.UnsupportedSchema)
      const error = yield* Effect.flip(OutputSchema.fromJsonSchema({ type: "string" }))
      const back = yield* Schema.decodeUnknownEffect(codec)(yield* Schema.encodeEffect(codec)(error))
      assert.instanceOf(back, OutputSchema.UnsupportedSchema)
      assert.deepStrictEqual(back.violations, error.violations)
    }))
})

/**
 * Decides what an output schema may be, and turns it into what a child needs: a JSON Schema to show its model and a
 * decoder for what comes back.
 *
 * An Effect Schema passes when its JSON Schema exists and has an object at the root; a user's own JSON passes when it
 * keeps to a small exact subset. Either way a value is decoded by a Schema on this side: whatever a model or a backend
 * says it has validated is not believed.
 *
 * @since 0.1.0
 */
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as JsonSchema from "effect/JsonSchema"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type * as SchemaAST from "effect/SchemaAST"
import * as SchemaIssue from "effect/SchemaIssue"
import { documentOf } from "./internal/seam/jsonDocument.ts"
import { compileObject } from "./internal/seam/jsonSubset.ts"
import { validate } from "./internal/seam/jsonValidate.ts"
import type { Finding } from "./internal/seam/jsonValue.ts"
import { toKeys, toPointer } from "./internal/seam/jsonValue.ts"

/**
 * One thing that is wrong with a schema: where, as a JSON Pointer into the schema (`""` is the root), and what would be
 * right there.
 *
 * @category errors
 * @since 0.1.0
 */
export const Violation = Schema.Struct({ path: Schema.String, issue: Schema.String })

/**
 * The type of {@link Violation}.
 *
 * @category errors
 * @since 0.1.0
 */
export type Violation = typeof Violation.Type

/**
 * The schema cannot describe a structured output. All violations are listed, in the order of the schema (S179); a
 * delegation that fails with it has started nothing (S194).
 *
 * @category errors
 * @since 0.1.0
 */
export class UnsupportedSchema
  extends Schema.TaggedError<UnsupportedSchema>("effect-subagent/UnsupportedSchema")("UnsupportedSchema", {
    violations: Schema.Array(Violation)
  })
{
  override get message(): string {
    const lines = this.violations.map(({ issue, path }) => `  ${path === "" ? "(root)" : path}: ${issue}`)
    return ["The output schema is not supported:", ...lines].join("\n")
  }
}

/**
 * An Effect Schema that may be asked for: an object on its encoded side. Whether its JSON form is an object too is
 * known when it is used.
 *
 * @category models
 * @since 0.1.0
 */
export interface StructuredSchema extends Schema.Constraint {
  readonly "Encoded": object
}

/**
 * What a schema has become. `RD` and `RE` are the services its decoding and its encoding need.
 *
 * @category models
 * @since 0.1.0
 */
export interface OutputCodec<out A, out RD = never, out RE = never> {
  /**
   * JSON Schema (draft 2020-12) that can be the parameters of a tool as it is: the root has `"type": "object"`, and
   * what it refers to is under `$defs`. Frozen and shared: copy it to change it.
   */
  readonly jsonSchema: JsonSchema.JsonSchema
  /** Decodes the output from its JSON and encodes it to JSON. */
  readonly schema: Schema.Codec<A, Schema.Json, RD, RE>
  /** Decodes a JSON value; the error lists everything that is wrong with it, for a model that may try again (S184). */
  readonly decode: (json: unknown) => Effect.Effect<A, Schema.SchemaError, RD>
}

/**
 * Accepts an Effect Schema whose JSON Schema document exists and has an object at the root, once references are
 * resolved. Fails with `UnsupportedSchema` otherwise: a union, array or scalar at the root, a type without a JSON form,
 * or an annotation the model should see that is not JSON (S417, S418).
 *
 * The answer is remembered for each schema instance, so a schema that is asked for often should be a constant.
 *
 * @category constructors
 * @since 0.1.0
 */
export const fromSchema = <S extends StructuredSchema>(
  schema: S
): Effect.Effect<OutputCodec<S["Type"], S["DecodingServices"], S["EncodingServices"]>, UnsupportedSchema> =>
  // An entry was made from the very schema that is its key, so it has that schema's types.
  Effect.suspend(() => answerFor(schema)) as Effect.Effect<
    OutputCodec<S["Type"], S["DecodingServices"], S["EncodingServices"]>,
    UnsupportedSchema
  >

/**
 * A Schema of plain JSON objects made of a user's own JSON Schema, to be given wherever an output schema is asked for:
 * the model sees that JSON as it was written, and a value passes exactly when it satisfies it (S180). Fails with
 * `UnsupportedSchema` when the input leaves the subset.
 *
 * The subset (S169–S177): `type` (one of object, array, string, number, integer, boolean, null), `oneOf` (two or more
 * branches, exactly one of which matches, with no constraint beside it), `properties`, `required`,
 * `additionalProperties` (true or false), `items` (one schema), and `enum` and `const` of scalars; `title`,
 * `description`, `default` and `examples` are shown and otherwise ignored; `"type": "object"` at the root. The input
 * is plain JSON data (S178): what it holds later does not matter, and it may be of any depth and share its parts, but
 * not contain itself.
 *
 * A decoded value is a frozen copy of the value that was checked. It is lossless JSON: no `undefined`, `-0`, `NaN`,
 * hole, class instance or cycle.
 *
 * @category constructors
 * @since 0.1.0
 */
export const fromJsonSchema = (
  json: unknown
): Effect.Effect<Schema.Codec<Schema.JsonObject>, UnsupportedSchema> =>
  Effect.suspend(() => Effect.fromResult(fromJsonSchemaResult(json)))

/**
 * {@link fromJsonSchema} for a program that has no effect to run.
 *
 * @category constructors
 * @since 0.1.0
 */
export const fromJsonSchemaResult = (
  json: unknown
): Result.Result<Schema.Codec<Schema.JsonObject>, UnsupportedSchema> => {
  const { json: copy, root, violations } = compileObject(json)
  if (violations.length > 0) return Result.fail(unsupported(violations))
  // A schema without violations is a lossless copy of an object.
  const jsonSchema = copy as JsonSchema.JsonSchema
  const schema = Schema.declareConstructor<Schema.JsonObject>()(
    [],
    () => (input, ast) => {
      const { value, violations } = validate(root, input)
      return Arr.isReadonlyArrayNonEmpty(violations)
        ? Effect.fail(issueOf(ast, violations))
        // Valid under a root of the type object, so an object, and JSON all through.
        : Effect.succeed(value as Schema.JsonObject)
    },
    { expected: "a JSON object of the given JSON Schema", toCodecJson: () => undefined }
  ).check(
    // A declaration has no JSON Schema of its own. A check may have one, which is then the whole of it.
    Schema.makeFilter(() => true, { toJsonSchema: () => jsonSchema })
  )
  // The generator of effect is recursive and would copy it: the user's own is at hand.
  answers.set(schema, Exit.succeed(codecOf(schema, jsonSchema)))
  return Result.succeed(schema)
}

type Answer = Exit.Exit<OutputCodec<unknown, unknown, unknown>, UnsupportedSchema>

const answers = new WeakMap<Schema.Constraint, Answer>()

const answerFor = (schema: Schema.Constraint): Answer => {
  let answer = answers.get(schema)
  if (answer === undefined) {
    answer = Result.match(documentOf(schema), {
      onFailure: (findings): Answer => Exit.fail(unsupported(findings)),
      onSuccess: (jsonSchema): Answer => Exit.succeed(codecOf(schema, jsonSchema))
    })
    answers.set(schema, answer)
  }
  return answer
}

const codecOf = <S extends Schema.Constraint>(
  schema: S,
  jsonSchema: JsonSchema.JsonSchema
): OutputCodec<S["Type"], S["DecodingServices"], S["EncodingServices"]> => {
  const codec = Schema.toCodecJson(schema)
  return { jsonSchema, schema: codec, decode: Schema.decodeUnknownEffect(codec, { errors: "all" }) }
}

const unsupported = (findings: ReadonlyArray<Finding>): UnsupportedSchema =>
  new UnsupportedSchema({ violations: findings.map(({ issue, path }) => ({ path: toPointer(path), issue })) })

const issueOf = (ast: SchemaAST.AST, violations: Arr.NonEmptyReadonlyArray<Finding>): SchemaIssue.Issue =>
  new SchemaIssue.Composite(
    ast,
    Arr.map(
      violations,
      ({ issue, path }) => new SchemaIssue.Pointer(toKeys(path), new SchemaIssue.InvalidValue({ message: issue }))
    )
  )

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
import type * as JsonSchema from "effect/JsonSchema"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type * as SchemaAST from "effect/SchemaAST"
import * as SchemaIssue from "effect/SchemaIssue"
import { compileObject } from "./internal/seam/jsonSubset.ts"
import { validate } from "./internal/seam/jsonValidate.ts"
import { type Finding, toKeys } from "./internal/seam/jsonValue.ts"
import { remember, unsupported, type UnsupportedSchema } from "./internal/seam/outputCodec.ts"

export {
  fromSchema,
  type OutputCodec,
  type StructuredSchema,
  UnsupportedSchema,
  Violation
} from "./internal/seam/outputCodec.ts"

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
  remember(schema, jsonSchema)
  return Result.succeed(schema)
}

const issueOf = (ast: SchemaAST.AST, violations: Arr.NonEmptyReadonlyArray<Finding>): SchemaIssue.Issue =>
  new SchemaIssue.Composite(
    ast,
    Arr.map(
      violations,
      ({ issue, path }) => new SchemaIssue.Pointer(toKeys(path), new SchemaIssue.InvalidValue({ message: issue }))
    )
  )

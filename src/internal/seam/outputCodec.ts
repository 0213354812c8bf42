/**
 * Turns an output schema into what a child needs of it. Apart from what reads a user's own JSON, which few programs have.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as JsonSchema from "effect/JsonSchema"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { documentOf } from "./jsonDocument.ts"
import { type Finding, toPointer } from "./jsonValue.ts"

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

/** @internal Remembers what a schema is shown as, where effect cannot tell. */
export const remember = (schema: StructuredSchema, jsonSchema: JsonSchema.JsonSchema): void =>
  void answers.set(schema, Exit.succeed(codecOf(schema, jsonSchema)))

const codecOf = <S extends Schema.Constraint>(
  schema: S,
  jsonSchema: JsonSchema.JsonSchema
): OutputCodec<S["Type"], S["DecodingServices"], S["EncodingServices"]> => {
  const codec = Schema.toCodecJson(schema)
  return { jsonSchema, schema: codec, decode: Schema.decodeUnknownEffect(codec, { errors: "all" }) }
}

/** @internal */
export const unsupported = (findings: ReadonlyArray<Finding>): UnsupportedSchema =>
  new UnsupportedSchema({ violations: findings.map(({ issue, path }) => ({ path: toPointer(path), issue })) })

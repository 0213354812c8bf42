/**
 * Asks for what a provider can and cannot do. A capability that is missing is a type error, a schema gives its type to
 * the result, and nobody can claim a type that no schema proves.
 */
import type { Effect } from "effect"
import { Schema } from "effect"
import type { StructuredSchema } from "../../src/OutputSchema.ts"
import type * as Subagent from "../../src/Subagent.ts"
import {
  assistantMessage,
  Bare,
  cond,
  type Equal,
  filePart,
  Finding,
  Full,
  Negotiated,
  NoDepth,
  NoFilter,
  NoModel,
  NoPersona,
  NoSchema,
  NoTokens,
  prompt,
  reasoningPart,
  same,
  subagents,
  systemMessage,
  textPart,
  toolResultPart,
  userMessage,
  uses,
  Verdict
} from "./helpers.ts"

// -----------------------------------------------------------------------------
// a field for each capability
// -----------------------------------------------------------------------------

uses(Full.start({ prompt, outputSchema: Finding }))
// @ts-expect-error TS2322 Type 'Struct<{ … }>' is not assignable to type 'undefined'
uses(NoSchema.start({ prompt, outputSchema: Finding }))

uses(Full.start({ prompt, maxDepth: 2 }))
// @ts-expect-error TS2769 Type 'number' is not assignable to type 'undefined'
uses(NoDepth.start({ prompt, maxDepth: 2 }))

uses(Full.start({ prompt, toolFilter: { allow: ["read_file"] } }))
// @ts-expect-error TS2769 Type '{ allow: string[]; }' is not assignable to type 'undefined'
uses(NoFilter.start({ prompt, toolFilter: { allow: ["read_file"] } }))

uses(Full.start({ prompt, persona: "A sceptic" }))
// @ts-expect-error TS2769 Type 'string' is not assignable to type 'undefined'
uses(NoPersona.start({ prompt, persona: "A sceptic" }))

uses(Full.start({ prompt, model: "small" }))
// @ts-expect-error TS2769 Type 'string' is not assignable to type 'undefined'
uses(NoModel.start({ prompt, model: "small" }))

uses(Full.start({ prompt, maxTokens: 1000 }))
// @ts-expect-error TS2769 Type 'number' is not assignable to type 'undefined'
uses(NoTokens.start({ prompt, maxTokens: 1000 }))

uses(Full.delegate({ prompt, outputSchema: Finding }))
// @ts-expect-error TS2322 Type 'Struct<{ … }>' is not assignable to type 'undefined'
uses(NoSchema.delegate({ prompt, outputSchema: Finding }))

uses(Full.delegate({ prompt, persona: "A sceptic" }))
// @ts-expect-error TS2769 Type 'string' is not assignable to type 'undefined'
uses(NoPersona.delegate({ prompt, persona: "A sceptic" }))

// a schema does not open what is closed
uses(Full.start({ prompt, outputSchema: Finding, model: "small" }))
// @ts-expect-error TS2769 Type 'string' is not assignable to type 'undefined'
uses(NoModel.start({ prompt, outputSchema: Finding, model: "small" }))

// a request made elsewhere, whose surplus fields nobody checks
const withPersona = { prompt, persona: "A sceptic" }
uses(Full.start(withPersona))
// @ts-expect-error TS2769 Type 'string' is not assignable to type 'undefined'
uses(NoPersona.start(withPersona))

const withSchema = { prompt, outputSchema: Finding }
uses(Full.start(withSchema))
// @ts-expect-error TS2345 Type 'Struct<{ … }>' is not assignable to type 'undefined'
uses(NoSchema.start(withSchema))

// a field that no provider has
uses(Full.start({ prompt, persona: "A sceptic" }))
// @ts-expect-error TS2769 'personna' does not exist in type
uses(Full.start({ prompt, personna: "A sceptic" }))

uses(Full.start({ prompt: "Audit src/parser.ts" }))
// @ts-expect-error TS2769 Property 'prompt' is missing in type
uses(Full.start({ label: "Audit src/parser.ts" }))

// what every provider honours, and what is known only after its handshake
uses(
  Bare.start({
    prompt,
    label: "audit",
    timeout: "1 minute",
    signal: new AbortController().signal,
    limits: { maxDepth: 1 }
  }),
  Bare.start({ prompt, outputSchema: undefined, persona: undefined, maxDepth: undefined }),
  Negotiated.start({
    prompt,
    outputSchema: Finding,
    maxDepth: 2,
    toolFilter: { deny: ["write_file"] },
    persona: "A sceptic",
    model: "small",
    maxTokens: 1000
  })
)

// by name every field may be asked for, and no class is needed
uses(
  subagents.start("acp", {
    prompt,
    outputSchema: Finding,
    maxDepth: 2,
    toolFilter: { deny: ["write_file"] },
    persona: "A sceptic",
    model: "small",
    maxTokens: 1000
  })
)

uses(subagents.start("acp", { prompt }))
// @ts-expect-error TS2769 Argument of type 'typeof Full' is not assignable to parameter of type 'string'
uses(subagents.start(Full, { prompt }))

uses(subagents.delegate("acp", { prompt, persona: "A sceptic" }))
// @ts-expect-error TS2769 'personna' does not exist in type
uses(subagents.delegate("acp", { prompt, personna: "A sceptic" }))

// -----------------------------------------------------------------------------
// a prompt is what a user says
// -----------------------------------------------------------------------------

uses(Full.start({ prompt: [textPart] }))
// @ts-expect-error TS2769 Type 'SystemMessage' is missing the following properties from type 'TextPart'
uses(Full.start({ prompt: [systemMessage] }))

uses(Full.start({ prompt: [textPart] }))
// @ts-expect-error TS2769 Type 'AssistantMessage' is missing the following properties from type 'TextPart'
uses(Full.start({ prompt: [assistantMessage] }))

// whole messages are refused, whoever speaks: the parts are the message
uses(Full.start({ prompt: [textPart, filePart] }))
// @ts-expect-error TS2769 Type 'UserMessage' is missing the following properties from type 'TextPart'
uses(Full.start({ prompt: [textPart, userMessage] }))

uses(Full.start({ prompt: [textPart, filePart] }))
// @ts-expect-error TS2769 Type '"reasoning"' is not assignable to type '"text"'
uses(Full.start({ prompt: [textPart, reasoningPart] }))

uses(Full.start({ prompt: [textPart, filePart] }))
// @ts-expect-error TS2769 Property 'text' is missing in type
uses(Full.start({ prompt: [textPart, toolResultPart] }))

uses(subagents.start("acp", { prompt: [textPart] }))
// @ts-expect-error TS2769 Type 'SystemMessage' is missing the following properties from type 'TextPart'
uses(subagents.start("acp", { prompt: [systemMessage] }))

// -----------------------------------------------------------------------------
// a schema, and the type of the result
// -----------------------------------------------------------------------------

const audit = { prompt, outputSchema: Finding }
const plain = { prompt }
const without = { prompt, outputSchema: undefined }
const labelled = { ...audit, label: "audit" }

// no free type parameter: whoever wants a `Finding` must show a schema
uses(Full.start({ prompt }))
// @ts-expect-error TS2740 is missing the following properties from type 'StructuredSchema'
uses(Full.start<Finding>({ prompt }))

uses(NoSchema.start({ prompt }))
// @ts-expect-error TS2558 Expected 0 type arguments, but got 1
uses(NoSchema.start<Finding>({ prompt }))

uses(Full.start<typeof Finding>(audit))
// @ts-expect-error TS2345 Property 'outputSchema' is missing in type
uses(Full.start<typeof Finding>(plain))

uses(Full.start<typeof Finding>(audit))
// @ts-expect-error TS2558 Expected 0 type arguments, but got 1
uses(NoSchema.start<typeof Finding>(audit))

uses(Full.start<typeof Finding>(audit))
// @ts-expect-error TS2740 is missing the following properties from type 'StructuredSchema'
uses(Full.start<Finding>(audit))

uses(Full.delegate({ prompt }))
// @ts-expect-error TS2740 is missing the following properties from type 'StructuredSchema'
uses(Full.delegate<Finding>({ prompt }))

uses(subagents.start("acp", { prompt }))
// @ts-expect-error TS2740 is missing the following properties from type 'StructuredSchema'
uses(subagents.start<Finding>("acp", { prompt }))

// a schema there may be, or may not: which result would it be?
uses(Full.start({ prompt, outputSchema: cond ? Finding : Verdict }))
// @ts-expect-error TS2769 Type 'undefined' is not assignable to type 'StructuredSchema'
uses(Full.start({ prompt, outputSchema: cond ? Finding : undefined }))

declare const surely: typeof Finding
declare const maybe: typeof Finding | undefined
uses(Full.start({ prompt, outputSchema: surely }))
// @ts-expect-error TS2769 Type 'undefined' is not assignable to type 'StructuredSchema'
uses(Full.start({ prompt, outputSchema: maybe }))

uses(Full.start(cond ? audit : labelled))
// @ts-expect-error TS2769 Type 'undefined' is not assignable to type 'StructuredSchema'
uses(Full.start(cond ? audit : without))

uses(subagents.delegate("acp", { prompt, outputSchema: surely }))
// @ts-expect-error TS2769 Type 'undefined' is not assignable to type 'StructuredSchema'
uses(subagents.delegate("acp", { prompt, outputSchema: maybe }))

// an object on the encoded side
const Scalar = Schema.String
const Nullable = Schema.NullOr(Finding)
uses(Full.start({ prompt, outputSchema: Finding }))
// @ts-expect-error TS2769 Type 'string' is not assignable to type 'object'
uses(Full.start({ prompt, outputSchema: Scalar }))

uses(Full.start({ prompt, outputSchema: Finding }))
// @ts-expect-error TS2769 Type 'null' is not assignable to type 'object'
uses(Full.start({ prompt, outputSchema: Nullable }))

uses(subagents.start("acp", { prompt, outputSchema: Finding }))
// @ts-expect-error TS2769 Type 'string' is not assignable to type 'object'
uses(subagents.start("acp", { prompt, outputSchema: Scalar }))

// what a schema proves is what the result holds, decoded
type Holds<E> = E extends Effect.Effect<Subagent.Result<infer A>, infer _E, infer _R> ? A : never
class Report extends Schema.Class<Report>("Report")({ at: Schema.Date }) {}
const held = {
  plain: Full.delegate({ prompt }),
  bare: Bare.delegate({ prompt }),
  undefined: Full.delegate({ prompt, outputSchema: undefined }),
  struct: Full.delegate({ prompt, outputSchema: Finding }),
  class: Full.delegate({ prompt, outputSchema: Report }),
  either: Full.delegate({ prompt, outputSchema: cond ? Finding : Verdict }),
  negotiated: Negotiated.delegate({ prompt, outputSchema: Verdict }),
  named: subagents.delegate("acp", { prompt, outputSchema: Verdict })
}
same<Equal<Holds<typeof held.plain>, void>>()
same<Equal<Holds<typeof held.bare>, void>>()
same<Equal<Holds<typeof held.undefined>, void>>()
same<Equal<Holds<typeof held.struct>, Finding>>()
same<Equal<Holds<typeof held.class>, Report>>()
same<Equal<Holds<typeof held.either>, Finding | Verdict>>()
same<Equal<Holds<typeof held.negotiated>, Verdict>>()
same<Equal<Holds<typeof held.named>, Verdict>>()

uses(held.plain satisfies Effect.Effect<Subagent.Result<void>, unknown, unknown>)
// @ts-expect-error TS1360 Type 'void' is not assignable to type '{ readonly file: string;
uses(held.plain satisfies Effect.Effect<Subagent.Result<Finding>, unknown, unknown>)

uses(held.struct satisfies Effect.Effect<Subagent.Result<Finding>, unknown, unknown>)
// @ts-expect-error TS1360 Property 'guilty' is missing in type
uses(held.struct satisfies Effect.Effect<Subagent.Result<Verdict>, unknown, unknown>)

// the compiler forgets a property that only one side of a choice has: the result then claims nothing
const forgotten = Full.delegate(cond ? audit : plain)
same<Equal<Holds<typeof forgotten>, void>>()

// a function over schemas keeps what its schema proves
type AnySchema = Schema.Constraint
const deliver = <S extends StructuredSchema>(schema: S) => Full.delegate({ prompt, outputSchema: schema })
same<Equal<Holds<ReturnType<typeof deliver<typeof Verdict>>>, Verdict>>()

uses(<S extends StructuredSchema>(schema: S) => Full.delegate({ prompt, outputSchema: schema }))
// @ts-expect-error TS2769 Type 'unknown' is not assignable to type 'object'
uses(<S extends AnySchema>(schema: S) => Full.delegate({ prompt, outputSchema: schema }))

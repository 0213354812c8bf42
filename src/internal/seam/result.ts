/**
 * What comes of a run.
 */
import * as Schema from "effect/Schema"
import { OutputPart } from "../agent/model.ts"
import * as Session from "../session/events.ts"

const common = {
  text: Schema.String,
  output: Schema.Array(OutputPart),
  usage: Session.Usage
}

/**
 * The schema of the results of runs whose structured value has the schema `structured` (S22–S24).
 *
 * Every result has what the child said last (`text`, and `output` with its files), partial unless it is `Completed`,
 * and what it used.
 *
 * - `Completed`: the child finished; `structured` is the value that was asked for, decoded
 * - `Aborted`: it was cancelled; by whom says `cause`
 * - `Failed`: its model or transport failed, or it ended without the structured value it owed. `diagnostic` is at most
 *   4096 UTF-8 bytes and holds no secrets (S557)
 * - `MaxTokens`: it was cut off at its output limit
 * - `Refusal`: it, or its model's provider, declined
 * - `Other`: a reason of its backend's own, to be treated as a failure
 *
 * @category schemas
 * @since 0.1.0
 */
export const Result = <S extends Schema.Constraint>(structured: S) =>
  Schema.Union([
    Schema.TaggedStruct("Completed", { ...common, structured }),
    Schema.TaggedStruct("Aborted", { ...common, cause: Session.AbortCause }),
    Schema.TaggedStruct("Failed", {
      ...common,
      reason: Schema.String,
      retryable: Schema.Boolean,
      diagnostic: Schema.String
    }),
    Schema.TaggedStruct("MaxTokens", common),
    Schema.TaggedStruct("Refusal", common),
    Schema.TaggedStruct("Other", { ...common, reason: Schema.String })
  ])

interface Common {
  readonly text: string
  readonly output: ReadonlyArray<OutputPart>
  readonly usage: Session.Usage
}

/**
 * What comes of a run; see the constructor of the same name.
 *
 * @category models
 * @since 0.1.0
 */
export type Result<A> =
  | (Common & { readonly _tag: "Completed"; readonly structured: A })
  | NotCompletedResult

/**
 * A result that is not `Completed`.
 *
 * @category models
 * @since 0.1.0
 */
export type NotCompletedResult =
  | (Common & { readonly _tag: "Aborted"; readonly cause: Session.AbortCause })
  | (Common & {
    readonly _tag: "Failed"
    readonly reason: string
    readonly retryable: boolean
    readonly diagnostic: string
  })
  | (Common & { readonly _tag: "MaxTokens" })
  | (Common & { readonly _tag: "Refusal" })
  | (Common & { readonly _tag: "Other"; readonly reason: string })

/**
 * @internal Marks a run of this library's own providers. What it says is who has outlived the closing of its scope, which
 * is then known without a fiber, and that its results are made here and need no check; `undefined` says neither.
 */
export const own: unique symbol = Symbol("effect-subagent/own")

/** @internal */
export interface OwnRun {
  readonly [own]: () => ReadonlyArray<string> | undefined
}

/** @internal What a run says under {@link own}. Nobody else's says anything: the symbol is not exported. */
export const ownSurvivors = (handle: object): ReadonlyArray<string> | undefined =>
  // sound: what has the symbol is made here
  own in handle ? (handle as OwnRun)[own]() : undefined

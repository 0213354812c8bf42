/**
 * What a session is made of: who it is, what happens in it, and how a turn can end.
 */
import * as Prompt from "effect/ai/Prompt"
import * as Schema from "effect/Schema"

// -----------------------------------------------------------------------------
// identity
// -----------------------------------------------------------------------------

/**
 * The id of a session: 1 to 128 characters of `A-Z a-z 0-9 _ . -`, not starting with a dot or a dash, so that an id
 * used as a file name can never leave its directory.
 *
 * @category schemas
 * @since 0.1.0
 */
export const SessionId = Schema.String.check(
  Schema.isPattern(/^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$/, {
    expected: "a session id: 1 to 128 letters, digits, '_', '.' or '-', starting with a letter, a digit or '_'"
  })
).pipe(Schema.brand("effect-subagent/SessionId"))

/**
 * @category models
 * @since 0.1.0
 */
export type SessionId = typeof SessionId.Type

/**
 * Who wrote a user message (S31). Stored with the message, never shown to the model.
 *
 * - `user`: a person or the program that runs the agent
 * - `coordinator`: the parent agent, or an ancestor
 * - `report`: a child that reports to its parent
 * - `notice`: the library, about the end of a child
 * - `task`: the library, about the end of a background task
 *
 * `senderId` is the session id of the agent that sent it, where one did.
 *
 * @category schemas
 * @since 0.1.0
 */
export const Source = Schema.Struct({
  kind: Schema.Literals(["user", "coordinator", "report", "notice", "task"]),
  senderId: Schema.optionalKey(Schema.String)
})

/**
 * @category models
 * @since 0.1.0
 */
export type Source = typeof Source.Type

/**
 * How a session came to be: opened by a program, or as the child of a delegation by the named provider.
 *
 * @category schemas
 * @since 0.1.0
 */
export const Origin = Schema.Union([
  Schema.Struct({ kind: Schema.Literal("root") }),
  Schema.Struct({ kind: Schema.Literal("subagent"), provider: Schema.String })
])

/**
 * @category models
 * @since 0.1.0
 */
export type Origin = typeof Origin.Type

const Natural = Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))

/**
 * The immutable first record of a session (S36).
 *
 * - `version`: the major version of the log format; a log of a newer major is refused
 * - `depth`: delegations between the top of the tree and this session; 0 for a root; never lowered (S151)
 * - `cwd`: the working directory its tools start from
 * - `createdAt`: milliseconds since the epoch
 * - `seedLength`: how many leading events were copied from the parent (a fork); absent when there are none
 * - `label`: a short name for people
 *
 * @category schemas
 * @since 0.1.0
 */
export const Header = Schema.Struct({
  version: Schema.Literal(1),
  id: SessionId,
  parent: Schema.optionalKey(SessionId),
  depth: Natural,
  cwd: Schema.String,
  createdAt: Natural,
  origin: Origin,
  seedLength: Schema.optionalKey(Natural),
  label: Schema.optionalKey(Schema.String)
})

/**
 * @category models
 * @since 0.1.0
 */
export type Header = typeof Header.Type

// -----------------------------------------------------------------------------
// outcomes
// -----------------------------------------------------------------------------

/**
 * What was spent: tokens as reported by the models, model calls (`steps`), milliseconds (`elapsed`), and money in US
 * dollars where a model reports it (`cost`).
 *
 * @category schemas
 * @since 0.1.0
 */
export const Usage = Schema.Struct({
  inputTokens: Schema.Number,
  outputTokens: Schema.Number,
  steps: Schema.Number,
  elapsed: Schema.Number,
  cost: Schema.optionalKey(Schema.Number)
})

/**
 * @category models
 * @since 0.1.0
 */
export type Usage = typeof Usage.Type

/**
 * No usage at all.
 *
 * @category constructors
 * @since 0.1.0
 */
export const noUsage: Usage = { inputTokens: 0, outputTokens: 0, steps: 0, elapsed: 0 }

/**
 * Adds two usages; the cost is known when either is.
 *
 * @category combinators
 * @since 0.1.0
 */
export const addUsage = (self: Usage, that: Usage): Usage => ({
  inputTokens: self.inputTokens + that.inputTokens,
  outputTokens: self.outputTokens + that.outputTokens,
  steps: self.steps + that.steps,
  elapsed: self.elapsed + that.elapsed,
  ...(self.cost === undefined && that.cost === undefined ? undefined : { cost: (self.cost ?? 0) + (that.cost ?? 0) })
})

/**
 * Who or what cancelled a turn or a run.
 *
 * - `parent`: the delegating agent: its turn was interrupted, its signal aborted, or it closed
 * - `user`: a person, or the program through `interrupt`
 * - `disposed`: the scope that owned it was closed
 * - `timeout`: it ran longer than it was allowed to
 * - `budget`: a limit on tokens, cost or steps was reached
 *
 * @category schemas
 * @since 0.1.0
 */
export const AbortCause = Schema.Literals(["parent", "user", "disposed", "timeout", "budget"])

/**
 * @category models
 * @since 0.1.0
 */
export type AbortCause = typeof AbortCause.Type

/**
 * Why a turn ended (S201).
 *
 * - `Completed`: the model finished, or a tool concluded the turn
 * - `Aborted`: cancelled, by whom says `cause`
 * - `Failed`: the model or the machinery failed; `diagnostic` is at most 4096 UTF-8 bytes and holds no secrets
 * - `MaxTokens`: the model was cut off at its output limit (S166)
 * - `MaxSteps`: the turn reached the most model calls it may make
 * - `Refusal`: the model or its provider declined
 * - `Interrupted`: the process died inside the turn; written when the session is opened again (S203)
 *
 * @category schemas
 * @since 0.1.0
 */
export const TurnCause = Schema.Union([
  Schema.TaggedStruct("Completed", {}),
  Schema.TaggedStruct("Aborted", { cause: AbortCause }),
  Schema.TaggedStruct("Failed", { reason: Schema.String, retryable: Schema.Boolean, diagnostic: Schema.String }),
  Schema.TaggedStruct("MaxTokens", {}),
  Schema.TaggedStruct("MaxSteps", {}),
  Schema.TaggedStruct("Refusal", {}),
  Schema.TaggedStruct("Interrupted", {})
])

/**
 * @category models
 * @since 0.1.0
 */
export type TurnCause = typeof TurnCause.Type

// -----------------------------------------------------------------------------
// events
// -----------------------------------------------------------------------------

const stamp = { seq: Natural, at: Natural }

/**
 * A turn began. Turns are numbered from 0 over the whole log, a copied prefix included (S209).
 *
 * @category schemas
 * @since 0.1.0
 */
export const TurnStarted = Schema.TaggedStruct("TurnStarted", { ...stamp, turn: Natural })

/**
 * A message joined the conversation. A user message carries its `source` and, where it came through a mailbox or an
 * inbox, the `messageId` by which it is admitted at most once.
 *
 * @category schemas
 * @since 0.1.0
 */
export const MessageAppended = Schema.TaggedStruct("MessageAppended", {
  ...stamp,
  message: Prompt.Message,
  source: Schema.optionalKey(Source),
  messageId: Schema.optionalKey(Schema.String)
})

/**
 * A message that was sent into a running turn joined the conversation between two steps (S88).
 *
 * @category schemas
 * @since 0.1.0
 */
export const SteeringAdmitted = Schema.TaggedStruct("SteeringAdmitted", {
  ...stamp,
  message: Prompt.UserMessage,
  source: Source,
  messageId: Schema.String
})

/**
 * The durable composition of a continuable child. Log only: never part of the conversation.
 *
 * @category schemas
 * @since 0.1.0
 */
export const DescriptorRecorded = Schema.TaggedStruct("DescriptorRecorded", {
  ...stamp,
  descriptor: Schema.Record(Schema.String, Schema.Json)
})

/**
 * The identity under which a remote agent knows the child. Log only.
 *
 * @category schemas
 * @since 0.1.0
 */
export const RemoteBound = Schema.TaggedStruct("RemoteBound", {
  ...stamp,
  remoteId: Schema.String,
  agent: Schema.String,
  version: Schema.String
})

/**
 * A turn ended: why, and what it used.
 *
 * @category schemas
 * @since 0.1.0
 */
export const TurnEnded = Schema.TaggedStruct("TurnEnded", {
  ...stamp,
  turn: Natural,
  cause: TurnCause,
  usage: Usage
})

/**
 * The events this version knows. Later minor versions add tags and never change one.
 *
 * @category schemas
 * @since 0.1.0
 */
export const KnownEvent = Schema.Union([
  TurnStarted,
  MessageAppended,
  SteeringAdmitted,
  DescriptorRecorded,
  RemoteBound,
  TurnEnded
])

/**
 * An event of a tag that this version does not know: kept as it was read and skipped by the fold.
 *
 * @category models
 * @since 0.1.0
 */
export interface UnknownEvent {
  readonly _tag: "Unknown"
  readonly seq: number
  readonly at: number
  readonly raw: { readonly [key: string]: unknown }
}

/**
 * @category models
 * @since 0.1.0
 */
export type KnownEvent = typeof KnownEvent.Type

/**
 * One record of a session's log.
 *
 * @category models
 * @since 0.1.0
 */
export type Event = KnownEvent | UnknownEvent

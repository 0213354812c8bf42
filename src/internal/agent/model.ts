/**
 * What a live agent shows of itself: its progress, how a turn went, and why a message was not admitted.
 */
import * as Prompt from "effect/ai/Prompt"
import type * as Effect from "effect/Effect"
import type * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type * as Session from "../../Session.ts"

/**
 * What happens inside an agent while it happens. Never stored.
 *
 * - `StepStarted`, `StepRestarted`: a model call begins, or has failed in a way that may pass and will be made again
 *   after a pause; the text of a restarted step so far is void
 * - `Text`, `Reasoning`: a piece of what the model writes
 * - `ToolStarted`, `ToolProgress`, `ToolEnded`: a tool call; `ToolProgress` carries a preliminary result
 * - `StepEnded`: the usage of the turn so far
 * - `Dropped`: this subscriber was too slow and missed so many
 *
 * @category models
 * @since 0.1.0
 */
export type Progress =
  | { readonly _tag: "StepStarted"; readonly step: number }
  | { readonly _tag: "StepRestarted"; readonly step: number; readonly reason: string }
  | { readonly _tag: "Text"; readonly delta: string }
  | { readonly _tag: "Reasoning"; readonly delta: string }
  | { readonly _tag: "ToolStarted"; readonly id: string; readonly name: string; readonly params: unknown }
  | { readonly _tag: "ToolProgress"; readonly id: string; readonly name: string; readonly value: unknown }
  | { readonly _tag: "ToolEnded"; readonly id: string; readonly name: string; readonly isFailure: boolean }
  | { readonly _tag: "StepEnded"; readonly usage: Session.Usage }
  | { readonly _tag: "Dropped"; readonly count: number }

/**
 * A part of what a model said as its answer: text or a file.
 *
 * @category schemas
 * @since 0.1.0
 */
export const OutputPart = Schema.Union([Prompt.TextPart, Prompt.FilePart])

/**
 * @category models
 * @since 0.1.0
 */
export type OutputPart = typeof OutputPart.Type

/**
 * What a user message is made of: a plain text, or text and file parts. A system or assistant message cannot be
 * smuggled in.
 *
 * @category models
 * @since 0.1.0
 */
export type Content = string | ReadonlyArray<Prompt.UserMessagePart>

/**
 * How a message is sent: by whom (a `user` by default), under which id it is stored (a new one by default; one of the
 * sender's own must be new to the session, or the message is a {@link DuplicateMessage}), and whether an idle agent
 * sets to work only when the sender has gone on (`later`), instead of within the call.
 *
 * @category models
 * @since 0.1.0
 */
export interface Delivery {
  readonly source?: Session.Source | undefined
  readonly messageId?: string | undefined
  readonly later?: boolean | undefined
}

/**
 * Gives a message to an agent. Only one under an id of the sender's own can be a duplicate.
 *
 * @category models
 * @since 0.1.0
 */
export interface Deliver<A, E> {
  (content: Content, options?: Delivery & { readonly messageId?: undefined }): Effect.Effect<A, E>
  (content: Content, options: Delivery): Effect.Effect<A, E | DuplicateMessage>
}

/**
 * How a turn went.
 *
 * - `text`: the last non-empty text of the model in this turn, else what it had streamed, else `""` (S556)
 * - `output`: the text and file parts of the message that `text` is from
 * - `concluded`: the tool call that concluded the turn, where one did
 *
 * @category models
 * @since 0.1.0
 */
export interface TurnOutcome {
  readonly turn: number | undefined
  readonly cause: Session.TurnCause
  readonly text: string
  readonly output: ReadonlyArray<OutputPart>
  readonly usage: Session.Usage
  readonly concluded: Option.Option<{ readonly tool: string; readonly toolCallId: string }>
}

/**
 * A message that was sent into a running agent was not delivered, and nothing of it is stored (S89), unless the reason
 * is `unconfirmed`.
 *
 * - `settled`: no turn is running
 * - `concluded`, `captured`: a tool has concluded the turn; `captured` when it recorded the structured result
 * - `cancelled`: the turn is being cancelled
 * - `disposed`: the agent is closed
 * - `unconfirmed`: it was written, and the store could not say that it is safe: the log may hold it
 *
 * @category errors
 * @since 0.1.0
 */
export class SteerRejected extends Schema.TaggedError<SteerRejected>("effect-subagent/SteerRejected")("SteerRejected", {
  reason: Schema.Literals(["settled", "concluded", "captured", "cancelled", "disposed", "unconfirmed"])
}) {
  override get message(): string {
    return this.reason === "unconfirmed"
      ? "the message may or may not be delivered: it was written, and the store could not say that it is safe"
      : `the message was not delivered: ${why[this.reason]}`
  }
}

const why = {
  settled: "the agent has settled",
  concluded: "its turn is concluded",
  captured: "its structured result is recorded already",
  cancelled: "it is being cancelled",
  disposed: "it is closed"
}

/**
 * The agent is closed: it takes no more messages.
 *
 * @category errors
 * @since 0.1.0
 */
export class AgentClosed extends Schema.TaggedError<AgentClosed>("effect-subagent/AgentClosed")("AgentClosed", {
  sessionId: Schema.String
}) {
  override get message(): string {
    return `agent ${this.sessionId} is closed`
  }
}

/**
 * A message of this id is in the session already, or on its way there: nothing of this one is stored, and no turn runs
 * for it. A message that was dropped before it was stored may be sent again.
 *
 * @category errors
 * @since 0.1.0
 */
export class DuplicateMessage extends Schema.TaggedError<DuplicateMessage>("effect-subagent/DuplicateMessage")(
  "DuplicateMessage",
  { sessionId: Schema.String, messageId: Schema.String }
) {
  override get message(): string {
    return `session ${this.sessionId} has a message ${this.messageId} already`
  }
}

/**
 * An agent was asked for with an option that cannot be: which, and what would be right.
 *
 * @category errors
 * @since 0.1.0
 */
export class InvalidAgent extends Schema.TaggedError<InvalidAgent>("effect-subagent/InvalidAgent")("InvalidAgent", {
  field: Schema.String,
  issue: Schema.String
}) {
  override get message(): string {
    return `${this.field}: ${this.issue}`
  }
}

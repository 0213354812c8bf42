/**
 * Describes a session: its header, the events of its log, and the one fold that turns the log into a prompt.
 *
 * A session is append-only: events carry a contiguous `seq` from 0 and are never rewritten. What a model sees is
 * always the fold of the log, so a session that was stored, copied or repaired continues exactly where the log ends.
 *
 * @since 0.1.0
 */
import * as Prompt from "effect/ai/Prompt"
import * as Result from "effect/Result"
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

const knownTags: ReadonlySet<string> = new Set(KnownEvent.members.map((member) => member.fields._tag.schema.literal))

const isRecord = (u: unknown): u is { readonly [key: string]: unknown } =>
  typeof u === "object" && u !== null && !Array.isArray(u)

const isNatural = (u: unknown): u is number => typeof u === "number" && Number.isSafeInteger(u) && u >= 0

const codec = Schema.toCodecJson(KnownEvent)
const decodeKnown = Schema.decodeUnknownResult(codec)
const encodeKnown = Schema.encodeSync(codec)

/**
 * Decodes one event from plain JSON. Fails with a sentence that says what was wrong; an unknown tag with a valid `seq`
 * is not an error but an {@link UnknownEvent}.
 *
 * @category codecs
 * @since 0.1.0
 */
export const decodeEvent = (json: unknown): Result.Result<Event, string> => {
  if (!isRecord(json)) return Result.fail("an event must be a JSON object")
  if (typeof json._tag === "string" && !knownTags.has(json._tag)) {
    return isNatural(json.seq) && isNatural(json.at)
      ? Result.succeed({ _tag: "Unknown", seq: json.seq, at: json.at, raw: json })
      : Result.fail(`an event of unknown tag ${JSON.stringify(json._tag)} without a natural "seq" and "at"`)
  }
  return Result.mapError(decodeKnown(json), (error) => error.message)
}

/**
 * Encodes one event to plain JSON. Total: an event of this module's types always encodes.
 *
 * @category codecs
 * @since 0.1.0
 */
export const encodeEvent = (event: Event): unknown => event._tag === "Unknown" ? event.raw : encodeKnown(event)

const headerCodec = Schema.toCodecJson(Header)
const decodeKnownHeader = Schema.decodeUnknownResult(headerCodec)

/**
 * Encodes a header to plain JSON.
 *
 * @category codecs
 * @since 0.1.0
 */
export const encodeHeader: (header: Header) => unknown = Schema.encodeSync(headerCodec)

/**
 * Decodes a header from plain JSON. Fails with a sentence that says what was wrong; a newer major version is refused
 * by name.
 *
 * @category codecs
 * @since 0.1.0
 */
export const decodeHeader = (json: unknown): Result.Result<Header, string> => {
  if (isRecord(json) && typeof json.version === "number" && json.version > 1) {
    return Result.fail(`session format ${json.version} is newer than format 1, the newest that this version reads`)
  }
  return Result.mapError(decodeKnownHeader(json), (error) => error.message)
}

// -----------------------------------------------------------------------------
// fold
// -----------------------------------------------------------------------------

/**
 * The state that a log folds to. Mutable and kept by whoever appends, so that the next event costs the same at turn
 * 500 as at turn 1.
 *
 * - `messages`: the conversation; treat as read-only and copy before handing it out
 * - `next`: the `seq` of the next event
 * - `turns`: how many turns have started
 * - `openTurn`: the turn that has started and not ended
 * - `pending`: tool calls without a result, by id, with the tool's name
 * - `completed`: how many leading events lie before the end of the last ended turn, that turn's end included
 *
 * @category models
 * @since 0.1.0
 */
export interface Transcript {
  readonly messages: Array<Prompt.Message>
  next: number
  turns: number
  openTurn: number | undefined
  readonly pending: Map<string, string>
  completed: number
  usage: Usage
}

/**
 * The fold of an empty log.
 *
 * @category constructors
 * @since 0.1.0
 */
export const emptyTranscript = (): Transcript => ({
  messages: [],
  next: 0,
  turns: 0,
  openTurn: undefined,
  pending: new Map(),
  completed: 0,
  usage: noUsage
})

/**
 * Folds one more event into a transcript, in place. Does not judge: {@link validate} does.
 *
 * @category combinators
 * @since 0.1.0
 */
export const advance = (self: Transcript, event: Event): void => {
  self.next = event.seq + 1
  switch (event._tag) {
    case "TurnStarted": {
      self.openTurn = event.turn
      self.turns = event.turn + 1
      return
    }
    case "MessageAppended": {
      const message = event.message
      self.messages.push(message)
      if (message.role === "assistant") {
        for (const part of message.content) {
          if (part.type === "tool-call" && !part.providerExecuted) self.pending.set(part.id, part.name)
        }
      } else if (message.role === "tool") {
        for (const part of message.content) {
          if (part.type === "tool-result") self.pending.delete(part.id)
        }
      }
      return
    }
    case "SteeringAdmitted": {
      self.messages.push(event.message)
      return
    }
    case "TurnEnded": {
      self.openTurn = undefined
      self.completed = event.seq + 1
      self.usage = addUsage(self.usage, event.usage)
      return
    }
    case "DescriptorRecorded":
    case "RemoteBound":
    case "Unknown":
      return
  }
}

/**
 * Folds events into a transcript.
 *
 * @category combinators
 * @since 0.1.0
 */
export const fold = (events: Iterable<Event>): Transcript => {
  const transcript = emptyTranscript()
  for (const event of events) advance(transcript, event)
  return transcript
}

/**
 * The conversation of a log as an `effect/ai` prompt, without any system message.
 *
 * @category combinators
 * @since 0.1.0
 */
export const toPrompt = (self: Transcript): Prompt.Prompt => Prompt.fromMessages(self.messages.slice())

/**
 * The leading events up to and including the last `TurnEnded`: what a fork is seeded with. Empty when no turn has
 * ended (S207, S208).
 *
 * @category combinators
 * @since 0.1.0
 */
export const completedPrefix = (events: ReadonlyArray<Event>): ReadonlyArray<Event> => {
  for (let i = events.length - 1; i >= 0; i--) {
    if (events[i]._tag === "TurnEnded") return events.slice(0, i + 1)
  }
  return []
}

/**
 * The tool message that answers every pending call with `text` as a failure, or `undefined` when none is pending.
 *
 * @category combinators
 * @since 0.1.0
 */
export const closePending = (self: Transcript, reason: string): Prompt.ToolMessage | undefined =>
  self.pending.size === 0 ? undefined : Prompt.makeMessage("tool", {
    content: Array.from(self.pending, ([id, name]) =>
      Prompt.makePart("tool-result", {
        id,
        name,
        isFailure: true,
        result: { type: "execution-interrupted", reason },
        providerExecuted: false
      }))
  })

/**
 * The events that close a log whose process died inside a turn: a failed result for each tool call whose outcome is
 * unknown, and the end of the turn as `Interrupted` (S203). Empty for a log that needs none.
 *
 * @category combinators
 * @since 0.1.0
 */
export const repair = (self: Transcript, at: number): ReadonlyArray<KnownEvent> => {
  if (self.openTurn === undefined) return []
  const events: Array<KnownEvent> = []
  const closing = closePending(self, "the process ended while the tool ran: its outcome is unknown")
  if (closing !== undefined) events.push({ _tag: "MessageAppended", seq: self.next, at, message: closing })
  events.push({
    _tag: "TurnEnded",
    seq: self.next + events.length,
    at,
    turn: self.openTurn,
    cause: { _tag: "Interrupted" },
    usage: noUsage
  })
  return events
}

// -----------------------------------------------------------------------------
// validation
// -----------------------------------------------------------------------------

/**
 * A broken invariant of a log: what, and at which event.
 *
 * @category models
 * @since 0.1.0
 */
export interface Violation {
  readonly seq: number
  readonly issue: string
}

/**
 * Names every broken invariant of a log with the `seq` at which it shows: contiguous `seq` from 0, turns that open and
 * close in order, model and tool messages inside turns only, one result for each tool call and none without, no tool
 * call left open at the end of a turn, each message id admitted once, a seed that ends with a turn.
 *
 * An open turn at the end of the log is not a violation: its writer may still be at work.
 *
 * @category combinators
 * @since 0.1.0
 */
export const validate = (header: Header, events: Iterable<Event>): ReadonlyArray<Violation> => {
  const violations: Array<Violation> = []
  const transcript = emptyTranscript()
  const messageIds = new Set<string>()
  const seedLength = header.seedLength ?? 0
  let count = 0
  for (const event of events) {
    const report = (issue: string) => void violations.push({ seq: event.seq, issue })
    if (event.seq !== count) report(`seq ${event.seq} where ${count} was due`)
    count++
    const open = transcript.openTurn
    switch (event._tag) {
      case "TurnStarted": {
        if (open !== undefined) report(`turn ${event.turn} starts inside turn ${open}`)
        if (event.turn !== transcript.turns) report(`turn ${event.turn} where turn ${transcript.turns} was due`)
        break
      }
      case "TurnEnded": {
        if (open !== event.turn) {
          report(`turn ${event.turn} ends ${open === undefined ? "outside a turn" : `inside turn ${open}`}`)
        }
        for (const id of transcript.pending.keys()) report(`turn ${event.turn} ends with tool call ${id} unanswered`)
        transcript.pending.clear()
        break
      }
      case "MessageAppended": {
        checkMessage(transcript, event.message, report)
        break
      }
      case "SteeringAdmitted": {
        if (open === undefined) report("steering is admitted outside a turn")
        break
      }
      case "DescriptorRecorded":
      case "RemoteBound":
      case "Unknown":
        break
    }
    if ((event._tag === "MessageAppended" || event._tag === "SteeringAdmitted") && event.messageId !== undefined) {
      if (messageIds.has(event.messageId)) report(`message ${event.messageId} is admitted twice`)
      messageIds.add(event.messageId)
    }
    if (event.seq === seedLength - 1 && event._tag !== "TurnEnded") report("the seed does not end with a turn's end")
    advance(transcript, event)
  }
  if (seedLength > count) {
    violations.push({ seq: count, issue: `the seed is ${seedLength} events long and the log only ${count}` })
  }
  return violations
}

const checkMessage = (transcript: Transcript, message: Prompt.Message, report: (issue: string) => void): void => {
  if (message.role === "system") return report("a system message in the log")
  if (message.role === "user") return
  if (transcript.openTurn === undefined) report(`a message of role ${message.role} outside a turn`)
  if (message.role === "assistant") {
    for (const id of transcript.pending.keys()) report(`the model is asked again with tool call ${id} unanswered`)
    for (const part of message.content) {
      if (part.type === "tool-call" && !part.providerExecuted && transcript.pending.has(part.id)) {
        report(`tool call id ${part.id} is used twice`)
      }
    }
    return
  }
  for (const part of message.content) {
    if (part.type === "tool-result" && !transcript.pending.has(part.id)) {
      report(`a result for tool call ${part.id}, which is not open`)
    }
  }
}

/**
 * Folds a log into the conversation that a model sees, and closes what a dead process left open.
 */
import * as Prompt from "effect/ai/Prompt"
import { addUsage, type Event, type KnownEvent, noUsage, type Usage } from "./events.ts"

/**
 * The state that a log folds to. Mutable and kept by whoever appends, so that the next event costs the same at turn
 * 500 as at turn 1.
 *
 * - `messages`: the conversation; treat as read-only and copy before handing it out
 * - `next`: the `seq` of the next event
 * - `turns`: how many turns have started
 * - `openTurn`: the turn that has started and not ended
 * - `pending`: tool calls without a result, by id, with the tool's name
 * - `messageIds`: the ids of the messages that were admitted under one; `undefined` before the first
 * - `completed`: how many leading events lie before the end of the last ended turn, that turn's end included
 * - `usage`: what the ended turns used, those of a copied prefix included
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
  messageIds: Set<string> | undefined
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
  messageIds: undefined,
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
      if (event.messageId !== undefined) admitId(self, event.messageId)
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
      admitId(self, event.messageId)
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

const admitId = (self: Transcript, id: string): void => {
  const ids = self.messageIds ??= new Set()
  ids.add(id)
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
 * The tool message that answers every pending call with a failure that says the `reason`, or `undefined` when none is pending.
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

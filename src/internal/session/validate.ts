/**
 * Judges a log: names every broken invariant, and where.
 */
import type * as Prompt from "effect/ai/Prompt"
import type { Event, Header } from "./events.ts"
import { advance, emptyTranscript, type Transcript } from "./transcript.ts"

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
      if (transcript.messageIds?.has(event.messageId)) report(`message ${event.messageId} is admitted twice`)
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

/**
 * Describes a session: its header, the events of its log, and the one fold that turns the log into a prompt.
 *
 * A session is append-only: events carry a contiguous `seq` from 0 and are never rewritten. What a model sees is
 * always the fold of the log, so a session that was stored, copied or repaired continues exactly where the log ends.
 *
 * @since 0.1.0
 */
export {
  AbortCause,
  addUsage,
  DescriptorRecorded,
  type Event,
  Header,
  KnownEvent,
  MessageAppended,
  noUsage,
  Origin,
  RemoteBound,
  SessionId,
  Source,
  SteeringAdmitted,
  TurnCause,
  TurnEnded,
  TurnStarted,
  type UnknownEvent,
  Usage
} from "./internal/session/events.ts"

export { decodeEvent, decodeHeader, encodeEvent, encodeHeader } from "./internal/session/codec.ts"

export {
  advance,
  closePending,
  completedPrefix,
  emptyTranscript,
  fold,
  repair,
  toPrompt,
  type Transcript
} from "./internal/session/transcript.ts"

export { validate, type Violation } from "./internal/session/validate.ts"

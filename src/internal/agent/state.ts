/**
 * Holds what a live agent is at one moment. Mutable, and touched by one fiber at a time between two suspension points.
 */
import type * as LanguageModel from "effect/ai/LanguageModel"
import type * as Prompt from "effect/ai/Prompt"
import type * as Context from "effect/Context"
import type * as Deferred from "effect/Deferred"
import type * as Fiber from "effect/Fiber"
import type * as Semaphore from "effect/Semaphore"
import type { Resolved } from "../../AgentTools.ts"
import type { CurrentAgent, Lifetime } from "../../CurrentAgent.ts"
import type * as Session from "../../Session.ts"
import type { SessionLog } from "../../SessionStore.ts"
import type { Section, SystemPrompt } from "../../SystemPrompt.ts"
import type { Broadcast } from "../session/broadcast.ts"
import type { Behaviour } from "./composition.ts"
import type { Calls, Concluded } from "./dispatch.ts"
import type { OutputPart, Progress, SteerRejected, TurnOutcome } from "./model.ts"

/** @internal A message on its way into the conversation. */
export interface Waiting {
  readonly message: Prompt.UserMessage
  readonly source: Session.Source
  readonly messageId: string
  /** Told when the message is committed, or that it never will be. */
  readonly receipt: Deferred.Deferred<void, SteerRejected> | undefined
}

/** @internal A message that opens a turn, with what holds where it was sent. */
export interface Queued extends Waiting {
  readonly context: Context.Context<never>
  readonly outcome: Deferred.Deferred<TurnOutcome> | undefined
}

/** @internal From `flushing` on it is settled how the turn ends, and that its end will be written. */
export type Phase = "opening" | "open" | "concluded" | "flushing" | "ended"

/** @internal The turn that runs. */
export interface Turn {
  readonly queued: Queued
  phase: Phase
  number: number | undefined
  /** What can be interrupted of it, once it is there. */
  fiber: Fiber.Fiber<unknown, unknown> | undefined
  abort: Session.AbortCause | undefined
  /** Set when the turn did not end in time and was given up: whatever still runs of it can write no more. */
  fenced: boolean
  /** The steer reason of a concluded turn. */
  captured: boolean
  cause: Session.TurnCause
  usage: Session.Usage
  text: string
  output: ReadonlyArray<OutputPart>
  streamed: string
  concluded: Concluded | undefined
  startedAt: number
  /** Steering that is on its way into the log. */
  admitting: ReadonlyArray<Waiting>
  /** Whether the log may hold that steering, of which the store has not said yet that it is safe. */
  unconfirmed: boolean
  /** Gives the turn up when it does not end in time. */
  watchdog: Fiber.Fiber<void> | undefined
  /** The tool calls that run. */
  calls: Calls | undefined
  readonly lifetime: Lifetime
  readonly done: Deferred.Deferred<void>
}

/** @internal What stays the same over an agent's life. */
export interface Setup extends Behaviour {
  readonly header: Session.Header
  readonly log: SessionLog
  readonly model: LanguageModel.LanguageModel
  readonly identity: Omit<CurrentAgent["Service"], "lifetime">
  readonly tools: () => Resolved
  readonly systemPrompt: SystemPrompt["Service"]
  readonly sections: ReadonlyArray<Section>
  /** The concluding tool without which a turn is not complete. */
  readonly output: string | undefined
}

/** @internal */
export interface State extends Setup {
  readonly transcript: Session.Transcript
  readonly inbox: Array<Queued>
  readonly steering: Array<Waiting>
  readonly injected: Array<Waiting>
  readonly progress: Broadcast<Progress>
  /** Held by whoever writes to the log, where that may take time. */
  writing: Semaphore.Semaphore | undefined
  turn: Turn | undefined
  /** Ids of senders' own, from when they are sent until they turn out not to be stored. */
  claimed: Set<string> | undefined
  closed: boolean
  /** Ends when the agent closes. */
  readonly lifetime: Lifetime
  last: TurnOutcome | undefined
  /** What was used since the agent became live. */
  usage: Session.Usage
  /** Who waits for it to be idle. */
  idle: Array<() => void> | undefined
  /** What outlived its grace, for people. */
  readonly survivors: Array<string>
}

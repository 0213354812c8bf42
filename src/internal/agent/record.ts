/**
 * Writes what happens to an agent to its log, and folds it.
 *
 * There is one writer at a time, and nothing comes in between writing and folding: a message that arrives while an
 * event is on its way to a slow store waits for it, and an interruption cannot part the log from its fold.
 */
import * as Prompt from "effect/ai/Prompt"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Fiber from "effect/Fiber"
import * as Semaphore from "effect/Semaphore"
import * as Session from "../../Session.ts"
import type { AppendError } from "../../SessionStore.ts"
import { flushNowOf } from "../session/atOnce.ts"
import { messageIdUnsafe } from "../session/ids.ts"
import { attempt, exitOf } from "../session/now.ts"
import { type Calls, interruptedResult } from "./dispatch.ts"
import { notJson, toJson } from "./json.ts"
import { SteerRejected } from "./model.ts"
import type { State, Turn, Waiting } from "./state.ts"

/** @internal An event whose place and time the log gives. */
export type Draft = Session.KnownEvent extends infer E ? E extends unknown ? Omit<E, "seq" | "at"> : never : never

/** @internal See {@link now}. */
export const nowUnsafe = (context: Context.Context<never>): number =>
  Math.floor(Context.get(context, Clock.Clock).currentTimeMillisUnsafe())

/** @internal Whole milliseconds since the epoch: some clocks know parts of them, and logs do not. */
export const now: Effect.Effect<number> = Effect.withFiber((fiber) => Effect.succeed(nowUnsafe(fiber.context)))

const fold = (state: State, events: ReadonlyArray<Session.KnownEvent>): void => {
  for (const event of events) Session.advance(state.transcript, event)
}

/** @internal As {@link commit}, in `context`: an exit where the log takes the events at once. */
export const commitNow = (
  context: Context.Context<never>,
  state: State,
  turn: Turn | undefined,
  make: () => ReadonlyArray<Draft>
): Effect.Effect<void, AppendError> => {
  const { appendUnsafe } = state.log
  if (appendUnsafe === undefined) {
    state.writing ??= Semaphore.makeUnsafe(1)
    return Effect.uninterruptible(state.writing.withPermit(Effect.suspend(() => {
      const events = stamped(state, turn, make, context)
      if (events === undefined) return Effect.interrupt
      return events.length === 0 ? Effect.void : Effect.map(state.log.append(events), () => fold(state, events))
    })))
  }
  const events = stamped(state, turn, make, context)
  if (events === undefined) return Effect.interrupt
  if (events.length === 0) return Effect.void
  const exit = appendUnsafe(events)
  if (Exit.isSuccess(exit)) fold(state, events)
  return exit
}

/** @internal Appends the events that `make` says once it is their turn; a fenced turn can no longer. */
export const commit = (
  state: State,
  turn: Turn | undefined,
  make: () => ReadonlyArray<Draft>
): Effect.Effect<void, AppendError> => Effect.withFiber(({ context }) => commitNow(context, state, turn, make))

const stamped = (
  state: State,
  turn: Turn | undefined,
  make: () => ReadonlyArray<Draft>,
  context: Context.Context<never>
): ReadonlyArray<Session.KnownEvent> | undefined => {
  if (turn?.fenced === true) return undefined
  const at = nowUnsafe(context)
  const { next } = state.transcript
  const events: Array<Session.KnownEvent> = []
  // sound: a draft is an event without exactly these two fields
  for (const draft of make()) events.push({ ...draft, seq: next + events.length, at } as Session.KnownEvent)
  return events
}

/** @internal Whether the log holds a message of this id, or one is on its way there. */
export const isTaken = ({ claimed, transcript }: State, messageId: string): boolean =>
  transcript.messageIds?.has(messageId) === true || claimed?.has(messageId) === true

/** @internal An id that is new to the session: where chance is seeded, it makes those of an earlier run again. */
export const newMessageId = (state: State, fiber: Fiber.Fiber<unknown, unknown>): string => {
  let id = messageIdUnsafe(fiber)
  while (isTaken(state, id)) id = messageIdUnsafe(fiber)
  return id
}

/** @internal */
export const appended = (waiting: Waiting): Draft => ({
  _tag: "MessageAppended",
  message: waiting.message,
  source: waiting.source,
  messageId: waiting.messageId
})

/** @internal */
export const said = (message: Prompt.Message): Draft => ({ _tag: "MessageAppended", message })

/** @internal Why a message cannot be steered into a turn that runs, if so. */
export const steerable = (turn: Turn): SteerRejected["reason"] | undefined => {
  if (turn.phase === "concluded" || turn.concluded !== undefined) return turn.captured ? "captured" : "concluded"
  return turn.abort === undefined ? undefined : "cancelled"
}

const unknown = { type: "execution-interrupted", reason: "the turn was interrupted: the outcome is unknown" }
const notBegun = { type: "execution-interrupted", reason: "the turn was interrupted before the call began" }

// what the interrupted calls themselves want their results to be
const wishes = Effect.fnUntraced(function*(calls: Calls) {
  const results = new Map<string, unknown>()
  for (const [id, wish] of calls.wishes) {
    const result = yield* Effect.catchCause(
      Effect.flatMap(Effect.sync(wish), toJson),
      (cause) => Effect.as(Effect.logError("the result of an interrupted tool call could not be made", cause), notJson)
    )
    if (result !== notJson) results.set(id, result)
  }
  return results
})

const endOf =
  (state: State, turn: Turn, wished: ReadonlyMap<string, unknown> | undefined) => (): ReadonlyArray<Draft> => {
    const { transcript } = state
    const { calls } = turn
    const drafts: Array<Draft> = []
    if (turn.number !== undefined && transcript.openTurn === turn.number) {
      if (transcript.pending.size > 0) {
        drafts.push(said(Prompt.makeMessage("tool", {
          content: Array.from(transcript.pending, ([id, name]) => {
            const wish = wished?.has(id) === true ? wished.get(id) : calls?.begun.has(id) === true ? unknown : notBegun
            return calls?.results.get(id) ?? interruptedResult(id, name, wish)
          })
        })))
      }
      drafts.push({ _tag: "TurnEnded", turn: turn.number, cause: turn.cause, usage: turn.usage })
    }
    for (const waiting of state.injected.splice(0)) drafts.push(appended(waiting))
    return drafts
  }

/**
 * @internal Writes the end of a turn in `context`, if the turn has begun, as `turn.cause` says: every call answered, then why it ended,
 * then what was added to the conversation without being asked for. Never fails.
 */
export const writeEnd = (context: Context.Context<never>, state: State, turn: Turn): Effect.Effect<void> => {
  const written = attempt(() => {
    turn.usage = { ...turn.usage, elapsed: nowUnsafe(context) - turn.startedAt }
    if (state.steering.length > 0) {
      for (const { receipt } of state.steering.splice(0)) {
        if (receipt !== undefined) {
          Deferred.doneUnsafe(receipt, Exit.fail(new SteerRejected({ reason: steerable(turn) ?? "settled" })))
        }
      }
    }
    const { calls } = turn
    return calls === undefined || calls.wishes.size === 0
      ? commitNow(context, state, undefined, endOf(state, turn, undefined))
      : Effect.flatMap(wishes(calls), (wished) => commitNow(context, state, undefined, endOf(state, turn, wished)))
  })
  return exitOf(written)?._tag === "Success" ? Effect.void : Effect.catchCause(
    written,
    (cause) => Effect.logWarning(`the end of a turn of session ${state.header.id} could not be written`, cause)
  )
}

/** @internal Makes the log as safe as its store can, as well as it can. Never fails. */
export const flushed = (state: State): Effect.Effect<void> => {
  const { flush } = state.log
  const flushNow = flushNowOf(flush)
  const done = flushNow === undefined ? flush : flushNow()
  return exitOf(done)?._tag === "Success" ? Effect.void : Effect.catchCause(
    done,
    (cause) => Effect.logWarning(`session ${state.header.id} could not be flushed at the end of a turn`, cause)
  )
}

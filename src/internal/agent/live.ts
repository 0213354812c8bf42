/**
 * The operations of a live agent: what goes into its inbox, what is steered into its turn, and how it stops.
 *
 * No turn is ever awaited without bound: one that does not end within the grace after its interruption is given up,
 * fenced off from the log, and counted.
 */
import * as Prompt from "effect/ai/Prompt"
import type * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Fiber from "effect/Fiber"
import { Lifetime } from "../../CurrentAgent.ts"
import * as Session from "../../Session.ts"
import type { AppendError } from "../../SessionStore.ts"
import { Broadcast } from "../session/broadcast.ts"
import { messageId } from "../session/ids.ts"
import { AgentClosed, type Content, type Progress, SteerRejected, type TurnOutcome } from "./model.ts"
import type { Queued, Setup, State, Turn, Waiting } from "./state.ts"
import { commit, outcomeOf, runTurn, steerable, writeEnd } from "./turn.ts"

/** @internal */
export const makeState = (setup: Setup, transcript: Session.Transcript): State => ({
  ...setup,
  transcript,
  inbox: [],
  steering: [],
  injected: [],
  progress: new Broadcast<Progress>((count) => ({ _tag: "Dropped", count })),
  turn: undefined,
  closed: false,
  lifetime: new Lifetime(),
  last: undefined,
  usage: Session.noUsage,
  idle: new Set(),
  survivors: []
})

const userMessage = (content: Content): Prompt.UserMessage =>
  Prompt.makeMessage("user", {
    content: typeof content === "string" ? [Prompt.makePart("text", { text: content })] : content.slice()
  })

/** @internal */
export interface Delivery {
  readonly source?: Session.Source | undefined
  readonly messageId?: string | undefined
}

const asUser: Session.Source = { kind: "user" }

const toWaiting = <A>(
  content: Content,
  options: Delivery | undefined,
  make: (waiting: Omit<Waiting, "receipt">) => A
): Effect.Effect<A> =>
  Effect.map(
    options?.messageId === undefined ? messageId : Effect.succeed(options.messageId),
    (id) => make({ message: userMessage(content), source: options?.source ?? asUser, messageId: id })
  )

const startNext = (state: State): Effect.Effect<void> => {
  const queued = state.inbox.shift()
  if (queued === undefined) return Effect.void
  const turn: Turn = {
    queued,
    phase: "opening",
    number: undefined,
    fiber: undefined,
    abort: undefined,
    fenced: false,
    captured: false,
    cause: { _tag: "Completed" },
    usage: Session.noUsage,
    text: "",
    output: [],
    streamed: "",
    concluded: undefined,
    startedAt: 0,
    results: new Map(),
    interrupted: new Map(),
    lifetime: new Lifetime(),
    done: Deferred.makeUnsafe()
  }
  state.turn = turn
  return Effect.map(
    Effect.forkDetach(
      Effect.provideContext(runTurn(state, turn, finish(state, turn)), queued.context),
      { startImmediately: true }
    ),
    (fiber) => {
      turn.fiber = fiber
    }
  )
}

// the end of a turn, also of one that was given up: the next in the inbox, or idle
const finish = (state: State, turn: Turn): Effect.Effect<void> =>
  Effect.suspend(() => {
    turn.phase = "ended"
    const outcome = outcomeOf(turn)
    state.last = outcome
    state.usage = Session.addUsage(state.usage, outcome.usage)
    state.turn = undefined
    // what was started in this turn and lives on ends with the agent
    if (turn.lifetime.observed) state.lifetime.onEnd(() => turn.lifetime.end("closed"))
    const { queued } = turn
    if (queued.receipt !== undefined) {
      Deferred.doneUnsafe(queued.receipt, Exit.fail(new SteerRejected({ reason: "cancelled" })))
    }
    if (queued.outcome !== undefined) Deferred.doneUnsafe(queued.outcome, Exit.succeed(outcome))
    Deferred.doneUnsafe(turn.done, Exit.void)
    if (state.inbox.length > 0) return startNext(state)
    const idle = Array.from(state.idle)
    state.idle.clear()
    for (const resume of idle) resume()
    return Effect.void
  })

/** @internal Waits until no turn runs and none is queued. */
export const idle = (state: State): Effect.Effect<void> =>
  Effect.suspend(() =>
    state.turn === undefined ? Effect.void : Effect.callback<void>((resume) => {
      const wake = () => resume(Effect.void)
      state.idle.add(wake)
      return Effect.sync(() => state.idle.delete(wake))
    })
  )

const enqueue = (
  state: State,
  content: Content,
  options: Delivery | undefined,
  outcome: Deferred.Deferred<TurnOutcome> | undefined
): Effect.Effect<void, AgentClosed> =>
  Effect.contextWith((context: Context.Context<never>) =>
    Effect.flatMap(
      toWaiting(content, options, (waiting): Queued => ({ ...waiting, receipt: undefined, context, outcome })),
      (queued): Effect.Effect<void, AgentClosed> => {
        if (state.closed) return Effect.fail(new AgentClosed({ sessionId: state.header.id }))
        state.inbox.push(queued)
        return state.turn === undefined ? startNext(state) : Effect.void
      }
    )
  )

/** @internal Queues a message that opens a turn; wakes an idle agent. */
export const send = (state: State, content: Content, options?: Delivery): Effect.Effect<void, AgentClosed> =>
  Effect.uninterruptible(enqueue(state, content, options, undefined))

/** @internal As {@link send}, and waits for the turn; giving up waiting cancels nothing. */
export const prompt = (state: State, content: Content, options?: Delivery): Effect.Effect<TurnOutcome, AgentClosed> =>
  Effect.suspend(() => {
    const outcome = Deferred.makeUnsafe<TurnOutcome>()
    return Effect.andThen(
      Effect.uninterruptible(enqueue(state, content, options, outcome)),
      Deferred.await(outcome)
    )
  })

const remove = <A>(list: Array<A>, item: A): boolean => {
  const index = list.indexOf(item)
  if (index >= 0) list.splice(index, 1)
  return index >= 0
}

/**
 * @internal Delivers a message into the running turn; returns when it is part of the next request (S87–S92). Giving up
 * waiting before that withdraws it.
 */
export const steer = (
  state: State,
  content: Content,
  source: Session.Source
): Effect.Effect<void, SteerRejected> =>
  Effect.contextWith((context: Context.Context<never>) =>
    Effect.flatMap(
      toWaiting(content, { source }, (waiting) => waiting),
      (waiting): Effect.Effect<void, SteerRejected> => {
        if (state.closed) return Effect.fail(new SteerRejected({ reason: "disposed" }))
        const { turn } = state
        if (turn === undefined) return Effect.fail(new SteerRejected({ reason: "settled" }))
        const rejected = steerable(turn)
        if (rejected !== undefined) return Effect.fail(new SteerRejected({ reason: rejected }))
        const receipt = Deferred.makeUnsafe<void, SteerRejected>()
        if (turn.phase === "flushing") {
          // the turn is over and its run is not: the message opens the next turn of the same run (S91)
          const queued: Queued = { ...waiting, receipt, context, outcome: undefined }
          state.inbox.push(queued)
          return withdrawable(state.inbox, queued, receipt)
        }
        const pending: Waiting = { ...waiting, receipt }
        state.steering.push(pending)
        return withdrawable(state.steering, pending, receipt)
      }
    )
  )

const withdrawable = <A>(
  list: Array<A>,
  item: A,
  receipt: Deferred.Deferred<void, SteerRejected>
): Effect.Effect<void, SteerRejected> =>
  Effect.onInterrupt(Deferred.await(receipt), () => Effect.sync(() => void remove(list, item)))

/** @internal Adds a message without waking the agent: to the next step of a running turn, else to the log at once (S199). */
export const inject = (
  state: State,
  content: Content,
  options?: Delivery
): Effect.Effect<void, AgentClosed | AppendError> =>
  Effect.uninterruptible(Effect.flatMap(
    toWaiting(content, options, (waiting): Waiting => ({ ...waiting, receipt: undefined })),
    (waiting): Effect.Effect<void, AgentClosed | AppendError> => {
      if (state.closed) return Effect.fail(new AgentClosed({ sessionId: state.header.id }))
      if (state.turn !== undefined) {
        state.injected.push(waiting)
        return Effect.void
      }
      return commit(state, undefined, [{
        _tag: "MessageAppended",
        message: waiting.message,
        source: waiting.source,
        messageId: waiting.messageId
      }])
    }
  ))

const dropWaiting = (state: State, reason: SteerRejected["reason"]): void => {
  for (const { receipt } of state.steering.splice(0)) {
    if (receipt !== undefined) Deferred.doneUnsafe(receipt, Exit.fail(new SteerRejected({ reason })))
  }
  for (const { outcome, receipt } of state.inbox.splice(0)) {
    if (receipt !== undefined) Deferred.doneUnsafe(receipt, Exit.fail(new SteerRejected({ reason })))
    if (outcome !== undefined) {
      Deferred.doneUnsafe(
        outcome,
        Exit.succeed({ ...neverOpened, cause: { _tag: "Aborted", cause: reason === "disposed" ? "disposed" : "user" } })
      )
    }
  }
}

const stop = (state: State, turn: Turn): Effect.Effect<void> =>
  Effect.suspend(() => {
    turn.lifetime.end(state.closed ? "closed" : "interrupted")
    // sound: a turn that is in `state.turn` has a fiber as soon as its start returns, which is before anything yields
    const fiber = turn.fiber as Fiber.Fiber<void>
    fiber.interruptUnsafe()
    if (turn.phase === "ended") return Effect.void
    return Effect.flatMap(
      Effect.raceFirst(Effect.as(Deferred.await(turn.done), true), Effect.as(Effect.sleep(state.grace), false)),
      (ended) => ended || turn.phase === "ended" ? Effect.void : giveUp(state, turn)
    )
  })

const giveUp = Effect.fnUntraced(function*(state: State, turn: Turn) {
  turn.fenced = true
  state.survivors.push(`a turn of session ${state.header.id} that ignored its interruption`)
  yield* writeEnd(state, turn, { _tag: "Aborted", cause: turn.abort ?? "disposed" })
  yield* finish(state, turn)
})

/**
 * @internal Ends the running turn and forgets what waits, then waits until the agent is idle, at most for the grace.
 * The first cause counts (S200).
 */
export const interrupt = (state: State, cause: Session.AbortCause): Effect.Effect<void> =>
  Effect.uninterruptible(Effect.suspend(() => {
    dropWaiting(state, "cancelled")
    const { turn } = state
    if (turn === undefined) return Effect.void
    // a turn whose end is recorded only finishes its flush
    if (turn.phase !== "flushing") turn.abort ??= cause
    return stop(state, turn)
  }))

/** @internal Closes the agent for good: nothing of it is alive, or is counted as a survivor, when this returns. */
export const close = (state: State, cause: Session.AbortCause): Effect.Effect<void> =>
  Effect.uninterruptible(Effect.suspend(() => {
    if (state.closed) return Effect.void
    state.closed = true
    dropWaiting(state, "disposed")
    state.lifetime.end("closed")
    const { turn } = state
    if (turn === undefined) {
      state.progress.end()
      return Effect.void
    }
    if (turn.phase !== "flushing") turn.abort ??= cause
    return Effect.andThen(stop(state, turn), Effect.sync(() => state.progress.end()))
  }))

/** @internal The outcome of a run that never had a turn. */
export const neverOpened: TurnOutcome = outcomeOf({
  number: undefined,
  cause: { _tag: "Aborted", cause: "user" },
  usage: Session.noUsage,
  text: "",
  output: [],
  streamed: "",
  concluded: undefined
})

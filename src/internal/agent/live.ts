/**
 * The operations of a live agent: what goes into its inbox, what is steered into its turn, and how it stops.
 *
 * No turn is ever awaited without bound: one that does not end within the grace after its interruption is given up,
 * fenced off from the log, and counted.
 */
import * as Prompt from "effect/ai/Prompt"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Fiber from "effect/Fiber"
import { CallSite } from "../../AgentTools.ts"
import { CurrentAgent, Lifetime } from "../../CurrentAgent.ts"
import * as Session from "../../Session.ts"
import type { AppendError } from "../../SessionStore.ts"
import { awaitWithin } from "../session/bounded.ts"
import { Broadcast } from "../session/broadcast.ts"
import { attempt, exitOf, fromTop } from "../session/now.ts"
import {
  AgentClosed,
  type Content,
  type Delivery,
  DuplicateMessage,
  type Progress,
  SteerRejected,
  type TurnOutcome
} from "./model.ts"
import { appended, commit, isTaken, newMessageId, steerable, writeEnd } from "./record.ts"
import type { Queued, Setup, State, Turn, Waiting } from "./state.ts"
import { outcomeOf, runTurn } from "./turn.ts"

const dropped = (count: number): Progress => ({ _tag: "Dropped", count })

/** @internal */
export const makeState = (setup: Setup, transcript: Session.Transcript): State => ({
  ...setup,
  transcript,
  inbox: [],
  steering: [],
  injected: [],
  progress: new Broadcast(dropped),
  writing: undefined,
  turn: undefined,
  claimed: undefined,
  closed: false,
  lifetime: new Lifetime(),
  last: undefined,
  usage: Session.noUsage,
  idle: undefined,
  survivors: []
})

const userMessage = (content: Content): Prompt.UserMessage =>
  Prompt.makeMessage("user", {
    content: typeof content === "string" ? [Prompt.makePart("text", { text: content })] : content.slice()
  })

const asUser: Session.Source = { kind: "user" }

const toWaiting = (
  state: State,
  fiber: Fiber.Fiber<unknown, unknown>,
  content: Content,
  options: Delivery | undefined
): Omit<Waiting, "receipt"> => ({
  message: userMessage(content),
  source: options?.source ?? asUser,
  messageId: options?.messageId ?? newMessageId(state, fiber)
})

class TurnCallSite implements CallSite {
  readonly #state: State
  readonly #turn: Turn

  constructor(state: State, turn: Turn) {
    this.#state = state
    this.#turn = turn
  }

  get progressWanted(): boolean {
    return this.#state.progress.observed
  }

  onInterrupted(toolCallId: string, result: () => unknown): void {
    this.#turn.calls?.wishes.set(toolCallId, result)
  }
}

const startTurn = (state: State, queued: Queued, later: boolean): void => {
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
    admitting: [],
    unconfirmed: false,
    watchdog: undefined,
    calls: undefined,
    // what was started in the turn and lives on ends with the agent
    lifetime: new Lifetime(state.lifetime),
    done: Deferred.makeUnsafe()
  }
  state.turn = turn
  const identity: CurrentAgent["Service"] = { ...state.identity, lifetime: turn.lifetime }
  const context = Context.add(
    Context.add(queued.context, CurrentAgent, identity),
    CallSite,
    new TurnCallSite(state, turn)
  )
  const run = () => attempt(() => runTurn(context, state, turn, identity, finish))
  // a turn that follows another starts from the top of the stack, and a sender goes on first
  const body = later || fromTop(identity.depth) ? Effect.andThen(Effect.yieldNow, Effect.suspend(run)) : run()
  if (exitOf(body) === undefined) Effect.runForkWith(context)(body, { uninterruptible: true })
}

const reject = ({ receipt }: Waiting, reason: SteerRejected["reason"]): void => {
  if (receipt !== undefined) Deferred.doneUnsafe(receipt, Exit.fail(new SteerRejected({ reason })))
}

// the end of a turn, also of one that was given up: the next in the inbox, or idle
const finish = (state: State, turn: Turn): void => {
  if (turn.phase === "ended") return
  turn.phase = "ended"
  turn.watchdog?.interruptUnsafe()
  const outcome = outcomeOf(turn)
  state.last = outcome
  state.usage = Session.addUsage(state.usage, outcome.usage)
  // nothing of a turn that never opened is stored, nor will be
  if (turn.number === undefined) state.claimed?.delete(turn.queued.messageId)
  state.turn = undefined
  // before anybody learns of the end, who may go on at once: messages keep their order, and no two turns run
  const next = state.inbox.shift()
  if (next !== undefined) startTurn(state, next, true)
  const { queued } = turn
  const reason = state.closed ? "disposed" : "cancelled"
  reject(queued, turn.number === undefined ? reason : "unconfirmed")
  for (const one of turn.admitting) reject(one, turn.unconfirmed ? "unconfirmed" : reason)
  if (queued.outcome !== undefined) Deferred.doneUnsafe(queued.outcome, Exit.succeed(outcome))
  Deferred.doneUnsafe(turn.done, Exit.void)
  if (state.turn !== undefined) return
  const { idle } = state
  state.idle = undefined
  if (idle !== undefined) { for (const resume of idle) resume() }
}

/** @internal Waits until no turn runs and none is queued. */
export const idle = (state: State): Effect.Effect<void> =>
  Effect.suspend(() =>
    state.turn === undefined ? Effect.void : Effect.callback<void>((resume) => {
      const wake = () => resume(Effect.void)
      const idle = state.idle ??= []
      idle.push(wake)
      return Effect.sync(() => remove(idle, wake))
    })
  )

// why a message is not taken; one that is taken has its id for itself from now on
const refusal = (state: State, options: Delivery | undefined): AgentClosed | DuplicateMessage | undefined => {
  const sessionId = state.header.id
  if (state.closed) return new AgentClosed({ sessionId })
  const messageId = options?.messageId
  if (messageId === undefined) return undefined
  if (isTaken(state, messageId)) return new DuplicateMessage({ sessionId, messageId })
  const claimed = state.claimed ??= new Set()
  claimed.add(messageId)
  return undefined
}

const enqueue = (
  state: State,
  fiber: Fiber.Fiber<unknown, unknown>,
  content: Content,
  options: Delivery | undefined,
  outcome: Deferred.Deferred<TurnOutcome> | undefined
): void => {
  const waiting = toWaiting(state, fiber, content, options)
  const queued: Queued = Object.assign(waiting, { receipt: undefined, context: fiber.context, outcome })
  if (state.turn === undefined) startTurn(state, queued, options?.later === true)
  else state.inbox.push(queued)
}

const taking = <A, E>(
  state: State,
  options: Delivery | undefined,
  take: (fiber: Fiber.Fiber<unknown, unknown>) => Effect.Effect<A, E>
): Effect.Effect<A, AgentClosed | DuplicateMessage | E> =>
  Effect.withFiber((fiber): Effect.Effect<A, AgentClosed | DuplicateMessage | E> => {
    const refused = refusal(state, options)
    return refused === undefined ? take(fiber) : Effect.fail(refused)
  })

/** @internal Queues a message that opens a turn; wakes an idle agent. */
export const send = (
  state: State,
  content: Content,
  options?: Delivery
): Effect.Effect<void, AgentClosed | DuplicateMessage> =>
  taking(state, options, (fiber) => {
    enqueue(state, fiber, content, options, undefined)
    return Effect.void
  })

/** @internal As {@link send}, from inside `fiber`; a closed agent hears nothing. */
export const sendNow = (
  fiber: Fiber.Fiber<unknown, unknown>,
  state: State,
  content: Content,
  options: Delivery
): void => {
  if (!state.closed) enqueue(state, fiber, content, options, undefined)
}

/** @internal As {@link send}, and waits for the turn; giving up waiting cancels nothing. */
export const prompt = (
  state: State,
  content: Content,
  options?: Delivery
): Effect.Effect<TurnOutcome, AgentClosed | DuplicateMessage> =>
  taking(state, options, (fiber) => {
    const outcome = Deferred.makeUnsafe<TurnOutcome>()
    enqueue(state, fiber, content, options, outcome)
    return Deferred.await(outcome)
  })

const remove = <A>(list: Array<A>, item: A): void => {
  const index = list.indexOf(item)
  if (index >= 0) list.splice(index, 1)
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
  Effect.uninterruptibleMask((restore) =>
    Effect.withFiber((fiber): Effect.Effect<void, SteerRejected> => {
      const waiting = toWaiting(state, fiber, content, { source })
      if (state.closed) return Effect.fail(new SteerRejected({ reason: "disposed" }))
      const { turn } = state
      if (turn === undefined) return Effect.fail(new SteerRejected({ reason: "settled" }))
      const rejected = steerable(turn)
      if (rejected !== undefined) return Effect.fail(new SteerRejected({ reason: rejected }))
      const receipt = Deferred.makeUnsafe<void, SteerRejected>()
      const withdrawable = <A>(list: Array<A>, item: A) => {
        list.push(item)
        return Effect.onInterrupt(restore(Deferred.await(receipt)), () => Effect.sync(() => remove(list, item)))
      }
      // once the turn is over and its run is not, the message opens the next turn of the same run (S91)
      return turn.phase === "flushing"
        ? withdrawable<Queued>(state.inbox, { ...waiting, receipt, context: fiber.context, outcome: undefined })
        : withdrawable<Waiting>(state.steering, { ...waiting, receipt })
    })
  )

/** @internal Adds a message without waking the agent: to the next step of a running turn, else to the log at once (S199). */
export const inject = (
  state: State,
  content: Content,
  options?: Delivery
): Effect.Effect<void, AgentClosed | DuplicateMessage | AppendError> =>
  taking(state, options, (fiber) => {
    const waiting: Waiting = { ...toWaiting(state, fiber, content, options), receipt: undefined }
    if (state.turn === undefined || state.turn.phase === "flushing") {
      return Effect.onError(
        commit(state, undefined, () => [appended(waiting)]),
        () => Effect.sync(() => void state.claimed?.delete(waiting.messageId))
      )
    }
    state.injected.push(waiting)
    return Effect.void
  })

const dropWaiting = (state: State, reason: SteerRejected["reason"], cause: Session.AbortCause): void => {
  for (const one of state.steering.splice(0)) reject(one, reason)
  for (const one of state.inbox.splice(0)) {
    state.claimed?.delete(one.messageId)
    reject(one, reason)
    if (one.outcome !== undefined) {
      Deferred.doneUnsafe(one.outcome, Exit.succeed({ ...neverOpened, cause: { _tag: "Aborted", cause } }))
    }
  }
}

// a turn has its grace, and what it delegated has its own before that: only then is it the turn that does not end
const patience = (state: State, turn: Turn): Effect.Effect<void> =>
  Effect.flatMap(Effect.sleep(state.grace), () => {
    if (!turn.lifetime.held) return Effect.void
    const free = Effect.callback<void>((resume) => Effect.sync(turn.lifetime.onFree(() => resume(Effect.void))))
    return Effect.andThen(free, () => patience(state, turn))
  })

// interrupts the running turn, sees to it that it ends, and waits for that
const stop = (
  state: State,
  turn: Turn,
  cause: Session.AbortCause,
  lifetime: Lifetime,
  how: "interrupted" | "closed"
): Effect.Effect<void> =>
  Effect.uninterruptibleMask((restore) =>
    Effect.suspend(() => {
      // a turn whose end is settled only writes it
      if (turn.phase !== "flushing") turn.abort ??= cause
      // the turn goes first: it must not act on what becomes of those that it delegated to
      lifetime.end(how, () => turn.fiber?.interruptUnsafe())
      const ended = restore(Deferred.await(turn.done))
      if (turn.phase === "ended" || turn.watchdog !== undefined) return ended
      return Effect.flatMap(
        Effect.forkDetach(Effect.andThen(patience(state, turn), giveUp(state, turn)), { startImmediately: true }),
        (fiber) => {
          turn.watchdog = fiber
          return ended
        }
      )
    })
  )

/** How long the end of a turn that was given up may take to be written. */
const lastGrace = Duration.seconds(1)

const giveUp = (state: State, turn: Turn): Effect.Effect<void> =>
  Effect.uninterruptible(Effect.suspend(() => {
    if (turn.phase === "ended") return Effect.void
    turn.fenced = true
    const what = turn.phase === "flushing" ? "whose end could not be stored" : "that ignored its interruption"
    state.survivors.push(`a turn of session ${state.header.id} ${what}`)
    // what it came to is settled before it is stored
    if (turn.phase !== "flushing") turn.cause = { _tag: "Aborted", cause: turn.abort ?? "disposed" }
    turn.phase = "flushing"
    return Effect.flatMap(
      Effect.forkDetach(Effect.withFiber(({ context }) => writeEnd(context, state, turn)), {
        startImmediately: true,
        uninterruptible: true
      }),
      (fiber) => Effect.map(awaitWithin(fiber, lastGrace), () => finish(state, turn))
    )
  }))

/**
 * @internal Ends the running turn and forgets what waits, then waits for its end, which comes within the grace. The
 * first cause counts (S200). Giving up waiting changes nothing.
 */
export const interrupt = (state: State, cause: Session.AbortCause): Effect.Effect<void> =>
  Effect.suspend(() => {
    dropWaiting(state, "cancelled", cause)
    const { turn } = state
    return turn === undefined ? Effect.void : stop(state, turn, cause, turn.lifetime, "interrupted")
  })

/**
 * @internal Closes the agent for good: nothing of it is alive, or is counted as a survivor, when the effect is done. An
 * agent that is idle is closed by the call itself, and `cause`, which is why its turn ends, is not asked for.
 */
export const close = (state: State, cause: Effect.Effect<Session.AbortCause>): Effect.Effect<void> => {
  state.closed = true
  if (state.turn === undefined) {
    state.lifetime.end("closed")
    state.progress.end()
    return Effect.void
  }
  return Effect.uninterruptible(Effect.flatMap(cause, (cause) => {
    dropWaiting(state, "disposed", cause)
    const { turn } = state
    const stopped = turn === undefined
      ? Effect.sync(() => state.lifetime.end("closed"))
      : stop(state, turn, cause, state.lifetime, "closed")
    return Effect.map(stopped, () => state.progress.end())
  }))
}

/** The outcome of a message whose turn never opened. */
const neverOpened: TurnOutcome = outcomeOf({
  number: undefined,
  cause: { _tag: "Aborted", cause: "user" },
  usage: Session.noUsage,
  text: "",
  output: [],
  streamed: "",
  concluded: undefined
})

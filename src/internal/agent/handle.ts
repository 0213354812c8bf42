/**
 * The public face of a live agent. Everything is made when it is asked for: most agents are asked for very little.
 */
import type * as Prompt from "effect/ai/Prompt"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Stream from "effect/Stream"
import type { CurrentAgent } from "../../CurrentAgent.ts"
import type * as Session from "../../Session.ts"
import type { AppendError, ReadError, SessionStore } from "../../SessionStore.ts"
import * as live from "./live.ts"
import type { AgentClosed, Content, Deliver, Delivery, Progress, SteerRejected, TurnOutcome } from "./model.ts"
import type { State } from "./state.ts"

/** @internal */
export class Handle {
  readonly #state: State
  readonly #store: SessionStore["Service"]

  /** What an agent is at this moment; `undefined` for one that is none of ours. */
  static stateOf(agent: object): State | undefined {
    return #state in agent ? agent.#state : undefined
  }

  constructor(state: State, store: SessionStore["Service"]) {
    this.#state = state
    this.#store = store
  }

  get id(): Session.SessionId {
    return this.#state.header.id
  }
  get header(): Session.Header {
    return this.#state.header
  }
  get identity(): CurrentAgent["Service"] {
    return { ...this.#state.identity, lifetime: this.#state.lifetime }
  }
  // the casts are sound: without an id of the sender's own nothing can be a duplicate
  get send(): Deliver<void, AgentClosed> {
    return ((content: Content, options?: Delivery) => live.send(this.#state, content, options)) as Deliver<
      void,
      AgentClosed
    >
  }
  get prompt(): Deliver<TurnOutcome, AgentClosed> {
    return ((content: Content, options?: Delivery) => live.prompt(this.#state, content, options)) as Deliver<
      TurnOutcome,
      AgentClosed
    >
  }
  get steer(): (content: Content, source: Session.Source) => Effect.Effect<void, SteerRejected> {
    return (content, source) => live.steer(this.#state, content, source)
  }
  get inject(): Deliver<void, AgentClosed | AppendError> {
    return ((content: Content, options?: Delivery) => live.inject(this.#state, content, options)) as Deliver<
      void,
      AgentClosed | AppendError
    >
  }
  get interrupt(): (cause: Session.AbortCause) => Effect.Effect<void> {
    return (cause) => live.interrupt(this.#state, cause)
  }
  get idle(): Effect.Effect<void> {
    return live.idle(this.#state)
  }
  get status(): Effect.Effect<"idle" | "running" | "closed"> {
    return Effect.sync(() => this.#state.closed ? "closed" : this.#state.turn === undefined ? "idle" : "running")
  }
  get last(): Effect.Effect<Option.Option<TurnOutcome>> {
    return Effect.sync(() => Option.fromNullishOr(this.#state.last))
  }
  get usage(): Effect.Effect<Session.Usage> {
    return Effect.sync(() => this.#state.usage)
  }
  get transcript(): Effect.Effect<ReadonlyArray<Prompt.Message>> {
    return Effect.sync(() => this.#state.transcript.messages.slice())
  }
  get events(): Stream.Stream<Session.Event, ReadError> {
    return this.#store.read(this.#state.header.id)
  }
  get progress(): Stream.Stream<Progress> {
    return this.#state.progress.stream({ capacity: 1024 })
  }
  get survivors(): Effect.Effect<ReadonlyArray<string>> {
    return Effect.sync(() => this.#state.survivors.slice())
  }
}

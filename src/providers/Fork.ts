/**
 * Starts children in this process that know their parent's conversation.
 *
 * A child's log begins with a copy of the parent's completed turns. The turn that is open, the one that delegates, is
 * not part of it; a parent without a completed turn makes a child that starts fresh (S207, S208).
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import { Agents } from "../Agent.ts"
import * as Session from "../Session.ts"
import { type ReadError, SessionStore } from "../SessionStore.ts"
import * as Subagent from "../Subagent.ts"
import * as inProcess from "./internal/inProcess.ts"

/**
 * Children in this process that inherit their parent's completed turns.
 *
 * @category services
 * @since 0.1.0
 */
export class Fork extends Subagent.Provider<Fork>()("fork", inProcess.capabilities, { inheritsParentContext: true }) {}

/**
 * Starts a child that knows its parent's conversation. Fails `StartFailed` with `NothingToFork` when the parent has no
 * session here.
 *
 * @category accessors
 * @since 0.1.0
 */
export const start: typeof Fork.start = Fork.start

/**
 * Starts a child that knows its parent's conversation, waits for its result and for its release.
 *
 * @category accessors
 * @since 0.1.0
 */
export const delegate: typeof Fork.delegate = Fork.delegate

const unforkable = (error: ReadError): Subagent.StartFailed =>
  new Subagent.StartFailed({
    provider: Fork.providerName,
    reason: error._tag === "SessionNotFound" ? "NothingToFork" : "StoreFailed",
    diagnostic: error.message
  })

/**
 * Registers the provider as `fork`.
 *
 * @category layers
 * @since 0.1.0
 */
export const layer: Layer.Layer<
  Fork,
  Subagent.DuplicateProvider | Subagent.InvalidProvider,
  Agents | SessionStore | Subagent.Subagents
> = Fork.toLayer(Effect.gen(function*() {
  const agents = yield* Agents
  const store = yield* SessionStore
  return {
    start: (request: Subagent.ResolvedStart<inProcess.InProcess>) =>
      Effect.flatMap(
        Effect.mapError(Stream.runCollect(store.read(request.parent.sessionId)), unforkable),
        (events) => inProcess.start(agents, Fork.providerName, request, Session.completedPrefix(events))
      )
  }
}))

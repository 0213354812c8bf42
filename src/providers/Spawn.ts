/**
 * Starts children in this process that know nothing of their parent's conversation.
 *
 * A child is an ordinary agent over a session of its own: its first message is the prompt it was started with, and all
 * it says and does stays in its own log (S206).
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import { Agents } from "../Agent.ts"
import * as Subagent from "../Subagent.ts"
import * as inProcess from "./internal/inProcess.ts"

/**
 * Fresh children in this process.
 *
 * @category services
 * @since 0.1.0
 */
export class Spawn extends Subagent.Provider<Spawn>()("spawn", inProcess.capabilities) {}

/**
 * Starts a fresh child in this process.
 *
 * @category accessors
 * @since 0.1.0
 */
export const start: typeof Spawn.start = Spawn.start

/**
 * Starts a fresh child in this process, waits for its result and for its release.
 *
 * @category accessors
 * @since 0.1.0
 */
export const delegate: typeof Spawn.delegate = Spawn.delegate

/**
 * Registers the provider as `spawn`.
 *
 * @category layers
 * @since 0.1.0
 */
export const layer: Layer.Layer<
  Spawn,
  Subagent.DuplicateProvider | Subagent.InvalidProvider,
  Agents | Subagent.Subagents
> = Spawn.toLayer(Effect.map(Agents, (agents) => ({
  start: (request: Subagent.ResolvedStart<inProcess.InProcess>) => inProcess.start(agents, Spawn.providerName, request)
})))

/**
 * Says what a script for children is made of, and what is recorded while it is played.
 */
import type * as Effect from "effect/Effect"
import type { CurrentAgent, Limits, ToolRestriction } from "../../CurrentAgent.ts"
import type * as Session from "../../Session.ts"
import type * as Subagent from "../../Subagent.ts"

/**
 * A message that was sent into a running child.
 *
 * @category models
 * @since 0.1.0
 */
export interface Message {
  readonly content: Subagent.CommonRequest["prompt"]
  readonly source: Session.Source
}

/**
 * How a child settles. `structured` is plain JSON, as every provider hands it back; the service decodes it. `RunFailed`
 * is the end that no result can say.
 *
 * @category models
 * @since 0.1.0
 */
export type Ending =
  | { readonly _tag: "Completed"; readonly structured: unknown }
  | { readonly _tag: "Aborted"; readonly cause: Session.AbortCause }
  | { readonly _tag: "Failed"; readonly reason: string; readonly retryable: boolean; readonly diagnostic: string }
  | { readonly _tag: "MaxTokens" }
  | { readonly _tag: "Refusal" }
  | { readonly _tag: "Other"; readonly reason: string }
  | { readonly _tag: "RunFailed"; readonly reason: Subagent.RunFailed["reason"]; readonly diagnostic: string }

/**
 * One thing a child does.
 *
 * @category models
 * @since 0.1.0
 */
export type Act =
  | { readonly _tag: "Say"; readonly deltas: ReadonlyArray<string> }
  | { readonly _tag: "Show"; readonly progress: Subagent.Progress }
  | {
    readonly _tag: "Tool"
    readonly name: string
    readonly params: unknown
    readonly id: string
    readonly isFailure: boolean
    readonly during: ReadonlyArray<Act>
  }
  | { readonly _tag: "Spend"; readonly usage: Partial<Session.Usage> }
  | { readonly _tag: "Wait"; readonly effect: Effect.Effect<unknown> }
  | { readonly _tag: "Steered" }
  | { readonly _tag: "Decide"; readonly acts: (heard: ReadonlyArray<Message>) => ReadonlyArray<Act> }
  | { readonly _tag: "Settle"; readonly ending: Ending }

/**
 * What one child does: its acts, in order, or these with more said about its life.
 *
 * - `id`: the child's id; unique ones are made up without it
 * - `start`: what has to be done before the child is published. When it fails, the start does; the error's `provider`
 *   is filled in
 * - `run`: what the child does once it is published. When it has done all without settling, it is complete
 * - `steer`: how it takes messages: it takes all of them without this, or none, for the given reason, or as the
 *   function says for each (`undefined` takes it). Waiting in that function keeps the sender waiting, until the child
 *   settles. `"unsupported"` is for providers whose support is negotiated: the run has no `steer` then
 * - `release`: what has to be done when the child has settled, or was cancelled, before it is gone
 * - `survivors`: what is still alive after that
 *
 * @category models
 * @since 0.1.0
 */
export type Play =
  | ReadonlyArray<Act>
  | {
    readonly id?: string | undefined
    readonly start?: Effect.Effect<unknown, Subagent.StartFailed | Subagent.UnsupportedCapability> | undefined
    readonly run: ReadonlyArray<Act>
    readonly steer?: "unsupported" | Subagent.SteerRejected["reason"] | Reaction | undefined
    readonly release?: Effect.Effect<unknown> | undefined
    readonly survivors?: ReadonlyArray<string> | undefined
  }

/**
 * Takes a message (`undefined`), or says why not.
 *
 * @category models
 * @since 0.1.0
 */
export type Reaction = (
  message: Message
) => Subagent.SteerRejected["reason"] | undefined | Effect.Effect<Subagent.SteerRejected["reason"] | undefined>

/**
 * A start as the provider saw it, after all checks: plain data, fit for a deep comparison.
 *
 * - `provider`, `index`: whose start it is, and the how-manieth since its layer was built (from 0)
 * - `jsonSchema`: what the structured value has to be, where one was asked for
 * - the rest as in `Subagent.ResolvedStart`
 *
 * @category models
 * @since 0.1.0
 */
export interface Request {
  readonly provider: string
  readonly index: number
  readonly runId: string
  readonly parent: Omit<CurrentAgent["Service"], "lifetime">
  readonly depth: number
  readonly limits: Limits
  readonly prompt: Subagent.CommonRequest["prompt"]
  readonly label: string | undefined
  readonly toolFilter: ToolRestriction | undefined
  readonly persona: string | undefined
  readonly model: string | undefined
  readonly maxTokens: number | undefined
  readonly jsonSchema: Subagent.ResolvedOutput["jsonSchema"] | undefined
}

/**
 * A message that was sent into a child; `rejected` says why it was not taken, if so. One whose sender gave up waiting
 * does not count.
 *
 * @category models
 * @since 0.1.0
 */
export interface Steering extends Message {
  readonly provider: string
  readonly runId: string
  readonly rejected: Subagent.SteerRejected["reason"] | undefined
}

/**
 * A child that is gone; `aborted` says why its run was cancelled, if it was.
 *
 * @category models
 * @since 0.1.0
 */
export interface Release {
  readonly provider: string
  readonly runId: string
  readonly aborted: Session.AbortCause | undefined
}

/**
 * What the children of a provider do, one start after the other: a list, or a function of the request; `undefined`
 * means that the script has ended. A start beyond the end of its script fails `StartFailed` with `ProviderFault`.
 *
 * @category models
 * @since 0.1.0
 */
export type Script = ReadonlyArray<Play> | ((request: Request) => Play | undefined | Effect.Effect<Play | undefined>)

/**
 * Decides whether a tool call that needs approval may run.
 *
 * A reference and not a required service: where nobody said anything, the answer is no. It is read when the call is
 * made, so a program can answer differently around different delegations; a child inherits what holds where it was
 * started.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { CurrentAgent } from "./CurrentAgent.ts"

/**
 * A question: may `agent` run `tool` with these arguments? `kind` says what the call does in the words of its
 * protocol (`read`, `edit`, `execute` and the like) and `paths` what it touches, where these are known.
 *
 * @category models
 * @since 0.1.0
 */
export interface ApprovalRequest {
  readonly agent: CurrentAgent["Service"]
  readonly tool: string
  readonly toolCallId: string
  readonly params: unknown
  readonly kind?: string | undefined
  readonly paths?: ReadonlyArray<string> | undefined
}

/**
 * The answer; `reason` is shown to the model.
 *
 * @category models
 * @since 0.1.0
 */
export type Decision =
  | { readonly _tag: "Allow" }
  | { readonly _tag: "Deny"; readonly reason: string }

/**
 * Allows a call.
 *
 * @category constructors
 * @since 0.1.0
 */
export const allow: Decision = { _tag: "Allow" }

/**
 * Denies a call, with a reason for the model.
 *
 * @category constructors
 * @since 0.1.0
 */
export const deny = (reason: string): Decision => ({ _tag: "Deny", reason })

/**
 * Answers one question. Waiting for a person is fine: the call waits and can be interrupted meanwhile.
 *
 * @category models
 * @since 0.1.0
 */
export interface Approver {
  readonly ask: (request: ApprovalRequest) => Effect.Effect<Decision>
}

const denied = Effect.succeed(deny("nobody is there to approve this call"))
const allowed = Effect.succeed(allow)

/**
 * Who answers. Denies everything by default.
 *
 * @category references
 * @since 0.1.0
 */
export const Approvals: Context.Reference<Approver> = Context.Reference<Approver>("effect-subagent/Approvals", {
  defaultValue: () => ({ ask: () => denied })
})

/**
 * Denies every call that needs approval.
 *
 * @category layers
 * @since 0.1.0
 */
export const layerDeny: Layer.Layer<never> = Layer.succeed(Approvals, { ask: () => denied })

/**
 * Allows every call that needs approval.
 *
 * @category layers
 * @since 0.1.0
 */
export const layerAllow: Layer.Layer<never> = Layer.succeed(Approvals, { ask: () => allowed })

/**
 * Asks a handler. A handler that dies denies its call and leaves the defect in the log.
 *
 * @category layers
 * @since 0.1.0
 */
export const layerAsk = <R = never>(
  handler: (request: ApprovalRequest) => Effect.Effect<Decision, never, R>
): Layer.Layer<never, never, R> =>
  Layer.effect(
    Approvals,
    Effect.map(Effect.context<R>(), (context): Approver => ({
      ask: (request) =>
        Effect.catchDefect(
          Effect.provideContext(Effect.suspend(() => handler(request)), context),
          (defect) =>
            Effect.as(Effect.logError("the approval handler died", defect), deny("the approval could not be asked for"))
        )
    }))
  )

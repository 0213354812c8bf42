/**
 * How starting, running and releasing a child can fail.
 */
import * as Schema from "effect/Schema"
import { AbortCause } from "../session/events.ts"
import { Result } from "./result.ts"

/**
 * A field of a request is malformed; `issue` says what would be right.
 *
 * @category errors
 * @since 0.1.0
 */
export class InvalidRequest extends Schema.TaggedError<InvalidRequest>("effect-subagent/InvalidRequest")(
  "InvalidRequest",
  { field: Schema.String, issue: Schema.String }
) {
  override get message(): string {
    return `${this.field}: ${this.issue}`
  }
}

/**
 * The request was cancelled before a child existed; nothing is left of it (S72–S75).
 *
 * @category errors
 * @since 0.1.0
 */
export class Cancelled extends Schema.TaggedError<Cancelled>("effect-subagent/Cancelled")("Cancelled", {
  cause: AbortCause
}) {
  override get message(): string {
    return `cancelled before the child started (${this.cause})`
  }
}

/**
 * A limit of the tree was reached: which (`maxDepth`, `maxChildren` with `maxWait` for the wait in its queue,
 * `maxRunning`), at what value, and what the most is.
 *
 * @category errors
 * @since 0.1.0
 */
export class LimitExceeded extends Schema.TaggedError<LimitExceeded>("effect-subagent/LimitExceeded")(
  "LimitExceeded",
  {
    limit: Schema.Literals(["maxDepth", "maxChildren", "maxRunning", "maxWait"]),
    value: Schema.Number,
    max: Schema.Number
  }
) {
  override get message(): string {
    return `${this.limit} is ${this.max}, and this would make it ${this.value}`
  }
}

/**
 * The child would be deeper than the request's own `maxDepth` allows (S154).
 *
 * @category errors
 * @since 0.1.0
 */
export class DepthExceeded extends Schema.TaggedError<DepthExceeded>("effect-subagent/DepthExceeded")(
  "DepthExceeded",
  { attempted: Schema.Number, max: Schema.Number }
) {
  override get message(): string {
    return `the child would have depth ${this.attempted}, and maxDepth is ${this.max}`
  }
}

/**
 * Why a provider could not start a child.
 *
 * - `NotInstalled`, `AuthRequired`, `VersionMismatch`, `Timeout`, `Exited`: of an agent that runs elsewhere
 * - `ParentClosed`: the delegating agent is closed
 * - `ProviderClosed`: the provider's layer is closed
 * - `NothingToFork`: there is no transcript of the parent here
 * - `StoreFailed`: the child's session could not be stored
 * - `ProviderFault`: the provider itself is broken
 *
 * @category schemas
 * @since 0.1.0
 */
export const StartFailedReason = Schema.Literals([
  "NotInstalled",
  "AuthRequired",
  "VersionMismatch",
  "Timeout",
  "Exited",
  "ParentClosed",
  "ProviderClosed",
  "NothingToFork",
  "StoreFailed",
  "ProviderFault"
])

/**
 * @category models
 * @since 0.1.0
 */
export type StartFailedReason = typeof StartFailedReason.Type

/**
 * A provider could not start a child, and cleaned up after itself. `diagnostic` is at most 4096 UTF-8 bytes and holds
 * no secrets.
 *
 * @category errors
 * @since 0.1.0
 */
export class StartFailed extends Schema.TaggedError<StartFailed>("effect-subagent/StartFailed")("StartFailed", {
  provider: Schema.String,
  reason: StartFailedReason,
  diagnostic: Schema.String
}) {
  override get message(): string {
    return `provider ${JSON.stringify(this.provider)} could not start a child (${this.reason}): ${this.diagnostic}`
  }
}

/**
 * A provider broke a promise: the child it published has another id, parent or agent than it must (S597). The child
 * is released already.
 *
 * @category errors
 * @since 0.1.0
 */
export class ContractViolation extends Schema.TaggedError<ContractViolation>("effect-subagent/ContractViolation")(
  "ContractViolation",
  { provider: Schema.String, issue: Schema.String }
) {
  override get message(): string {
    return `provider ${JSON.stringify(this.provider)} broke its contract: ${this.issue}`
  }
}

/**
 * The provider cannot do what the request asks for; `agent` and `version` name the agent behind it that cannot, where
 * that is only known after a handshake.
 *
 * @category errors
 * @since 0.1.0
 */
export class UnsupportedCapability
  extends Schema.TaggedError<UnsupportedCapability>("effect-subagent/UnsupportedCapability")("UnsupportedCapability", {
    provider: Schema.String,
    capability: Schema.String,
    agent: Schema.optionalKey(Schema.String),
    version: Schema.optionalKey(Schema.String)
  })
{
  override get message(): string {
    const agent = this.agent === undefined
      ? ""
      : ` (${this.agent}${this.version === undefined ? "" : ` ${this.version}`})`
    return `provider ${JSON.stringify(this.provider)}${agent} does not support ${this.capability}`
  }
}

/**
 * A run ended without a result that could be represented: its final state could not be made durable, or its provider
 * broke.
 *
 * @category errors
 * @since 0.1.0
 */
export class RunFailed extends Schema.TaggedError<RunFailed>("effect-subagent/RunFailed")("RunFailed", {
  provider: Schema.String,
  reason: Schema.Literals(["DurabilityFailed", "ProviderFault"]),
  diagnostic: Schema.String
}) {
  override get message(): string {
    return `the run of provider ${JSON.stringify(this.provider)} failed (${this.reason}): ${this.diagnostic}`
  }
}

/**
 * A run has its result, but not all of it could be released: `survivors` names what is still alive, fenced off.
 *
 * @category errors
 * @since 0.1.0
 */
export class ReleaseFailed extends Schema.TaggedError<ReleaseFailed>("effect-subagent/ReleaseFailed")("ReleaseFailed", {
  provider: Schema.String,
  /** The run's result, or `undefined` when the run failed as well; then `run` has that error. */
  result: Schema.UndefinedOr(Result(Schema.Unknown)),
  run: Schema.optionalKey(RunFailed),
  survivors: Schema.Array(Schema.String),
  diagnostic: Schema.String
}) {
  override get message(): string {
    const run = this.run === undefined ? "" : `; ${this.run.message}`
    return `a run of provider ${JSON.stringify(this.provider)} could not be released: ${this.diagnostic}${run}`
  }
}

/**
 * No provider of this name is registered.
 *
 * @category errors
 * @since 0.1.0
 */
export class ProviderNotFound extends Schema.TaggedError<ProviderNotFound>("effect-subagent/ProviderNotFound")(
  "ProviderNotFound",
  { provider: Schema.String, registered: Schema.Array(Schema.String) }
) {
  override get message(): string {
    return `no provider ${JSON.stringify(this.provider)} is registered; registered: ${
      this.registered.length === 0 ? "none" : this.registered.join(", ")
    }`
  }
}

/**
 * Another provider is registered under this name (S37).
 *
 * @category errors
 * @since 0.1.0
 */
export class DuplicateProvider extends Schema.TaggedError<DuplicateProvider>("effect-subagent/DuplicateProvider")(
  "DuplicateProvider",
  { provider: Schema.String }
) {
  override get message(): string {
    return `another provider is registered as ${JSON.stringify(this.provider)}`
  }
}

/**
 * A provider cannot be registered as it is: its name is empty, or its methods do not fit its capabilities (S598).
 *
 * @category errors
 * @since 0.1.0
 */
export class InvalidProvider extends Schema.TaggedError<InvalidProvider>("effect-subagent/InvalidProvider")(
  "InvalidProvider",
  { provider: Schema.String, issue: Schema.String }
) {
  override get message(): string {
    return `provider ${JSON.stringify(this.provider)}: ${this.issue}`
  }
}

/**
 * A result that was needed is not `Completed`.
 *
 * @category errors
 * @since 0.1.0
 */
export class NotCompleted extends Schema.TaggedError<NotCompleted>("effect-subagent/NotCompleted")("NotCompleted", {
  result: Result(Schema.Unknown)
}) {
  override get message(): string {
    const { result } = this
    switch (result._tag) {
      case "Aborted":
        return `the child was aborted (${result.cause})`
      case "Failed":
        return `the child failed (${result.reason}): ${result.diagnostic}`
      case "Other":
        return `the child ended with ${JSON.stringify(result.reason)}`
      default:
        return `the child ended with ${result._tag}`
    }
  }
}

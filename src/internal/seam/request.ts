/**
 * What a caller may ask of a provider: its capabilities, and the request whose fields they gate.
 */
import type * as Duration from "effect/Duration"
import type { UnknownModel } from "../../AgentModels.ts"
import type { UnknownTool } from "../../AgentTools.ts"
import type { Limits, ToolRestriction } from "../../CurrentAgent.ts"
import type { UnknownVariable } from "../../SystemPrompt.ts"
import type { Content } from "../agent/model.ts"
import type {
  Cancelled,
  ContractViolation,
  DepthExceeded,
  InvalidRequest,
  LimitExceeded,
  StartFailed,
  UnsupportedCapability
} from "./errors.ts"
import type { UnsupportedSchema } from "./outputCodec.ts"

/**
 * Whether a provider can do something: yes, no, or known only after a handshake with the agent behind it.
 *
 * @category models
 * @since 0.1.0
 */
export type Support = boolean | "negotiated"

/**
 * What a provider can do (S6, as a static part of its class). The first six gate the request field of their name
 * (`depthLimit` the field `maxDepth`); `steer` says whether its runs can be steered, `resume` whether its children can
 * go on after they settled.
 *
 * @category models
 * @since 0.1.0
 */
export interface Capabilities {
  readonly outputSchema: Support
  readonly depthLimit: Support
  readonly toolFilter: Support
  readonly persona: Support
  readonly model: Support
  readonly maxTokens: Support
  readonly steer: Support
  readonly resume: Support
}

/**
 * Refuses a capability whose type was widened to `boolean`, by which nothing could be checked, and one that does not
 * exist.
 *
 * @category utility types
 * @since 0.1.0
 */
export type Literal<C extends Capabilities> = {
  readonly [K in keyof C]: K extends keyof Capabilities ? boolean extends C[K] ? never : C[K] : never
}

/**
 * The capabilities of a provider that is only known by name.
 *
 * @category models
 * @since 0.1.0
 */
export type Unchecked = { readonly [K in keyof Capabilities]: "negotiated" }

type Field<S extends Support, F> = S extends false ? { readonly [K in keyof F]?: undefined } : F

/**
 * What every provider honours.
 *
 * - `prompt`: the child's first user message, verbatim (S10): a text, or text and file parts; not empty
 * - `label`: a short name for people
 * - `timeout`: how long the run may take before it is aborted with cause `timeout`
 * - `signal`: cancels the request, or aborts the run with cause `parent`
 * - `limits`: narrows what the child may delegate in turn
 *
 * @category models
 * @since 0.1.0
 */
export interface CommonRequest {
  readonly prompt: Content
  readonly label?: string | undefined
  readonly timeout?: Duration.Input | undefined
  readonly signal?: AbortSignal | undefined
  readonly limits?: Partial<Limits> | undefined
}

/**
 * What a caller asks for, but the output schema. A field whose capability the provider lacks does not exist.
 *
 * - `maxDepth`: the deepest this child may be, a natural number; 0 forbids any child of a root (S15)
 * - `toolFilter`: which tools the child may see and run, on top of what its parent is restricted to
 * - `persona`: who the child is; `{{variable}}` references must be known (S17, S156)
 * - `model`: the name of a model of the provider; the parent's without one
 * - `maxTokens`: output tokens of one model call of the child, a positive integer; the parent's without one
 *
 * @category models
 * @since 0.1.0
 */
export type Request<C extends Capabilities> =
  & CommonRequest
  & Field<C["depthLimit"], { readonly maxDepth?: number | undefined }>
  & Field<C["toolFilter"], { readonly toolFilter?: ToolRestriction | undefined }>
  & Field<C["persona"], { readonly persona?: string | undefined }>
  & Field<C["model"], { readonly model?: string | undefined }>
  & Field<C["maxTokens"], { readonly maxTokens?: number | undefined }>

type Gated<S extends Support, E> = S extends false ? never : E

/**
 * How starting a child of a provider with these capabilities can fail: nothing that cannot happen there.
 *
 * @category errors
 * @since 0.1.0
 */
export type StartError<C extends Capabilities> =
  | InvalidRequest
  | Cancelled
  | LimitExceeded
  | StartFailed
  | ContractViolation
  | Gated<C["outputSchema"], UnsupportedSchema>
  | Gated<C["depthLimit"], DepthExceeded>
  | Gated<C["toolFilter"], UnknownTool>
  | Gated<C["persona"], UnknownVariable>
  | Gated<C["model"], UnknownModel>
  | ("negotiated" extends C[keyof C] ? UnsupportedCapability : never)

/**
 * What the type tests share: providers that lack one capability each, and values of every kind that a program meets.
 *
 * The files of this folder are compiled by the checks and never run. Every illegal use stands right below a legal one
 * from which it differs in one token (a type argument is one), and names the compiler's error that makes it illegal;
 * `…` stands for what is left out of it.
 */
import type { Effect, Layer, Option, Stream } from "effect"
import { Schema } from "effect"
import type { Prompt } from "effect/ai"
import type { Agent } from "../../src/Agent.ts"
import type { CurrentAgent } from "../../src/CurrentAgent.ts"
import type * as Session from "../../src/Session.ts"
import * as Subagent from "../../src/Subagent.ts"
import { unable as nothing } from "../utils/seam.ts"

// -----------------------------------------------------------------------------
// saying what is legal
// -----------------------------------------------------------------------------

/** Takes uses of the library that compile. */
export declare const uses: (...uses: ReadonlyArray<unknown>) => void

/** Takes effects that need nothing more to run. */
export declare const runnable: (effect: Effect.Effect<unknown, unknown>) => void

/** Takes types that are the same. */
export declare const same: <_ extends true>() => void

/** Whether two types are identical: neither is wider, `any` is only itself. */
export type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends (<T>() => T extends B ? 1 : 2) ? true : false

same<Equal<string, string>>()
// @ts-expect-error TS2344 Type 'false' does not satisfy the constraint 'true'
same<Equal<string, any>>()

same<Equal<string | undefined, string | undefined>>()
// @ts-expect-error TS2344 Type 'false' does not satisfy the constraint 'true'
same<Equal<string | undefined, string | number>>()

// -----------------------------------------------------------------------------
// providers
// -----------------------------------------------------------------------------

export const everything = {
  outputSchema: true,
  depthLimit: true,
  toolFilter: true,
  persona: true,
  model: true,
  maxTokens: true,
  steer: true,
  resume: true
} as const

export { nothing }

const negotiable = {
  outputSchema: "negotiated",
  depthLimit: "negotiated",
  toolFilter: "negotiated",
  persona: "negotiated",
  model: "negotiated",
  maxTokens: "negotiated",
  steer: "negotiated",
  resume: "negotiated"
} as const

export class Full extends Subagent.Provider<Full>()("full", everything) {}
export class Bare extends Subagent.Provider<Bare>()("bare", nothing) {}
export class Negotiated extends Subagent.Provider<Negotiated>()("negotiated", negotiable) {}

export class NoSchema extends Subagent.Provider<NoSchema>()("no-schema", { ...everything, outputSchema: false }) {}
export class NoDepth extends Subagent.Provider<NoDepth>()("no-depth", { ...everything, depthLimit: false }) {}
export class NoFilter extends Subagent.Provider<NoFilter>()("no-filter", { ...everything, toolFilter: false }) {}
export class NoPersona extends Subagent.Provider<NoPersona>()("no-persona", { ...everything, persona: false }) {}
export class NoModel extends Subagent.Provider<NoModel>()("no-model", { ...everything, model: false }) {}
export class NoTokens extends Subagent.Provider<NoTokens>()("no-tokens", { ...everything, maxTokens: false }) {}
export class NoSteer extends Subagent.Provider<NoSteer>()("no-steer", { ...everything, steer: false }) {}

// -----------------------------------------------------------------------------
// values
// -----------------------------------------------------------------------------

export const prompt = "Audit src/parser.ts"
export const user: Session.Source = { kind: "user" }

export const Finding = Schema.Struct({ file: Schema.String, risk: Schema.Literals(["low", "high"]), at: Schema.Date })
export type Finding = typeof Finding.Type
export const Verdict = Schema.Struct({ guilty: Schema.Boolean })
export type Verdict = typeof Verdict.Type

export declare const cond: boolean
export declare const agentLayer: Layer.Layer<CurrentAgent>
export declare const fullLayer: Layer.Layer<Full>
export declare const bareLayer: Layer.Layer<Bare>
export declare const subagents: Subagent.Subagents["Service"]
export declare const sessionId: Session.SessionId

export declare const textPart: Prompt.TextPart
export declare const filePart: Prompt.FilePart
export declare const reasoningPart: Prompt.ReasoningPart
export declare const toolResultPart: Prompt.ToolResultPart
export declare const userMessage: Prompt.UserMessage
export declare const systemMessage: Prompt.SystemMessage
export declare const assistantMessage: Prompt.AssistantMessage

/** A run as a provider gives it back, but for its `steer`. */
export declare const bareRun: {
  readonly id: string
  readonly localAgent: Option.Option<Agent>
  readonly result: Effect.Effect<Subagent.Result<unknown>, Subagent.RunFailed>
  readonly progress: Stream.Stream<Subagent.Progress>
}

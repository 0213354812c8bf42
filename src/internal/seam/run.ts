/**
 * The two sides of a run: what its caller holds, and what its provider keeps to.
 */
import type * as Effect from "effect/Effect"
import type * as JsonSchema from "effect/JsonSchema"
import type * as Option from "effect/Option"
import type * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import type * as Stream from "effect/Stream"
import type { Agent } from "../../Agent.ts"
import type { CurrentAgent, Limits } from "../../CurrentAgent.ts"
import type { AbortCause, Source } from "../../Session.ts"
import type { Content, Progress, SteerRejected } from "../agent/model.ts"
import type { ProviderNotFound, ReleaseFailed, RunFailed, UnsupportedCapability } from "./errors.ts"
import type { StructuredSchema } from "./outputCodec.ts"
import type { Capabilities, Request, StartError, Support, Unchecked } from "./request.ts"
import type { Result } from "./result.ts"

// -----------------------------------------------------------------------------
// the caller's side
// -----------------------------------------------------------------------------

/**
 * A child at work. It ends by itself when the child settles, and at the latest when the scope it was started in
 * closes; there is nothing to dispose of.
 *
 * - `id`: a local child's session id; minted here for a remote one
 * - `runId`: unique to this run, the key of its events
 * - `localAgent`: the child's live agent, when it runs in this process
 * - `result`: waits for the result. Giving up waiting cancels nothing. Fails `RunFailed` when there is none
 * - `interrupt`: ends this run alone and gives its partial result; safe to repeat
 * - `progress`: what the child does from now on, and for who comes when it has settled what is at hand still. Slow
 *   readers lose the oldest and learn how much. Ends at settlement: with the provider's, or half a second after the run
 * - `released`: waits until nothing of the run is alive. Fails `ReleaseFailed`, which holds the result, otherwise
 *
 * @category models
 * @since 0.1.0
 */
export interface Run<out A> {
  readonly id: string
  readonly runId: string
  readonly provider: string
  readonly localAgent: Option.Option<Agent>
  readonly result: Effect.Effect<Result<A>, RunFailed>
  readonly interrupt: Effect.Effect<Result<A>, RunFailed>
  readonly progress: Stream.Stream<Progress>
  readonly released: Effect.Effect<void, ReleaseFailed>
}

/**
 * Delivers a message into a running child (S87–S93). Succeeds once the message is committed to the request being
 * built; fails `SteerRejected` otherwise, and then nothing is stored unless the reason is `unconfirmed`.
 *
 * @category models
 * @since 0.1.0
 */
export type Steer = (content: Content, source: Source) => Effect.Effect<void, SteerRejected>

/**
 * How a run can be steered: always, never, or as its agent's handshake said.
 *
 * @category models
 * @since 0.1.0
 */
export type Steerable<C extends Capabilities> = BySupport<C["steer"], "steer", Steer>

type BySupport<S extends Support, K extends string, F> = S extends true ? { readonly [_ in K]: F }
  : S extends false ? { readonly [_ in K]?: undefined }
  : { readonly [_ in K]: Option.Option<F> }

/**
 * Starts a child, in two forms: without an `outputSchema` the result holds nothing structured, with one it holds the
 * schema's type, and the schema's services are required.
 *
 * @category models
 * @since 0.1.0
 */
export type Start<C extends Capabilities, X = never> = C["outputSchema"] extends false ? StartPlain<C, X>
  : StartPlain<C, X> & StartTyped<C, X>

interface StartPlain<C extends Capabilities, X> {
  (request: Request<C> & { readonly outputSchema?: undefined }): Effect.Effect<
    Run<void> & Steerable<C>,
    StartError<C>,
    CurrentAgent | Scope.Scope | X
  >
}

interface StartTyped<C extends Capabilities, X> {
  <S extends StructuredSchema>(request: Request<C> & { readonly outputSchema: S }): Effect.Effect<
    Run<S["Type"]> & Steerable<C>,
    StartError<C>,
    CurrentAgent | Scope.Scope | S["DecodingServices"] | X
  >
}

/**
 * Starts a child, waits for its result and for its release.
 *
 * @category models
 * @since 0.1.0
 */
export type Delegate<C extends Capabilities, X = never> = C["outputSchema"] extends false ? DelegatePlain<C, X>
  : DelegatePlain<C, X> & DelegateTyped<C, X>

interface DelegatePlain<C extends Capabilities, X> {
  (request: Request<C> & { readonly outputSchema?: undefined }): Effect.Effect<
    Result<void>,
    StartError<C> | RunFailed | ReleaseFailed,
    CurrentAgent | X
  >
}

interface DelegateTyped<C extends Capabilities, X> {
  <S extends StructuredSchema>(request: Request<C> & { readonly outputSchema: S }): Effect.Effect<
    Result<S["Type"]>,
    StartError<C> | RunFailed | ReleaseFailed,
    CurrentAgent | S["DecodingServices"] | X
  >
}

/**
 * A provider as a value: every call is checked before the provider sees it.
 *
 * @category models
 * @since 0.1.0
 */
export interface Client<C extends Capabilities> {
  readonly start: Start<C>
  readonly delegate: Delegate<C>
}

/**
 * Starts a child by the name of its provider: every field is allowed, and what the provider cannot do is a failure.
 *
 * @category models
 * @since 0.1.0
 */
export interface StartByName {
  (provider: string, request: Request<Unchecked> & { readonly outputSchema?: undefined }): Effect.Effect<
    Run<void> & Steerable<Unchecked>,
    StartError<Unchecked> | ProviderNotFound,
    CurrentAgent | Scope.Scope
  >
  <S extends StructuredSchema>(
    provider: string,
    request: Request<Unchecked> & { readonly outputSchema: S }
  ): Effect.Effect<
    Run<S["Type"]> & Steerable<Unchecked>,
    StartError<Unchecked> | ProviderNotFound,
    CurrentAgent | Scope.Scope | S["DecodingServices"]
  >
}

/**
 * Delegates by the name of a provider.
 *
 * @category models
 * @since 0.1.0
 */
export interface DelegateByName {
  (provider: string, request: Request<Unchecked> & { readonly outputSchema?: undefined }): Effect.Effect<
    Result<void>,
    StartError<Unchecked> | ProviderNotFound | RunFailed | ReleaseFailed,
    CurrentAgent
  >
  <S extends StructuredSchema>(
    provider: string,
    request: Request<Unchecked> & { readonly outputSchema: S }
  ): Effect.Effect<
    Result<S["Type"]>,
    StartError<Unchecked> | ProviderNotFound | RunFailed | ReleaseFailed,
    CurrentAgent | S["DecodingServices"]
  >
}

// -----------------------------------------------------------------------------
// the provider's side
// -----------------------------------------------------------------------------

/**
 * A request that passed every check of the service.
 *
 * - `parent`: who delegates; `depth`: the child's depth; `limits`: the child's limits
 * - `output`: what the structured value must be, when one is asked for. A provider hands back plain JSON; `decode` lets
 *   it find out early, so that the child can correct itself
 * - `runId`: the run's id, unique in this process
 * - `abortCause`: once the run is being cancelled, why; the provider's scope closes right after
 *
 * @category models
 * @since 0.1.0
 */
export type ResolvedStart<C extends Capabilities> = Omit<Request<C>, "limits" | "signal" | "timeout" | "maxDepth"> & {
  readonly parent: CurrentAgent["Service"]
  readonly depth: number
  readonly limits: Limits
  readonly runId: string
  readonly output: Option.Option<ResolvedOutput>
  readonly abortCause: Effect.Effect<Option.Option<AbortCause>>
}

/**
 * An output schema with its services provided: the JSON Schema to show a model, whose root is an object, and the decoder
 * of what comes back, whose error lists everything that is wrong.
 *
 * @category models
 * @since 0.1.0
 */
export interface ResolvedOutput {
  readonly jsonSchema: JsonSchema.JsonSchema
  readonly decode: (json: unknown) => Effect.Effect<unknown, Schema.SchemaError>
}

/**
 * What a provider gives back once its child is published, at which moment ownership passes to the caller (S68).
 *
 * - `id`: the child's session id, or for a remote child an id that is unique among all children
 * - `localAgent`: the live agent of a child in this process; its id is `id`, its header's parent the delegating agent
 * - `result`: waits for the child; evaluated once. A failure of the child is a result; only what no result can say fails.
 *   A run that is cancelled closes the provider's scope first: by then it must have a result, `Aborted` with the partial
 *   output if nothing better, and where it has none it is interrupted. The structured value of a `Completed` is plain
 *   JSON and is decoded by the service
 * - `progress`: read for each reader on its own, from any moment on. It should end when the child has settled: readers
 *   wait half a second for what is still under way, and then no more. One that dies is logged and ends its readers
 * - `survivors`: what outlived the closing of the scope
 *
 * @category models
 * @since 0.1.0
 */
export type ProviderRun<C extends Capabilities> = Steerable<C> & {
  readonly id: string
  readonly localAgent: Option.Option<Agent>
  readonly result: Effect.Effect<Result<unknown>, RunFailed>
  readonly progress: Stream.Stream<Progress>
  readonly survivors?: Effect.Effect<ReadonlyArray<string>> | undefined
}

/**
 * What an author of a provider writes.
 *
 * `start` is called for checked requests only, concurrently, and keeps its calls apart from one another. Whatever it
 * acquires belongs to its scope; until it succeeds, its failure or interruption must leave nothing behind (S68–S75).
 * Afterwards the scope is closed when the child settled or is cancelled.
 *
 * @category models
 * @since 0.1.0
 */
export interface Implementation<in out C extends Capabilities> {
  // invariant by decree: the variance that the compiler finds for itself lets one pass for any flags
  readonly start: (
    request: ResolvedStart<C>
  ) => Effect.Effect<ProviderRun<C>, StartError<C> | UnsupportedCapability, Scope.Scope>
}

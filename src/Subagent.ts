/**
 * Delegates work to child agents of many kinds, all of which look the same to the caller: a scoped run with a typed
 * request, a typed result and typed failures.
 *
 * A provider is a class with its capabilities in its type. What it cannot do does not compile when it is called by its
 * class, and fails `UnsupportedCapability` when it is called by its name; nothing is ever accepted and then ignored.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type { CurrentAgent } from "./CurrentAgent.ts"
import { type AnyRequest, unseen } from "./internal/seam/check.ts"
import {
  DuplicateProvider,
  InvalidProvider,
  InvalidRequest,
  NotCompleted,
  ProviderNotFound,
  ReleaseFailed,
  RunFailed,
  UnsupportedCapability
} from "./internal/seam/errors.ts"
import type { ProviderInfo, RunInfo, SubagentEvent } from "./internal/seam/events.ts"
import { Gate } from "./internal/seam/gate.ts"
import type { Capabilities, Literal, Request, StartError, Unchecked } from "./internal/seam/request.ts"
import { Result } from "./internal/seam/result.ts"
import type {
  Client,
  Delegate,
  DelegateByName,
  Implementation,
  ProviderRun,
  ResolvedStart,
  Run,
  Start,
  StartByName,
  Steer,
  Steerable
} from "./internal/seam/run.ts"
import { type AnyStartError, type Registration, start } from "./internal/seam/start.ts"
import type { AnyRun, Shared } from "./internal/seam/watch.ts"
import { Broadcast } from "./internal/session/broadcast.ts"

export type { Content, Progress } from "./internal/agent/model.ts"
export { OutputPart, SteerRejected } from "./internal/agent/model.ts"
export {
  Cancelled,
  ContractViolation,
  DepthExceeded,
  LimitExceeded,
  StartFailed,
  StartFailedReason
} from "./internal/seam/errors.ts"
export type { CommonRequest, Support } from "./internal/seam/request.ts"
export type { NotCompletedResult } from "./internal/seam/result.ts"
export type { ResolvedOutput } from "./internal/seam/run.ts"
export {
  type Capabilities,
  type Client,
  type Delegate,
  type DelegateByName,
  DuplicateProvider,
  type Implementation,
  InvalidProvider,
  InvalidRequest,
  type Literal,
  NotCompleted,
  type ProviderInfo,
  ProviderNotFound,
  type ProviderRun,
  ReleaseFailed,
  type Request,
  type ResolvedStart,
  Result,
  type Run,
  RunFailed,
  type RunInfo,
  type Start,
  type StartByName,
  type StartError,
  type Steer,
  type Steerable,
  type SubagentEvent,
  type Unchecked,
  UnsupportedCapability
}

// -----------------------------------------------------------------------------
// the service
// -----------------------------------------------------------------------------

/**
 * The registry of providers, and the way to start children by the name of their provider.
 *
 * - `register`: adds a provider for as long as the scope lives. The same class may be registered again on top of
 *   itself: the last one wins, and the one below is back when it closes. Fails `DuplicateProvider` for another class
 *   under a taken name. Closing blocks new starts only: runs that were accepted go on (S37–S41)
 * - `providers`: what is registered, in the order of registration
 * - `start`, `delegate`: by name
 * - `running`: the runs that have started and not ended
 * - `events`: first what is registered and running, then what happens. A subscriber has a buffer of 4096 events; a
 *   slower one loses the oldest and is told how many; none can slow or break anything
 * - `eventsOf`: the runs of one parent only (S61)
 *
 * @category services
 * @since 0.1.0
 */
export class Subagents extends Context.Service<Subagents, {
  readonly register: <C extends Capabilities>(
    provider: Provider.Named<C>,
    implementation: Implementation<NoInfer<C>>
  ) => Effect.Effect<Client<C>, DuplicateProvider | InvalidProvider, Scope.Scope>
  readonly providers: Effect.Effect<ReadonlyArray<ProviderInfo>>
  readonly start: StartByName
  readonly delegate: DelegateByName
  readonly running: Effect.Effect<ReadonlyArray<RunInfo>>
  readonly events: Stream.Stream<SubagentEvent>
  readonly eventsOf: (parent: string) => Stream.Stream<SubagentEvent>
}>()("effect-subagent/Subagents") {}

interface Entry {
  readonly provider: object
  readonly stack: Array<Registration>
}

const delegate = <A, E, R>(
  started: Effect.Effect<Run<A>, E, R>
): Effect.Effect<Result<A>, E | RunFailed | ReleaseFailed, Exclude<R, Scope.Scope>> =>
  Effect.scoped(Effect.flatMap(started, (run) =>
    Effect.flatMap(Effect.exit(run.result), (exit) =>
      // a failed release holds the result, or the failure, that it would hide
      Effect.andThen(run.released, exit))))

const steerOption = (registration: Registration, run: AnyRun): AnyRun => {
  const { steer } = registration.info.capabilities
  if (steer === "negotiated") return run
  // sound: by its flag the run has the method, or does not
  return { ...run, steer: steer ? Option.some(run.steer as unknown as Steer) : Option.none() }
}

const make = (grace: Duration.Duration): Subagents["Service"] => {
  const entries = new Map<string, Entry>()
  const shared: Shared = {
    gate: new Gate(),
    events: new Broadcast<SubagentEvent>((count) => ({ _tag: "Dropped", count })),
    running: new Map(),
    grace
  }
  const top = (name: string): Registration | undefined => entries.get(name)?.stack.at(-1)

  const register: Subagents["Service"]["register"] = (provider, implementation) =>
    Effect.map(
      Effect.acquireRelease(
        Effect.suspend((): Effect.Effect<Registration, DuplicateProvider | InvalidProvider> => {
          const name = provider.providerName
          if (name.trim() === "") {
            return Effect.fail(new InvalidProvider({ provider: name, issue: "an empty name; give it one" }))
          }
          if (typeof implementation.start !== "function") {
            return Effect.fail(new InvalidProvider({ provider: name, issue: "it has no method start" }))
          }
          const entry = entries.get(name) ?? { provider, stack: [] }
          if (entry.provider !== provider) return Effect.fail(new DuplicateProvider({ provider: name }))
          const registration: Registration = {
            info: {
              name,
              capabilities: provider.capabilities,
              inheritsParentContext: provider.inheritsParentContext
            },
            // sound: only requests that passed the checks of these very capabilities reach it
            implementation: implementation as unknown as Implementation<Unchecked>,
            open: true
          }
          entry.stack.push(registration)
          entries.set(name, entry)
          // whoever follows the events sees a name come once and go once, however often it is registered in between
          if (entry.stack.length === 1) shared.events.publish({ _tag: "ProviderAdded", ...registration.info })
          return Effect.succeed(registration)
        }),
        (registration) =>
          Effect.sync(() => {
            registration.open = false
            const { name } = registration.info
            const entry = entries.get(name)
            if (entry === undefined) return
            entry.stack.splice(entry.stack.indexOf(registration), 1)
            if (entry.stack.length > 0) return
            entries.delete(name)
            shared.events.publish({ _tag: "ProviderRemoved", name })
          })
      ),
      (registration) => {
        // sound: the types of `Client` say what `check` proves of a request and its result at run time
        return {
          start: (request: AnyRequest) => start(shared, registration, request),
          delegate: (request: AnyRequest) => delegate(start(shared, registration, { ...request, [unseen]: true }))
        } as unknown as Client<typeof provider.capabilities>
      }
    )

  const startByName = (
    name: string,
    request: AnyRequest
  ): Effect.Effect<AnyRun, AnyStartError | ProviderNotFound, CurrentAgent | Scope.Scope> =>
    Effect.suspend((): Effect.Effect<AnyRun, AnyStartError | ProviderNotFound, CurrentAgent | Scope.Scope> => {
      if (typeof name !== "string") {
        return Effect.fail(new InvalidRequest({ field: "provider", issue: "the name of a provider is needed" }))
      }
      const registration = top(name)
      return registration === undefined
        ? Effect.fail(new ProviderNotFound({ provider: name, registered: Array.from(entries.keys()) }))
        : Effect.map(start(shared, registration, request), (run) => steerOption(registration, run))
    })

  const snapshot = (): ReadonlyArray<SubagentEvent> => [
    ...Array.from(entries.keys(), (name): SubagentEvent => ({ _tag: "ProviderAdded", ...top(name)!.info })),
    ...Array.from(shared.running.values(), ({ at, info }): SubagentEvent => ({ _tag: "RunStarted", ...info, at }))
  ]
  const events = shared.events.stream({ capacity: 4096, initial: snapshot })

  return Subagents.of({
    register,
    providers: Effect.sync(() => Array.from(entries.keys(), (name) => top(name)!.info)),
    // sound: the overloads say of a request and its result what `check` proves at run time
    start: startByName as StartByName,
    delegate: ((name: string, request: AnyRequest) =>
      delegate(startByName(name, { ...request, [unseen]: true }))) as DelegateByName,
    running: Effect.sync(() =>
      Array.from(shared.running.values(), ({ info }) => info)
    ),
    events,
    eventsOf: (parent) =>
      Stream.filter(events, (event) => event._tag === "Dropped" || ("parent" in event && event.parent === parent))
  })
}

/**
 * The registry, empty; each provider's layer registers itself in it. `grace` (10 seconds by default) bounds every wait
 * for what a provider wrote: for its interrupted start, for its finalizers, for the last word of a cancelled child. What
 * is left of a run then counts as a survivor.
 *
 * @category layers
 * @since 0.1.0
 */
export const layer = (
  options: { readonly grace?: Duration.Input | undefined } = {}
): Layer.Layer<Subagents> => Layer.sync(Subagents, () => make(Duration.fromInputUnsafe(options.grace ?? "10 seconds")))

// -----------------------------------------------------------------------------
// providers
// -----------------------------------------------------------------------------

/**
 * Identifies provider classes.
 *
 * @category type IDs
 * @since 0.1.0
 */
export const TypeId = "~effect-subagent/Subagent/Provider" as const

/**
 * A class of providers: the service that holds its checked client, and the accessors that use it.
 *
 * - `start`, `delegate`: as {@link Client}, on the client in the context
 * - `toLayer`: builds an implementation, registers it under the class's name for as long as the layer lives, and
 *   provides its client
 *
 * @category models
 * @since 0.1.0
 */
export interface Provider<in out Self, Name extends string, C extends Capabilities>
  extends Context.Service<Self, Client<C>>, Provider.Named<C>
{
  new(_: never): Context.ServiceClass.Shape<Name, Client<C>>
  readonly [TypeId]: typeof TypeId
  readonly providerName: Name
  readonly start: Start<C, Self>
  readonly delegate: Delegate<C, Self>
  toLayer<E, R>(
    make: Effect.Effect<Implementation<C>, E, R>
  ): Layer.Layer<Self, E | DuplicateProvider | InvalidProvider, Exclude<R, Scope.Scope> | Subagents>
}

/**
 * @since 0.1.0
 */
export declare namespace Provider {
  /**
   * What the registry needs to know of a provider's class.
   *
   * @category models
   * @since 0.1.0
   */
  export interface Named<out C extends Capabilities> {
    readonly providerName: string
    readonly capabilities: C
    readonly inheritsParentContext: boolean
  }

  /**
   * Any provider's class.
   *
   * @category models
   * @since 0.1.0
   */
  export interface Any extends Context.Key<any, any>, Named<Capabilities> {
    readonly [TypeId]: typeof TypeId
  }
}

/**
 * Defines a provider: `class Reviewer extends Subagent.Provider<Reviewer>()("reviewer", capabilities) {}`.
 *
 * The capabilities must be literals; `inheritsParentContext` says whether its children know the conversation of their
 * parent, and is `false` without it.
 *
 * The name is the identity of the provider, as the key of any Effect service is its own: in the registry, which refuses
 * another class of a taken name, and in the context, where classes of one name have one place, and the client that was
 * provided last stands for all of them. Name providers of a package with its name in front, as in `"acme/reviewer"`.
 *
 * @category constructors
 * @since 0.1.0
 */
export const Provider = <Self>() =>
<const Name extends string, const C extends Capabilities>(
  name: Name,
  capabilities: C & Literal<C>,
  options: { readonly inheritsParentContext?: boolean | undefined } = {}
): Provider<Self, Name, C> => {
  class Key extends Context.Service<Key, Client<C>>()(`effect-subagent/providers/${name}`) {}
  type Loose = (request: unknown) => Effect.Effect<unknown, unknown, unknown>
  const provider = Object.assign(Key, {
    [TypeId]: TypeId,
    providerName: name,
    capabilities: Object.freeze({ ...capabilities }),
    inheritsParentContext: options.inheritsParentContext === true,
    start: (request: unknown) => Key.use((client) => (client.start as Loose)(request)),
    delegate: (request: unknown) => Key.use((client) => (client.delegate as Loose)(request)),
    toLayer(this: Provider.Named<C>, build: Effect.Effect<Implementation<C>>) {
      // the registry tells providers apart by their classes, and this is called on one
      return Layer.effect(
        Key,
        Effect.flatMap(
          build,
          (implementation) => Subagents.use((subagents) => subagents.register(this, implementation))
        )
      )
    }
  })
  // sound: the accessors hand their one argument to the client's methods of the same name and type
  return provider as unknown as Provider<Self, Name, C>
}

// -----------------------------------------------------------------------------
// results
// -----------------------------------------------------------------------------

/**
 * Turns a result into its structured value. Fails `NotCompleted`, with the result, for any other outcome.
 *
 * @category combinators
 * @since 0.1.0
 */
export const completed = <A, E, R>(
  effect: Effect.Effect<Result<A>, E, R>
): Effect.Effect<A, E | NotCompleted, R> =>
  Effect.flatMap(effect, (result) =>
    result._tag === "Completed"
      ? Effect.succeed(result.structured)
      : Effect.fail(new NotCompleted({ result })))

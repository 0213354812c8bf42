/**
 * Starts a run: every check, a place in the queue, the provider, and what it promised. Whatever goes wrong on the way,
 * nothing is left of the start when its failure is seen, and nobody hears of it.
 */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Scope from "effect/Scope"
import type { CurrentAgent } from "../../CurrentAgent.ts"
import { awaitWithin, boundText } from "../session/bounded.ts"
import { runIdUnsafe } from "../session/ids.ts"
import { exitOf, flatMapNow } from "../session/now.ts"
import { type AnyRequest, cancelledBy, check, type Checked, type CheckError } from "./check.ts"
import { abandon, type Canceller, type Claim, claim, report } from "./claim.ts"
import { Cancelled, ContractViolation, StartFailed } from "./errors.ts"
import type { ProviderInfo } from "./events.ts"
import type { StartError, Unchecked } from "./request.ts"
import type { Implementation, ProviderRun, ResolvedStart } from "./run.ts"
import { type AnyRun, publish, type Shared } from "./watch.ts"

/** @internal A provider as it is registered. */
export interface Registration {
  readonly info: ProviderInfo
  // the capabilities of registered providers differ, and a registration stands for any of them
  readonly implementation: Implementation<Unchecked>
  open: boolean
}

/** @internal The error of a start by any provider. */
export type AnyStartError = StartError<Unchecked> | CheckError

type ProviderExit = Exit.Exit<ProviderRun<Unchecked>, AnyStartError>

const providerClosed = (provider: string): StartFailed =>
  new StartFailed({ provider, reason: "ProviderClosed", diagnostic: "the provider's layer is closed" })

// waits for the place without holding up a cancellation
const enter = (
  { canceller, place }: Claim,
  restore: Restore
): Effect.Effect<void, CheckError> =>
  place.waits
    ? restore(Effect.raceFirst(
      place.enter,
      Effect.callback<void>((resume) => canceller.onCancel(() => resume(Effect.void)))
    ))
    : place.enterNow()

type Restore = <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>

// interrupts the provider's start when it is cancelled or its caller is interrupted, and waits for its clean-up, within
// the grace: afterwards nothing of it is alive, or what is left was told to go
const perform = (
  starting: Effect.Effect<ProviderRun<Unchecked>, AnyStartError, Scope.Scope>,
  context: Context.Context<Scope.Scope>,
  canceller: Canceller,
  grace: Duration.Duration,
  restore: Restore
): Effect.Effect<ProviderExit | undefined> => {
  const fiber = Effect.runForkWith(context)(starting)
  const exit = fiber.pollUnsafe()
  if (exit !== undefined) return Effect.succeed(exit)
  const stop = Effect.suspend(() => {
    fiber.interruptUnsafe()
    return awaitWithin(fiber, grace)
  })
  return Effect.flatMap(
    Effect.onInterrupt(
      restore(Effect.callback<void>((resume) => {
        canceller.onCancel(() => resume(Effect.void))
        fiber.addObserver(() => resume(Effect.void))
      })),
      () => stop
    ),
    // without effect on a fiber that is done
    () => stop
  )
}

// sound for providers without types too: a start that keeps nothing of its promise is one that broke it
const isRun = (handle: ProviderRun<Unchecked>): boolean =>
  typeof handle === "object" && handle !== null && typeof handle.id === "string" && Effect.isEffect(handle.result) &&
  Option.isOption(handle.localAgent)

const violation = (
  checked: Checked,
  provider: ProviderInfo,
  handle: ProviderRun<Unchecked>,
  { gate, running }: Shared
): string | undefined => {
  if (!isRun(handle)) return "it gave back no run"
  const { steer } = provider.capabilities
  if (steer === true && typeof handle.steer !== "function") return "its run has no method steer"
  if (steer === false && handle.steer !== undefined) return "its run has a method steer, against its flag"
  if (steer === "negotiated" && !Option.isOption(handle.steer)) return "its run does not say whether it can be steered"
  if (handle.id === "") return "the child has an empty id"
  if (handle.id === checked.parent.sessionId) return "the child has its parent's id"
  const agent = Option.getOrUndefined(handle.localAgent)
  if (agent !== undefined) {
    if (agent.id !== handle.id) return `the child's id is ${handle.id}, its agent's ${agent.id}`
    if (agent.header.parent !== checked.parent.sessionId) {
      return `the child's session names ${agent.header.parent ?? "no parent"}, not ${checked.parent.sessionId}`
    }
    if (agent.header.depth < checked.depth) return `the child has depth ${agent.header.depth}, not ${checked.depth}`
  }
  if (!gate.members.has(handle.id)) return undefined
  for (const { info } of running.values()) {
    // the ids of remote children are their backends' (S301)
    if (info.id === handle.id && (info.local || agent !== undefined)) return `a child ${info.id} is running already`
  }
  return undefined
}

interface Started {
  readonly handle: ProviderRun<Unchecked>
  readonly runId: string
  readonly startedAt: number
}

const accept = (
  shared: Shared,
  registration: Registration,
  request: AnyRequest,
  checked: Checked,
  { canceller, scope }: Claim,
  fiber: Fiber.Fiber<unknown, unknown>,
  restore: Restore
): Effect.Effect<Started, AnyStartError> => {
  const { implementation, info: provider } = registration
  const { parent } = checked
  if (canceller.cause !== undefined) return Effect.fail(cancelledBy(provider.name, parent, canceller.cause))
  if (!registration.open) return Effect.fail(providerClosed(provider.name))
  const runId = runIdUnsafe(fiber)
  const { limits: _, maxDepth: __, signal: ___, timeout: ____, ...passed } = request
  const resolved: ResolvedStart<Unchecked> = {
    ...passed,
    parent,
    depth: checked.depth,
    limits: checked.limits,
    runId,
    output: checked.output,
    abortCause: Effect.sync(() => Option.fromNullishOr(canceller.cause))
  }
  const performed = perform(
    Effect.suspend(() => implementation.start(resolved)),
    Context.add(fiber.context, Scope.Scope, scope),
    canceller,
    shared.grace,
    restore
  )
  return flatMapNow(performed, (exit): Effect.Effect<Started, AnyStartError> => {
    // also when it is cancelled in the very moment of the hand-over (S74, S372)
    if (canceller.cause !== undefined || exit === undefined) {
      return Effect.fail(cancelledBy(provider.name, parent, canceller.cause))
    }
    if (Exit.isFailure(exit)) return startError(provider.name, exit.cause)
    const broken = Result.try(() => violation(checked, provider, exit.value, shared))
    // its run cannot even be read
    if (Result.isFailure(broken)) return startError(provider.name, Cause.die(broken.failure))
    return broken.success === undefined
      ? Effect.succeed({ startedAt: fiber.getRef(Clock.Clock).currentTimeMillisUnsafe(), runId, handle: exit.value })
      : Effect.fail(new ContractViolation({ provider: provider.name, issue: broken.success }))
  })
}

/** @internal */
export const start = (
  shared: Shared,
  registration: Registration,
  request: AnyRequest
): Effect.Effect<AnyRun, AnyStartError, CurrentAgent | Scope.Scope> =>
  Effect.uninterruptibleMask((restore) =>
    Effect.withFiber((fiber): Effect.Effect<AnyRun, AnyStartError> => {
      // sound: both services are required by the effect's type
      const context = fiber.context as Context.Context<CurrentAgent | Scope.Scope>
      const { info: provider } = registration
      if (!registration.open) return Effect.fail(providerClosed(provider.name))
      return flatMapNow(check(provider, request, context), (checked) => {
        const { parent } = checked
        const place = shared.gate.place(parent.sessionId, parent.limits)
        return Effect.flatMap(claim(Context.get(context, Scope.Scope), parent, request.signal, place), (claimed) => {
          if (claimed === undefined) return Effect.fail(new Cancelled({ cause: "disposed" }))
          const published = ({ handle, runId, startedAt }: Started): AnyRun =>
            publish({
              shared,
              context,
              claim: claimed,
              handle,
              output: checked.output,
              timeout: checked.timeout,
              startedAt,
              depth: checked.depth,
              info: {
                runId,
                provider: provider.name,
                id: handle.id,
                parent: parent.sessionId,
                local: Option.isSome(handle.localAgent),
                label: request.label
              }
            })
          const accepted = flatMapNow(
            enter(claimed, restore),
            () => accept(shared, registration, request, checked, claimed, fiber, restore)
          )
          const exit = exitOf(accepted)
          if (exit !== undefined && Exit.isSuccess(exit)) return Effect.succeed(published(exit.value))
          const whose = () => `a start by provider ${JSON.stringify(provider.name)}`
          return Effect.map(
            Effect.onError(accepted, (cause) => abandon(claimed, cause, shared.grace, whose)),
            published
          )
        })
      })
    })
  )

const startError = (provider: string, cause: Cause.Cause<AnyStartError>): Effect.Effect<never, AnyStartError> => {
  const error = Option.getOrUndefined(Cause.findErrorOption(cause))
  if (error === undefined) {
    return Effect.andThen(
      report(`provider ${JSON.stringify(provider)} died while it started a child`, cause),
      Effect.fail(
        new StartFailed({ provider, reason: "ProviderFault", diagnostic: "the provider gave no child; see the log" })
      )
    )
  }
  return Effect.fail(
    error._tag === "StartFailed"
      ? new StartFailed({ provider: error.provider, reason: error.reason, diagnostic: boundText(error.diagnostic) })
      : error
  )
}

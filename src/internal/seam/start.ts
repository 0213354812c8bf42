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
import * as Option from "effect/Option"
import * as Scope from "effect/Scope"
import type { CurrentAgent } from "../../CurrentAgent.ts"
import { awaitWithin, boundText } from "../session/bounded.ts"
import { runId as makeRunId } from "../session/ids.ts"
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
const enter = ({ canceller, place }: Claim): Effect.Effect<void, CheckError> =>
  Effect.suspend(() =>
    place.waits
      ? Effect.raceFirst(
        place.enter,
        Effect.callback<void>((resume) => canceller.onCancel(() => resume(Effect.void)))
      )
      : place.enter
  )

// interrupts the provider's start when it is cancelled or its caller is interrupted, and waits for its clean-up, within
// the grace: afterwards nothing of it is alive, or what is left was told to go
const perform = (
  starting: Effect.Effect<ProviderRun<Unchecked>, AnyStartError>,
  canceller: Canceller,
  grace: Duration.Duration,
  restore: <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
): Effect.Effect<ProviderExit | undefined> =>
  Effect.flatMap(Effect.forkDetach(starting, { startImmediately: true }), (fiber) => {
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
  })

// sound for providers without types too: a start that keeps nothing of its promise is one that broke it
const isRun = (handle: ProviderRun<Unchecked>): boolean =>
  typeof handle === "object" && handle !== null && typeof handle.id === "string" && Effect.isEffect(handle.result) &&
  Option.isOption(handle.localAgent)

const violation = (
  checked: Checked,
  provider: ProviderInfo,
  handle: ProviderRun<Unchecked>,
  running: Shared["running"]
): string | undefined => {
  if (!isRun(handle)) return "it gave back no run"
  const { steer } = provider.capabilities
  if (steer === true && typeof handle.steer !== "function") return "its run has no method steer"
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
  for (const { info } of running.values()) {
    // the ids of remote children are their backends' (S301)
    if (info.id === handle.id && (info.local || agent !== undefined)) return `a child ${info.id} is running already`
  }
  return undefined
}

/** @internal */
export const start = (
  shared: Shared,
  registration: Registration,
  request: AnyRequest
): Effect.Effect<AnyRun, AnyStartError, CurrentAgent | Scope.Scope> =>
  Effect.uninterruptibleMask((restore) =>
    Effect.contextWith((context: Context.Context<CurrentAgent | Scope.Scope>) =>
      Effect.gen(function*() {
        const { implementation, info: provider } = registration
        if (!registration.open) return yield* providerClosed(provider.name)
        const checked = yield* check(provider, request, context)
        const { parent } = checked
        const place = shared.gate.place(parent.sessionId, parent.limits)
        const claimed = yield* claim(Context.get(context, Scope.Scope), parent, request.signal, place)
        if (claimed === undefined) return yield* new Cancelled({ cause: "disposed" })
        const { canceller, scope } = claimed
        const whose = `a start by provider ${JSON.stringify(provider.name)}`

        const accepted = Effect.gen(function*() {
          yield* restore(enter(claimed))
          if (canceller.cause !== undefined) return yield* cancelledBy(provider.name, parent, canceller.cause)
          if (!registration.open) return yield* providerClosed(provider.name)
          const runId = yield* makeRunId
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
          const exit = yield* perform(
            Effect.suspend(() => Effect.provideService(implementation.start(resolved), Scope.Scope, scope)),
            canceller,
            shared.grace,
            restore
          )
          // also when it is cancelled in the very moment of the hand-over (S74, S372)
          if (canceller.cause !== undefined || exit === undefined) {
            return yield* cancelledBy(provider.name, parent, canceller.cause)
          }
          if (Exit.isFailure(exit)) return yield* startError(provider.name, exit.cause)
          const handle = exit.value
          const broken = violation(checked, provider, handle, shared.running)
          if (broken !== undefined) return yield* new ContractViolation({ provider: provider.name, issue: broken })
          return { runId, handle }
        })
        const { handle, runId } = yield* Effect.onError(
          accepted,
          (cause) => abandon(claimed, cause, shared.grace, whose)
        )
        return publish({
          shared,
          context,
          claim: claimed,
          handle,
          output: checked.output,
          timeout: checked.timeout,
          startedAt: yield* Clock.currentTimeMillis,
          info: {
            runId,
            provider: provider.name,
            id: handle.id,
            parent: parent.sessionId,
            local: Option.isSome(handle.localAgent),
            label: request.label
          }
        })
      })
    )
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

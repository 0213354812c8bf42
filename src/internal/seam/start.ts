/**
 * Starts a run, watches over it, and takes it down in the one order that loses nothing: the child settles, its
 * provider's finalizers run, the result is known with all partial output, the place in the queue is free, the end is
 * told, and only then does whoever waits for the result go on.
 */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Scope from "effect/Scope"
import type { CurrentAgent } from "../../CurrentAgent.ts"
import { type AbortCause, noUsage } from "../../Session.ts"
import { awaitWithin, boundText } from "../session/bounded.ts"
import type { Broadcast } from "../session/broadcast.ts"
import { runId as makeRunId } from "../session/ids.ts"
import { type AnyRequest, cancelledBy, type Checked, type CheckError, check } from "./check.ts"
import { Cancelled, ContractViolation, ReleaseFailed, RunFailed, StartFailed } from "./errors.ts"
import type { ProviderInfo, RunInfo, SubagentEvent } from "./events.ts"
import type { Gate } from "./gate.ts"
import type { StartError, Unchecked } from "./request.ts"
import type { Result } from "./result.ts"
import type { Implementation, ProviderRun, ResolvedStart, Run, Steerable } from "./run.ts"

/** @internal What the runs of one service share. */
export interface Shared {
  readonly gate: Gate
  readonly events: Broadcast<SubagentEvent>
  readonly running: Map<string, { readonly info: RunInfo; readonly at: number }>
  /** How long the release of a run may take before what is left of it is given up. */
  readonly grace: Duration.Duration
}

/** @internal A provider as it is registered. */
export interface Registration {
  readonly info: ProviderInfo
  // the capabilities of registered providers differ, and a registration stands for any of them
  readonly implementation: Implementation<Unchecked>
  open: boolean
}

/** @internal */
export type AnyRun = Run<unknown> & Steerable<Unchecked>

interface Live {
  readonly shared: Shared
  readonly registration: Registration
  readonly request: AnyRequest
  readonly checked: Checked
  readonly info: RunInfo
  readonly startedAt: number
  readonly scope: Scope.Closeable
  readonly guard: Scope.Closeable
  readonly handle: ProviderRun<Unchecked>
  readonly result: Deferred.Deferred<Result<unknown>, RunFailed>
  readonly released: Deferred.Deferred<void, ReleaseFailed>
  readonly unlisten: Array<() => void>
  cause: AbortCause | undefined
  watcher: Fiber.Fiber<void> | undefined
}

/** What cancels a start and, once it succeeded, the run: first come, first served. */
class Canceller {
  cause: AbortCause | undefined
  action: (() => void) | undefined

  cancel(cause: AbortCause): void {
    if (this.cause !== undefined) return
    this.cause = cause
    this.action?.()
  }
}

const listen = (request: AnyRequest, parent: CurrentAgent["Service"], canceller: Canceller): Array<() => void> => {
  const unlisten = [parent.lifetime.onEnd(() => canceller.cancel("parent"))]
  const { signal } = request
  if (signal !== undefined) {
    const onAbort = () => canceller.cancel("parent")
    signal.addEventListener("abort", onAbort, { once: true })
    unlisten.push(() => signal.removeEventListener("abort", onAbort))
  }
  return unlisten
}

// interrupts `effect` when the request is cancelled, and waits for its clean-up, within the grace: a failure means that
// nothing is left, or that what is left was told to go
const orCancelled = <A, E>(
  effect: Effect.Effect<A, E>,
  canceller: Canceller,
  grace: Duration.Duration,
  failure: () => Cancelled | StartFailed
): Effect.Effect<A, E | Cancelled | StartFailed> =>
  Effect.suspend(() => {
    if (canceller.cause !== undefined) return Effect.fail(failure())
    return Effect.flatMap(Effect.forkDetach(effect, { startImmediately: true }), (fiber) => {
      const done = fiber.pollUnsafe()
      if (done !== undefined) return done
      const end = Effect.suspend(() => {
        fiber.interruptUnsafe()
        return awaitWithin(fiber, grace)
      })
      return Effect.onInterrupt(
        Effect.flatMap(
          Effect.callback<Exit.Exit<A, E> | undefined>((resume) => {
            canceller.action = () => resume(end)
            fiber.addObserver((exit) => resume(Effect.succeed(exit)))
          }),
          (exit): Effect.Effect<A, E | Cancelled | StartFailed> => {
            canceller.action = undefined
            return canceller.cause === undefined && exit !== undefined ? exit : Effect.fail(failure())
          }
        ),
        () => end
      )
    })
  })

const aborted = (cause: AbortCause, partial: Result<unknown> | undefined): Result<unknown> => ({
  _tag: "Aborted",
  cause,
  text: partial?.text ?? "",
  output: partial?.output ?? [],
  usage: partial?.usage ?? noUsage
})

const failedResult = (result: Result<unknown>, reason: string, diagnostic: string): Result<unknown> => ({
  _tag: "Failed",
  reason,
  retryable: false,
  diagnostic: boundText(diagnostic),
  text: result.text,
  output: result.output,
  usage: result.usage
})

// the structured value is only believed after a decode on this side; without a schema there is none
const decoded = (live: Live, result: Result<unknown>): Effect.Effect<Result<unknown>> => {
  if (result._tag !== "Completed") return Effect.succeed(result)
  if (Option.isNone(live.checked.output)) return Effect.succeed({ ...result, structured: undefined })
  return Effect.match(live.checked.output.value.decode(result.structured), {
    onSuccess: (structured): Result<unknown> => ({ ...result, structured }),
    onFailure: (error) => failedResult(result, "InvalidStructuredOutput", error.message)
  })
}

const settledResult = Effect.fnUntraced(function*(
  live: Live,
  exit: Exit.Exit<Result<unknown>, RunFailed> | undefined,
  elapsed: number
) {
  const { cause, info: { provider } } = live
  if (exit !== undefined && Exit.isSuccess(exit)) {
    const result = cause !== undefined && exit.value._tag !== "Completed"
      ? aborted(cause, exit.value)
      : yield* decoded(live, exit.value)
    return Exit.succeed({ ...result, usage: { ...result.usage, elapsed } })
  }
  if (cause !== undefined) return Exit.succeed(aborted(cause, undefined))
  const error = exit === undefined ? undefined : Option.getOrUndefined(Cause.findErrorOption(exit.cause))
  if (error !== undefined) return Exit.fail(error)
  if (exit !== undefined) yield* Effect.logError(`a run of provider ${JSON.stringify(provider)} died`, exit.cause)
  return Exit.fail(
    new RunFailed({ provider, reason: "ProviderFault", diagnostic: "the provider gave no result; see the log" })
  )
})

const closeScope = Effect.fnUntraced(function*(live: Live) {
  const { handle, scope, shared: { grace } } = live
  const closing = Scope.closeUnsafe(scope, Exit.void)
  const problems: Array<string> = []
  const survivors: Array<string> = []
  if (closing !== undefined) {
    const fiber = yield* Effect.forkDetach(closing, { startImmediately: true, uninterruptible: true })
    const exit = yield* awaitWithin(fiber, grace)
    if (exit === undefined) {
      problems.push("its provider did not release it in time")
      survivors.push(`run ${live.info.runId} of provider ${live.info.provider}`)
    } else if (Exit.isFailure(exit)) {
      yield* Effect.logError(`the release of a run of provider ${JSON.stringify(live.info.provider)} died`, exit.cause)
      problems.push(Cause.pretty(exit.cause).split("\n")[0])
    }
  }
  if (handle.survivors !== undefined) survivors.push(...yield* handle.survivors)
  if (survivors.length > 0 && problems.length === 0) problems.push("some of it is still alive")
  return { survivors, problems }
})

const watch = (live: Live): Effect.Effect<void> =>
  Effect.uninterruptibleMask((restore) =>
    Effect.gen(function*() {
      const { guard, handle, info, shared } = live
      const first = yield* Effect.exit(restore(handle.result))
      // from here on nobody can cancel it any more
      for (const unlisten of live.unlisten) unlisten()
      const { problems, survivors } = yield* closeScope(live)
      const exit = Exit.isFailure(first) && live.cause !== undefined && Cause.hasInterruptsOnly(first.cause)
        // the provider's finalizers have settled the child by now: what it holds is the partial output
        ? yield* awaitWithin(
          yield* Effect.forkDetach(handle.result, { startImmediately: true }),
          shared.grace
        )
        : first
      const at = yield* Clock.currentTimeMillis
      const settled = yield* settledResult(live, exit, at - live.startedAt)
      shared.gate.parts(info.id)
      shared.gate.leave(info.parent)
      shared.running.delete(info.runId)
      const result = Exit.isSuccess(settled) ? settled.value : undefined
      shared.events.publish({
        _tag: "RunEnded",
        ...info,
        at,
        outcome: result?._tag ?? "RunFailed",
        text: result?.text ?? "",
        output: result?.output ?? [],
        usage: result?.usage ?? noUsage,
        released: problems.length === 0
      })
      Deferred.doneUnsafe(live.result, settled)
      Deferred.doneUnsafe(
        live.released,
        problems.length === 0 ? Exit.void : Exit.fail(
          new ReleaseFailed({
            provider: info.provider,
            result,
            ...(Exit.isSuccess(settled) ? undefined : {
              run: Option.getOrThrow(Cause.findErrorOption(settled.cause))
            }),
            survivors,
            diagnostic: boundText(problems.join("; "))
          })
        )
      )
      // detaches the run from its caller's scope, which may live much longer
      const closing = Scope.closeUnsafe(guard, Exit.void)
      if (closing !== undefined) yield* closing
    })
  )

const violation = (checked: Checked, handle: ProviderRun<Unchecked>, running: Shared["running"]): string | undefined => {
  if (handle.id === "") return "the child has an empty id"
  if (handle.id === checked.parent.sessionId) return "the child has its parent's id"
  const agent = Option.getOrUndefined(handle.localAgent)
  if (agent === undefined) return undefined
  if (agent.id !== handle.id) return `the child's id is ${handle.id}, its agent's ${agent.id}`
  if (agent.header.parent !== checked.parent.sessionId) {
    return `the child's session names ${agent.header.parent ?? "no parent"}, not ${checked.parent.sessionId}`
  }
  if (agent.header.depth < checked.depth) return `the child has depth ${agent.header.depth}, not ${checked.depth}`
  return running.has(handle.id) ? "the child is running already" : undefined
}

/** @internal The error of a start by any provider. */
export type AnyStartError = StartError<Unchecked> | CheckError

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
        const checked = yield* check(provider, request, context)
        const { parent } = checked
        const canceller = new Canceller()
        const unlisten = listen(request, parent, canceller)
        const cancelled = () => parent.lifetime.ended === undefined
          ? new Cancelled({ cause: canceller.cause ?? "parent" })
          : cancelledBy(provider.name, parent)
        const scope = Scope.makeUnsafe()
        const stop = Effect.fnUntraced(function*(cause: Cause.Cause<unknown>) {
          for (const one of unlisten) one()
          const fiber = yield* Effect.forkDetach(Scope.close(scope, Exit.failCause(cause)), {
            startImmediately: true,
            uninterruptible: true
          })
          yield* awaitWithin(fiber, shared.grace)
        })
        yield* Effect.onError(
          restore(
            orCancelled(shared.gate.enter(parent.sessionId, parent.limits), canceller, shared.grace, cancelled)
          ),
          stop
        )
        const startedAt = yield* Clock.currentTimeMillis
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
        const handle = yield* Effect.onError(
          restore(
            orCancelled(
              Effect.suspend(() =>
                registration.open
                  ? Effect.provideService(implementation.start(resolved), Scope.Scope, scope)
                  : Effect.fail(
                    new StartFailed({
                      provider: provider.name,
                      reason: "ProviderClosed",
                      diagnostic: "the provider's layer is closed"
                    })
                  )
              ),
              canceller,
              shared.grace,
              cancelled
            )
          ),
          (cause) => Effect.andThen(stop(cause), Effect.sync(() => shared.gate.leave(parent.sessionId)))
        )
        if (canceller.cause !== undefined) {
          // cancelled in the very moment of the hand-over: nothing is published (S74, S372)
          yield* stop(Cause.empty)
          shared.gate.leave(parent.sessionId)
          return yield* cancelled()
        }
        const broken = violation(checked, handle, shared.running)
        if (broken !== undefined) {
          yield* stop(Cause.empty)
          shared.gate.leave(parent.sessionId)
          return yield* new ContractViolation({ provider: provider.name, issue: broken })
        }
        return yield* publish(shared, registration, request, checked, canceller, unlisten, {
          runId,
          startedAt,
          scope,
          handle,
          caller: Context.get(context, Scope.Scope)
        })
      })
    )
  )

const publish = Effect.fnUntraced(function*(
  shared: Shared,
  registration: Registration,
  request: AnyRequest,
  checked: Checked,
  canceller: Canceller,
  unlisten: Array<() => void>,
  started: {
    readonly runId: string
    readonly startedAt: number
    readonly scope: Scope.Closeable
    readonly handle: ProviderRun<Unchecked>
    readonly caller: Scope.Scope
  }
) {
  const { handle, runId, startedAt } = started
  const info: RunInfo = {
    runId,
    provider: registration.info.name,
    id: handle.id,
    parent: checked.parent.sessionId,
    local: Option.isSome(handle.localAgent),
    label: request.label
  }
  const live: Live = {
    shared,
    registration,
    request,
    checked,
    info,
    startedAt,
    scope: started.scope,
    guard: Scope.forkUnsafe(started.caller),
    handle,
    result: Deferred.makeUnsafe(),
    released: Deferred.makeUnsafe(),
    unlisten,
    cause: undefined,
    watcher: undefined
  }
  const cancel = (cause: AbortCause) => {
    if (live.cause !== undefined || live.watcher === undefined) return
    live.cause = cause
    canceller.cause ??= cause
    live.watcher.interruptUnsafe()
  }
  shared.gate.joins(info.parent, info.id)
  shared.running.set(runId, { info, at: startedAt })
  shared.events.publish({ _tag: "RunStarted", ...info, at: startedAt })
  const settled = Effect.exit(Deferred.await(live.result))
  yield* Scope.addFinalizer(
    live.guard,
    Effect.suspend(() => {
      cancel(checked.parent.lifetime.ended === undefined ? "disposed" : "parent")
      return Effect.asVoid(settled)
    })
  )
  live.watcher = yield* Effect.forkDetach(watch(live), { startImmediately: true })
  if (checked.timeout !== undefined) {
    const timer = yield* Effect.forkDetach(
      Effect.andThen(Effect.sleep(checked.timeout), Effect.sync(() => cancel("timeout"))),
      { startImmediately: true }
    )
    unlisten.push(() => timer.interruptUnsafe())
  }
  canceller.action = () => cancel(canceller.cause ?? "parent")
  const run: AnyRun = {
    id: info.id,
    runId,
    provider: info.provider,
    localAgent: handle.localAgent,
    result: Deferred.await(live.result),
    interrupt: Effect.suspend(() => {
      cancel("user")
      return Deferred.await(live.result)
    }),
    progress: handle.progress,
    released: Deferred.await(live.released),
    steer: handle.steer
  }
  return run
})

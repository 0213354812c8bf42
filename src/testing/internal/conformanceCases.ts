/**
 * What the conformance suite does with a provider, case by case.
 */
import * as Cause from "effect/Cause"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { CurrentAgent, Lifetime } from "../../CurrentAgent.ts"
import { CutOff } from "../../internal/seam/progress.ts"
import type * as Session from "../../Session.ts"
import * as Subagent from "../../Subagent.ts"
import { type Body, expect, refused, type Run, show, type World } from "./conformanceWorld.ts"

const Output = Schema.Struct({ answer: Schema.String, count: Schema.FiniteFromString })

const isAborted = (result: Subagent.Result<unknown>, cause: Session.AbortCause, text: string | undefined) =>
  expect(
    result._tag === "Aborted" && result.cause === cause && (text === undefined || result.text === text),
    () => `the result is ${show(result)}, not Aborted by ${cause}${text === undefined ? "" : ` with ${show(text)}`}`
  )

const answers = (result: Subagent.Result<unknown>, text: string) =>
  expect(
    result._tag === "Completed" && result.text.includes(text),
    () => `the result is ${show(result)}, not Completed with ${show(text)}`
  )

const started = (world: World): number => world.events.filter((event) => event._tag === "RunStarted").length

const yields = (count: number): Effect.Effect<void> =>
  Effect.forEach(Array.from({ length: count }), () => Effect.yieldNow, { discard: true })

/** Moments at which something is cancelled: from the first one to well after a quick provider has started. */
const moments = [0, 1, 2, 3, 4, 5, 8, 13, 21, 34]

/** @internal */
export const published = (world: World): Body =>
  Effect.gen(function*() {
    const parent = yield* CurrentAgent
    const run = yield* world.start({ prompt: "Say who you are", label: "who" })
    yield* expect(run.id !== "" && run.runId !== "", () => "the run has an empty id")
    yield* expect(run.id !== parent.sessionId, () => "the child has its parent's id")
    yield* expect(run.provider === world.name, () => `the run says its provider is ${show(run.provider)}`)
    if (Option.isSome(run.localAgent)) {
      const { header, id } = run.localAgent.value
      yield* expect(id === run.id, () => `the child's id is ${run.id}, its agent's ${id}`)
      yield* expect(header.parent === parent.sessionId, () => `its session names ${show(header.parent)} as its parent`)
      yield* expect(header.depth > parent.depth, () => `its session has depth ${header.depth}`)
    }
    yield* answers(yield* run.result, "Say who you are")
    yield* run.released
    yield* yields(5)
    const event = world.events.find((one) => one._tag === "RunStarted" && one.runId === run.runId)
    yield* expect(
      event?._tag === "RunStarted" && event.id === run.id && event.label === "who",
      () => `the start was told as ${show(event)}`
    )
  })

/** @internal */
export const distinct = (world: World): Body =>
  Effect.gen(function*() {
    const one = Effect.scoped(Effect.tap(world.start({ prompt: "Go" }), (run) => run.result))
    const runs = [yield* one, ...yield* Effect.all([one, one, one], { concurrency: "unbounded" })]
    const ids = runs.map((run) => run.runId)
    yield* expect(new Set(ids).size === ids.length, () => `two runs have one id: ${ids.join(", ")}`)
  })

/** @internal */
export const abortedBefore = (world: World): Body =>
  Effect.gen(function*() {
    const error = yield* refused(
      world.start({ prompt: "Go", signal: AbortSignal.abort() }),
      "a start with an aborted signal"
    )
    yield* expect(
      error instanceof Subagent.Cancelled && error.cause === "parent",
      () => `an aborted signal gives ${show(error)}`
    )
    yield* yields(20)
    yield* expect(started(world) === 0, () => "a cancelled start was told as a run")
  })

/** @internal */
export const abortedAnytime = (world: World): Body =>
  Effect.forEach(moments, (moment) =>
    Effect.gen(function*() {
      const abort = new AbortController()
      const before = started(world)
      const fiber = yield* Effect.forkScoped(Effect.exit(world.start({ prompt: "Go", signal: abort.signal })))
      yield* yields(moment)
      abort.abort()
      const exit = yield* Fiber.join(fiber)
      if (Exit.isSuccess(exit)) {
        yield* isAborted(yield* exit.value.result, "parent", undefined)
        return yield* exit.value.released
      }
      const error = Option.getOrUndefined(Cause.findErrorOption(exit.cause))
      yield* expect(
        error instanceof Subagent.Cancelled,
        () => `aborted at moment ${moment}: ${Cause.pretty(exit.cause)}`
      )
      yield* yields(20)
      yield* expect(started(world) === before, () => `cancelled at moment ${moment}, and told as a run`)
    }), { discard: true })

/** @internal */
export const interruptedAnytime = (world: World): Body =>
  Effect.forEach(moments, (moment) =>
    Effect.scoped(Effect.gen(function*() {
      const fiber = yield* Effect.forkScoped(world.start({ prompt: "Go" }))
      yield* yields(moment)
      yield* Fiber.interrupt(fiber)
    })), { discard: true })

/** @internal */
export const cancelled = (
  cause: Session.AbortCause,
  cancel: (run: Run) => Effect.Effect<unknown, unknown>,
  signal?: AbortSignal
) =>
(world: World): Body =>
  Effect.gen(function*() {
    const run = yield* world.start({ prompt: "Go", signal })
    yield* world.speaks(run)
    yield* cancel(run)
    yield* isAborted(yield* run.result, cause, world.text)
    yield* run.released
  })

/** @internal */
export const signalled = (world: World): Body =>
  Effect.suspend(() => {
    const abort = new AbortController()
    return cancelled("parent", () => Effect.sync(() => abort.abort()), abort.signal)(world)
  })

/** @internal */
export const orphaned = (world: World): Body =>
  Effect.gen(function*() {
    const lifetime = new Lifetime()
    const end = Effect.sync(() => lifetime.end("interrupted"))
    const parent = { ...yield* CurrentAgent, lifetime }
    yield* Effect.provideService(cancelled("parent", () => end)(world), CurrentAgent, parent)
  })

/** @internal */
export const overdue = (world: World): Body =>
  Effect.gen(function*() {
    const run = yield* world.start({ prompt: "Go", timeout: 50 })
    yield* isAborted(yield* run.result, "timeout", undefined)
    yield* run.released
  })

/** @internal */
export const disposed = (world: World): Body =>
  Effect.gen(function*() {
    const run = yield* Effect.scoped(Effect.tap(world.start({ prompt: "Go" }), world.speaks))
    const running = yield* world.subagents.running
    yield* expect(running.length === 0, () => "the scope is closed, and the run goes on")
    yield* isAborted(yield* run.result, "disposed", world.text)
    yield* run.released
  })

/** @internal */
export const idempotent = (world: World): Body =>
  Effect.gen(function*() {
    const run = yield* world.start({ prompt: "Go" })
    const results = yield* Effect.all([run.interrupt, run.interrupt, run.result], { concurrency: "unbounded" })
    for (const result of [...results, yield* run.interrupt, yield* run.result]) {
      yield* isAborted(result, "user", results[0].text)
    }
  })

/** @internal */
export const lasting = (world: World): Body =>
  Effect.gen(function*() {
    const run = yield* Effect.scoped(Effect.tap(world.start({ prompt: "Stay" }), (run) => run.result))
    yield* run.released
    yield* answers(yield* run.result, "Stay")
    yield* answers(yield* run.interrupt, "Stay")
    yield* Stream.runDrain(run.progress)
  })

/** @internal */
export const patient = (world: World): Body =>
  Effect.gen(function*() {
    const run = yield* world.start({ prompt: "Take your time" })
    let cut = false
    const progress = yield* Stream.runDrain(run.progress).pipe(
      Effect.provideService(CutOff, () => {
        cut = true
      }),
      Effect.forkScoped({ startImmediately: true })
    )
    const waiter = yield* Effect.forkScoped(run.result, { startImmediately: true })
    yield* yields(5)
    yield* Fiber.interrupt(waiter)
    yield* Deferred.succeed(world.gate, undefined)
    yield* answers(yield* run.result, "Take your time")
    yield* Fiber.join(progress)
    yield* expect(!cut, () => "its progress does not end when it has settled")
  })

/** @internal */
export const failing = (world: World): Body =>
  Effect.gen(function*() {
    const run = yield* world.start({ prompt: "Fail" })
    const result = yield* run.result
    yield* expect(
      result._tag !== "Completed" && result._tag !== "Aborted",
      () => `a child that fails has the result ${show(result)}`
    )
    if (result._tag === "Failed") {
      const bytes = new TextEncoder().encode(result.diagnostic).length
      yield* expect(bytes <= 4096, () => `its diagnostic has ${bytes} bytes`)
    }
    yield* run.released
  })

// an agent behind the provider may turn out not to do what is only negotiated: that has to be said, and leave nothing
/** @internal */
export const negotiable =
  (provider: Subagent.Provider.Named<Subagent.Capabilities>, body: (world: World) => Body) => (world: World): Body =>
    provider.capabilities.outputSchema !== "negotiated" ?
      body(world) :
      Effect.catch(
        body(world),
        (error) =>
          error instanceof Subagent.UnsupportedCapability && error.capability === "outputSchema"
            ? expect(started(world) === 0, () => "a capability was refused, and a run told")
            : Effect.fail(error)
      )

/** @internal */
export const structured = (world: World): Body =>
  Effect.gen(function*() {
    const run = yield* world.subagents.start(world.name, { prompt: "Count", outputSchema: Output })
    const result = yield* run.result
    yield* expect(
      result._tag === "Completed" && result.structured.answer === "yes" && result.structured.count === 7,
      () => `the result is ${show(result)}, not Completed with the decoded value`
    )
  })

/** @internal */
export const invalid = (world: World): Body =>
  Effect.gen(function*() {
    const run = yield* world.subagents.start(world.name, { prompt: "Count", outputSchema: Output })
    const result = yield* run.result
    yield* expect(result._tag === "Failed", () => `an invalid value gives the result ${show(result)}, not Failed`)
  })

/** @internal */
export const steering = (world: World): Body =>
  Effect.gen(function*() {
    const run = yield* world.start({ prompt: "Wait for word" })
    if (Option.isNone(run.steer)) return yield* Effect.asVoid(run.interrupt)
    const steer = run.steer.value
    const sent = yield* Effect.forkScoped(steer("Turn left", { kind: "user" }), { startImmediately: true })
    // some take a message at once; others only when their child goes on, by which time it has to be there
    yield* Effect.raceFirst(Fiber.await(sent), Effect.sleep("100 millis"))
    yield* Deferred.succeed(world.gate, undefined)
    yield* Fiber.join(sent)
    yield* answers(yield* run.result, "Turn left")
    yield* run.released
    const error = yield* refused(steer("Too late", { kind: "user" }), "steering after the end")
    yield* expect(error._tag === "SteerRejected", () => `a message after the end gives ${show(error)}`)
  })

/** @internal */
export const isolated = (world: World): Body =>
  Effect.gen(function*() {
    const parent = yield* CurrentAgent
    const limits = { ...parent.limits, maxChildren: 32, maxRunning: 32 }
    const prompts = Array.from({ length: 20 }, (_, index) => `task <${index}>`)
    const runs = yield* Effect.forEach(prompts, (prompt) => world.start({ prompt }), { concurrency: "unbounded" }).pipe(
      Effect.provideService(CurrentAgent, { ...parent, limits })
    )
    yield* isAborted(yield* runs[7].interrupt, "user", undefined)
    const running = yield* world.subagents.running
    yield* expect(running.length === 19, () => `one of 20 runs was interrupted, and ${running.length} are running`)
    yield* Deferred.succeed(world.gate, undefined)
    const results = yield* Effect.forEach(runs, (run) => run.result, { concurrency: "unbounded" })
    for (const [index, result] of results.entries()) {
      if (index !== 7) yield* answers(result, prompts[index])
    }
  })

/** @internal */
export const outliving = (world: World): Body =>
  Effect.gen(function*() {
    const run = yield* world.start({ prompt: "Go on" })
    const other = yield* world.start({ prompt: "Stop" })
    yield* world.close
    const error = yield* refused(world.start({ prompt: "Too late" }), "a start after the end")
    yield* expect(error instanceof Subagent.ProviderNotFound, () => `a start after the end gives ${show(error)}`)
    yield* isAborted(yield* other.interrupt, "user", undefined)
    yield* yields(5)
    yield* Deferred.succeed(world.gate, undefined)
    yield* answers(yield* run.result, "Go on")
    yield* Effect.all([run.released, other.released])
  })

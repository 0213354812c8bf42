/**
 * Lives random lives of agents that delegate, each in a world of its own. What is wrong afterwards is for
 * `lifecycleChecks.ts` to say.
 */
import { Context, type Duration, Effect, Exit, Fiber, Layer, Option, Schema, Scope, Stream } from "effect"
import { Tool, Toolkit } from "effect/ai"
import * as Agent from "../../src/Agent.ts"
import * as AgentModels from "../../src/AgentModels.ts"
import * as AgentTools from "../../src/AgentTools.ts"
import { CurrentAgent } from "../../src/CurrentAgent.ts"
import * as Fork from "../../src/providers/Fork.ts"
import * as Scripted from "../../src/providers/Scripted.ts"
import * as Spawn from "../../src/providers/Spawn.ts"
import type { AbortCause } from "../../src/Session.ts"
import { SessionStore } from "../../src/SessionStore.ts"
import * as Subagent from "../../src/Subagent.ts"
import * as SubagentTool from "../../src/SubagentTool.ts"
import * as SystemPrompt from "../../src/SystemPrompt.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import { type Command, type Deed, type Kind, kinds, play, type Program, reply, yields } from "./lifecycleProgram.ts"

// ----- what every world has

const Value = Schema.Struct({ n: Schema.Number })
const Delegate = SubagentTool.make("delegate", "spawn", {})
const Work = Tool.make("work", { success: Schema.String })
const Forever = Tool.make("forever", { success: Schema.String })
const handlers = Toolkit.make(Work, Forever).toLayer({
  work: () => Effect.as(yields(3), "worked"),
  forever: () => Effect.never
})

const limits = { maxDepth: 3, maxChildren: 3, maxWait: 60_000, maxRunning: 8 }

/** Everything but the store and the providers. */
const layerAgents = (grace: Duration.Input) =>
  AgentTools.layer(Toolkit.make(Delegate, Work, Forever)).pipe(
    Layer.provide([handlers, SubagentTool.layer(Delegate)]),
    Layer.provideMerge(Subagent.layer({ grace })),
    Layer.provideMerge(Agent.layer({ grace })),
    Layer.provideMerge([
      AgentModels.layer().pipe(Layer.provide(ScriptedModel.layer(reply))),
      AgentTools.layerRegistry,
      SystemPrompt.layer
    ])
  )

const providers: Readonly<
  Record<
    Kind,
    Layer.Layer<
      never,
      Subagent.DuplicateProvider | Subagent.InvalidProvider,
      Agent.Agents | SessionStore | Subagent.Subagents
    >
  >
> = {
  spawn: Spawn.layer,
  fork: Fork.layer,
  scripted: Scripted.layer((request) => play(String(request.prompt).slice(3) as Deed))
}

// ----- the world

export type AnyRun = Subagent.Run<unknown> & Subagent.Steerable<Subagent.Unchecked>

/** A start that a program made, and what came of it. */
export interface Started {
  readonly kind: Kind
  readonly does: Deed
  readonly abort: AbortController
  readonly scope: Scope.Closeable
  readonly fiber: Fiber.Fiber<AnyRun, { readonly _tag: string }>
  /** What may have cancelled it. */
  readonly causes: Set<AbortCause>
}

/** A message that was sent into a running child. */
export interface Sent {
  readonly text: string
  readonly to: Started
  readonly fiber: Fiber.Fiber<void, Subagent.SteerRejected>
}

/** What a program did. */
export interface History {
  readonly starts: ReadonlyArray<Started>
  readonly sent: ReadonlyArray<Sent>
  readonly events: ReadonlyArray<Subagent.SubagentEvent>
  /** The runs that ended before anybody began to clean up. */
  readonly early: ReadonlySet<string>
  readonly issues: Array<string>
}

const runOf = (started: Started) => {
  const exit = started.fiber.pollUnsafe()
  return exit !== undefined && Exit.isSuccess(exit) ? exit.value : undefined
}

/** Waits for something that has to end, and says so when it does not. */
const soon = <A, E>(issues: Array<string>, what: string, effect: Effect.Effect<A, E>) =>
  Effect.gen(function*() {
    const fiber = yield* Effect.forkDetach(effect, { startImmediately: true })
    const done = yield* Effect.raceFirst(
      Effect.as(Fiber.await(fiber), true),
      Effect.as(Effect.sleep("3 seconds"), false)
    )
    if (!done) {
      issues.push(`${what} does not end`)
      fiber.interruptUnsafe()
    }
  })

export interface Options {
  /**
   * How long a turn may take to end, and a run to be released: by default so short that what ignores its end is given
   * up. A store of files is slower than that.
   */
  readonly grace?: Duration.Input | undefined
  /** A fault, done while the program runs to see whether it is found. */
  readonly plant?: Effect.Effect<unknown, never, SessionStore | Subagent.Subagents | CurrentAgent> | undefined
}

/** Runs a program in a world over the store that is there, and takes the world down. */
export const runProgram = (program: Program, options: Options = {}): Effect.Effect<History, unknown, SessionStore> =>
  Effect.gen(function*() {
    const world = yield* Scope.make()
    const context = yield* Layer.buildWithScope(Layer.fresh(layerAgents(options.grace ?? "100 millis")), world)
    const history = yield* Effect.provideContext(inWorld(program, options), context)
    yield* soon(history.issues, "the end of the world", Scope.close(world, Exit.void))
    return history
  })

const inWorld = Effect.fnUntraced(function*(program: Program, options: Options) {
  const subagents = yield* Subagent.Subagents
  const agents = yield* Agent.Agents
  const issues: Array<string> = []
  const starts: Array<Started> = []
  const sent: Array<Sent> = []
  const pending: Array<Fiber.Fiber<unknown, unknown>> = []
  const fork = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
    Effect.map(Effect.forkDetach(effect, { startImmediately: true }), (fiber) => {
      pending.push(fiber)
      return fiber
    })

  const events: Array<Subagent.SubagentEvent> = []
  const listener = yield* Effect.forkDetach(
    Stream.runForEach(subagents.events, (event) => Effect.sync(() => events.push(event))),
    { startImmediately: true }
  )

  const open = new Map<Kind, Scope.Closeable>()
  const toggle = (kind: Kind) =>
    Effect.gen(function*() {
      const scope = open.get(kind)
      if (scope !== undefined) {
        open.delete(kind)
        return yield* Scope.close(scope, Exit.void)
      }
      const fresh = yield* Scope.make()
      open.set(kind, fresh)
      yield* Layer.buildWithScope(Layer.fresh(providers[kind]), fresh)
    })
  for (const kind of kinds) yield* toggle(kind)

  const rootScope = yield* Scope.make()
  const root = yield* Scope.provide(agents.create({ cwd: "/work", id: "root", limits }), rootScope)
  if (options.plant !== undefined) yield* Effect.provideService(options.plant, CurrentAgent, root.identity)
  const shared = yield* Scope.make()

  const perform = Effect.fnUntraced(function*(command: Command) {
    const started = "nth" in command && starts.length > 0
      ? starts[starts.length - 1 - command.nth % starts.length]
      : undefined
    switch (command._tag) {
      case "Start": {
        const { apart, does, hurried, kind } = command
        const abort = new AbortController()
        const scope = apart ? yield* Scope.make() : shared
        const request = {
          prompt: `do:${does}`,
          label: does,
          signal: abort.signal,
          timeout: hurried ? "1 millis" : undefined
        } as const
        const start: Effect.Effect<AnyRun, { readonly _tag: string }, CurrentAgent | Scope.Scope> =
          does === "gives a value"
            ? subagents.start(kind, { ...request, outputSchema: Value })
            : subagents.start(kind, request)
        const fiber = yield* fork(start.pipe(
          Scope.provide(scope),
          Effect.provideService(CurrentAgent, root.identity)
        ))
        starts.push({ kind, does, abort, scope, fiber, causes: new Set(hurried ? ["timeout"] : []) })
        return
      }
      case "Abort": {
        started?.causes.add("parent")
        started?.abort.abort()
        return
      }
      case "GiveUp":
        return started?.fiber.interruptUnsafe()
      case "Interrupt": {
        const run = started === undefined ? undefined : runOf(started)
        started?.causes.add("user")
        if (run !== undefined) yield* fork(run.interrupt)
        return
      }
      case "Steer": {
        const run = started === undefined ? undefined : runOf(started)
        if (started === undefined || run === undefined || Option.isNone(run.steer)) return
        const text = `steer:${sent.length};`
        const fiber = yield* fork(run.steer.value(text, { kind: "user" }))
        return void sent.push({ text, to: started, fiber })
      }
      case "Withdraw":
        return sent[sent.length - 1 - command.nth % sent.length]?.fiber.interruptUnsafe()
      case "Close": {
        if (started === undefined) return
        for (const one of starts) if (one.scope === started.scope) one.causes.add("disposed")
        return void (yield* fork(Scope.close(started.scope, Exit.void)))
      }
      case "Toggle":
        return yield* toggle(command.kind)
      case "Turn":
        return void (yield* fork(root.prompt(`do:${JSON.stringify(command.does)}`)))
      case "StopTurn":
        return void (yield* fork(root.interrupt("user")))
      case "Yield":
        return yield* yields(command.times)
      case "Rest":
        return yield* Effect.sleep("2 millis")
    }
  })
  for (const command of program.commands) yield* perform(command)

  // the end of it all, in one order or the other
  const early = new Set(events.flatMap((event) => event._tag === "RunEnded" ? [event.runId] : []))
  if (program.rootFirst) {
    for (const one of starts) one.causes.add("parent")
    yield* soon(issues, "closing the root", Scope.close(rootScope, Exit.void))
  }
  for (const one of starts) one.causes.add("disposed")
  const scopes = new Set([shared, ...starts.map((one) => one.scope)])
  yield* soon(
    issues,
    "closing the scopes",
    Effect.forEach(scopes, (scope) => Scope.close(scope, Exit.void), {
      concurrency: "unbounded"
    })
  )
  if (!program.rootFirst) yield* soon(issues, "interrupting the root", root.interrupt("user"))
  yield* soon(issues, "something that a program began", Fiber.awaitAll(pending))

  // a child that ignored its end is released when its own graces are over, whatever its parent's
  for (let i = 0; i < 100 && (yield* subagents.running).length > 0; i++) yield* Effect.sleep("5 millis")
  const running = yield* subagents.running
  if (running.length > 0) issues.push(`still running: ${running.map((run) => run.runId).join()}`)
  const alive = (yield* agents.list).filter((agent) => agent.id !== "root" || program.rootFirst)
  if (alive.length > 0) issues.push(`still alive: ${alive.map((agent) => agent.id).join()}`)

  // every place is free again: as many children as may run start without waiting, and no others are in the tree
  for (const kind of kinds) if (!open.has(kind)) yield* toggle(kind)
  if (!program.rootFirst) {
    const probe = Effect.scoped(Effect.forEach([1, 2, 3], () => subagents.start("scripted", { prompt: "do:hangs" })))
    const exit = yield* probe.pipe(
      Effect.provideService(CurrentAgent, {
        ...root.identity,
        limits: { ...limits, maxWait: 0, maxRunning: 3 }
      }),
      Effect.exit
    )
    if (Exit.isFailure(exit)) issues.push(`a place was not given back: ${JSON.stringify(exit.cause)}`)
    yield* soon(issues, "closing the root", Scope.close(rootScope, Exit.void))
  }
  for (const kind of kinds) yield* toggle(kind)
  yield* yields(3)
  yield* Fiber.interrupt(listener)
  const history: History = { starts, sent, events, early, issues }
  return history
})

/** The run of a start that succeeded. */
export const startedRun = runOf

/** A store in the current scope, which outlives every world that is built over it. */
export const withStore = <E, R>(store: Layer.Layer<SessionStore, E, R>) =>
  Effect.map(Layer.build(Layer.fresh(store)), Context.get(SessionStore))

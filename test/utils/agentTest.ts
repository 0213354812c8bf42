/**
 * Tests of agents and of children in this process: real parts over a scripted model. When a test is over and all its
 * agents are closed, every log in its store is checked: valid, closed, and the same after it went through JSON.
 */
import { assert, it } from "@effect/vitest"
import { Context, Deferred, Effect, Layer, Option, Schema, type Scope, Stream } from "effect"
import { type LanguageModel, Tool, Toolkit } from "effect/ai"
import * as Agent from "../../src/Agent.ts"
import * as AgentModels from "../../src/AgentModels.ts"
import * as AgentTools from "../../src/AgentTools.ts"
import { CurrentAgent } from "../../src/CurrentAgent.ts"
import * as Fork from "../../src/providers/Fork.ts"
import * as Spawn from "../../src/providers/Spawn.ts"
import * as Session from "../../src/Session.ts"
import { layerMemory, type SessionLog, SessionStore } from "../../src/SessionStore.ts"
import * as Subagent from "../../src/Subagent.ts"
import * as SystemPrompt from "../../src/SystemPrompt.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"

/** Everything below the root agent. */
export type Core =
  | Agent.Agents
  | AgentModels.AgentModels
  | AgentTools.AgentTools
  | Fork.Fork
  | LanguageModel.LanguageModel
  | ScriptedModel.ScriptedModel
  | SessionStore
  | Spawn.Spawn
  | Subagent.Subagents
  | SystemPrompt.SystemPrompt

export interface Plan<E> {
  readonly script: ScriptedModel.Script
  readonly options?: Agent.Options
  readonly root?: Omit<Agent.CreateOptions, "cwd" | "id">
  readonly models?: Readonly<Record<string, Layer.Layer<LanguageModel.LanguageModel>>>
  /** Tools, sections and the like. */
  readonly with?: ReadonlyArray<Layer.Layer<never, unknown, Core>>
  /** The store breaks, and may leave turns open. */
  readonly breaks?: boolean
  /** Around the memory store. */
  readonly store?: (store: SessionStore["Service"]) => SessionStore["Service"]
  readonly body: Effect.Effect<unknown, E, Core | CurrentAgent | Scope.Scope>
}

/** Checks all logs of a store; `closed` says that no turn may be open any more. */
export const checkLogs = Effect.fnUntraced(function*(store: SessionStore["Service"], closed: boolean) {
  for (const entry of yield* Stream.runCollect(store.list)) {
    if (entry._tag === "Damaged") assert.fail(`session ${entry.id} is damaged: ${entry.what}`)
    const { header } = entry
    const events = yield* Stream.runCollect(store.read(header.id))
    assert.deepStrictEqual(Session.validate(header, events), [], `the log of ${header.id}`)
    if (closed) assert.isUndefined(Session.fold(events).openTurn, `session ${header.id} is left in a turn`)
    for (const event of events) {
      const json = JSON.stringify(Session.encodeEvent(event))
      const decoded = Session.decodeEvent(JSON.parse(json))
      if (decoded._tag === "Failure") assert.fail(`event ${event.seq} of ${header.id}: ${decoded.failure}`)
      assert.strictEqual(JSON.stringify(Session.encodeEvent(decoded.success)), json)
    }
  }
}, Effect.orDie)

const run = <E>(plan: Plan<E>) =>
  Effect.gen(function*() {
    const memory = Context.get(yield* Layer.build(layerMemory), SessionStore)
    const store = plan.store === undefined ? memory : plan.store(memory)
    const core: Layer.Layer<Core, unknown> = Layer.mergeAll(Spawn.layer, Fork.layer).pipe(
      Layer.provideMerge(Subagent.layer()),
      Layer.provideMerge(Agent.layer(plan.options)),
      Layer.provideMerge(Layer.mergeAll(
        AgentModels.layer(plan.models).pipe(Layer.provideMerge(ScriptedModel.layer(plan.script))),
        AgentTools.layerRegistry,
        SystemPrompt.layer,
        Layer.succeed(SessionStore, store)
      ))
    )
    const extras = plan.with === undefined
      ? Layer.empty
      : plan.with.reduce((all, layer) => Layer.merge(all, layer), Layer.empty as Layer.Layer<never, unknown, Core>)
    const root = Agent.layerRoot({ cwd: "/work", id: "root", ...plan.root })
    yield* plan.body.pipe(
      Effect.scoped,
      Effect.provide(root.pipe(Layer.provideMerge(extras.pipe(Layer.provideMerge(core)))))
    )
    yield* checkLogs(memory, plan.breaks !== true)
  })

/** A test with a test clock. The plan is made anew for each run, with the latches that its script and body share. */
export const agentTest = <E>(name: string, plan: () => Plan<E>): void => {
  it.effect(name, () => Effect.suspend(() => run(plan())))
}

type Handler = (
  params: any,
  context: Toolkit.HandlerContext<any>
) => Effect.Effect<unknown, unknown, CurrentAgent>

/** A tool with one handler. What the handler fails with is the tool's failure. */
export const tool = (
  name: string,
  handler: Handler,
  options: {
    readonly parameters?: Schema.Struct<Schema.Struct.Fields>
    readonly success?: Schema.Constraint
    readonly failureMode?: "error" | "return"
    readonly needsApproval?: Tool.NeedsApproval<any>
    readonly concludes?: boolean
  } = {}
) => {
  const kit = toolkit(name, options)
  return AgentTools.layer(kit).pipe(Layer.provide(kit.toLayer({ [name]: handler } as never)))
}

/** The toolkit of {@link tool}, without its handler. */
export const toolkit = (name: string, options: NonNullable<Parameters<typeof tool>[2]> = {}) =>
  Toolkit.make(
    Tool.make(name, {
      // whatever it is, the tests do not look at its type
      parameters: (options.parameters ?? Schema.Struct({})) as Schema.Struct<{}>,
      success: (options.success ?? Schema.Unknown) as typeof Schema.Unknown,
      failure: Schema.Unknown,
      failureMode: options.failureMode ?? "error",
      ...(options.needsApproval === undefined ? undefined : { needsApproval: options.needsApproval }),
      dependencies: [CurrentAgent]
    }).annotate(AgentTools.Concludes, options.concludes === true)
  )

/** Something that happens once, and can be waited for. */
export const moment = () => {
  const deferred = Deferred.makeUnsafe<void>()
  return {
    /** It happens. */
    now: Effect.asVoid(Deferred.succeed(deferred, undefined)),
    /** Waits until it has happened. */
    passed: Deferred.await(deferred),
    get isPast(): boolean {
      return Deferred.isDoneUnsafe(deferred)
    }
  }
}

/** The events of a session as they are stored now. */
export const eventsOf = (id: string) => SessionStore.use((store) => Stream.runCollect(store.read(id)))

export const tagsOf = (id: string) => Effect.map(eventsOf(id), (events) => events.map((event) => event._tag))

/** What was said in a session: role and text, or the calls and results by name. */
export const spoken = (id: string) =>
  Effect.map(eventsOf(id), (events) =>
    events.flatMap((event) => {
      if (event._tag !== "MessageAppended" && event._tag !== "SteeringAdmitted") return []
      const { content, role } = event.message
      if (typeof content === "string") return [`${role}: ${content}`]
      const steered = event._tag === "SteeringAdmitted" ? "steered " : ""
      return content.map((part) => {
        switch (part.type) {
          case "text":
            return `${steered}${role}: ${part.text}`
          case "tool-call":
            return `${role} calls ${part.name}`
          case "tool-result":
            return `${part.name} ${part.isFailure ? "fails" : "gives"} ${JSON.stringify(part.result)}`
          default:
            return `${role} ${part.type}`
        }
      })
    }))

/** The results of a session's tool calls in the order of the log. */
export const resultsOf = (id: string) =>
  Effect.map(
    eventsOf(id),
    (events) =>
      events.flatMap((event) =>
        event._tag === "MessageAppended" && event.message.role === "tool"
          ? event.message.content.filter((part) => part.type === "tool-result")
          : []
      )
  )

/** How the turns of a session ended. */
export const causesOf = (id: string) =>
  Effect.map(
    eventsOf(id),
    (events) => events.flatMap((event) => event._tag === "TurnEnded" ? [event.cause] : [])
  )

/** A new agent over a session of this id, for the rest of the test. */
export const create = (id: string, options: Partial<Agent.CreateOptions> = {}) =>
  Agent.Agents.use((agents) => agents.create({ cwd: "/work", id, ...options }))

/** The live agent of this id. */
export const agentOf = (id: string) => Agent.Agents.use((agents) => Effect.map(agents.get(id), Option.getOrThrow))

/** The text of the messages that a request to the model held, by role. */
export const textsOf = (request: ScriptedModel.Request): ReadonlyArray<string> =>
  request.prompt.content.flatMap((message) =>
    typeof message.content === "string"
      ? [`${message.role}: ${message.content}`]
      : message.content.flatMap((part) => part.type === "text" ? [`${message.role}: ${part.text}`] : [])
  )

/** The system prompt of a request. */
export const systemOf = (request: ScriptedModel.Request): string =>
  request.prompt.content.flatMap((message) => message.role === "system" ? [message.content] : []).join("\n\n")

/** Lets everything that can run run, without the clock moving. */
export const settle = Effect.gen(function*() {
  for (let i = 0; i < 50; i++) yield* Effect.yieldNow
})

/** A store whose logs are wrapped. */
export const wrapped = (wrap: (log: SessionLog) => SessionLog) => (store: SessionStore["Service"]) =>
  SessionStore.of({
    ...store,
    create: (header, seed) => Effect.map(store.create(header, seed), wrap),
    open: (id) => Effect.map(store.open(id), wrap)
  })

/** A store that holds the calls that `when` picks until `gate` has passed; `reached` says that one is held. */
export const held = (when: (call: "append" | "flush", header: Session.Header, nth: number) => boolean) => {
  const gate = moment()
  const reached = moment()
  const counts = { append: 0, flush: 0 }
  const pass = (call: "append" | "flush", header: Session.Header) =>
    Effect.suspend(() =>
      when(call, header, counts[call]++) && !gate.isPast ? Effect.andThen(reached.now, gate.passed) : Effect.void
    )
  const store = wrapped((log) => ({
    header: log.header,
    append: (events) => Effect.andThen(pass("append", log.header), log.append(events)),
    flush: Effect.andThen(pass("flush", log.header), log.flush)
  }))
  return { gate, reached, store }
}

/** A store that holds every new session but the root's until `created` has passed; `creating` says that one is held. */
export const heldCreation = () => {
  const creating = moment()
  const created = moment()
  const store = (store: SessionStore["Service"]) =>
    SessionStore.of({
      ...store,
      create: (header, seed) =>
        Effect.tap(
          store.create(header, seed),
          header.id === "root" ? Effect.void : Effect.andThen(creating.now, created.passed)
        )
    })
  return { creating, created, store }
}

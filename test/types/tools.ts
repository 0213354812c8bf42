/**
 * Delegates from the handler of a tool, and says what the tools of an agent need.
 */
// an illegal use is one for the effect checks too, which do not know that it is expected
// @effect-diagnostics missingEffectContext:off missingEffectError:off missingLayerContext:off
import { Context, Effect, Layer, Schema } from "effect"
import { LanguageModel, Tool, Toolkit } from "effect/ai"
import * as Agent from "../../src/Agent.ts"
import * as AgentTools from "../../src/AgentTools.ts"
import { CurrentAgent } from "../../src/CurrentAgent.ts"
import * as Spawn from "../../src/providers/Spawn.ts"
import type * as SessionStore from "../../src/SessionStore.ts"
import { agentLayer, type Equal, prompt, runnable, same, sessionId, uses } from "./helpers.ts"

// -----------------------------------------------------------------------------
// a handler has what its tool depends on
// -----------------------------------------------------------------------------

const shape = {
  parameters: Schema.Struct({ task: Schema.String }),
  success: Schema.String,
  failure: Schema.String,
  failureMode: "return"
} as const

const Delegate = Tool.make("delegate", { ...shape, dependencies: [CurrentAgent] })
const DelegateBySpawn = Tool.make("delegate", { ...shape, dependencies: [CurrentAgent, Spawn.Spawn] })
const DelegateByNobody = Tool.make("delegate", { ...shape, dependencies: [] })
const Kit = Toolkit.make(Delegate)
const KitBySpawn = Toolkit.make(DelegateBySpawn)
const KitByNobody = Toolkit.make(DelegateByNobody)

const answer = Effect.match({
  onSuccess: (result: { readonly text: string }) => result.text,
  onFailure: (error: { readonly _tag: string }) => error._tag
})

// the client is captured when the layer is built; the static would ask for the provider at each call
const handlers = Kit.toLayer(Effect.gen(function*() {
  const spawn = yield* Spawn.Spawn
  return { delegate: ({ task }) => answer(spawn.delegate({ prompt: task })) }
}))

const inGen = Effect.gen(function*() {
  const spawn = yield* Spawn.Spawn
  uses(Kit.of({ delegate: ({ task }) => answer(spawn.delegate({ prompt: task })) }))
  // @ts-expect-error TS2375 Type 'Spawn' is not assignable to type 'CurrentAgent'
  uses(Kit.of({ delegate: ({ task }) => answer(Spawn.delegate({ prompt: task })) }))

  uses(Kit.toLayer({ delegate: ({ task }) => answer(spawn.delegate({ prompt: task })) }))
  // @ts-expect-error TS2375 Type 'Spawn' is not assignable to type 'CurrentAgent'
  uses(Kit.toLayer({ delegate: ({ task }) => answer(Spawn.delegate({ prompt: task })) }))

  // who delegates is a dependency of the tool, or nobody does
  uses(Kit.toLayer({ delegate: ({ task }) => answer(spawn.delegate({ prompt: task })) }))
  // @ts-expect-error TS2375 Type 'CurrentAgent' is not assignable to type 'never'
  uses(KitByNobody.toLayer({ delegate: ({ task }) => answer(spawn.delegate({ prompt: task })) }))

  // a handler has no scope to leave a run in
  const said = (prompt: string) => Effect.flatMap(spawn.start({ prompt }), (run) => run.result)
  uses(Kit.toLayer({ delegate: ({ task }) => answer(Effect.scoped(said(task))) }))
  // @ts-expect-error TS2375 Type 'CurrentAgent | Scope' is not assignable to type 'CurrentAgent'
  uses(Kit.toLayer({ delegate: ({ task }) => answer(Effect.uninterruptible(said(task))) }))
})

uses(KitBySpawn.toLayer({ delegate: ({ task }) => answer(Spawn.delegate({ prompt: task })) }))
// @ts-expect-error TS2375 Type 'Spawn' is not assignable to type 'CurrentAgent'
uses(Kit.toLayer({ delegate: ({ task }) => answer(Spawn.delegate({ prompt: task })) }))

same<Equal<Layer.Services<typeof handlers>, Spawn.Spawn>>()
same<Equal<Layer.Success<typeof handlers>, Tool.Handler<"delegate">>>()
same<Equal<Effect.Services<typeof inGen>, Spawn.Spawn>>()

// the caller of the tool says who delegates
const turn = LanguageModel.generateText({ prompt, toolkit: Kit }).pipe(Effect.provide(handlers))
same<Equal<Effect.Services<typeof turn>, LanguageModel.LanguageModel | Spawn.Spawn | CurrentAgent>>()

declare const modelLayer: Layer.Layer<LanguageModel.LanguageModel>
declare const spawnLayer: Layer.Layer<Spawn.Spawn>
runnable(turn.pipe(Effect.provide([modelLayer, spawnLayer, agentLayer])))
// @ts-expect-error TS2379 Type 'CurrentAgent' is not assignable to type 'never'
runnable(turn.pipe(Effect.provide([modelLayer, spawnLayer, spawnLayer])))

// -----------------------------------------------------------------------------
// the tools of agents
// -----------------------------------------------------------------------------

class Clock extends Context.Service<Clock, { readonly now: Effect.Effect<number> }>()("Clock") {}
const Now = Tool.make("now", { ...shape, dependencies: [CurrentAgent, Clock] })
const Nap = Tool.make("nap", shape)
const Times = Toolkit.make(Now, Nap)

// the agent that calls is CurrentAgent; every other dependency is the layer's
const delegateTool = AgentTools.layer(Kit)
const timeTools = AgentTools.layer(Times)
same<Equal<Layer.Services<typeof delegateTool>, AgentTools.AgentTools | Tool.Handler<"delegate">>>()
same<
  Equal<Layer.Services<typeof timeTools>, AgentTools.AgentTools | Tool.Handler<"now"> | Tool.Handler<"nap"> | Clock>
>()
same<Equal<Layer.Error<typeof timeTools>, AgentTools.DuplicateTool>>()

declare const built: (layer: Layer.Layer<never, AgentTools.DuplicateTool>) => void
declare const clockLayer: Layer.Layer<Clock>
declare const timeHandlers: Layer.Layer<Tool.HandlersFor<typeof Times.tools>>
const registry = AgentTools.layerRegistry

built(timeTools.pipe(Layer.provide([registry, timeHandlers, clockLayer])))
// @ts-expect-error TS2379 Type 'Clock' is not assignable to type 'never'
built(timeTools.pipe(Layer.provide([registry, timeHandlers, agentLayer])))

built(timeTools.pipe(Layer.provide([registry, timeHandlers, clockLayer])))
// @ts-expect-error TS2379 Type 'Handler<"nap">' is not assignable to type 'never'
built(timeTools.pipe(Layer.provide([registry, handlers, clockLayer])))

built(timeTools.pipe(Layer.provide([registry, timeHandlers, clockLayer])))
// @ts-expect-error TS2379 Type 'AgentTools' is not assignable to type 'never'
built(timeTools.pipe(Layer.provide([clockLayer, timeHandlers, clockLayer])))

// -----------------------------------------------------------------------------
// agents
// -----------------------------------------------------------------------------

declare const agents: Agent.Agents["Service"]
const root = Agent.layerRoot({ cwd: "/work" })
same<Equal<Layer.Success<typeof root>, CurrentAgent>>()
same<Equal<Layer.Services<typeof root>, Agent.Agents>>()
same<
  Equal<
    Layer.Error<typeof root>,
    Agent.ComposeError | SessionStore.CreateError | SessionStore.OpenError | SessionStore.AppendError
  >
>()

uses(Agent.layerRoot({ cwd: "/work", label: "root" }))
// @ts-expect-error TS2353 'parent' does not exist in type
uses(Agent.layerRoot({ cwd: "/work", parent: "root" }))

uses(Agent.layerRoot({ cwd: "/work" }))
// @ts-expect-error TS2741 Property 'cwd' is missing in type
uses(Agent.layerRoot({ label: "/work" }))

// a parent is the id of a session; any text will not do
declare const text: string
uses(agents.create({ cwd: "/work", parent: sessionId }))
// @ts-expect-error TS2322 Type 'string' is not assignable to type 'Brand<"effect-subagent/SessionId">'
uses(agents.create({ cwd: "/work", parent: text }))

runnable(Effect.scoped(agents.create({ cwd: "/work" })))
// @ts-expect-error TS2379 Type 'Scope' is not assignable to type 'never'
runnable(Effect.asVoid(agents.create({ cwd: "/work" })))

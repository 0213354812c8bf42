/**
 * Composes all that children in this process need, with sessions that live as long as the layer.
 *
 * Needs nothing but a language model and `effect`.
 *
 * @since 0.1.0
 */
import type * as LanguageModel from "effect/ai/LanguageModel"
import type * as Duration from "effect/Duration"
import * as Layer from "effect/Layer"
import * as Agent from "../Agent.ts"
import * as AgentModels from "../AgentModels.ts"
import * as AgentTools from "../AgentTools.ts"
import * as Fork from "../providers/Fork.ts"
import * as Spawn from "../providers/Spawn.ts"
import * as SessionStore from "../SessionStore.ts"
import * as Subagent from "../Subagent.ts"
import * as SystemPrompt from "../SystemPrompt.ts"

/**
 * How the composition behaves: `agents` as for `Agent.layer`, `grace` as for `Subagent.layer`, and further `models` by
 * name as for `AgentModels.layer`.
 *
 * @category models
 * @since 0.1.0
 */
export interface Options<E = never, R = never> {
  readonly agents?: Agent.Options | undefined
  readonly grace?: Duration.Input | undefined
  readonly models?: Readonly<Record<string, Layer.Layer<LanguageModel.LanguageModel, E, R>>> | undefined
}

/**
 * What the composition provides.
 *
 * @category models
 * @since 0.1.0
 */
export type Services =
  | Spawn.Spawn
  | Fork.Fork
  | Subagent.Subagents
  | Agent.Agents
  | AgentModels.AgentModels
  | AgentTools.AgentTools
  | SystemPrompt.SystemPrompt
  | SessionStore.SessionStore

/**
 * What building it can fail with, beyond what a store or a model brings.
 *
 * @category errors
 * @since 0.1.0
 */
export type BuildError = Agent.InvalidAgent | Subagent.DuplicateProvider | Subagent.InvalidProvider

/**
 * Spawn, Fork and everything below them over a store of your own.
 *
 * @category layers
 * @since 0.1.0
 */
export const layerWith = <StoreE, StoreR, E = never, R = never>(
  store: Layer.Layer<SessionStore.SessionStore, StoreE, StoreR>,
  options: Options<E, R> = {}
): Layer.Layer<Services, BuildError | StoreE | E, StoreR | R | LanguageModel.LanguageModel> =>
  Layer.mergeAll(Spawn.layer, Fork.layer).pipe(
    Layer.provideMerge(Subagent.layer({ grace: options.grace })),
    Layer.provideMerge(Agent.layer(options.agents)),
    Layer.provideMerge(Layer.mergeAll(
      AgentModels.layer(options.models),
      AgentTools.layerRegistry,
      SystemPrompt.layer,
      store
    ))
  )

/**
 * Spawn, Fork and everything below them, with sessions in memory.
 *
 * @category layers
 * @since 0.1.0
 */
export const layer = <E = never, R = never>(
  options: Options<E, R> = {}
): Layer.Layer<Services, BuildError | E, R | LanguageModel.LanguageModel> =>
  layerWith(SessionStore.layerMemory, options)

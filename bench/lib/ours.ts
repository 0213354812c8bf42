/**
 * The library as a user composes it, over the instant model.
 */
import { Effect, Layer, type Scope } from "effect"
import { Toolkit } from "effect/ai"
import * as Agent from "../../src/Agent.ts"
import * as AgentModels from "../../src/AgentModels.ts"
import * as AgentTools from "../../src/AgentTools.ts"
import type { Limits } from "../../src/CurrentAgent.ts"
import * as Spawn from "../../src/providers/Spawn.ts"
import type { SessionStore, StoreFailed } from "../../src/SessionStore.ts"
import * as Subagent from "../../src/Subagent.ts"
import * as SubagentTool from "../../src/SubagentTool.ts"
import * as SystemPrompt from "../../src/SystemPrompt.ts"
import * as model from "./model.ts"

const Delegate = SubagentTool.make("delegate", Spawn.Spawn)

/** Everything but the store. */
export const layer = (
  store: Layer.Layer<SessionStore, StoreFailed>
): Layer.Layer<Agent.Agents, unknown> =>
  AgentTools.layer(Toolkit.make(Delegate, model.Work)).pipe(
    Layer.provide(Layer.mergeAll(
      SubagentTool.layer(Delegate),
      Toolkit.make(model.Work).toLayer({ work: ({ input }) => Effect.succeed(model.work(input)) })
    )),
    Layer.provideMerge(Spawn.layer.pipe(
      Layer.provideMerge(Subagent.layer()),
      Layer.provideMerge(Agent.layer({ maxSteps: 1_000_000 })),
      Layer.provideMerge(AgentModels.layer()),
      Layer.provideMerge(Layer.mergeAll(model.layer, store, SystemPrompt.layer, AgentTools.layerRegistry))
    ))
  )

/** Limits of which none bites. */
export const unlimited: Limits = {
  maxDepth: 1_000_000,
  maxChildren: 1_000_000,
  maxWait: 1_000_000_000,
  maxRunning: 1_000_000
}

/** A new root agent. */
export const parent = (
  agents: Agent.Agents["Service"],
  limits: Partial<Limits> | undefined
): Effect.Effect<Agent.Agent, Error, Scope.Scope> => agents.create({ cwd: "/", limits })

/** Sends a prompt and insists on the answer. */
export const ask = (agent: Agent.Agent, prompt: string): Effect.Effect<void> =>
  Effect.flatMap(
    Effect.orDie(agent.prompt(prompt)),
    (outcome) =>
      outcome.cause._tag === "Completed" && outcome.text === "done"
        ? Effect.void
        : Effect.die(new Error(`the turn ended otherwise: ${JSON.stringify(outcome)}`))
  )

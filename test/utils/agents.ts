/**
 * The layers that most tests of agents need, over a scripted model and sessions in memory.
 */
import { Layer } from "effect"
import * as Agent from "../../src/Agent.ts"
import * as AgentModels from "../../src/AgentModels.ts"
import * as AgentTools from "../../src/AgentTools.ts"
import * as Fork from "../../src/providers/Fork.ts"
import * as Spawn from "../../src/providers/Spawn.ts"
import * as SessionStore from "../../src/SessionStore.ts"
import * as Subagent from "../../src/Subagent.ts"
import * as SystemPrompt from "../../src/SystemPrompt.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"

/** Everything below the providers. */
export const agents = (script: ScriptedModel.Script, options: Agent.Options = {}) =>
  Agent.layer(options).pipe(
    Layer.provideMerge(Layer.mergeAll(
      AgentModels.layer().pipe(Layer.provideMerge(ScriptedModel.layer(script))),
      AgentTools.layerRegistry,
      SystemPrompt.layer,
      SessionStore.layerMemory
    ))
  )

/** Agents, the service, Spawn and Fork. */
export const subagents = (script: ScriptedModel.Script, options: Agent.Options = {}) =>
  Layer.mergeAll(Spawn.layer, Fork.layer).pipe(
    Layer.provideMerge(Subagent.layer()),
    Layer.provideMerge(agents(script, options))
  )

/** The same, with a root agent to delegate for. */
export const rooted = (script: ScriptedModel.Script, options: Agent.Options = {}) =>
  Agent.layerRoot({ cwd: "/work", id: "root" }).pipe(Layer.provideMerge(subagents(script, options)))

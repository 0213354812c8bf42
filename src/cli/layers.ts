/**
 * Composes what a run of the command needs: a file store, agents, the file tools, and a tool that delegates.
 *
 * @since 0.1.0
 */
import * as Toolkit from "effect/ai/Toolkit"
import * as Layer from "effect/Layer"
import * as AgentTools from "../AgentTools.ts"
import * as FileSessionStore from "../layers/FileSessionStore.ts"
import * as FileTools from "../layers/FileTools.ts"
import * as Memory from "../layers/Memory.ts"
import * as Spawn from "../providers/Spawn.ts"
import * as SubagentTool from "../SubagentTool.ts"
import * as SystemPrompt from "../SystemPrompt.ts"
import * as Model from "./model.ts"
import { FolderReport } from "./offline/folder.ts"

const fileTools = Object.keys(FileTools.toolkit.tools)

/** What the offline model delegates with: its children report by a schema, and have the file tools only. */
const OfflineDelegate = SubagentTool.make("delegate", Spawn.Spawn, {
  description: "Hands one folder to a fresh agent, which reads it and reports.",
  outputSchema: FolderReport,
  toolFilter: { allow: fileTools }
})

/** What a language model delegates with: its children may delegate as well, as deep as they may. */
const Delegate = SubagentTool.make("delegate", Spawn.Spawn, {
  description:
    "Hands a self-contained task to a fresh agent with the same tools, and returns its answer. Worth it for " +
    "work that is independent of the rest."
})

const persona: SystemPrompt.Section = {
  name: SystemPrompt.personaSection,
  order: 0,
  text: "You work on the files in {{cwd}}. Your tools read them and change nothing; paths are relative to that " +
    "directory. Look before you answer, delegate what can be done independently, and answer with what you found."
}

/** A turn of the offline model costs nothing, and its folders may hold any number of files. */
const offlineSteps = 1_000_000

/**
 * All that a run needs. `store` is the absolute path of the directory of the sessions.
 *
 * @category layers
 * @since 0.1.0
 */
export const layer = (options: { readonly model: Model.ModelChoice; readonly store: string }) => {
  const isOffline = options.model._tag === "Offline"
  const delegate = isOffline ? OfflineDelegate : Delegate
  return Layer.mergeAll(
    AgentTools.layer(FileTools.toolkit).pipe(Layer.provide(FileTools.layerBeside(options.store))),
    AgentTools.layer(Toolkit.make(delegate)).pipe(Layer.provide(SubagentTool.layer(delegate))),
    SystemPrompt.layerSection(persona)
  ).pipe(
    Layer.provideMerge(Memory.layerWith(FileSessionStore.layerNode({ directory: options.store }), {
      agents: isOffline ? { maxSteps: offlineSteps } : {}
    })),
    Layer.provide(Model.layer(options.model))
  )
}

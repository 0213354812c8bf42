/**
 * Composes all that children in this process need, with sessions in a directory: batteries included, for Node.
 *
 * @since 0.1.0
 */
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import * as NodePath from "@effect/platform-node/NodePath"
import type * as LanguageModel from "effect/ai/LanguageModel"
import * as Layer from "effect/Layer"
import * as AgentTools from "../AgentTools.ts"
import type * as SessionStore from "../SessionStore.ts"
import * as FileSessionStore from "./FileSessionStore.ts"
import * as FileTools from "./FileTools.ts"
import * as Memory from "./Memory.ts"

/**
 * How the composition behaves: `store` is the directory of the sessions, made when it does not exist; `fileTools` (true
 * by default) says whether agents get `list_files`, `read_file` and `search_text`, which read what is below their
 * working directory and change nothing; `host` is the name of this host, the system's by default, as in
 * `FileSessionStore.Options`: hosts that share the directory need names of their own. The rest as in `Memory.Options`.
 *
 * @category models
 * @since 0.1.0
 */
export interface Options<E = never, R = never> extends Memory.Options<E, R> {
  readonly store: string
  readonly fileTools?: boolean | undefined
  readonly host?: string | undefined
}

/**
 * Spawn, Fork and everything below them, with durable sessions and tools that read files. Fails `StoreFailed` when the
 * directory cannot be used, `DuplicateTool` when the names of the file tools are taken. Needs `@effect/platform-node`
 * to be installed, and a language model.
 *
 * @category layers
 * @since 0.1.0
 */
export const layer = <E = never, R = never>(
  options: Options<E, R>
): Layer.Layer<
  Memory.Services,
  Memory.BuildError | SessionStore.StoreFailed | AgentTools.DuplicateTool | E,
  R | LanguageModel.LanguageModel
> => {
  const platform = Layer.mergeAll(NodeFileSystem.layer, NodePath.layer)
  const fileTools = options.fileTools === false
    ? Layer.empty
    : AgentTools.layer(FileTools.toolkit).pipe(Layer.provide(FileTools.layerBeside(options.store)))
  return fileTools.pipe(
    Layer.provideMerge(
      Memory.layerWith(FileSessionStore.layerNode({ directory: options.store, host: options.host }), options)
    ),
    Layer.provide(platform)
  )
}

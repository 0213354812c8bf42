/**
 * Composes all that children in this process need, with sessions in a directory: batteries included, for Node.
 *
 * @since 0.1.0
 */
import type * as LanguageModel from "effect/ai/LanguageModel"
import type * as Layer from "effect/Layer"
import type * as SessionStore from "../SessionStore.ts"
import * as FileSessionStore from "./FileSessionStore.ts"
import * as Memory from "./Memory.ts"

/**
 * How the composition behaves: `store` is the directory of the sessions, made when it does not exist; the rest as in
 * `Memory.Options`.
 *
 * @category models
 * @since 0.1.0
 */
export interface Options<E = never, R = never> extends Memory.Options<E, R> {
  readonly store: string
}

/**
 * Spawn, Fork and everything below them, with durable sessions. Fails `StoreFailed` when the directory cannot be used.
 * Needs `@effect/platform-node` to be installed, and a language model.
 *
 * @category layers
 * @since 0.1.0
 */
export const layer = <E = never, R = never>(
  options: Options<E, R>
): Layer.Layer<
  Memory.Services,
  Memory.BuildError | SessionStore.StoreFailed | E,
  R | LanguageModel.LanguageModel
> => Memory.layerWith(FileSessionStore.layerNode({ directory: options.store }), options)

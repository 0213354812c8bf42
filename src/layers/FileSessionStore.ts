/**
 * Stores sessions in files.
 *
 * @since 0.1.0
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import type * as Path from "effect/Path"
import { SessionStore, StoreFailed } from "../SessionStore.ts"
import { make } from "./internal/fileStore.ts"

export interface Options {
  readonly directory: string
  readonly lease?: Duration.Input | undefined
  readonly host?: string | undefined
}

export const layer = (
  options: Options
): Layer.Layer<SessionStore, StoreFailed, FileSystem.FileSystem | Path.Path> =>
  Layer.effect(
    SessionStore,
    make({
      directory: options.directory,
      host: options.host,
      lease: Math.max(1, Math.ceil(Duration.toMillis(options.lease ?? "10 seconds")))
    })
  )

export const layerNode = (options: Options): Layer.Layer<SessionStore, StoreFailed> =>
  Layer.unwrap(Effect.map(
    Effect.tryPromise({
      try: () =>
        Promise.all([import("@effect/platform-node/NodeFileSystem"), import("@effect/platform-node/NodePath")]),
      catch: (cause) => new StoreFailed({ operation: "load @effect/platform-node", what: String(cause) })
    }),
    ([fileSystem, path]) => Layer.provide(layer(options), [fileSystem.layer, path.layer])
  ))

/**
 * Calls of the file system that are made in many places, and their failures as failures of the store, which say what went
 * wrong and at which file.
 */
import * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import type * as PlatformError from "effect/PlatformError"
import { StoreFailed } from "../../SessionStore.ts"

/** @internal */
export const isNotFound = (error: PlatformError.PlatformError): boolean => error.reason._tag === "NotFound"

/** @internal */
export const alreadyExists = (error: PlatformError.PlatformError): boolean => error.reason._tag === "AlreadyExists"

/** @internal */
export const storeFailed = (operation: string, path: string) => (error: PlatformError.PlatformError): StoreFailed => {
  // the system's own words carry the error code; the service's name the descriptor instead of the file
  const cause = error.reason.cause
  const words = cause instanceof Error ? cause.message : error.message
  return new StoreFailed({ operation, what: words.includes(path) ? words : `${words}: ${path}` })
}

/**
 * Makes what a directory lists survive a power cut.
 *
 * @internal
 */
export const syncDirectory = (
  fs: FileSystem.FileSystem,
  path: string
): Effect.Effect<void, PlatformError.PlatformError> =>
  Effect.scoped(Effect.flatMap(fs.open(path, { flag: "r" }), (directory) => directory.sync))

/**
 * Makes a directory, unless it is there.
 *
 * @internal
 */
export const makeDirectory = (
  fs: FileSystem.FileSystem,
  path: string
): Effect.Effect<void, PlatformError.PlatformError> =>
  Effect.catchIf(fs.makeDirectory(path), alreadyExists, () => Effect.void)

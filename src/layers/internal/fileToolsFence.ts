/**
 * Keeps file access inside one directory: every path a model names is resolved, links included, and refused when it
 * ends up elsewhere.
 *
 * The fence is the working directory of the agent that calls, read at each call: one toolkit serves agents that work in
 * different places.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Path from "effect/Path"
import type { PlatformError } from "effect/PlatformError"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Semaphore from "effect/Semaphore"
import { CurrentAgent } from "../../CurrentAgent.ts"

/**
 * A file tool did not do what it was asked to; the model sees it as the result of its call.
 *
 * - `outside`: the path leaves the working directory, by `..`, as an absolute path or through a link
 * - `missing`: there is nothing of that name
 * - `not-a-file`, `not-a-directory`: there is something else
 * - `special`: a device, pipe or socket, which is never opened
 * - `binary`: the file is not text
 * - `unreadable`: the system does not let it be read
 *
 * @category errors
 * @since 0.1.0
 */
export class FileRefused extends Schema.TaggedError<FileRefused>("effect-subagent/cli/FileRefused")("FileRefused", {
  path: Schema.String,
  reason: Schema.Literals([
    "outside",
    "missing",
    "not-a-file",
    "not-a-directory",
    "special",
    "binary",
    "unreadable"
  ]),
  issue: Schema.String
}) {
  override get message(): string {
    return `${JSON.stringify(this.path)}: ${this.issue}`
  }
}

/**
 * @internal Something inside the fence: `real` is where it is, free of links; `path` how a model names it, relative to
 * the working directory and with `/` between names.
 */
export interface Place {
  readonly root: string
  readonly real: string
  readonly path: string
  readonly info: FileSystem.File.Info
}

/** @internal */
export class Fence extends Context.Service<Fence, {
  readonly fs: FileSystem.FileSystem
  readonly path: Path.Path
  /** Names and absolute paths that walks leave out, with the reason that they state. */
  readonly skip: ReadonlyMap<string, string>
  /** Where a path leads, for the agent that calls. */
  readonly resolve: (input: string) => Effect.Effect<Place, FileRefused, CurrentAgent>
  /** Whether a path is the root or below it, by its letters. */
  readonly inside: (root: string, target: string) => boolean
  /** As a model names a path below the root. */
  readonly show: (root: string, real: string) => string
  /** Opens a regular file for reading. */
  readonly open: (
    place: Pick<Place, "path" | "real">
  ) => Effect.Effect<FileSystem.File, FileRefused, Scope.Scope>
  /** Bounds how many files are open at once over all calls. */
  readonly bounded: <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
}>()("effect-subagent/cli/files/Fence") {}

/** @internal The sentence for what the system said; its own words name absolute paths. */
export const refusal = (path: string, error: PlatformError): FileRefused => {
  switch (error.reason._tag) {
    case "NotFound":
      return new FileRefused({ path, reason: "missing", issue: "there is no such file or directory" })
    case "PermissionDenied":
      return new FileRefused({ path, reason: "unreadable", issue: "permission denied" })
    case "BadResource":
      return new FileRefused({ path, reason: "missing", issue: "the path does not lead to a file or directory" })
    default:
      return new FileRefused({ path, reason: "unreadable", issue: "it cannot be read" })
  }
}

/** @internal How many files are open at once, over all agents. */
const openFiles = 16

const make = Effect.fnUntraced(function*(skip: ReadonlyMap<string, string>) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const permits = yield* Semaphore.make(openFiles)

  const inside = (root: string, target: string): boolean => {
    const relative = path.relative(root, target)
    return relative !== ".." && !relative.startsWith(`..${path.sep}`) && !path.isAbsolute(relative)
  }

  const outside = (input: string) =>
    new FileRefused({ path: input, reason: "outside", issue: "it is outside the working directory" })

  const show = (root: string, real: string): string => {
    const relative = path.relative(root, real)
    if (relative === "") return "."
    return path.sep === "/" ? relative : relative.replaceAll(path.sep, "/")
  }

  return Fence.of({
    fs,
    path,
    skip,
    inside,
    show,
    bounded: (effect) => permits.withPermit(effect),
    resolve: Effect.fnUntraced(function*(input: string) {
      const { cwd } = yield* CurrentAgent
      const lexicalRoot = path.resolve(cwd)
      const root = yield* Effect.mapError(fs.realPath(lexicalRoot), (error) => refusal(".", error))
      const target = path.resolve(lexicalRoot, input)
      // refused before the system is asked: nobody learns what exists out there
      if (!inside(lexicalRoot, target) && !inside(root, target)) return yield* outside(input)
      const real = yield* Effect.mapError(fs.realPath(target), (error) => refusal(input, error))
      if (!inside(root, real)) return yield* outside(input)
      const info = yield* Effect.mapError(fs.stat(real), (error) => refusal(input, error))
      return { root, real, path: show(root, real), info }
    }),
    open: ({ path: shown, real }) =>
      Effect.gen(function*() {
        const info = yield* fs.lstat(real)
        // opening a pipe would wait for its other end
        if (info.type !== "File") return yield* notAFile(shown, info.type)
        // whoever puts a link in the file's place meanwhile gains nothing by it; Windows has no such flag
        return yield* fs.open(real, { flag: "r", noFollow: path.sep === "/" })
      }).pipe(Effect.catchTag("PlatformError", (error) => Effect.fail(refusal(shown, error))))
  })
})

/** @internal Why something cannot be read as a file. */
export const notAFile = (path: string, type: FileSystem.File.Type): FileRefused => {
  switch (type) {
    case "Directory":
      return new FileRefused({ path, reason: "not-a-file", issue: "it is a directory; list_files shows what is in it" })
    case "SymbolicLink":
      return new FileRefused({ path, reason: "not-a-file", issue: "it became a link while it was looked at" })
    default:
      return new FileRefused({
        path,
        reason: "special",
        issue: "it is a device, pipe or socket, which is never opened"
      })
  }
}

/** @internal */
export const layer = (
  skip: ReadonlyMap<string, string>
): Layer.Layer<Fence, never, FileSystem.FileSystem | Path.Path> => Layer.effect(Fence, make(skip))

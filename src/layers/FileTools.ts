/**
 * Gives agents three read-only tools for the files they work on: `list_files`, `read_file` and `search_text`.
 *
 * Each agent reads inside its own working directory and nowhere else: what leads out of it, by `..` or through a link,
 * is refused with a result that its model sees. Every result is bounded, and one that was cut says how to go on.
 *
 * @since 0.1.0
 */
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import type * as Path from "effect/Path"
import * as Schema from "effect/Schema"
import { CurrentAgent } from "../CurrentAgent.ts"
import { SessionStore } from "../SessionStore.ts"
import { Fence, FileRefused, layer as layerFence } from "./internal/fileToolsFence.ts"
import { defaultEntries, list, Listing, maxEntries, maxSkipped } from "./internal/fileToolsList.ts"
import { defaultBytes, FilePart, maxBytes, minBytes, read } from "./internal/fileToolsRead.ts"
import {
  defaultMatches,
  Matches,
  maxFiles,
  maxLine,
  maxMatches,
  maxSearchedBytes,
  search
} from "./internal/fileToolsSearch.ts"

export { FilePart, FileRefused, Listing, Matches }

/**
 * What walks leave out where nothing else is said: directories of these names.
 *
 * @category constants
 * @since 0.1.0
 */
export const defaultSkip: ReadonlyArray<string> = [".git", "node_modules"]

const names = defaultSkip.join(" and ")

const optional = <S extends Schema.Top>(schema: S, description: string) =>
  Schema.optionalKey(schema.annotate({ description }))

const between = (minimum: number, maximum: number) => Schema.Int.check(Schema.isBetween({ minimum, maximum }))

const naturals = Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))

const common = {
  failure: FileRefused,
  failureMode: "return" as const,
  dependencies: [CurrentAgent]
}

const readOnly = Context.make(Tool.Readonly, true).pipe(
  Context.add(Tool.Destructive, false),
  Context.add(Tool.Idempotent, true),
  Context.add(Tool.OpenWorld, false)
)

/**
 * Lists a directory.
 *
 * @category tools
 * @since 0.1.0
 */
export const ListFiles = Tool.make("list_files", {
  description: "Lists what is in a directory of the working directory: files with their size and whether they are " +
    "text, directories, and links with what they lead to. Sorted by name; links are not followed. With `recursive`, " +
    `also what is in its directories, except in those named ${names}, which are named under \`skipped\`, as is all ` +
    `else that was left out (the first ${maxSkipped}). At most ${defaultEntries} entries at a time, or \`limit\` of ` +
    `them, up to ${maxEntries}; when there are more, call again with \`offset\` set to \`next\`.`,
  parameters: Schema.Struct({
    path: optional(Schema.String, "The directory, relative to the working directory; that one itself by default"),
    recursive: optional(Schema.Boolean, "Whether to list what is below as well; false by default"),
    offset: optional(naturals, "How many entries to leave out at the start; 0 by default"),
    limit: optional(between(1, maxEntries), `How many entries to list; ${defaultEntries} by default`)
  }),
  success: Listing,
  ...common
}).annotateMerge(readOnly)

/**
 * Reads a text file.
 *
 * @category tools
 * @since 0.1.0
 */
export const ReadFile = Tool.make("read_file", {
  description: "Reads a text file of the working directory. " +
    `At most ${defaultBytes} bytes at a time, or \`limit\` of them, up to ${maxBytes}, cut at the end of a line where ` +
    "there is one; when there is more, call again with `offset` set to `next`. Bytes that are not UTF-8 show as U+FFFD. " +
    "A file with a NUL byte among its first 8000 bytes is binary and not shown.",
  parameters: Schema.Struct({
    path: Schema.String.annotate({ description: "The file, relative to the working directory" }),
    offset: optional(naturals, "The byte to start at; 0 by default"),
    limit: optional(between(minBytes, maxBytes), `How many bytes to read; ${defaultBytes} by default`)
  }),
  success: FilePart,
  ...common
}).annotateMerge(readOnly)

/**
 * Searches text files.
 *
 * @category tools
 * @since 0.1.0
 */
export const SearchText = Tool.make("search_text", {
  description: "Finds the lines of text files in the working directory that hold a text, taken literally, within one " +
    `line. Each match shows its line, cut after ${maxLine} characters, and the byte it starts at, an \`offset\` for ` +
    `read_file. At most ${defaultMatches} matches at a time, or \`limit\` of them, up to ${maxMatches}; when there are ` +
    `more, call again with \`offset\` set to \`next\`. Searches up to ${maxFiles} files of up to ${maxSearchedBytes} ` +
    `bytes. Leaves out binary files, directories named ${names} and links; what was left out is under \`skipped\` ` +
    `(the first ${maxSkipped}).`,
  parameters: Schema.Struct({
    text: Schema.String.check(Schema.isPattern(/^[^\n]+$/, { expected: "a text of one line, not empty" })).annotate({
      description: "What to look for"
    }),
    path: optional(Schema.String, "The directory or file to search; the working directory by default"),
    ignoreCase: optional(Schema.Boolean, "Whether upper and lower case count as the same; false by default"),
    offset: optional(naturals, "How many matches to leave out at the start; 0 by default"),
    limit: optional(between(1, maxMatches), `How many matches to give; ${defaultMatches} by default`)
  }),
  success: Matches,
  ...common
}).annotateMerge(readOnly)

/**
 * The three tools.
 *
 * @category tools
 * @since 0.1.0
 */
export const toolkit = Toolkit.make(ListFiles, ReadFile, SearchText)

/**
 * The handlers of the tools, over the ambient file system. At most 16 files are open at once, over all agents.
 *
 * `skip` are further absolute paths of directories that walks leave out, as they do with {@link defaultSkip}; a
 * directory that is listed or searched by its own path is never left out.
 *
 * @category layers
 * @since 0.1.0
 */
export const layer = (
  options: { readonly skip?: ReadonlyArray<{ readonly path: string; readonly why: string }> | undefined } = {}
): Layer.Layer<
  Tool.HandlersFor<typeof toolkit.tools>,
  never,
  FileSystem.FileSystem | Path.Path
> => {
  const skip = new Map(defaultSkip.map((name) => [name, "left out by default; it can be listed by its own path"]))
  for (const { path, why } of options.skip ?? []) skip.set(path, why)
  return toolkit.toLayer(Effect.map(Fence, (fence) => ({
    list_files: ({ limit, offset, path, recursive }) =>
      fence.resolve(path ?? ".").pipe(
        Effect.flatMap((place) =>
          list(place, { recursive: recursive ?? false, offset: offset ?? 0, limit: limit ?? defaultEntries })
        ),
        Effect.provideService(Fence, fence)
      ),
    read_file: ({ limit, offset, path }) =>
      fence.resolve(path).pipe(
        Effect.flatMap((place) => read(place, { offset: offset ?? 0, limit: limit ?? defaultBytes })),
        Effect.provideService(Fence, fence)
      ),
    search_text: ({ ignoreCase, limit, offset, path, text }) =>
      fence.resolve(path ?? ".").pipe(
        Effect.flatMap((place) =>
          search(place, {
            text,
            ignoreCase: ignoreCase ?? false,
            offset: offset ?? 0,
            limit: limit ?? defaultMatches
          })
        ),
        Effect.provideService(Fence, fence)
      )
  }))).pipe(Layer.provide(layerFence(skip)))
}

/**
 * The same, leaving out the directory of a file store, so that no walk meets the sessions that it is writing itself.
 *
 * @category layers
 * @since 0.1.0
 */
export const layerBeside = (
  store: string
): Layer.Layer<Tool.HandlersFor<typeof toolkit.tools>, never, FileSystem.FileSystem | Path.Path | SessionStore> =>
  Layer.unwrap(Effect.gen(function*() {
    // the directory is there once the store is
    yield* SessionStore
    const fs = yield* FileSystem.FileSystem
    const path = yield* Effect.orElseSucceed(fs.realPath(store), () => store)
    return layer({ skip: [{ path, why: "the sessions are stored there" }] })
  }))

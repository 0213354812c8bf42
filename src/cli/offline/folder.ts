/**
 * What a child of the offline model does: reads every text file of one folder and counts.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import { FilePart, FileRefused, Listing } from "../../layers/FileTools.ts"
import { maxEntries } from "../../layers/internal/fileToolsList.ts"
import { maxBytes } from "../../layers/internal/fileToolsRead.ts"
import { exportedNames, isScript } from "./exports.ts"
import type { Plan } from "./plan.ts"
import type { Call, Transcript } from "./transcript.ts"

const Natural = Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))

/**
 * What a child reports of one folder.
 *
 * - `files`, `lines`, `bytes`: of its text files, at any depth. A line ends with a newline or with the file
 * - `binary`: how many further files are not text
 * - `exports`: the JavaScript and TypeScript files that export something, with the names that stand in their `export`
 *   statements; `default` for a default export
 * - `left`: what was not counted, and why
 *
 * @category schemas
 * @since 0.1.0
 */
export const FolderReport = Schema.Struct({
  folder: Schema.String,
  files: Natural,
  lines: Natural,
  bytes: Natural,
  binary: Natural,
  exports: Schema.Array(Schema.Struct({ file: Schema.String, names: Schema.Array(Schema.String) })),
  left: Schema.Array(Schema.Struct({ path: Schema.String, why: Schema.String }))
})

/**
 * @category models
 * @since 0.1.0
 */
export type FolderReport = typeof FolderReport.Type

const opening = "Read every text file of the folder "
const closing =
  " with your tools, at any depth. Report how many text files there are, their lines and their bytes, how " +
  "many further files are binary, and for each JavaScript or TypeScript file the names that it exports."

/** @internal The task of a child: a sentence that any model understands, with the folder as a JSON string. */
export const folderPrompt = (folder: string): string => opening + JSON.stringify(folder) + closing

const decodeFolder = Schema.decodeUnknownOption(Schema.fromJsonString(Schema.String))

/** @internal The folder of a task that {@link folderPrompt} made. */
export const folderOf = (request: string): string | undefined => {
  if (!request.startsWith(opening) || !request.endsWith(closing)) return undefined
  const decoded = decodeFolder(request.slice(opening.length, -closing.length))
  return decoded._tag === "Some" ? decoded.value : undefined
}

/** @internal How many files are asked for in one response. */
export const batch = 32

const decodeListing = Schema.decodeUnknownOption(Listing)
const decodePart = Schema.decodeUnknownOption(FilePart)
const decodeRefusal = Schema.decodeUnknownOption(FileRefused)

/** @internal The value of a call that succeeded. */
const valueOf = <A>(
  call: Call,
  decode: (value: unknown) => { readonly _tag: "Some"; readonly value: A } | {
    readonly _tag: "None"
  }
): A | undefined => {
  if (call.result === undefined || call.result.isFailure) return undefined
  const decoded = decode(call.result.value)
  return decoded._tag === "Some" ? decoded.value : undefined
}

/** @internal What a failed call says of itself. */
export const issueOf = (call: Call): string => {
  if (call.result === undefined) return "there was no answer"
  const decoded = decodeRefusal(call.result.value)
  return decoded._tag === "Some" ? decoded.value.issue : JSON.stringify(call.result.value)
}

/** @internal Lists one directory whole, page by page: the pages, or the plan that asks for the next one. */
export const listAll = (
  calls: ReadonlyArray<Call>,
  path: string
): { readonly pages: ReadonlyArray<Listing> } | { readonly plan: Plan } => {
  const listed = calls.filter((call) => call.name === "list_files")
  const pages: Array<Listing> = []
  for (const call of listed) {
    const page = valueOf(call, decodeListing)
    if (page === undefined) {
      return { plan: { text: `I could not list ${JSON.stringify(path)}: ${issueOf(call)}.`, calls: [] } }
    }
    pages.push(page)
  }
  const last = pages.at(-1)
  if (last !== undefined && last.next === undefined) return { pages }
  return {
    plan: {
      calls: [{
        name: "list_files",
        params: {
          path,
          recursive: true,
          limit: maxEntries,
          ...(last?.next === undefined ? undefined : { offset: last.next })
        }
      }]
    }
  }
}

/** @internal What `list_files` left out, as pages of one listing tell it. */
export const leftOut = (
  pages: ReadonlyArray<Listing>
): ReadonlyArray<{ readonly path: string; readonly why: string }> =>
  pages.flatMap(({ skipped, skippedMore }) =>
    skippedMore === undefined ? skipped : [...skipped, { path: "…", why: `${skippedMore} more were left out` }]
  )

interface Content {
  text: string
  bytes: number
  next: number | undefined
  issue: string | undefined
}

const contentsOf = (calls: ReadonlyArray<Call>): ReadonlyMap<string, Content> => {
  const contents = new Map<string, Content>()
  for (const call of calls) {
    if (call.name !== "read_file") continue
    const { path } = call.params as { readonly path: string }
    const content = contents.get(path) ?? { text: "", bytes: 0, next: undefined, issue: undefined }
    contents.set(path, content)
    const part = valueOf(call, decodePart)
    if (part === undefined) {
      content.issue = issueOf(call)
      content.next = undefined
    } else {
      content.text += part.text
      content.bytes = part.bytes
      content.next = part.next
    }
  }
  return contents
}

const linesOf = (text: string): number => {
  let lines = 0
  for (let at = text.indexOf("\n"); at !== -1; at = text.indexOf("\n", at + 1)) lines++
  return text === "" || text.endsWith("\n") ? lines : lines + 1
}

/** @internal The next step of a child that was asked about `folder`. */
export const planFolder = (folder: string, transcript: Transcript): Plan => {
  const listing = listAll(transcript.calls, folder)
  if ("plan" in listing) return listing.plan
  const files = listing.pages.flatMap(({ entries }) => entries.filter((entry) => entry.type === "file"))
  const contents = contentsOf(transcript.calls)
  const wanted = files.filter((file) => file.content === "text").flatMap((file) => {
    const content = contents.get(file.path)
    if (content === undefined) return [{ path: file.path, limit: maxBytes }]
    return content.next === undefined ? [] : [{ path: file.path, offset: content.next, limit: maxBytes }]
  })
  if (wanted.length > 0) {
    return { calls: wanted.slice(0, batch).map((params) => ({ name: "read_file", params })) }
  }
  const recorded = transcript.calls.find((call) => call.name === "structured_output")
  if (recorded !== undefined) {
    return { text: `My report was not accepted: ${issueOf(recorded)}`, calls: [] }
  }
  return { calls: [{ name: "structured_output", params: reportOf(folder, listing.pages, contents) }] }
}

const reportOf = (
  folder: string,
  pages: ReadonlyArray<Listing>,
  contents: ReadonlyMap<string, Content>
): FolderReport => {
  const exports: Array<FolderReport["exports"][number]> = []
  const left = [...leftOut(pages)]
  let files = 0
  let lines = 0
  let bytes = 0
  let binary = 0
  for (const entry of pages.flatMap(({ entries }) => entries)) {
    if (entry.type !== "file") continue
    if (entry.content === "binary") {
      binary++
      continue
    }
    const content = contents.get(entry.path)
    if (content === undefined || content.issue !== undefined) {
      left.push({ path: entry.path, why: content?.issue ?? "it cannot be read" })
      continue
    }
    files++
    lines += linesOf(content.text)
    bytes += content.bytes
    const names = isScript(entry.path) ? exportedNames(entry.path, content.text) : []
    if (names.length > 0) exports.push({ file: entry.path, names })
  }
  return { folder, files, lines, bytes, binary, exports, left }
}

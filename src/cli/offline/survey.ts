/**
 * What the offline model does as the parent: finds the largest source folders, delegates each to a child of its own,
 * all at once, and writes the report.
 *
 * A source folder is a directory right below the working directory that holds a text file at any depth. How large it is
 * are the bytes of all text files in it, at any depth. Left out are what `list_files` leaves out and the folders that
 * `.gitignore` names by their plain name; links are not followed.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import { FilePart, type Listing } from "../../layers/FileTools.ts"
import { maxBytes } from "../../layers/internal/fileToolsRead.ts"
import { folderPrompt, FolderReport, issueOf, leftOut, listAll } from "./folder.ts"
import type { Plan } from "./plan.ts"
import { type Answer, type Folder, writeReport } from "./report.ts"
import type { Call, Transcript } from "./transcript.ts"

/** @internal How many folders are looked into. */
export const most = 3

/**
 * What is asked when nothing else is: a task that the offline model can do, in words that any other model understands.
 *
 * @category constants
 * @since 0.1.0
 */
export const defaultPrompt = "Find the three largest source folders of the working directory, by the bytes of their " +
  "text files. Delegate each of them to a child of its own, all at once: the child reads the files of its folder and " +
  "reports how many there are, their lines, their bytes, and the names that they export. Then write a short report."

/** @internal The source folders of a listing, largest first, those of one size by name. */
export const foldersOf = (pages: ReadonlyArray<Listing>): ReadonlyArray<Folder> => {
  const folders = new Map<string, { name: string; files: number; bytes: number }>()
  for (const entry of pages.flatMap(({ entries }) => entries)) {
    const slash = entry.path.indexOf("/")
    if (slash === -1 || entry.type !== "file" || entry.content !== "text") continue
    const name = entry.path.slice(0, slash)
    const folder = folders.get(name) ?? { name, files: 0, bytes: 0 }
    folder.files++
    folder.bytes += entry.bytes
    folders.set(name, folder)
  }
  return Array.from(folders.values()).toSorted((a, b) =>
    b.bytes - a.bytes || (a.name < b.name ? -1 : a.name > b.name ? 1 : 0)
  )
}

/** @internal The plain names of directories in a `.gitignore`: no patterns, no paths. */
export const ignoredNames = (text: string): ReadonlySet<string> =>
  new Set(
    text.split("\n").flatMap((line) => {
      const name = /^\/?([^\s/*?[\]!#\\][^/*?[\]\\]*?)\/?\s*$/.exec(line)?.[1]
      return name === undefined ? [] : [name]
    })
  )

const decodePart = Schema.decodeUnknownOption(FilePart)
const decodeAnswer = Schema.decodeUnknownOption(Schema.Struct({ childId: Schema.String, structured: FolderReport }))
const decodeFailure = Schema.decodeUnknownOption(Schema.Struct({
  error: Schema.String,
  diagnostic: Schema.optional(Schema.String)
}))

const answerOf = (call: Call): Answer => {
  const { result } = call
  if (result !== undefined && !result.isFailure) {
    const decoded = decodeAnswer(result.value)
    if (decoded._tag === "Some") {
      return { _tag: "Report", childId: decoded.value.childId, report: decoded.value.structured }
    }
  }
  const failure = result === undefined ? undefined : decodeFailure(result.value)
  if (failure?._tag !== "Some") return { _tag: "Failure", issue: issueOf(call) }
  const { diagnostic, error } = failure.value
  return { _tag: "Failure", issue: diagnostic === undefined ? error : `${error}: ${diagnostic}` }
}

/** @internal The next step of a parent that was given the default prompt. */
export const planSurvey = (transcript: Transcript): Plan => {
  const listing = listAll(transcript.calls, ".")
  if ("plan" in listing) return listing.plan
  const { pages } = listing
  const hasIgnore = pages.some(({ entries }) =>
    entries.some((entry) => entry.path === ".gitignore" && entry.type === "file" && entry.content === "text")
  )
  const ignore = transcript.calls.find((call) => call.name === "read_file")
  if (hasIgnore && ignore === undefined) {
    return { calls: [{ name: "read_file", params: { path: ".gitignore", limit: maxBytes } }] }
  }
  const ignoreText = ignore?.result === undefined ? undefined : decodePart(ignore.result.value)
  const ignored = ignoreText?._tag === "Some" ? ignoredNames(ignoreText.value.text) : new Set<string>()
  const all = foldersOf(pages)
  const folders = all.filter(({ name }) => !ignored.has(name))
  const chosen = folders.slice(0, most)
  const delegations = transcript.calls.filter((call) => call.name === "delegate")
  if (delegations.length === 0 && chosen.length > 0) {
    return {
      text: `I delegate ${chosen.length === 1 ? "one folder" : `${chosen.length} folders`}.`,
      calls: chosen.map(({ name }) => ({
        name: "delegate",
        params: { description: name, prompt: folderPrompt(name) }
      }))
    }
  }
  return {
    text: writeReport({
      folders,
      answers: delegations.map(answerOf),
      ignored: all.filter(({ name }) => ignored.has(name)).map(({ name }) => name),
      left: leftOut(pages)
    }),
    calls: []
  }
}

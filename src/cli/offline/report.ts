/**
 * Writes the report of the offline model.
 *
 * @since 0.1.0
 */
import { count } from "../view/numbers.ts"
import { printable } from "../view/text.ts"
import type { FolderReport } from "./folder.ts"

/** @internal A source folder, as the parent's own listing shows it. */
export interface Folder {
  readonly name: string
  readonly files: number
  readonly bytes: number
}

/** @internal What came of one delegation. */
export type Answer =
  | { readonly _tag: "Report"; readonly childId: string; readonly report: FolderReport }
  | { readonly _tag: "Failure"; readonly issue: string }

/** Files with exports that the report names for each folder. */
const mostFiles = 500
/** Names that a note lists. */
const mostNoted = 20

const list = (all: ReadonlyArray<string>): string =>
  all.slice(0, mostNoted).join(", ") + (all.length > mostNoted ? ` and ${all.length - mostNoted} more` : "")

const folderLines = (rank: number, folder: Folder, answer: Answer): ReadonlyArray<string> => {
  const title = `${rank}. ${printable(folder.name)}: `
  if (answer._tag === "Failure") return [`${title}not read: ${printable(answer.issue)}`]
  const { binary, bytes, exports, files, left, lines } = answer.report
  const names = exports.reduce((sum, file) => sum + file.names.length, 0)
  return [
    title + [
      count(files, "text file"),
      count(lines, "line"),
      count(bytes, "byte"),
      ...(binary === 0 ? [] : [count(binary, "binary file")])
    ].join(", "),
    ...(bytes === folder.bytes && files === folder.files ? [] : [
      `   It changed meanwhile: at first there were ${count(folder.files, "text file")} with ${
        count(folder.bytes, "byte")
      }.`
    ]),
    ...(names === 0 ? ["   No exported names."] : [
      `   ${count(names, "exported name")} in ${count(exports.length, "file")}:`,
      ...exports.slice(0, mostFiles).map((file) =>
        `   - ${printable(file.file)}: ${file.names.map(printable).join(", ")}`
      ),
      ...(exports.length > mostFiles
        ? [`   - … and ${exports.length - mostFiles} more files: subagent show ${answer.childId}`]
        : [])
    ]),
    ...left.map(({ path, why }) => `   Not counted: ${printable(path)} (${printable(why)})`)
  ]
}

/** @internal `answers` belong to the first of the `folders`, in their order. */
export const writeReport = (options: {
  readonly folders: ReadonlyArray<Folder>
  readonly answers: ReadonlyArray<Answer>
  readonly ignored: ReadonlyArray<string>
  readonly left: ReadonlyArray<{ readonly path: string; readonly why: string }>
}): string => {
  const { answers, folders, ignored, left } = options
  const rest = folders.slice(answers.length)
  const lines: Array<string> = []
  if (folders.length === 0) {
    lines.push("There is no source folder here: no directory below the working directory holds a text file.")
  } else {
    lines.push(
      answers.length === folders.length
        ? `The working directory has ${count(folders.length, "source folder")}, largest first:`
        : `The ${answers.length} largest of ${folders.length} source folders, largest first:`
    )
    answers.forEach((answer, i) => lines.push("", ...folderLines(i + 1, folders[i], answer)))
  }
  const notes = [
    ...(rest.length === 0
      ? []
      : [`Smaller: ${list(rest.map(({ bytes, name }) => `${printable(name)} (${count(bytes, "byte")})`))}.`]),
    ...(ignored.length === 0 ? [] : [`Ignored by .gitignore: ${list(ignored.map(printable))}.`]),
    ...(left.length === 0
      ? []
      : [`Left out: ${list(left.map(({ path, why }) => `${printable(path)} (${printable(why)})`))}.`])
  ]
  lines.push(
    "",
    ...notes,
    "Written by the built-in offline model: a program that read these files, not a language model."
  )
  return lines.join("\n")
}

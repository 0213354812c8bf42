/**
 * Writes the report of the offline model.
 *
 * @since 0.1.0
 */
import { printable } from "../view/text.ts"
import type { Answer, Folder } from "./survey.ts"

/** @internal Files with exports that the report names for each folder. */
const mostFiles = 500

const count = (n: number, one: string, many = `${one}s`): string => `${n} ${n === 1 ? one : many}`

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
      `   It changed meanwhile: at first there were ${count(folder.files, "text file")} with ${count(folder.bytes, "byte")}.`
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
      : [`Smaller: ${rest.map(({ bytes, name }) => `${printable(name)} (${count(bytes, "byte")})`).join(", ")}.`]),
    ...(ignored.length === 0 ? [] : [`Ignored by .gitignore: ${ignored.map(printable).join(", ")}.`]),
    ...(left.length === 0 ? [] : [
      `Left out: ${left.slice(0, 10).map(({ path, why }) => `${printable(path)} (${printable(why)})`).join(", ")}${
        left.length > 10 ? ` and ${left.length - 10} more` : ""
      }.`
    ])
  ]
  if (notes.length > 0) lines.push("", ...notes)
  return lines.join("\n")
}

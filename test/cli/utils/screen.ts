/** A terminal of a fixed size, as far as the live view uses one: what a person would see of what was written. */
import { CliOutput } from "effect/cli"

export const screen = (columns: number, rows: number) => {
  let cells: Array<Array<string>> = [[]]
  let row = 0
  let column = 0
  let shown = true
  const segmenter = new Intl.Segmenter(undefined, { granularity: "grapheme" })

  const down = () => {
    row++
    while (cells.length <= row) cells.push([])
  }
  // what has scrolled out of sight is still there, above; the cursor never gets back to it
  const top = () => Math.max(0, cells.length - rows)
  const put = (segment: string) => {
    const width = CliOutput.displayWidth(segment)
    if (width === 0) return
    if (column + width > columns) {
      column = 0
      down()
    }
    const line = cells[row]!
    while (line.length < column) line.push(" ")
    line[column] = segment
    for (let i = 1; i < width; i++) line[column + i] = ""
    column += width
  }

  return {
    write: (text: string): void => {
      // oxlint-disable-next-line no-control-regex -- it is about control characters
      for (const [, sequence, final, plain] of text.matchAll(/\x1b\[([?0-9;]*)([A-Za-z])|([^\x1b]+|\x1b)/g)) {
        if (plain !== undefined) {
          for (const { segment } of segmenter.segment(plain)) {
            for (const char of segment === "\r\n" ? ["\r", "\n"] : [segment]) {
              if (char === "\r") column = 0
              else if (char === "\n") down()
              else if (char === "\x1b") throw new Error("a bare escape")
              else put(char)
            }
          }
          continue
        }
        switch (`${final}`) {
          case "A":
            row -= Number(sequence)
            if (row < top()) throw new Error("the cursor went above the screen")
            break
          case "K":
            cells[row]!.length = Math.min(cells[row]!.length, column)
            break
          case "J":
            cells[row]!.length = Math.min(cells[row]!.length, column)
            cells = cells.slice(0, row + 1)
            break
          case "h":
          case "l":
            if (sequence === "?25") shown = final === "h"
            else if (sequence !== "?2026") throw new Error(`unknown mode ${sequence}`)
            break
          case "m":
            break
          default:
            throw new Error(`unknown sequence ${sequence}${final}`)
        }
      }
    },
    lines: (): ReadonlyArray<string> => cells.map((line) => line.join("").trimEnd()),
    cursor: () => ({ row, column }),
    cursorShown: () => shown
  }
}

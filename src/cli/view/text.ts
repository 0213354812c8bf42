/**
 * Makes text fit for a terminal: nothing in it can move the cursor, and nothing is wider than it may be.
 *
 * @since 0.1.0
 */
import { displayWidth } from "effect/cli/CliOutput"

const harmful = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/u
const harmfulInText = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu

const escape = (char: string): string => {
  switch (char) {
    case "\n":
      return "\\n"
    case "\r":
      return "\\r"
    case "\t":
      return "\\t"
    default:
      return `\\u{${(char.codePointAt(0) ?? 0).toString(16)}}`
  }
}

/** @internal A name or a short text on one line: as it is where that is safe and clear, else quoted with escapes. */
export const printable = (text: string): string =>
  text !== "" && text.trim() === text && !harmful.test(text) && !text.includes("\"")
    ? text
    : `"${text.replaceAll("\\", "\\\\").replaceAll("\"", "\\\"").replaceAll(harmfulInText, escape)}"`

const steering = /[\p{Cc}\p{Zl}\p{Zp}\p{Cs}\u202a-\u202e\u2066-\u2069]/gu

/**
 * @internal A text of many lines: all that could steer the terminal or turn the text around is shown as an escape, ends
 * of lines and tabs excepted.
 */
export const printableText = (text: string): string =>
  text.replaceAll("\r\n", "\n").replaceAll(steering, (char) => char === "\n" || char === "\t" ? char : escape(char))

/** @internal A text on one line without quotes: what would break the line becomes a space. */
export const oneLine = (text: string): string => text.replaceAll(/\s+/g, " ").replaceAll(harmfulInText, escape).trim()

const segmenter = new Intl.Segmenter(undefined, { granularity: "grapheme" })

/** @internal Cuts a line of plain text to a width in terminal cells. */
export const fit = (text: string, width: number): string => {
  if (width <= 0) return ""
  if (text.length <= width && /^[\x20-\x7e]*$/.test(text)) return text
  if (displayWidth(text) <= width) return text
  let out = ""
  let used = 0
  for (const { segment } of segmenter.segment(text)) {
    const cells = displayWidth(segment)
    if (used + cells > width - 1) break
    out += segment
    used += cells
  }
  return `${out}…`
}

/** @internal Pads a line of plain text to a width in terminal cells. */
export const pad = (text: string, width: number): string => text + " ".repeat(Math.max(0, width - displayWidth(text)))

/**
 * Splits JavaScript and TypeScript into tokens, as far as finding exports needs it.
 *
 * It never fails: what it takes for a string or a regular expression ends with its line at the latest, so that a text
 * that is no code, or code it misreads, costs a line and not the rest of the file.
 *
 * @since 0.1.0
 */

/** @internal `depth` counts the brackets around a token; a bracket has the depth of what is around the pair. */
export interface Token {
  readonly kind: "word" | "punctuation" | "string" | "template" | "number" | "regexp"
  readonly text: string
  readonly depth: number
  /** Whether a line ends between the token before and this one. */
  readonly newline: boolean
  /** Whether there is anything between the token before and this one. */
  readonly spaced: boolean
  /** Whether it is the first thing of its line, without any indentation. */
  readonly flush: boolean
}

const wordStart = /[\p{ID_Start}$_#]/u
const word = /[\p{ID_Start}$_#][\p{ID_Continue}$\u200c\u200d]*/uy
const number = /[0-9](?:[0-9a-zA-Z_]|\.[0-9_])*|\.[0-9][0-9a-zA-Z_]*/y
const space = /[ \t\v\f\ufeff\u00a0\p{Zs}]+/uy

// a slash behind one of these starts a regular expression, behind any other word it divides
const beforeExpression = new Set([
  "await",
  "case",
  "default",
  "delete",
  "do",
  "else",
  "extends",
  "in",
  "instanceof",
  "new",
  "of",
  "return",
  "throw",
  "typeof",
  "void",
  "yield"
])

const beforeCondition = new Set(["if", "while", "for", "with"])

const isNewline = (char: string): boolean => char === "\n" || char === "\r" || char === "\u2028" || char === "\u2029"

/** The end of a quoted string, or of its line. */
const endOfString = (code: string, start: number): number => {
  const quote = code[start]
  for (let i = start + 1; i < code.length; i++) {
    const char = code[i]
    if (char === "\\") i += code[i + 1] === "\r" && code[i + 2] === "\n" ? 2 : 1
    else if (char === quote) return i + 1
    else if (char === "\n" || char === "\r") return i
  }
  return code.length
}

/** The end of a regular expression, or `undefined` where the line ends before it does. */
const endOfRegexp = (code: string, start: number): number | undefined => {
  let inClass = false
  for (let i = start + 1; i < code.length; i++) {
    const char = code[i]
    if (isNewline(char)) return undefined
    if (char === "\\") i++
    else if (char === "[") inClass = true
    else if (char === "]") inClass = false
    else if (char === "/" && !inClass) {
      word.lastIndex = i + 1
      return word.test(code) ? word.lastIndex : i + 1
    }
  }
  return undefined
}

/** @internal `jsx` says that text may stand between tags, where quotes and brackets mean nothing. */
export const tokenize = (code: string, jsx = false): ReadonlyArray<Token> => {
  const tokens: Array<Token> = []
  // what closes each open bracket; "`" stands for an expression in a template
  const open: Array<{ readonly closer: string; readonly condition: boolean }> = []
  let at = code.startsWith("#!") ? endOfLine(code, 0) : 0
  let newline = true
  let lineStart = 0
  let end = -1
  // whether the last closing parenthesis closed the condition of a statement
  let closedCondition = false

  const push = (kind: Token["kind"], start: number, stop: number, depth = open.length) => {
    tokens.push({
      kind,
      text: code.slice(start, stop),
      depth,
      newline,
      spaced: start !== end,
      flush: start === lineStart
    })
    newline = false
    end = at = stop
  }

  const template = (start: number, opens: boolean) => {
    for (let i = start; i < code.length; i++) {
      const char = code[i]
      if (char === "\\") i++
      else if (char === "`") return push("template", start, i + 1)
      else if (char === "$" && code[i + 1] === "{") {
        push("template", start, i + 2)
        open.push({ closer: "`", condition: false })
        return
      }
    }
    // a quote that nothing closes was no quote
    if (opens) push("punctuation", start - 1, start)
    else push("template", start, code.length)
  }

  const regexpAllowed = (): boolean => {
    const last = tokens.at(-1)
    if (last === undefined) return true
    switch (last.kind) {
      case "word":
        return beforeExpression.has(last.text)
      case "punctuation":
        return last.text === ")" ? closedCondition : last.text === "}" ? newline : last.text !== "]"
      case "template":
        return last.text.endsWith("${")
      default:
        return false
    }
  }

  while (at < code.length) {
    const char = code[at]
    if (isNewline(char)) {
      newline = true
      lineStart = ++at
      continue
    }
    space.lastIndex = at
    if (space.test(code)) {
      at = space.lastIndex
      continue
    }
    if (char === "/" && code[at + 1] === "/") {
      at = endOfLine(code, at)
      continue
    }
    if (char === "/" && code[at + 1] === "*") {
      const stop = code.indexOf("*/", at + 2)
      const after = stop === -1 ? code.length : stop + 2
      for (let i = at; i < after; i++) {
        if (isNewline(code[i])) {
          newline = true
          lineStart = i + 1
        }
      }
      at = after
      continue
    }
    const point = String.fromCodePoint(code.codePointAt(at) ?? 0)
    if (wordStart.test(point)) {
      word.lastIndex = at
      word.test(code)
      const text = code.slice(at, word.lastIndex)
      // only code that was misread has a flush export inside brackets; text between tags is what gets misread
      if (jsx && text === "export" && at === lineStart) open.length = 0
      push("word", at, word.lastIndex)
      continue
    }
    number.lastIndex = at
    if (number.test(code)) {
      push("number", at, number.lastIndex)
      continue
    }
    switch (char) {
      case "\"":
      case "'":
        push("string", at, endOfString(code, at))
        continue
      case "`":
        template(at + 1, true)
        continue
      case "(":
      case "[":
      case "{": {
        const last = tokens.at(-1)
        const condition = char === "(" && last?.kind === "word" && beforeCondition.has(last.text)
        push("punctuation", at, at + 1)
        open.push({ closer: char === "(" ? ")" : char === "[" ? "]" : "}", condition })
        continue
      }
      case ")":
      case "]":
      case "}": {
        const last = open.at(-1)
        if (char === "}" && last?.closer === "`") {
          open.pop()
          template(at + 1, false)
          continue
        }
        // a closing bracket without its opening one changes nothing
        if (last?.closer === char) {
          open.pop()
          closedCondition = last.condition
        }
        push("punctuation", at, at + 1)
        continue
      }
      case "/": {
        const stop = regexpAllowed() ? endOfRegexp(code, at) : undefined
        if (stop === undefined) push("punctuation", at, at + 1)
        else push("regexp", at, stop)
        continue
      }
      case "=":
        push("punctuation", at, code[at + 1] === ">" ? at + 2 : at + 1)
        continue
      default:
        push("punctuation", at, at + point.length)
    }
  }
  return tokens
}

const endOfLine = (code: string, from: number): number => {
  for (let i = from; i < code.length; i++) if (isNewline(code[i])) return i
  return code.length
}

/**
 * Finds the names that a JavaScript or TypeScript module exports with `export`.
 *
 * It knows the statement's forms, not the language: names that `export * from` passes on stand in another file and are
 * not among them, and neither is what CommonJS assigns to `exports`.
 *
 * @since 0.1.0
 */
import { type Token, tokenize } from "./tokens.ts"

const extensions = /\.([cm]?[jt]s|[jt]sx)$/
const jsxExtensions = /\.[jt]sx$|\.js$/

/** @internal Whether a file of this name is JavaScript or TypeScript. */
export const isScript = (path: string): boolean => extensions.test(path)

// behind one of these a statement goes on in the next line, whatever stands there
const unfinished = new Set([
  "as",
  "asserts",
  "async",
  "await",
  "delete",
  "extends",
  "in",
  "infer",
  "instanceof",
  "is",
  "keyof",
  "new",
  "of",
  "readonly",
  "return",
  "satisfies",
  "typeof",
  "unique",
  "void",
  "yield"
])

// a line that starts with one of these goes on with the statement before
const continuing = new Set(["as", "extends", "in", "instanceof", "is", "of", "satisfies"])

// a flush line that starts with one of these is a new statement, whatever was misread before it
const statements = new Set([
  "abstract",
  "class",
  "const",
  "declare",
  "enum",
  "export",
  "function",
  "import",
  "interface",
  "let",
  "namespace",
  "type",
  "var"
])

class Reader {
  readonly names = new Set<string>()
  private readonly tokens: ReadonlyArray<Token>
  private readonly jsx: boolean

  constructor(tokens: ReadonlyArray<Token>, jsx: boolean) {
    this.tokens = tokens
    this.jsx = jsx
  }

  private text(at: number): string | undefined {
    const token = this.tokens[at]
    return token === undefined || token.kind === "string" || token.kind === "template" ? undefined : token.text
  }

  private add(at: number): void {
    const token = this.tokens[at]
    if (token?.kind === "word") this.names.add(token.text)
    else if (token?.kind === "string") this.names.add(unquote(token.text))
  }

  run(): ReadonlyArray<string> {
    for (let at = 0; at < this.tokens.length; at++) {
      const token = this.tokens[at]
      if (token.kind !== "word" || token.text !== "export" || token.depth !== 0) continue
      const before = this.text(at - 1)
      if (before === "." || this.text(at + 1) === ":") continue
      this.statement(at + 1)
    }
    return Array.from(this.names)
  }

  private statement(at: number): void {
    const word = this.text(at)
    switch (word) {
      case "default":
        return void this.names.add("default")
      case "=":
        return void this.names.add("export=")
      case "*":
        return this.text(at + 1) === "as" ? this.add(at + 2) : undefined
      case "{":
        return this.list(at)
      case "as":
        return this.add(at + 2)
      case "import":
        return this.add(this.text(at + 1) === "type" && this.text(at + 2) !== "=" ? at + 2 : at + 1)
      case "type":
        return this.text(at + 1) === "{" || this.text(at + 1) === "*" ? this.statement(at + 1) : this.add(at + 1)
      case "class":
      case "enum":
      case "interface":
      case "module":
      case "namespace":
        return this.add(at + 1)
      case "function":
        return this.add(this.text(at + 1) === "*" ? at + 2 : at + 1)
      case "abstract":
      case "async":
      case "declare":
        return this.statement(at + 1)
      case "const":
        return this.text(at + 1) === "enum" ? this.add(at + 2) : this.declarations(at + 1)
      case "let":
      case "var":
        return this.declarations(at + 1)
      case "@": {
        // the class that the decorators belong to
        while (at < this.tokens.length && !(this.tokens[at].depth === 0 && this.text(at) === "class")) at++
        return this.add(at + 1)
      }
      default:
        return undefined
    }
  }

  /** `{ a, b as c, type D }`: of each item its last word. */
  private list(at: number): void {
    const { depth } = this.tokens[at]
    let last: number | undefined
    for (let i = at + 1; i < this.tokens.length && this.tokens[i].depth > depth; i++) {
      if (this.tokens[i].depth > depth + 1) continue
      if (this.text(i) === ",") {
        if (last !== undefined) this.add(last)
        last = undefined
      } else last = i
    }
    if (last !== undefined) this.add(last)
  }

  /** `a = 1, { b, c: d } = e, f: T`. */
  private declarations(first: number): void {
    let at: number | undefined = first
    while (at !== undefined) {
      const text = this.text(at)
      let after = at + 1
      if (text === "{" || text === "[") {
        this.pattern(at)
        after = this.close(at) + 1
      } else this.add(at)
      at = this.nextDeclaration(after)
    }
  }

  /** The index of the bracket that closes the one at `at`. */
  private close(at: number): number {
    const { depth } = this.tokens[at]
    let i = at + 1
    while (i < this.tokens.length && this.tokens[i].depth > depth) i++
    return i
  }

  /** Every name that a destructuring pattern binds. */
  private pattern(at: number): void {
    const end = this.close(at)
    const isObject = this.text(at) === "{"
    const depth = this.tokens[at].depth + 1
    let item = at + 1
    while (item < end) {
      let comma = item
      while (comma < end && !(this.tokens[comma].depth === depth && this.text(comma) === ",")) comma++
      let target = item
      if (isObject) {
        for (let i = item; i < comma; i++) {
          if (this.tokens[i].depth !== depth) continue
          // behind the first colon stands what the property is bound to; behind an equals sign only its default
          if (this.text(i) === "=") break
          if (this.text(i) === ":") {
            target = i + 1
            break
          }
        }
      }
      while (this.text(target) === ".") target++
      if (target < comma) {
        const text = this.text(target)
        if (text === "{" || text === "[") this.pattern(target)
        else this.add(target)
      }
      item = comma + 1
    }
  }

  /** Where the next declaration of the same statement starts, if there is one. */
  private nextDeclaration(from: number): number | undefined {
    const outer = this.tokens[from - 1]?.depth ?? 0
    let angles = 0
    let typed = false
    for (let i = from; i < this.tokens.length; i++) {
      const token = this.tokens[i]
      if (token.depth !== outer) continue
      const text = this.text(i)
      if (token.flush && token.kind === "word" && statements.has(token.text) && !this.isOpen(i - 1)) return undefined
      if (token.newline && angles === 0 && this.endsBefore(i)) return undefined
      if (text === ";") return undefined
      if (text === "<") {
        if (typed || this.opensAngle(i)) angles++
      } else if (text === ">") {
        if (angles > 0) angles--
      } else if (text === ":" && angles === 0) {
        if (i === from || (i === from + 1 && this.text(from) === "!")) typed = true
      } else if (text === "=" && angles === 0) {
        typed = false
      } else if (text === "," && angles === 0) {
        return this.looksDeclared(i + 1) ? i + 1 : undefined
      }
    }
    return undefined
  }

  /** Whether the token at `at` cannot be the last one of a statement. */
  private isOpen(at: number): boolean {
    const token = this.tokens[at]
    if (token === undefined) return true
    if (token.kind === "word") return unfinished.has(token.text)
    return token.kind === "punctuation" && !/^[)\]}>!]$/.test(token.text)
  }

  /** Whether a line that starts with the token at `at` starts a statement. */
  private endsBefore(at: number): boolean {
    if (this.isOpen(at - 1)) return false
    const { kind, text } = this.tokens[at]
    switch (kind) {
      case "word":
        return !continuing.has(text)
      case "number":
      case "string":
        return true
      case "punctuation":
        return text === "@" || text === "}"
      default:
        return false
    }
  }

  /** Whether a `<` opens a list of types, and does not compare. */
  private opensAngle(at: number): boolean {
    const before = this.tokens[at - 1]
    if (before === undefined) return false
    if (before.kind === "word") return unfinished.has(before.text) || !this.tokens[at].spaced
    return before.kind === "punctuation" && !/^[)\]}]$/.test(before.text)
  }

  /** Whether what stands behind a comma is a declaration, and not an argument of something that was misread. */
  private looksDeclared(at: number): boolean {
    const token = this.tokens[at]
    if (token === undefined) return false
    const text = this.text(at)
    const isPattern = text === "{" || text === "["
    if (!isPattern && token.kind !== "word") return false
    const after = isPattern ? this.close(at) + 1 : at + 1
    const next = this.text(after)
    if (next === "=" || next === ":" || next === "!") return true
    return !this.jsx && !isPattern &&
      (this.tokens[after] === undefined || next === "," || next === ";" || this.tokens[after].newline)
  }
}

const unquote = (text: string): string => {
  const inner = text.slice(1, -1)
  return inner.includes("\\") ? inner.replace(/\\(.)/g, "$1") : inner
}

/**
 * @internal The names that a module exports, in the order in which they first appear: `default` for a default export,
 * `export=` for TypeScript's `export =`.
 */
export const exportedNames = (path: string, code: string): ReadonlyArray<string> => {
  if (!code.includes("export")) return []
  const jsx = jsxExtensions.test(path)
  return new Reader(tokenize(code, jsx), jsx).run()
}

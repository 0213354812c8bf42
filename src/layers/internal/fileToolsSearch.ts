/**
 * Finds the lines of text files that hold a given text.
 *
 * The text is taken literally. A pattern could be written that keeps this process busy for hours, and nothing could
 * interrupt it.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { Fence, type Place } from "./fileToolsFence.ts"
import { boundSkipped, SkippedPath } from "./fileToolsList.ts"
import { decode, isBinary, readAt } from "./fileToolsText.ts"
import { type Skipped, walk } from "./fileToolsWalk.ts"

/** @internal Matches of one result: without and with a limit. */
export const defaultMatches = 100
/** @internal */
export const maxMatches = 1000
/** @internal Characters of a line that a match shows. */
export const maxLine = 300
/** @internal Larger files are not searched. */
export const maxSearchedBytes = 16 * 2 ** 20
/** @internal Files that one call searches. */
export const maxFiles = 20_000

const Natural = Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))

/**
 * What was found. Each match names its file, its line from 1, the byte at which that line starts (an `offset` for
 * read_file) and the line, cut after 300 characters. `next` is the `offset` of further matches, absent when there are
 * none; `searched` and `binary` count the files that were looked into and those that were left out as binary.
 *
 * @category schemas
 * @since 0.1.0
 */
export const Matches = Schema.Struct({
  matches: Schema.Array(Schema.Struct({
    path: Schema.String,
    line: Natural,
    offset: Natural,
    text: Schema.String
  })),
  searched: Natural,
  binary: Natural,
  skipped: Schema.Array(SkippedPath),
  skippedMore: Schema.optionalKey(Natural),
  next: Schema.optionalKey(Natural)
})

/**
 * @category models
 * @since 0.1.0
 */
export type Matches = typeof Matches.Type

interface Query {
  readonly text: string
  readonly ignoreCase: boolean
}

const shorten = (line: string): string => {
  const whole = line.endsWith("\r") ? line.slice(0, -1) : line
  return whole.length <= maxLine ? whole : `${whole.slice(0, maxLine)} … (${whole.length} characters)`
}

/** @internal Every line of a file that matches, with its number and the byte it starts at. */
export const matchingLines = function*(bytes: Uint8Array, query: Query) {
  const lines = decode(bytes).split("\n")
  const wanted = query.ignoreCase ? query.text.toLowerCase() : query.text
  let offset = 0
  for (let i = 0; i < lines.length; i++) {
    const line = lines[i]
    if ((query.ignoreCase ? line.toLowerCase() : line).includes(wanted)) {
      yield { line: i + 1, offset, text: shorten(line) }
    }
    // a newline is one byte whatever stands around it, also in bytes that are not UTF-8
    offset = bytes.indexOf(10, offset) + 1
  }
}

/** @internal */
export const search = Effect.fnUntraced(function*(
  place: Place,
  options: Query & { readonly offset: number; readonly limit: number }
) {
  const { bounded, open } = yield* Fence
  const matches: Array<Matches["matches"][number]> = []
  const skipped: Array<Skipped> = []
  let found = 0
  let more = false
  let searched = 0
  let binary = 0

  const look = Effect.fnUntraced(function*(file: Pick<Place, "path" | "real">) {
    if (searched + binary >= maxFiles) {
      skipped.push({
        path: file.path,
        why: `this and what follows: ${maxFiles} files were searched; search a subdirectory`
      })
      return "stop" as const
    }
    const content = yield* Effect.option(bounded(Effect.scoped(Effect.gen(function*() {
      const handle = yield* open(file)
      const size = Number((yield* handle.stat).size)
      return size > maxSearchedBytes ? size : yield* readAt(handle, 0, size)
    }))))
    if (content._tag === "None") {
      skipped.push({ path: file.path, why: "it cannot be read" })
    } else if (typeof content.value === "number") {
      skipped.push({ path: file.path, why: `it has ${content.value} bytes; at most ${maxSearchedBytes} are searched` })
    } else if (isBinary(content.value)) {
      binary++
    } else {
      searched++
      for (const match of matchingLines(content.value, options)) {
        if (matches.length >= options.limit) {
          more = true
          return "stop" as const
        }
        if (found++ >= options.offset) matches.push({ path: file.path, ...match })
      }
    }
    return "go on" as const
  })

  if (place.info.type === "Directory") {
    yield* walk(place, {
      recursive: true,
      visit: (entry) => entry.type === "File" ? look(entry) : Effect.succeed("go on" as const),
      skipped: (one) => skipped.push(one)
    })
  } else {
    yield* look(place)
  }
  return {
    matches,
    searched,
    binary,
    ...boundSkipped(skipped),
    ...(more ? { next: options.offset + matches.length } : undefined)
  } satisfies Matches
})

/**
 * Lists what is in a directory, a page at a time.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { Fence, FileRefused, type Place } from "./fileToolsFence.ts"
import { isText } from "./fileToolsText.ts"
import { type Found, type Skipped, walk } from "./fileToolsWalk.ts"

/** @internal Entries of one page: without and with a limit. */
export const defaultEntries = 500
/** @internal */
export const maxEntries = 5000
/** @internal How many left-out paths one result names. */
export const maxSkipped = 100

const Natural = Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))

/**
 * One thing in a directory. `bytes` and `content` are of regular files; `to` says where a link leads: `broken` to
 * nothing, `outside` out of the working directory.
 *
 * @category schemas
 * @since 0.1.0
 */
export const Entry = Schema.Union([
  Schema.Struct({
    path: Schema.String,
    type: Schema.Literal("file"),
    bytes: Natural,
    content: Schema.Literals(["text", "binary", "unreadable"])
  }),
  Schema.Struct({ path: Schema.String, type: Schema.Literal("directory") }),
  Schema.Struct({
    path: Schema.String,
    type: Schema.Literal("link"),
    to: Schema.Literals(["file", "directory", "special", "outside", "broken"])
  }),
  Schema.Struct({ path: Schema.String, type: Schema.Literal("special") })
])

/**
 * @category models
 * @since 0.1.0
 */
export type Entry = typeof Entry.Type

/**
 * Something that was left out, and why.
 *
 * @category schemas
 * @since 0.1.0
 */
export const SkippedPath = Schema.Struct({ path: Schema.String, why: Schema.String })

/**
 * A page of a listing. `next` is the `offset` of the following page, absent on the last one; `skippedMore` counts what
 * was left out beyond those that `skipped` names.
 *
 * @category schemas
 * @since 0.1.0
 */
export const Listing = Schema.Struct({
  path: Schema.String,
  entries: Schema.Array(Entry),
  skipped: Schema.Array(SkippedPath),
  skippedMore: Schema.optionalKey(Natural),
  next: Schema.optionalKey(Natural)
})

/**
 * @category models
 * @since 0.1.0
 */
export type Listing = typeof Listing.Type

/** @internal What was left out, as a result names it. */
export const boundSkipped = (all: ReadonlyArray<Skipped>) => ({
  skipped: all.slice(0, maxSkipped),
  ...(all.length > maxSkipped ? { skippedMore: all.length - maxSkipped } : undefined)
})

const describe = Effect.fnUntraced(function*(root: string, found: Found) {
  const { bounded, fs, inside, open } = yield* Fence
  const named = { path: found.path }
  switch (found.type) {
    case "Directory":
      return { ...named, type: "directory" } satisfies Entry
    case "SymbolicLink": {
      const real = yield* Effect.option(fs.realPath(found.real))
      if (real._tag === "None") return { ...named, type: "link", to: "broken" } satisfies Entry
      if (!inside(root, real.value)) return { ...named, type: "link", to: "outside" } satisfies Entry
      const info = yield* Effect.option(fs.stat(real.value))
      if (info._tag === "None") return { ...named, type: "link", to: "broken" } satisfies Entry
      const type = info.value.type
      const to = type === "File" ? "file" : type === "Directory" ? "directory" : "special"
      return { ...named, type: "link", to } satisfies Entry
    }
    case "File": {
      const info = yield* Effect.option(fs.lstat(found.real))
      if (info._tag === "None") return undefined
      if (info.value.type !== "File") return { ...named, type: "special" } satisfies Entry
      const text = yield* bounded(Effect.option(Effect.scoped(Effect.flatMap(open(found), isText))))
      return {
        ...named,
        type: "file",
        bytes: Number(info.value.size),
        content: text._tag === "None" ? "unreadable" : text.value ? "text" : "binary"
      } satisfies Entry
    }
    default:
      return { ...named, type: "special" } satisfies Entry
  }
})

/** @internal */
export const list = Effect.fnUntraced(function*(
  place: Place,
  options: { readonly recursive: boolean; readonly offset: number; readonly limit: number }
) {
  if (place.info.type !== "Directory") {
    return yield* new FileRefused({ path: place.path, reason: "not-a-directory", issue: "it is not a directory" })
  }
  const page: Array<Found> = []
  const skipped: Array<Skipped> = []
  const behind: Array<Skipped> = []
  let index = 0
  const verdict = yield* walk(place, {
    recursive: options.recursive,
    visit: (found) =>
      Effect.sync(() => {
        if (page.length >= options.limit) return "stop"
        if (index++ >= options.offset) page.push(found)
        return "go on"
      }),
    skipped: (one) => {
      // each is named once: with the page that holds the entry behind it, or with the last page
      if (page.length >= options.limit) behind.push(one)
      else if (index >= options.offset) skipped.push(one)
    }
  })
  if (verdict === "go on") skipped.push(...behind)
  const described = yield* Effect.forEach(page, (found) => describe(place.root, found), { concurrency: 16 })
  const entries: Array<Entry> = []
  described.forEach((entry, i) => {
    if (entry === undefined) skipped.push({ path: page[i].path, why: "it cannot be looked at by this name" })
    else entries.push(entry)
  })
  return {
    path: place.path,
    entries,
    ...boundSkipped(skipped),
    ...(verdict === "stop" ? { next: options.offset + page.length } : undefined)
  } satisfies Listing
})

/**
 * Reads a part of a text file.
 *
 * Parts are counted in bytes, not in lines: that finds its place in a file of any size at once, and a line of any length
 * can be read through.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { Fence, FileRefused, notAFile, type Place, refusal } from "./fileToolsFence.ts"
import { cutAt, decode, isBinary, readAt, sniffedBytes } from "./fileToolsText.ts"

/** @internal Bytes of one part: without and with a limit. */
export const defaultBytes = 65_536
/** @internal */
export const maxBytes = 262_144
/** @internal Enough for a whole character, so that every part gets further. */
export const minBytes = 16

const Natural = Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))

/**
 * A part of a text file. `bytes` is the size of the whole file, `offset` the byte that `text` starts at, and `next` the
 * `offset` of the following part, absent when `text` reaches the end.
 *
 * @category schemas
 * @since 0.1.0
 */
export const FilePart = Schema.Struct({
  path: Schema.String,
  bytes: Natural,
  offset: Natural,
  text: Schema.String,
  next: Schema.optionalKey(Natural)
})

/**
 * @category models
 * @since 0.1.0
 */
export type FilePart = typeof FilePart.Type

/** @internal */
export const read = Effect.fnUntraced(function*(
  place: Place,
  options: { readonly offset: number; readonly limit: number }
) {
  if (place.info.type !== "File") return yield* notAFile(place.path, place.info.type)
  const { bounded, open } = yield* Fence
  return yield* bounded(
    Effect.scoped(Effect.gen(function*() {
      const file = yield* open(place)
      const bytes = Number((yield* file.stat).size)
      const part = yield* readAt(file, options.offset, options.limit)
      const start = options.offset === 0 && part.length >= Math.min(bytes, sniffedBytes)
        ? part
        : yield* readAt(file, 0, sniffedBytes)
      if (isBinary(start)) {
        return yield* new FileRefused({
          path: place.path,
          reason: "binary",
          issue: `it is a binary file of ${bytes} bytes, which is not shown`
        })
      }
      const reached = options.offset + part.length
      const length = reached < bytes && part.length > 0 ? cutAt(part) : part.length
      return {
        path: place.path,
        bytes,
        offset: options.offset,
        text: decode(part.subarray(0, length)),
        ...(options.offset + length < bytes && length > 0 ? { next: options.offset + length } : undefined)
      } satisfies FilePart
    })).pipe(Effect.catchTag("PlatformError", (error) => Effect.fail(refusal(place.path, error))))
  )
})

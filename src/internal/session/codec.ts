/**
 * Turns headers and events into plain JSON and back.
 *
 * What a newer minor version may have written is kept as it was read; what a newer major version has is refused.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { type Event, Header, KnownEvent } from "./events.ts"

const knownTags: ReadonlySet<string> = new Set(KnownEvent.members.map((member) => member.fields._tag.schema.literal))

const isRecord = (u: unknown): u is { readonly [key: string]: unknown } =>
  typeof u === "object" && u !== null && !Array.isArray(u)

const isNatural = (u: unknown): u is number => typeof u === "number" && Number.isSafeInteger(u) && u >= 0

const codec = Schema.toCodecJson(KnownEvent)
const decodeKnown = Schema.decodeUnknownResult(codec)
const encodeKnown = Schema.encodeSync(codec)

/**
 * Decodes one event from plain JSON. Fails with a sentence that says what was wrong; an unknown tag with a valid `seq`
 * is not an error but an {@link UnknownEvent}.
 *
 * @category codecs
 * @since 0.1.0
 */
export const decodeEvent = (json: unknown): Result.Result<Event, string> => {
  if (!isRecord(json)) return Result.fail("an event must be a JSON object")
  if (typeof json._tag === "string" && !knownTags.has(json._tag)) {
    return isNatural(json.seq) && isNatural(json.at)
      ? Result.succeed({ _tag: "Unknown", seq: json.seq, at: json.at, raw: json })
      : Result.fail(`an event of unknown tag ${JSON.stringify(json._tag)} without a natural "seq" and "at"`)
  }
  return Result.mapError(decodeKnown(json), (error) => error.message)
}

/**
 * Encodes one event to plain JSON. Total: an event of this module's types always encodes.
 *
 * @category codecs
 * @since 0.1.0
 */
export const encodeEvent = (event: Event): unknown => event._tag === "Unknown" ? event.raw : encodeKnown(event)

const headerCodec = Schema.toCodecJson(Header)
const decodeKnownHeader = Schema.decodeUnknownResult(headerCodec)

/**
 * Encodes a header to plain JSON.
 *
 * @category codecs
 * @since 0.1.0
 */
export const encodeHeader: (header: Header) => unknown = Schema.encodeSync(headerCodec)

/**
 * Decodes a header from plain JSON. Fails with a sentence that says what was wrong; a newer major version is refused
 * by name.
 *
 * @category codecs
 * @since 0.1.0
 */
export const decodeHeader = (json: unknown): Result.Result<Header, string> => {
  if (isRecord(json) && typeof json.version === "number" && json.version > 1) {
    return Result.fail(`session format ${json.version} is newer than format 1, the newest that this version reads`)
  }
  return Result.mapError(decodeKnownHeader(json), (error) => error.message)
}

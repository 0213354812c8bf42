/**
 * Cuts the bytes of a log into lines, with the number and the offset of each, in memory bounded by the longest line.
 *
 * A last line without its newline is no line: its writer is still at it, or died over it.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import type * as PlatformError from "effect/PlatformError"
import type * as Pull from "effect/Pull"
import * as Result from "effect/Result"

/**
 * Some whole lines: their texts, the offset of each in the file, the number of the first, from 1, and the offset behind
 * the last one's newline.
 *
 * @internal
 */
export interface Lines {
  readonly texts: ReadonlyArray<string>
  readonly offsets: ReadonlyArray<number>
  readonly first: number
  readonly end: number
}

/**
 * Bytes that are no text.
 *
 * @internal
 */
export class NotText {
  readonly line: number
  readonly offset: number
  constructor(line: number, offset: number) {
    this.line = line
    this.offset = offset
  }
}

const newline = 10
const firstLineMax = 4096

const concat = (parts: ReadonlyArray<Uint8Array>, length: number): Uint8Array => {
  const all = new Uint8Array(length)
  let at = 0
  for (const part of parts) {
    all.set(part, at)
    at += part.length
  }
  return all
}

/**
 * Cuts chunk after chunk; what follows the last newline is kept for the next one.
 *
 * @internal
 */
export const makeCutter = (): (chunk: Uint8Array) => Result.Result<Lines | undefined, NotText> => {
  // an invalid byte must not turn into a replacement character that then counts as text
  const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true })
  let kept: Array<Uint8Array> = []
  let keptLength = 0
  let line = 1
  let offset = 0
  return (chunk) => {
    const end = chunk.lastIndexOf(newline)
    if (end < 0) {
      // copied, because the reader fills the same chunk again
      kept.push(chunk.slice())
      keptLength += chunk.length
      return Result.succeed(undefined)
    }
    const head = chunk.subarray(0, end)
    const block = keptLength === 0 ? head : concat([...kept, head], keptLength + end)
    const offsets: Array<number> = [offset]
    for (let at = block.indexOf(newline); at >= 0; at = block.indexOf(newline, at + 1)) offsets.push(offset + at + 1)
    const first = line
    const start = offset
    line += offsets.length
    const next = offset + block.length + 1
    offset = next
    kept = end + 1 === chunk.length ? [] : [chunk.slice(end + 1)]
    keptLength = chunk.length - end - 1
    return Result.mapBoth(Result.try(() => decoder.decode(block)), {
      onSuccess: (text) => ({ texts: text.split("\n"), offsets, first, end: next }),
      onFailure: () => {
        const isText = (index: number) =>
          Result.isSuccess(
            Result.try(() =>
              decoder.decode(block.subarray(offsets[index] - start, (offsets[index + 1] ?? next) - start - 1))
            )
          )
        const bad = offsets.findIndex((_, index) => !isText(index))
        return new NotText(first + bad, offsets[bad])
      }
    })
  }
}

/**
 * Pulls the whole lines among the first `limit` bytes of a file, `chunkSize` bytes at a time.
 *
 * @internal
 */
export const pullLines = (
  file: FileSystem.File,
  limit: number,
  chunkSize: number
): Pull.Pull<Lines, PlatformError.PlatformError | NotText> => {
  const cut = makeCutter()
  const buffer = new Uint8Array(chunkSize)
  let left = limit
  const pull: Pull.Pull<Lines, PlatformError.PlatformError | NotText> = Effect.suspend(() => {
    if (left <= 0) return Cause.done()
    return Effect.flatMap(file.read(left < chunkSize ? buffer.subarray(0, left) : buffer), (count) => {
      if (count === 0) return Cause.done()
      left -= count
      const lines = cut(buffer.subarray(0, count))
      if (Result.isFailure(lines)) return Effect.fail(lines.failure)
      return lines.success === undefined ? pull : Effect.succeed(lines.success)
    })
  })
  return pull
}

/**
 * The first line of a file, if there is a whole one. Cut off after a few kilobytes, which no first record is long.
 *
 * @internal
 */
export const firstLine = (
  file: FileSystem.File
): Effect.Effect<string | undefined, PlatformError.PlatformError | NotText> =>
  Effect.flatMap(file.readAlloc(firstLineMax), (bytes) => {
    if (Option.isNone(bytes)) return Effect.succeed(undefined)
    const end = bytes.value.indexOf(newline)
    if (end < 0) return Effect.succeed(bytes.value.length < firstLineMax ? undefined : "")
    const lines = makeCutter()(bytes.value.subarray(0, end + 1))
    return Result.isFailure(lines) ? Effect.fail(lines.failure) : Effect.succeed(lines.success?.texts[0])
  })

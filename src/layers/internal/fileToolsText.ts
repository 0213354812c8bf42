/**
 * Tells text from binary files, and cuts text where it can be cut.
 *
 * A file is binary when there is a NUL byte among its first 8000 bytes, as git decides it. That is known without reading
 * the file, and it is the same however large the file is.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import type { PlatformError } from "effect/PlatformError"

/** @internal How many bytes decide whether a file is text. */
export const sniffedBytes = 8000

/** @internal */
export const isBinary = (start: Uint8Array): boolean => start.subarray(0, sniffedBytes).includes(0)

/** @internal Reads `length` bytes from `position`, fewer only at the end of the file. */
export const readAt = Effect.fnUntraced(function*(file: FileSystem.File, position: number, length: number) {
  const buffer = new Uint8Array(length)
  let filled = 0
  while (filled < length) {
    const read: number = yield* file.read(buffer.subarray(filled), { position: BigInt(position + filled) })
    if (read === 0) break
    filled += read
  }
  return buffer.subarray(0, filled)
})

/** @internal Whether an open file is text. */
export const isText = (file: FileSystem.File): Effect.Effect<boolean, PlatformError> =>
  Effect.map(readAt(file, 0, sniffedBytes), (start) => !isBinary(start))

const decoder = new TextDecoder("utf-8", { ignoreBOM: true })

/** @internal Decodes UTF-8; what is none becomes U+FFFD, and a byte order mark stays. */
export const decode = (bytes: Uint8Array): string => decoder.decode(bytes)

/**
 * @internal How many of the bytes can be shown when more follow: up to the last line's end, else up to the last whole
 * character.
 */
export const cutAt = (bytes: Uint8Array): number => {
  const newline = bytes.lastIndexOf(10)
  if (newline !== -1) return newline + 1
  for (let back = 1; back <= 3 && back < bytes.length; back++) {
    const byte = bytes[bytes.length - back]
    // a continuation byte: its first one is further back
    if ((byte & 0b1100_0000) === 0b1000_0000) continue
    const wanted = byte >= 0b1111_0000 ? 4 : byte >= 0b1110_0000 ? 3 : byte >= 0b1100_0000 ? 2 : 1
    return wanted > back ? bytes.length - back : bytes.length
  }
  return bytes.length
}

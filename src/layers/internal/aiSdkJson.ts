/**
 * Makes values of a foreign SDK fit for `Schema.Json`. The SDK leaves `undefined` inside its objects, which a schema
 * refuses.
 *
 * @since 0.1.0
 */
import type { JSONValue } from "@ai-sdk/provider"
import * as Result from "effect/Result"

/**
 * The key under which parts that `effect/ai` has no name for are marked, so that they can be sent back as what they
 * were.
 *
 * @internal
 */
export const markerKey = "aiSdk"

/** @internal */
export const isPlainObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value)

/**
 * The JSON that a value would be sent as; `null` where it has none.
 *
 * @internal
 */
export const toJsonValue = (value: unknown): JSONValue =>
  Result.getOrElse(
    Result.try((): JSONValue => {
      const text = JSON.stringify(value)
      return text === undefined ? null : JSON.parse(text)
    }),
    () => String(value)
  )

/**
 * Makes plain JSON of what a tool gave back: a log holds nothing else, and what is not in the log the model never sees.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"

const isJson = Schema.is(Schema.Json)

/** @internal Marks a value that has no JSON form: a function, a big integer, or one that contains itself. */
export const notJson = Symbol.for("effect-subagent/notJson")

/**
 * @internal The value as `JSON.stringify` would write it, `null` for no value at all; {@link notJson} when it cannot.
 */
export const toJson = (value: unknown): Effect.Effect<unknown> => {
  if (value === undefined) return Effect.succeed(null)
  if (isJson(value)) return Effect.succeed(value)
  return Effect.try({
    try: (): unknown => {
      const text = JSON.stringify(value)
      return text === undefined ? notJson : JSON.parse(text)
    },
    catch: () => notJson
  }).pipe(Effect.catch(Effect.succeed))
}

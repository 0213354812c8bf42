/**
 * Writes a run as JSON, one event a line, to standard output.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import { Output } from "../output.ts"
import type { ViewEvent } from "./events.ts"
import type { View } from "./view.ts"

/** @internal An event as plain JSON; `undefined` for one that says nothing new. */
export const toJson = (event: ViewEvent): unknown => {
  switch (event._tag) {
    case "Agent": {
      const { at, progress, session } = event
      // the children that a delegate tool speaks of tell it themselves
      return progress._tag === "ToolProgress" ? undefined : { ...progress, session, at }
    }
    case "RunEnded": {
      const { output: _, ...rest } = event
      return rest
    }
    case "Ended": {
      const { at, outcome: { cause, text, usage }, session } = event
      return { _tag: "Ended", session, at, cause, text, usage }
    }
    default:
      return event
  }
}

/** @internal */
export const make: Effect.Effect<View, never, Output> = Effect.map(Output, ({ out }) => ({
  show: (event) => {
    const json = toJson(event)
    return json === undefined ? Effect.void : out(`${JSON.stringify(json)}\n`)
  },
  broken: Effect.never
}))

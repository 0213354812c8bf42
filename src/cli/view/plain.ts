/**
 * Writes a run as plain lines, to standard error.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import { Output } from "../output.ts"
import type { ViewEvent } from "./events.ts"
import { count, seconds, short } from "./numbers.ts"
import { advance, emptyState, outcomeText, type State } from "./state.ts"
import { oneLine, printable } from "./text.ts"
import { offlineNote, type View } from "./view.ts"

const settled = (state: State, session: string): string => {
  const agent = state.agents.get(session)
  if (agent === undefined) return "ended"
  const numbers = [
    count(agent.steps, "step"),
    `${short(agent.tokens)} tokens`,
    seconds((agent.endedAt ?? agent.startedAt) - agent.startedAt)
  ]
  return `${outcomeText(agent.outcome ?? "ended")}: ${numbers.join(", ")}`
}

/** @internal The line for an event, given what was known `before` and after it. */
export const lineFor = (event: ViewEvent, state: State, toolBefore: string | undefined): string | undefined => {
  const name = (session: string) => oneLine(state.agents.get(session)?.name ?? session)
  switch (event._tag) {
    case "Began":
      return `[agent] session ${event.session} in ${printable(event.cwd)}, stored in ${printable(event.store)}`
    case "RunStarted":
      return `[${name(event.id)}] started by ${name(event.parent)}: session ${event.id}`
    case "RunEnded":
      return `[${name(event.id)}] ${settled(state, event.id)}`
    case "Ended":
      return `[${name(event.session)}] ${settled(state, event.session)}`
    case "Dropped":
      return `(${event.count} events were missed)`
    case "Agent": {
      const { progress } = event
      switch (progress._tag) {
        case "ToolStarted":
          return `[${name(event.session)}] ${state.agents.get(event.session)?.tools.get(progress.id) ?? progress.name}`
        case "ToolEnded":
          return progress.isFailure ? `[${name(event.session)}] ${toolBefore ?? progress.name} failed` : undefined
        case "StepRestarted":
          return `[${name(event.session)}] asking again: ${oneLine(progress.reason)}`
        default:
          return undefined
      }
    }
  }
}

/** @internal */
export const make: Effect.Effect<View, never, Output> = Effect.map(Output, ({ err }) => {
  const state = emptyState()
  return {
    show: (event) => {
      const toolBefore = event._tag === "Agent" && event.progress._tag === "ToolEnded"
        ? state.agents.get(event.session)?.tools.get(event.progress.id)
        : undefined
      advance(state, event)
      const line = lineFor(event, state, toolBefore)
      if (line === undefined) return Effect.void
      return err(event._tag === "Began" && event.model === "offline" ? `${offlineNote}\n${line}\n` : `${line}\n`)
    },
    broken: Effect.never
  }
})

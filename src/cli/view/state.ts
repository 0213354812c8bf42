/**
 * Keeps what is known of each agent of a run, from the events as they come.
 *
 * @since 0.1.0
 */
import type { Usage } from "../../Session.ts"
import type { ViewEvent } from "./events.ts"
import { oneLine } from "./text.ts"

/** @internal What is known of one agent. */
export interface AgentState {
  readonly session: string
  readonly name: string
  readonly parent: string | undefined
  readonly startedAt: number
  readonly children: Array<string>
  /** Tool calls that run, by id, as they are shown. */
  readonly tools: Map<string, string>
  doing: string
  steps: number
  tokens: number
  endedAt: number | undefined
  outcome: string | undefined
}

/** @internal */
export interface State {
  readonly agents: Map<string, AgentState>
  root: string | undefined
  dropped: number
}

/** @internal */
export const emptyState = (): State => ({ agents: new Map(), root: undefined, dropped: 0 })

const add = (
  state: State,
  options: Pick<AgentState, "session" | "name" | "parent" | "startedAt">
): void => {
  state.agents.set(options.session, {
    ...options,
    children: [],
    tools: new Map(),
    doing: "starting",
    steps: 0,
    tokens: 0,
    endedAt: undefined,
    outcome: undefined
  })
  if (options.parent !== undefined) state.agents.get(options.parent)?.children.push(options.session)
}

/** @internal The most telling of a call's arguments. */
export const callText = (name: string, params: unknown): string => {
  if (typeof params !== "object" || params === null) return name
  const record = params as { readonly [key: string]: unknown }
  const detail = ["description", "path", "text"].map((key) => record[key]).find((value) =>
    typeof value === "string" && value !== ""
  )
  return typeof detail === "string" ? `${name} ${oneLine(detail)}` : name
}

const settle = (agent: AgentState, at: number, outcome: string, usage: Usage): void => {
  agent.endedAt = at
  agent.outcome = outcome
  agent.tools.clear()
  use(agent, usage)
}

const use = (agent: AgentState, usage: Usage): void => {
  agent.steps = usage.steps
  agent.tokens = usage.inputTokens + usage.outputTokens
}

/** @internal Takes one event in. */
export const advance = (state: State, event: ViewEvent): void => {
  switch (event._tag) {
    case "Began": {
      state.root = event.session
      return add(state, { session: event.session, name: "agent", parent: undefined, startedAt: event.at })
    }
    case "RunStarted":
      return add(state, {
        session: event.id,
        name: oneLine(event.label ?? "") || event.provider,
        parent: event.parent,
        startedAt: event.at
      })
    case "RunEnded": {
      const agent = state.agents.get(event.id)
      return agent === undefined ? undefined : settle(agent, event.at, event.outcome, event.usage)
    }
    case "Ended": {
      const agent = state.agents.get(event.session)
      return agent === undefined ? undefined : settle(agent, event.at, event.outcome.cause._tag, event.outcome.usage)
    }
    case "Dropped":
      state.dropped += event.count
      return
    case "Agent": {
      const agent = state.agents.get(event.session)
      if (agent === undefined || agent.endedAt !== undefined) return
      const { progress } = event
      switch (progress._tag) {
        case "StepStarted":
          agent.tools.clear()
          agent.steps = Math.max(agent.steps, progress.step + 1)
          agent.doing = "thinking"
          return
        case "StepRestarted":
          agent.doing = `asking again: ${oneLine(progress.reason)}`
          return
        case "Reasoning":
          agent.doing = "thinking"
          return
        case "Text":
          agent.doing = "writing"
          return
        case "ToolStarted":
          agent.tools.set(progress.id, callText(progress.name, progress.params))
          return
        case "ToolEnded":
          agent.tools.delete(progress.id)
          return
        case "StepEnded":
          return use(agent, progress.usage)
        case "ToolProgress":
        case "Dropped":
          return
      }
    }
  }
}

/** @internal An outcome's tag in words. */
export const outcomeText = (tag: string): string =>
  tag === "Completed" ? "done" : tag.replaceAll(/(?<=[a-z])(?=[A-Z])/g, " ").toLowerCase()

/** @internal What an agent does at the moment, in a few words. */
export const doing = (state: State, agent: AgentState): string => {
  if (agent.outcome !== undefined) return outcomeText(agent.outcome)
  const running = agent.children.filter((id) => state.agents.get(id)?.endedAt === undefined).length
  if (running > 0) return `waiting for ${running === 1 ? "a child" : `${running} children`}`
  const [first] = agent.tools.values()
  if (first === undefined) return agent.doing
  return agent.tools.size === 1 ? first : `${first} and ${agent.tools.size - 1} more`
}

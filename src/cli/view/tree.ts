/**
 * Draws the tree of agents as lines of text: each with what it is doing, its steps, tokens and seconds.
 *
 * @since 0.1.0
 */
import { displayWidth } from "effect/cli/CliOutput"
import { count, seconds, short } from "./numbers.ts"
import { type AgentState, doing, type State } from "./state.ts"
import { fit, pad } from "./text.ts"

/** @internal How one frame is drawn. `rows` are the lines that it may have. */
export interface Frame {
  readonly now: number
  readonly columns: number
  readonly rows: number
  readonly color: boolean
  /** Counts up with each frame. */
  readonly tick: number
}

const spinner = Array.from("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏")

interface Row {
  readonly agent: AgentState
  readonly branch: string
}

const rowsOf = (state: State): ReadonlyArray<Row> => {
  const rows: Array<Row> = []
  const add = (id: string, branch: string, indent: string) => {
    const agent = state.agents.get(id)
    if (agent === undefined) return
    rows.push({ agent, branch })
    agent.children.forEach((child, i) => {
      const last = i === agent.children.length - 1
      add(child, indent + (last ? "└─ " : "├─ "), indent + (last ? "   " : "│  "))
    })
  }
  if (state.root !== undefined) add(state.root, "", "")
  return rows
}

const paint = (frame: Frame, code: number, text: string): string =>
  frame.color && text !== "" ? `\x1b[${code}m${text}\x1b[0m` : text

const mark = (frame: Frame, agent: AgentState): string => {
  if (agent.outcome === undefined) return paint(frame, 36, spinner[frame.tick % spinner.length])
  return agent.outcome === "Completed" ? paint(frame, 32, "✓") : paint(frame, 31, "✗")
}

// every running agent stays in sight, then those that ended last
const choose = (rows: ReadonlyArray<Row>, most: number): ReadonlyArray<Row> => {
  if (rows.length <= most) return rows
  const ranked = rows.toSorted((a, b) =>
    Number(a.agent.endedAt !== undefined) - Number(b.agent.endedAt !== undefined) ||
    (b.agent.endedAt ?? 0) - (a.agent.endedAt ?? 0)
  )
  const kept = new Set(ranked.slice(0, most))
  return rows.filter((row) => kept.has(row))
}

/** @internal The lines of one frame; none is wider than the terminal, and there are no more than it has. */
export const drawTree = (state: State, frame: Frame): ReadonlyArray<string> => {
  const all = rowsOf(state)
  const shown = choose(all, all.length > frame.rows ? Math.max(1, frame.rows - 1) : frame.rows)
  const cells = shown.map(({ agent, branch }) => {
    const numbers = [
      count(agent.steps, "step"),
      `${short(agent.tokens)} tokens`,
      seconds((agent.endedAt ?? frame.now) - agent.startedAt)
    ]
    return { agent, branch, numbers }
  })
  const widths = [0, 1, 2].map((i) => Math.max(0, ...cells.map(({ numbers }) => numbers[i].length)))
  // one less than there are: some terminals wrap after the last
  const width = Math.max(10, frame.columns - 1)
  const right = widths.reduce((sum, one) => sum + one + 2, 0)
  const withNumbers = width >= right + 24
  const left = withNumbers ? width - right : width
  const lines = cells.map(({ agent, branch: whole, numbers }) => {
    const branch = fit(whole, Math.max(0, left - 4))
    const room = Math.max(0, left - displayWidth(branch) - 2)
    const name = fit(agent.name, Math.max(1, Math.min(room, 32)))
    const rest = room - displayWidth(name) - 2
    const what = rest > 3 ? fit(doing(state, agent), rest) : ""
    const used = displayWidth(branch) + 2 + displayWidth(name) + (what === "" ? 0 : 2 + displayWidth(what))
    const text = [
      paint(frame, 2, branch),
      mark(frame, agent),
      " ",
      paint(frame, 1, name),
      what === "" ? "" : `  ${what}`
    ].join("")
    if (!withNumbers) return text
    const columns = numbers.map((number, i) => "  " + pad("", widths[i] - number.length) + number).join("")
    return text + " ".repeat(Math.max(0, left - used)) + paint(frame, 2, columns)
  })
  const hidden = all.length - shown.length
  return hidden > 0 ? [...lines, paint(frame, 2, fit(`… and ${hidden} more`, width))] : lines
}

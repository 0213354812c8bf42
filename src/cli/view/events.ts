/**
 * What a run tells whoever watches it, in the order in which it happens.
 *
 * @since 0.1.0
 */
import type { Progress, TurnOutcome } from "../../Agent.ts"
import type { SubagentEvent } from "../../Subagent.ts"

/**
 * One thing that happened.
 *
 * - `Began`, `Ended`: the run as a whole; `session` is the agent at the top
 * - `RunStarted`, `RunEnded`: a child of any depth
 * - `Agent`: what an agent does, by its session
 * - `Dropped`: so many events of children were missed
 *
 * @category models
 * @since 0.1.0
 */
export type ViewEvent =
  | {
    readonly _tag: "Began"
    readonly at: number
    readonly session: string
    readonly model: string
    readonly cwd: string
    readonly store: string
    readonly prompt: string
  }
  | Extract<SubagentEvent, { readonly _tag: "RunStarted" | "RunEnded" | "Dropped" }>
  | { readonly _tag: "Agent"; readonly at: number; readonly session: string; readonly progress: Progress }
  | { readonly _tag: "Ended"; readonly at: number; readonly session: string; readonly outcome: TurnOutcome }

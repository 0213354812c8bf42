/**
 * What the service tells about its providers and runs.
 */
import type { Usage } from "../../Session.ts"
import type { OutputPart } from "../agent/model.ts"
import type { Capabilities } from "./request.ts"
import type { Result } from "./result.ts"

/**
 * A registered provider.
 *
 * `inheritsParentContext` only says what the child knows: the conversation of its parent (a fork), or nothing of it. It
 * says nothing of tools, services or authority (S28).
 *
 * @category models
 * @since 0.1.0
 */
export interface ProviderInfo {
  readonly name: string
  readonly capabilities: Capabilities
  readonly inheritsParentContext: boolean
}

/**
 * A run as events name it: `id` is the child's, `parent` the session id of the agent that delegated, `local` says
 * whether the child runs in this process. Only `runId` is unique (S57).
 *
 * @category models
 * @since 0.1.0
 */
export interface RunInfo {
  readonly runId: string
  readonly provider: string
  readonly id: string
  readonly parent: string
  readonly local: boolean
  readonly label: string | undefined
}

/**
 * What happens in the service. For every accepted run exactly one `RunStarted` and one `RunEnded`, in this order; for
 * a start that failed neither. `at` is in milliseconds since the epoch. `Dropped` says how many events a slow reader
 * has missed.
 *
 * `outcome`, `text`, `output` and `usage` are those of the run's result; `RunFailed` with nothing said and nothing used
 * when it gave none. `released` says whether nothing of the run is alive; what is left stands in its `ReleaseFailed`.
 *
 * @category models
 * @since 0.1.0
 */
export type SubagentEvent =
  | ({ readonly _tag: "ProviderAdded" } & ProviderInfo)
  | { readonly _tag: "ProviderRemoved"; readonly name: string }
  | ({ readonly _tag: "RunStarted"; readonly at: number } & RunInfo)
  | (
    & {
      readonly _tag: "RunEnded"
      readonly at: number
      readonly outcome: Result<unknown>["_tag"] | "RunFailed"
      readonly text: string
      readonly output: ReadonlyArray<OutputPart>
      readonly usage: Usage
      readonly released: boolean
    }
    & RunInfo
  )
  | { readonly _tag: "Dropped"; readonly count: number }

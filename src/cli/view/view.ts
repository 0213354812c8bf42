/**
 * Shows a run: as a living tree in a terminal, as plain lines elsewhere, or as JSON.
 *
 * @since 0.1.0
 */
import type * as Effect from "effect/Effect"
import type { OutputClosed } from "../output.ts"
import type { ViewEvent } from "./events.ts"

/** @internal Takes the events of one run, each after the one before. */
export interface View {
  readonly show: (event: ViewEvent) => Effect.Effect<void, OutputClosed>
  /** Fails when what draws by itself can draw no more; never succeeds. */
  readonly broken: Effect.Effect<never, OutputClosed>
}

/** @internal What is said of the offline model wherever a run begins. */
export const offlineNote =
  "model: offline, a built-in deterministic program; no language model is asked (--model provider/name asks one)"

/**
 * Ends the command with the exit code that fits.
 *
 * 0: it did what it was asked. 1: it did not, and standard error says why. 2: it was asked wrongly. 130: it was told to
 * stop.
 *
 * @since 0.1.0
 */
import * as Data from "effect/Data"
import * as Runtime from "effect/Runtime"
import * as Schema from "effect/Schema"
import * as Session from "../Session.ts"

/**
 * The agent's turn did not complete.
 *
 * @category errors
 * @since 0.1.0
 */
export class NotCompleted extends Schema.TaggedError<NotCompleted>("effect-subagent/cli/NotCompleted")("NotCompleted", {
  cause: Session.TurnCause
}) {
  override get message(): string {
    return `the run did not complete: ${causeText(this.cause)}`
  }
}

/**
 * A session that was asked for is damaged. It was shown as far as it can be read.
 *
 * @category errors
 * @since 0.1.0
 */
export class SessionDamaged extends Schema.TaggedError<SessionDamaged>("effect-subagent/cli/SessionDamaged")(
  "SessionDamaged",
  { id: Schema.String, what: Schema.String }
) {
  override get message(): string {
    return `session ${this.id} is damaged: ${this.what}`
  }
}

/** @internal Why a turn ended, for people. */
export const causeText = (cause: Session.TurnCause): string => {
  switch (cause._tag) {
    case "Completed":
      return "completed"
    case "Aborted":
      return `aborted (${cause.cause})`
    case "Failed":
      return `failed (${cause.reason}): ${cause.diagnostic}`
    case "MaxTokens":
      return "cut off at the output limit of the model"
    case "MaxSteps":
      return "stopped at the most steps of a turn"
    case "Refusal":
      return "the model declined"
    case "Interrupted":
      return "the process ended meanwhile"
  }
}

/** @internal What the process exits with; everything has been said by then. */
export class ExitWith extends Data.TaggedError("ExitWith")<{ readonly code: number }> {
  override readonly [Runtime.errorExitCode] = this.code
  override readonly [Runtime.errorReported] = false
}

/**
 * What the delegate tool gives back, to the model and to the log.
 */
import * as Prompt from "effect/ai/Prompt"
import * as Schema from "effect/Schema"
import type { Progress } from "../agent/model.ts"

/**
 * What a model says to delegate: a short label for people, and the whole task.
 *
 * @category schemas
 * @since 0.1.0
 */
export const Parameters = Schema.Struct({
  description: Schema.String.annotate({ description: "What the task is, in three to six words" }),
  prompt: Schema.String.annotate({ description: "The task, complete and by itself" })
})

/**
 * An answer of a child. `structured` is the JSON of the value that was asked for.
 *
 * @category schemas
 * @since 0.1.0
 */
export const Foreground = Schema.Struct({
  kind: Schema.Literal("foreground"),
  runId: Schema.String,
  childId: Schema.String,
  text: Schema.String,
  structured: Schema.optionalKey(Schema.Json),
  files: Schema.optionalKey(Schema.Array(Prompt.FilePart))
})

/**
 * What a child is doing; a preliminary result, never part of the conversation.
 *
 * @category schemas
 * @since 0.1.0
 */
export const Working = Schema.Struct({
  kind: Schema.Literal("progress"),
  runId: Schema.String,
  childId: Schema.String,
  event: Schema.Literals(["step", "text", "reasoning", "tool-started", "tool-ended", "restarted"]),
  detail: Schema.String
})

/**
 * What the delegate tool gives back.
 *
 * @category schemas
 * @since 0.1.0
 */
export const Success = Schema.Union([Foreground, Working])

/**
 * @category models
 * @since 0.1.0
 */
export type Success = typeof Success.Type

/**
 * A delegation that did not end with an answer (S258, S559): a headline, what is known of the reason, and what the
 * child had said by then.
 *
 * `reason` is the tag of the result or of the error; `childId` and `runId` are absent when there was no child.
 *
 * @category schemas
 * @since 0.1.0
 */
export const Failure = Schema.Struct({
  error: Schema.String,
  reason: Schema.String,
  diagnostic: Schema.optionalKey(Schema.String),
  partial: Schema.optionalKey(Schema.String),
  childId: Schema.optionalKey(Schema.String),
  runId: Schema.optionalKey(Schema.String)
})

/**
 * @category models
 * @since 0.1.0
 */
export type Failure = typeof Failure.Type

/** @internal What a child answered, as text: the JSON of the value that was asked for, or else what it said. */
export const answerText = (answer: typeof Foreground.Type): string =>
  answer.structured === undefined ? answer.text : JSON.stringify(answer.structured)

/** @internal How a model sees an answer: as what the child said, not as our record of it. */
export const toModelOutput = (result: Success): ReadonlyArray<Prompt.ToolModelOutputPart> => {
  if (result.kind === "progress") return []
  const text = answerText(result)
  const said = text === "" ? "(the agent finished without saying anything)" : text
  return [Prompt.makePart("text", { text: said }), ...result.files ?? []]
}

/** @internal One line of a child's work, where it is worth one. */
export const toWorking = (runId: string, childId: string, progress: Progress): Success | undefined => {
  const working = (event: typeof Working.Type["event"], detail: string): Success => ({
    kind: "progress",
    runId,
    childId,
    event,
    detail
  })
  switch (progress._tag) {
    case "StepStarted":
      return working("step", String(progress.step))
    case "Text":
      return working("text", progress.delta)
    case "Reasoning":
      return working("reasoning", progress.delta)
    case "ToolStarted":
      return working("tool-started", progress.name)
    case "ToolEnded":
      return working("tool-ended", progress.name)
    case "StepRestarted":
      return working("restarted", progress.reason)
    default:
      return undefined
  }
}

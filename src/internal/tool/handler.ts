/**
 * Runs one call of a delegate tool: starts the child, passes on what it does, and makes a result of whatever comes.
 */
import type * as Tool from "effect/ai/Tool"
import type * as Toolkit from "effect/ai/Toolkit"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import type * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { CallSite } from "../../AgentTools.ts"
import type { CurrentAgent } from "../../CurrentAgent.ts"
import type { ReleaseFailed, Result, Run } from "../../Subagent.ts"
import { awaitWithin, boundText, runWithin } from "../session/bounded.ts"
import { answerText, type Failure, type Foreground, type Success, toWorking } from "./delegation.ts"

/** @internal Anything that starting can fail with: all a model needs of it is its tag and its message. */
export interface AnyError {
  readonly _tag: string
  readonly message: string
}

/** @internal */
export type Begin = (
  prompt: string,
  label: string,
  /** Whether nobody watches the child. */
  quiet: boolean
) => Effect.Effect<Run<unknown>, AnyError, CurrentAgent | Scope.Scope>

const headline = (result: Exclude<Result<unknown>, { readonly _tag: "Completed" }>): string => {
  switch (result._tag) {
    case "Aborted":
      return `the agent was cancelled (${result.cause})`
    case "Failed":
      return `the agent failed (${result.reason})`
    case "MaxTokens":
      return "the agent was cut off at its output limit"
    case "Refusal":
      return "the agent declined the task"
    case "Other":
      return `the agent ended abnormally (${result.reason})`
  }
}

type Answer = typeof Foreground.Type

const ids = (run: Run<unknown>) => ({ childId: run.id, runId: run.runId })

const notCompleted = (
  run: Run<unknown>,
  result: Exclude<Result<unknown>, { readonly _tag: "Completed" }>
): Failure => ({
  error: headline(result),
  reason: result._tag,
  ...(result._tag === "Failed" && result.diagnostic !== "" ? { diagnostic: result.diagnostic } : undefined),
  ...(result.text === "" ? undefined : { partial: result.text }),
  ...ids(run)
})

const failed = (run: Run<unknown> | undefined, error: AnyError): Failure => ({
  error: run === undefined ? "the agent could not be started" : "the agent broke",
  reason: error._tag,
  diagnostic: boundText(error.message),
  ...(run === undefined ? undefined : ids(run))
})

// a failure that comes on top of an answer: what the child said is kept
const despite = (
  run: Run<unknown>,
  answer: Answer,
  failure: Pick<Failure, "error" | "reason" | "diagnostic">
): Failure => {
  const partial = answerText(answer)
  return { ...failure, ...(partial === "" ? undefined : { partial }), ...ids(run) }
}

// what went wrong with the release comes on top of what came of the run: neither may hide the other (S259)
const unreleased = (run: Run<unknown>, settled: Answer | Failure, error: ReleaseFailed): Failure => {
  if ("kind" in settled) {
    return despite(run, settled, {
      error: "the agent finished but could not be released",
      reason: error._tag,
      diagnostic: boundText(error.message)
    })
  }
  // the error of a run that gave no result is part of the release's
  const texts = error.run === undefined && settled.diagnostic !== undefined ? [settled.diagnostic] : []
  return { ...settled, reason: error._tag, diagnostic: boundText([...texts, error.message].join("; ")) }
}

const outcomeOf = Effect.fnUntraced(function*(
  run: Run<unknown>,
  encode: ((value: unknown) => Effect.Effect<Schema.Json, Schema.SchemaError>) | undefined
) {
  const exit = yield* Effect.exit(run.result)
  if (Exit.isFailure(exit)) {
    const error = Option.getOrUndefined(Cause.findErrorOption(exit.cause))
    return failed(run, error ?? { _tag: "RunFailed", message: "the run gave no result" })
  }
  const result = exit.value
  if (result._tag !== "Completed") return notCompleted(run, result)
  const files = result.output.filter((part) => part.type === "file")
  const success: Answer = {
    kind: "foreground",
    runId: run.runId,
    childId: run.id,
    text: result.text,
    ...(files.length === 0 ? undefined : { files })
  }
  if (encode === undefined) return success
  return yield* Effect.match(encode(result.structured), {
    onSuccess: (structured): Answer | Failure => ({ ...success, structured }),
    onFailure: (error): Answer | Failure => failed(run, error)
  })
})

/** @internal */
export const handle = (
  begin: Begin,
  encode: ((value: unknown) => Effect.Effect<Schema.Json, Schema.SchemaError>) | undefined
) =>
(
  params: { readonly prompt: string; readonly description: string },
  context: Pick<Toolkit.HandlerContext<Tool.Any>, "toolCallId"> & {
    readonly preliminary: (result: Success) => Effect.Effect<void>
  }
): Effect.Effect<Success, Failure, CurrentAgent> =>
  Effect.scoped(Effect.gen(function*() {
    const site = yield* CallSite
    let started: Run<unknown> | undefined
    let settled: Answer | Failure | undefined
    // runs after the run's own finalizer, which cancels it and waits for its result
    yield* Effect.addFinalizer(() =>
      started === undefined || settled !== undefined ? Effect.void : Effect.map(
        // the encoding of a schema is the program's own, and may never end where nothing can interrupt it
        runWithin(outcomeOf(started, encode), "1 second"),
        (exit) => {
          if (exit !== undefined && Exit.isSuccess(exit)) settled = exit.value
        }
      )
    )
    const run = yield* Effect.mapError(begin(params.prompt, params.description, !site.progressWanted), (error) =>
      failed(undefined, error))
    started = run
    if (context.toolCallId !== undefined) {
      // an interrupted call still tells the log which child it was, and what came of it
      site.onInterrupted(context.toolCallId, () => {
        const interrupted = { error: "the delegation was interrupted", reason: "Aborted" }
        if (settled === undefined) {
          return { ...interrupted, ...ids(run) }
        }
        return "kind" in settled ? despite(run, settled, interrupted) : settled
      })
    }
    const watching = site.progressWanted
      ? yield* Effect.forkScoped(
        Stream.runForEach(run.progress, (progress) => {
          const working = toWorking(run.runId, run.id, progress)
          return working === undefined ? Effect.void : context.preliminary(working)
        }),
        { startImmediately: true }
      )
      : undefined
    const outcome = yield* outcomeOf(run, encode)
    settled = outcome
    // what the child did last comes before its answer; nobody who is slow to take it holds the answer up
    if (watching !== undefined) {
      yield* awaitWithin(watching, "1 second")
    }
    const release = yield* Effect.exit(run.released)
    if (Exit.isFailure(release)) {
      const error = Option.getOrUndefined(Cause.findErrorOption(release.cause))
      if (error !== undefined) {
        return yield* Effect.fail(unreleased(run, outcome, error))
      }
    }
    return "kind" in outcome ? outcome : yield* Effect.fail(outcome)
  }))

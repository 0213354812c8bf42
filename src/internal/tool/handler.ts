/**
 * Runs one call of a delegate tool: starts the child, passes on what it does, and makes a result of whatever comes.
 */
import type * as Toolkit from "effect/ai/Toolkit"
import type * as Tool from "effect/ai/Tool"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import type * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { CallSite } from "../../AgentTools.ts"
import type { CurrentAgent } from "../../CurrentAgent.ts"
import type { ReleaseFailed, Result, Run, RunFailed } from "../../Subagent.ts"
import { type Failure, type Success, toWorking } from "./delegation.ts"

/** @internal Anything that starting can fail with: all a model needs of it is its tag and its message. */
export interface AnyError {
  readonly _tag: string
  readonly message: string
}

/** @internal */
export type Begin = (
  prompt: string,
  label: string
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
  diagnostic: error.message,
  ...(run === undefined ? undefined : ids(run))
})

// what went wrong with the release comes on top of what came of the run: neither may hide the other (S259)
const unreleased = (run: Run<unknown>, settled: Success | Failure, error: ReleaseFailed): Failure => {
  const partial = "kind" in settled ? (settled.kind === "foreground" ? settled.text : "") : settled.partial ?? ""
  return {
    error: "kind" in settled ? "the agent finished but could not be released" : settled.error,
    reason: error._tag,
    diagnostic: "kind" in settled
      ? error.message
      : [settled.diagnostic, error.message].filter((one) => one !== undefined).join("; "),
    ...(partial === "" ? undefined : { partial }),
    ...ids(run)
  }
}

const answer = Effect.fnUntraced(function*(
  run: Run<unknown>,
  exit: Exit.Exit<Result<unknown>, RunFailed>,
  encode: ((value: unknown) => Effect.Effect<Schema.Json, Schema.SchemaError>) | undefined
) {
  if (Exit.isFailure(exit)) {
    const error = Option.getOrUndefined(Cause.findErrorOption(exit.cause))
    return failed(run, error ?? { _tag: "RunFailed", message: "the run gave no result" })
  }
  const result = exit.value
  if (result._tag !== "Completed") return notCompleted(run, result)
  const files = result.output.filter((part) => part.type === "file")
  const success: Success = {
    kind: "foreground",
    runId: run.runId,
    childId: run.id,
    text: result.text,
    ...(files.length === 0 ? undefined : { files })
  }
  if (encode === undefined) return success
  return yield* Effect.match(encode(result.structured), {
    onSuccess: (structured): Success | Failure => ({ ...success, structured }),
    onFailure: (error): Success | Failure => failed(run, error)
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
    let settled: Exit.Exit<Result<unknown>, RunFailed> | undefined
    // runs after the run's own finalizer, which cancels it and waits for its result
    yield* Effect.addFinalizer(() =>
      started === undefined ? Effect.void : Effect.map(Effect.exit(started.result), (exit) => void (settled = exit))
    )
    const run = yield* Effect.mapError(begin(params.prompt, params.description), (error) => failed(undefined, error))
    started = run
    if (context.toolCallId !== undefined) {
      // an interrupted call still tells the log which child it was, and how that ended
      site.onInterrupted(context.toolCallId, () =>
        settled !== undefined && Exit.isSuccess(settled) && settled.value._tag !== "Completed"
          ? notCompleted(run, settled.value)
          : { error: "the delegation was interrupted", reason: "Aborted", ...ids(run) })
    }
    if (site.progressWanted) {
      yield* Effect.forkScoped(
        Stream.runForEach(run.progress, (progress) => {
          const working = toWorking(run.runId, run.id, progress)
          return working === undefined ? Effect.void : context.preliminary(working)
        }),
        { startImmediately: true }
      )
    }
    const exit = yield* Effect.exit(run.result)
    const outcome = yield* answer(run, exit, encode)
    const release = yield* Effect.exit(run.released)
    if (Exit.isFailure(release)) {
      const error = Option.getOrUndefined(Cause.findErrorOption(release.cause))
      if (error !== undefined) return yield* Effect.fail(unreleased(run, outcome, error))
    }
    return "kind" in outcome ? outcome : yield* Effect.fail(outcome)
  }))

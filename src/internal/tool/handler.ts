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

type Encode = (value: unknown) => Effect.Effect<Schema.Json, Schema.SchemaError>

const answerOf = (
  run: Run<unknown>,
  result: Result<unknown>,
  encode: Encode | undefined
): Effect.Effect<Answer | Failure> => {
  if (result._tag !== "Completed") return Effect.succeed(notCompleted(run, result))
  const success: Answer = { kind: "foreground", runId: run.runId, childId: run.id, text: result.text }
  const files = result.output.filter((part) => part.type === "file")
  const answer = files.length === 0 ? success : { ...success, files }
  return encode === undefined ? Effect.succeed(answer) : Effect.match(encode(result.structured), {
    onSuccess: (structured): Answer | Failure => ({ ...answer, structured }),
    onFailure: (error): Answer | Failure => failed(run, error)
  })
}

const outcomeOf = (run: Run<unknown>, encode: Encode | undefined): Effect.Effect<Answer | Failure> =>
  Effect.matchCauseEffect(run.result, {
    onSuccess: (result) => answerOf(run, result, encode),
    onFailure: (cause) => {
      const error = Option.getOrUndefined(Cause.findErrorOption(cause))
      return Effect.succeed(failed(run, error ?? { _tag: "RunFailed", message: "the run gave no result" }))
    }
  })

type Preliminary = (result: Success) => Effect.Effect<void>

/** One call of the tool. */
class Call {
  readonly #encode: Encode | undefined
  #run: Run<unknown> | undefined
  #settled: Answer | Failure | undefined

  constructor(encode: Encode | undefined) {
    this.#encode = encode
  }

  /** Waits for the run, and for all of it to be gone. */
  follow(run: Run<unknown>): Effect.Effect<Success, Failure> {
    this.#run = run
    return Effect.flatMap(outcomeOf(run, this.#encode), (outcome) => {
      this.#settled = outcome
      return released(run, outcome)
    })
  }

  /** As `follow`, and passes on what the child does meanwhile. */
  watch(run: Run<unknown>, preliminary: Preliminary): Effect.Effect<Success, Failure, Scope.Scope> {
    this.#run = run
    const watching = Stream.runForEach(run.progress, (progress) => {
      const working = toWorking(run.runId, run.id, progress)
      return working === undefined ? Effect.void : preliminary(working)
    })
    return Effect.flatMap(
      Effect.forkScoped(watching, { startImmediately: true }),
      (fiber) =>
        Effect.flatMap(outcomeOf(run, this.#encode), (outcome) => {
          this.#settled = outcome
          // what the child did last comes before its answer; nobody who is slow to take it holds the answer up
          return Effect.andThen(awaitWithin(fiber, "1 second"), released(run, outcome))
        })
    )
  }

  /** What the log says of it when it was interrupted: which child it was, and what came of it. */
  get interrupted(): unknown {
    const interrupted = { error: "the delegation was interrupted", reason: "Aborted" }
    // sound: it is asked for once the run is known
    const run = this.#run as Run<unknown>
    if (this.#settled === undefined) return { ...interrupted, ...ids(run) }
    return "kind" in this.#settled ? despite(run, this.#settled, interrupted) : this.#settled
  }

  /** Learns what became of a run that was cancelled, once it is over. */
  get learn(): Effect.Effect<void> {
    const run = this.#run
    return run === undefined || this.#settled !== undefined ? Effect.void : Effect.map(
      // the encoding of a schema is the program's own, and may never end where nothing can interrupt it
      runWithin(outcomeOf(run, this.#encode), "1 second"),
      (exit) => {
        if (exit !== undefined && Exit.isSuccess(exit)) this.#settled = exit.value
      }
    )
  }
}

const released = (run: Run<unknown>, outcome: Answer | Failure): Effect.Effect<Success, Failure> => {
  const settled = "kind" in outcome ? Effect.succeed(outcome) : Effect.fail(outcome)
  return Effect.matchCauseEffect(run.released, {
    onSuccess: () => settled,
    onFailure: (cause) => {
      const error = Option.getOrUndefined(Cause.findErrorOption(cause))
      return error === undefined ? settled : Effect.fail(unreleased(run, outcome, error))
    }
  })
}

/** @internal */
export const handle = (begin: Begin, encode: Encode | undefined) =>
(
  params: { readonly prompt: string; readonly description: string },
  context: Pick<Toolkit.HandlerContext<Tool.Any>, "toolCallId"> & { readonly preliminary: Preliminary }
): Effect.Effect<Success, Failure, CurrentAgent> =>
  Effect.withFiber((fiber) => {
    const site = fiber.getRef(CallSite)
    const quiet = !site.progressWanted
    const call = new Call(encode)
    const delegated = Effect.matchEffect(begin(params.prompt, params.description, quiet), {
      onFailure: (error) => Effect.fail(failed(undefined, error)),
      onSuccess: (run): Effect.Effect<Success, Failure, Scope.Scope> => {
        const following = quiet ? call.follow(run) : call.watch(run, context.preliminary)
        if (context.toolCallId !== undefined) site.onInterrupted(context.toolCallId, () => call.interrupted)
        return following
      }
    })
    // the scope cancels the run and waits for its end: only then is known what became of it
    return Effect.onExit(Effect.scoped(delegated), () => call.learn)
  })

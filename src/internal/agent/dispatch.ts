/**
 * Runs the tool calls of one model response and turns whatever comes of them into results that the model sees.
 *
 * Nothing a tool does fails a turn: an unknown name, bad arguments, a denial, a failure and a defect are all results.
 */
import type * as AiError from "effect/ai/AiError"
import * as Prompt from "effect/ai/Prompt"
import type * as Tool from "effect/ai/Tool"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Formatter from "effect/Formatter"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { Resolved, ToolReply } from "../../AgentTools.ts"
import { type ApprovalRequest, Approvals } from "../../Approvals.ts"
import { boundText } from "../session/bounded.ts"
import { toDiagnostic } from "../session/redact.ts"
import { notJson, toJson } from "./json.ts"
import type { Progress } from "./model.ts"

/** @internal What is known of the tool calls of one response until their results are in the log. */
export class Calls {
  /** Results as they come in, by call id: what an interrupted turn keeps. */
  readonly results = new Map<string, Prompt.ToolResultPart>()
  /** The calls whose handlers were asked to run. */
  readonly begun = new Set<string>()
  /** What an interrupted call wants its result to be. */
  readonly wishes = new Map<string, () => unknown>()
}

/** @internal */
export interface Batch {
  readonly calls: ReadonlyArray<Prompt.ToolCallPart>
  readonly messages: ReadonlyArray<Prompt.Message>
  readonly tools: Resolved
  readonly agent: ApprovalRequest["agent"]
  readonly observed: boolean
  readonly publish: (progress: Progress) => void
  readonly known: Pick<Calls, "results" | "begun">
}

/** @internal */
export interface Concluded {
  readonly tool: string
  readonly toolCallId: string
}

const failure = (code: string, message: string): ToolReply => ({
  isFailure: true,
  result: { error: { code, message } },
  modelOutput: undefined
})

const resultPart = (call: Prompt.ToolCallPart, reply: ToolReply): Prompt.ToolResultPart =>
  Prompt.makePart("tool-result", {
    id: call.id,
    name: call.name,
    providerExecuted: false,
    isFailure: reply.isFailure,
    result: reply.result,
    ...(reply.modelOutput === undefined ? undefined : { modelOutput: reply.modelOutput })
  })

/** @internal The result of a call that does not run, because its response was cut off or its turn is concluded. */
export const notExecuted = (call: Prompt.ToolCallPart, reason: string): Prompt.ToolResultPart =>
  resultPart(call, { isFailure: true, result: { type: "execution-denied", reason }, modelOutput: undefined })

/** @internal The result of a call whose turn was interrupted while it ran. */
export const interruptedResult = (id: string, name: string, result: unknown): Prompt.ToolResultPart =>
  Prompt.makePart("tool-result", { id, name, isFailure: true, result, providerExecuted: false })

const interrupted = (name: string): ToolReply => failure("interrupted", `the tool "${name}" was interrupted`)

const unexpected = (name: string): ToolReply => failure("died", `the tool "${name}" failed unexpectedly`)

// a failing tool is the model's to deal with; a dying one is ours to see as well
const fromCause = (name: string, cause: Cause.Cause<unknown>): Effect.Effect<ToolReply> => {
  const error = Cause.findErrorOption(cause)
  if (Option.isSome(error)) return Effect.succeed(fromError(name, error.value))
  if (Cause.hasInterruptsOnly(cause)) return Effect.succeed(interrupted(name))
  return Effect.as(Effect.logError(`the tool "${name}" died`, cause), unexpected(name))
}

const isAiError = (error: unknown): error is AiError.AiError =>
  typeof error === "object" && error !== null && "_tag" in error && error._tag === "AiError"

const fromError = (name: string, error: unknown): ToolReply => {
  if (isAiError(error)) {
    const reason = error.reason
    return reason._tag === "ToolParameterValidationError"
      ? failure("invalid_arguments", boundText(reason.description))
      : failure(reason._tag, toDiagnostic(error.message))
  }
  return failure(
    "failed",
    boundText(error instanceof Error ? error.message : `the tool "${name}" failed: ${show(error)}`)
  )
}

const show = (error: unknown): string => typeof error === "string" ? error : Formatter.format(error)

const needsApproval = (
  tool: Tool.Any,
  call: Prompt.ToolCallPart,
  messages: ReadonlyArray<Prompt.Message>
): Effect.Effect<boolean> => {
  const needs = tool.needsApproval
  if (needs === undefined || typeof needs === "boolean") return Effect.succeed(needs === true)
  // a question that cannot be put, or that fails, is answered with yes: it needs approval
  return Schema.decodeUnknownEffect(tool.parametersSchema)(call.params).pipe(
    Effect.flatMap((params) => {
      const answer = needs(params, { toolCallId: call.id, messages })
      return Effect.isEffect(answer) ? answer : Effect.succeed(answer)
    }),
    Effect.catchCause(() => Effect.succeed(true)),
    // sound: services that a schema or a predicate of this tool needs are part of what its toolkit was registered with
    (effect) => effect as Effect.Effect<boolean>
  )
}

const approved = Effect.fnUntraced(function*(batch: Batch, call: Prompt.ToolCallPart, tool: Tool.Any) {
  if (!(yield* needsApproval(tool, call, batch.messages))) return yield* perform(batch, call)
  const approver = yield* Approvals
  const decision = yield* approver.ask({
    agent: batch.agent,
    tool: call.name,
    toolCallId: call.id,
    params: call.params
  })
  if (decision._tag === "Allow") return yield* perform(batch, call)
  return { isFailure: true, result: { type: "execution-denied", reason: decision.reason }, modelOutput: undefined }
})

const perform = (batch: Batch, call: Prompt.ToolCallPart): Effect.Effect<ToolReply, unknown> => {
  batch.known.begun.add(call.id)
  const { id, name, params } = call
  return Effect.flatMap(
    batch.tools.run(name, params, {
      toolCallId: id,
      preliminary: (value) => batch.publish({ _tag: "ToolProgress", id, name, value })
    }),
    (reply): Effect.Effect<ToolReply> =>
      Effect.map(toJson(reply.result), (result) =>
        result === notJson
          ? failure("invalid_result", `the tool "${name}" gave a result that is not JSON`)
          : { isFailure: reply.isFailure, result, modelOutput: reply.modelOutput })
  )
}

const execute = (batch: Batch, call: Prompt.ToolCallPart): Effect.Effect<ToolReply, unknown> => {
  const { names, toolkit: { tools } } = batch.tools
  const tool = Object.hasOwn(tools, call.name) ? tools[call.name] : undefined
  if (tool === undefined) {
    return Effect.succeed(failure(
      "unknown_tool",
      `there is no tool "${call.name}"; the tools are: ${names.length === 0 ? "none" : names.join(", ")}`
    ))
  }
  return tool.needsApproval === undefined ? perform(batch, call) : approved(batch, call, tool)
}

const settle = (batch: Batch, call: Prompt.ToolCallPart, reply: ToolReply): Prompt.ToolResultPart => {
  const part = resultPart(call, reply)
  // a result that concludes the turn counts only together with its end
  if (part.isFailure || !concludes(batch, call)) batch.known.results.set(call.id, part)
  if (batch.observed) batch.publish({ _tag: "ToolEnded", id: call.id, name: call.name, isFailure: part.isFailure })
  return part
}

const run = (batch: Batch, call: Prompt.ToolCallPart): Effect.Effect<Prompt.ToolResultPart> => {
  if (batch.observed) batch.publish({ _tag: "ToolStarted", id: call.id, name: call.name, params: call.params })
  return Effect.map(
    Effect.catchCause(
      Effect.catchCause(
        Effect.suspend(() => execute(batch, call)),
        (cause) => fromCause(call.name, cause)
      ),
      // its error could not even be read
      () => Effect.succeed(unexpected(call.name))
    ),
    (reply) => settle(batch, call, reply)
  )
}

const concludes = (batch: Batch, call: Prompt.ToolCallPart): boolean => batch.tools.concluding.has(call.name)

// Each call has a fiber of its own: what a handler forks ends with it, and a handler that interrupts the fiber it runs in
// interrupts its own call, not its siblings or the turn.
const all = (batch: Batch, calls: ReadonlyArray<Prompt.ToolCallPart>): Effect.Effect<Array<Prompt.ToolResultPart>> =>
  Effect.uninterruptibleMask((restore) =>
    Effect.flatMap(
      calls.length === 1
        ? Effect.map(Effect.forkChild(run(batch, calls[0]), { startImmediately: true }), (fiber) => [fiber])
        : Effect.forEach(calls, (call) => Effect.forkChild(run(batch, call), { startImmediately: true })),
      (fibers) => {
        const parts = () =>
          fibers.map((fiber, i) => {
            const exit = fiber.pollUnsafe()
            return exit !== undefined && Exit.isSuccess(exit)
              ? exit.value
              : settle(batch, calls[i], interrupted(calls[i].name))
          })
        return fibers.every((fiber) => fiber.pollUnsafe() !== undefined)
          ? Effect.succeed(parts())
          : Effect.map(Effect.onInterrupt(restore(Fiber.awaitAll(fibers)), () => Fiber.interruptAll(fibers)), parts)
      }
    )
  )

const inGroups = Effect.fnUntraced(function*(batch: Batch) {
  const parts: Array<Prompt.ToolResultPart> = []
  let start = 0
  while (start < batch.calls.length) {
    let end = start
    while (end < batch.calls.length && !concludes(batch, batch.calls[end])) end++
    const group = batch.calls.slice(start, end + 1)
    const done = yield* all(batch, group)
    parts.push(...done)
    const last = done[done.length - 1]
    start += group.length
    if (end < start && concludes(batch, batch.calls[end]) && !last.isFailure) {
      for (const call of batch.calls.slice(start)) parts.push(notExecuted(call, "the turn is concluded already"))
      return { parts, concluded: { tool: last.name, toolCallId: last.id } }
    }
  }
  return { parts, concluded: undefined }
})

/**
 * @internal Runs all calls of a response in parallel and gives their results in the model's order. Calls behind one
 * that concludes the turn wait for it, and do not run once it has succeeded (S189, S410, S412).
 */
export const dispatch = (batch: Batch): Effect.Effect<{
  readonly parts: ReadonlyArray<Prompt.ToolResultPart>
  readonly concluded: Concluded | undefined
}> =>
  batch.tools.concluding.size > 0 && batch.calls.some((call) => concludes(batch, call))
    ? inGroups(batch)
    : Effect.map(all(batch, batch.calls), (parts) => ({ parts, concluded: undefined }))

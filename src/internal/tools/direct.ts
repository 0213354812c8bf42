/**
 * Runs tool handlers without the queue, the fiber and the stream that `Toolkit.handle` puts around each: an agent runs
 * its calls in fibers of its own anyway, and takes preliminary results as they come.
 *
 * Arguments are decoded, results encoded and services found exactly as `Toolkit.handle` does it.
 */
import * as AiError from "effect/ai/AiError"
import type * as Prompt from "effect/ai/Prompt"
import * as Tool from "effect/ai/Tool"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"

/**
 * What came of a tool call, encoded: a result or a failure that the tool returned, and what the model sees instead of
 * it, where the tool says so.
 *
 * @category models
 * @since 0.1.0
 */
export interface ToolReply {
  readonly isFailure: boolean
  readonly result: unknown
  readonly modelOutput: ReadonlyArray<Prompt.ToolModelOutputPart> | undefined
}

/**
 * Runs one call of the tool of a name. `preliminary` is told of each preliminary result, encoded. Whatever a tool does
 * not return as its failure fails the effect.
 *
 * @category models
 * @since 0.1.0
 */
export type RunTool = (
  name: string,
  params: unknown,
  call: { readonly toolCallId: string; readonly preliminary: (encoded: unknown) => void }
) => Effect.Effect<ToolReply, unknown>

type Codec = (value: unknown) => Effect.Effect<unknown, Schema.SchemaError>

interface Known {
  readonly tool: Tool.Any
  readonly handler: Tool.Handler<string>["handler"]
  /** What the handler was defined with, over what its toolkit was contributed with. */
  readonly context: Context.Context<never>
  readonly keys: ReadonlyArray<string>
  /** What callers' contexts have become: all calls of a turn have the same. */
  readonly filled: WeakMap<Context.Context<never>, Context.Context<never>>
  readonly decode: Codec
  readonly encode: Codec
  readonly encodeFailure: Codec
}

const know = (
  tool: Tool.Any,
  handler: Tool.Handler<string>,
  outer: Context.Context<never>,
  handlers: ReadonlySet<string>
): Known => {
  const context = Context.merge(outer, handler.context)
  const own = handler.context.mapUnsafe
  return {
    tool,
    handler: handler.handler,
    context,
    // the scope of a layer is not the scope of a call, and a handler that calls another brings it along
    keys: Array.from(context.mapUnsafe.keys()).filter((key) =>
      key !== Scope.Scope.key && (!handlers.has(key) || own.has(key))
    ),
    filled: new WeakMap(),
    // sound: services that the schemas of a tool need are part of what its toolkit is contributed with
    decode: (Schema.isSchema(tool.parametersSchema)
      ? Schema.decodeUnknownEffect(tool.parametersSchema)
      : Effect.succeed) as Codec,
    encode: Schema.encodeUnknownEffect(tool.successSchema) as Codec,
    encodeFailure: Schema.encodeUnknownEffect(Tool.failureResultSchema(tool)) as Codec
  }
}

const invalid = (name: string, error: Schema.SchemaError): AiError.AiError =>
  AiError.make({
    module: "AgentTools",
    method: name,
    reason: new AiError.ToolParameterValidationError({ toolName: name, description: error.message })
  })

const unencodable = (name: string, toolResult: unknown, error: Schema.SchemaError): AiError.AiError =>
  AiError.make({
    module: "AgentTools",
    method: name,
    reason: new AiError.ToolResultEncodingError({ toolName: name, toolResult, description: error.message })
  })

const ofFailure = (known: Known, error: unknown): Effect.Effect<ToolReply, unknown> => {
  const { encodeFailure, tool } = known
  if (AiError.isAiErrorReason(error)) {
    return Effect.fail(AiError.make({ module: "AgentTools", method: tool.name, reason: error }))
  }
  if (tool.failureMode === "error" || AiError.isAiError(error)) return Effect.fail(error)
  return Effect.mapBoth(encodeFailure(error), {
    onFailure: (issue) => unencodable(tool.name, error, issue),
    onSuccess: (result) => ({ isFailure: true, result, modelOutput: undefined })
  })
}

const perform = (
  known: Known,
  params: unknown,
  call: Parameters<RunTool>[2]
): Effect.Effect<ToolReply, unknown> => {
  const { decode, encode, handler, tool } = known
  const context = {
    toolCallId: call.toolCallId,
    preliminary: (result: unknown) => Effect.map(Effect.orDie(encode(result)), call.preliminary)
  }
  return Effect.matchEffect(decode(params), {
    onFailure: (error) => Effect.fail(invalid(tool.name, error)),
    onSuccess: (decoded) =>
      Effect.matchEffect(handler(decoded, context), {
        onFailure: (error) => ofFailure(known, error),
        onSuccess: (success) =>
          Effect.mapBoth(encode(success), {
            onFailure: (error) => unencodable(tool.name, success, error),
            onSuccess: (result) => ({ isFailure: false, result, modelOutput: tool.toModelOutput?.(success) })
          })
      })
  })
}

/** @internal What runs the tools of a toolkit whose handlers are in `context`, which also has what they need. */
export const direct = (
  tools: Readonly<Record<string, Tool.Any>>,
  context: Context.Context<never>
): RunTool => {
  const all = new Map<string, Known>()
  const handlers = new Set(Object.values(tools).map((tool) => tool.id))
  for (const [name, tool] of Object.entries(tools)) {
    // a tool that its provider runs has no handler. Sound: what stands under the id of a tool is its handler
    const handler = context.mapUnsafe.get(tool.id) as Tool.Handler<string> | undefined
    if (handler !== undefined) all.set(name, know(tool, handler, context, handlers))
  }
  return (name, params, call) => {
    const known = all.get(name)
    if (known === undefined) return Effect.die(new Error(`the tool ${JSON.stringify(name)} has no handler`))
    return Effect.withFiber((fiber) => {
      const context = filled(known, fiber.context)
      const performed = perform(known, params, call)
      return context === fiber.context ? performed : Effect.provideContext(performed, context)
    })
  }
}

// The caller's services win. Looking is much cheaper than merging, and usually shows that nothing is lacking: what a layer
// was built with, the program runs with.
const filled = (known: Known, caller: Context.Context<never>): Context.Context<never> => {
  let context = known.filled.get(caller)
  if (context === undefined) {
    const present = caller.mapUnsafe
    context = known.keys.every((key) => present.has(key)) ? caller : Context.merge(known.context, caller)
    known.filled.set(caller, context)
  }
  return context
}

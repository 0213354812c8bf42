/**
 * Tells whether a handler was made for the tool that it is found under. `effect/ai` finds handlers by the tool's name
 * alone: where two tools share one, the handler that was provided last would answer for both.
 */
import type * as Tool from "effect/ai/Tool"
import * as Context from "effect/Context"
import * as Equal from "effect/Equal"

/** @internal What the handler of a tool does, where that depends on the tool's definition: plain data, compared as such. */
export const Definition: Context.Reference<object | undefined> = Context.Reference<object | undefined>(
  "effect-subagent/AgentTools/Definition",
  { defaultValue: () => undefined }
)

// handlers are functions of `effect/ai`'s shape, and may be wrapped: what is not known here is never objected to
const definitions = new WeakMap<object, object>()

/** @internal Notes which definition a handler was made for. */
export const madeFor = <H extends object>(handler: H, definition: object): H => {
  definitions.set(handler, definition)
  return handler
}

/** @internal Whether the handler that stands for a tool in a context was made for another of its name. */
export const isAnothers = (tool: Tool.Any, context: Context.Context<never>): boolean => {
  const own = Context.get(tool.annotations, Definition)
  // sound: what stands under the id of a tool is its handler
  const found = context.mapUnsafe.get(tool.id) as Tool.Handler<string> | undefined
  const other = found === undefined ? undefined : definitions.get(found.handler)
  return own !== undefined && other !== undefined && !Equal.equals(own, other)
}

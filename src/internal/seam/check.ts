/**
 * Checks a request before its provider hears of it, in a fixed order (S44): capabilities, the domains of the fields,
 * the output schema, a signal that is aborted already, the depth and the limits.
 */
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { CurrentAgent, type Limits, narrow } from "../../CurrentAgent.ts"
import type { AbortCause } from "../../Session.ts"
import { type Issue, limitsIssue, shown } from "../session/limits.ts"
import { flatMapNow } from "../session/now.ts"
import { isNatural, isPositive } from "../session/numbers.ts"
import {
  Cancelled,
  DepthExceeded,
  InvalidRequest,
  LimitExceeded,
  StartFailed,
  UnsupportedCapability
} from "./errors.ts"
import type { ProviderInfo } from "./events.ts"
import { fromSchema, type StructuredSchema, type UnsupportedSchema } from "./outputCodec.ts"
import type { Request, Unchecked } from "./request.ts"
import type { ResolvedOutput } from "./run.ts"

/** @internal Says that nobody gets to see the run before it has ended, so that its child need not let anybody go first. */
export const unseen: unique symbol = Symbol.for("effect-subagent/unseen")

/** @internal A request of any provider, with every field that there is. */
export type AnyRequest = Request<Unchecked> & {
  readonly outputSchema?: StructuredSchema | undefined
  readonly [unseen]?: boolean | undefined
}

/** @internal What the checks made of a request. */
export interface Checked {
  readonly parent: CurrentAgent["Service"]
  readonly depth: number
  readonly limits: Limits
  readonly output: Option.Option<ResolvedOutput>
  readonly timeout: Duration.Duration | undefined
}

/** @internal */
export type CheckError =
  | UnsupportedCapability
  | InvalidRequest
  | UnsupportedSchema
  | Cancelled
  | StartFailed
  | DepthExceeded
  | LimitExceeded

/** @internal The request fields that a capability gates, in the order in which they are checked (S44). */
export const gates = [
  ["outputSchema", "outputSchema"],
  ["depthLimit", "maxDepth"],
  ["toolFilter", "toolFilter"],
  ["persona", "persona"],
  ["model", "model"],
  ["maxTokens", "maxTokens"]
] as const

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null

const isText = (value: unknown): boolean => value === undefined || typeof value === "string"

const noPrompt = "an empty prompt; say what the child is to do"

const isData = (data: unknown): boolean => typeof data === "string" || data instanceof Uint8Array || data instanceof URL

// the type allows nothing else; a program without types, or a model's arguments, may still try
const promptIssue = (prompt: unknown): string | undefined => {
  if (typeof prompt === "string") return prompt.trim() === "" ? noPrompt : undefined
  if (!Array.isArray(prompt) || !prompt.every((part) => isRecord(part) && "type" in part)) {
    return "a text, or a list of text and file parts, is needed"
  }
  let empty = true
  for (const { data, fileName, mediaType, text, type } of prompt) {
    if (type === "text") {
      if (typeof text !== "string") return "a text part needs a text"
      if (text.trim() !== "") empty = false
    } else if (type === "file") {
      if (typeof mediaType !== "string") return "a file part needs a mediaType"
      if (!isData(data)) return "a file part needs data: base64, bytes or a URL"
      if (!isText(fileName)) return "the fileName of a file part is a text"
      empty = false
    } else return "only text and file parts are allowed"
  }
  return empty ? noPrompt : undefined
}

const isNames = (list: unknown): boolean =>
  list === undefined || (Array.isArray(list) && list.every((name) => typeof name === "string"))

const filterIssue = (filter: unknown): Issue | undefined => {
  const { allow, deny, remote, ...rest } = isRecord(filter) ? filter : {}
  if ((allow === undefined && deny === undefined) || !isNames(allow) || !isNames(deny)) {
    return { field: "toolFilter", issue: "a list of allowed or of denied tools is needed" }
  }
  if (remote !== undefined && remote !== "allow") {
    return { field: "toolFilter", issue: `remote is "allow" or left out, not ${shown(remote)}` }
  }
  // a list under a name that is almost right would restrict nothing
  const [unknown] = Object.keys(rest)
  return unknown === undefined ? undefined : { field: "toolFilter", issue: `there is no ${unknown} in it` }
}

const isLasting = (input: unknown): boolean =>
  // sound: whatever is no duration is found to be none
  Option.exists(Duration.fromInput(input as Duration.Input), (duration) =>
    Duration.isGreaterThan(duration, Duration.zero))

// by its shape, as a signal may come from another realm or be somebody's own
const isSignal = (signal: unknown): boolean =>
  isRecord(signal) && typeof signal["aborted"] === "boolean" && typeof signal["addEventListener"] === "function" &&
  typeof signal["removeEventListener"] === "function"

/** @internal What is malformed in a request, by itself. */
export const fieldIssue = (request: AnyRequest): Issue | undefined => {
  const { label, limits, maxDepth, maxTokens, model, outputSchema, persona, prompt, signal, timeout, toolFilter } =
    request
  if (maxDepth !== undefined && !isNatural(maxDepth)) {
    return { field: "maxDepth", issue: `a natural number up to 2^53 - 1 is needed, not ${shown(maxDepth)}` }
  }
  const empty = promptIssue(prompt)
  if (empty !== undefined) return { field: "prompt", issue: empty }
  if (maxTokens !== undefined && !isPositive(maxTokens)) {
    return { field: "maxTokens", issue: `a positive integer is needed, not ${shown(maxTokens)}` }
  }
  if (model === "") return { field: "model", issue: "an empty name; leave it out to use the parent's model" }
  if (!isText(model)) return { field: "model", issue: `the name of a model is needed, not ${shown(model)}` }
  if (toolFilter !== undefined) {
    const issue = filterIssue(toolFilter)
    if (issue !== undefined) return issue
  }
  if (timeout !== undefined && !isLasting(timeout)) {
    return { field: "timeout", issue: "a positive duration is needed" }
  }
  if (!isText(persona)) return { field: "persona", issue: `a text is needed, not ${shown(persona)}` }
  if (!isText(label)) return { field: "label", issue: `a text is needed, not ${shown(label)}` }
  if (signal !== undefined && !isSignal(signal)) {
    return { field: "signal", issue: `an AbortSignal is needed, not ${shown(signal)}` }
  }
  if (outputSchema !== undefined && !Schema.isSchema(outputSchema)) {
    return {
      field: "outputSchema",
      issue: "a Schema is needed; OutputSchema.fromJsonSchema makes one of a JSON Schema"
    }
  }
  return limits === undefined ? undefined : limitsIssue(limits)
}

/** @internal How a start that was cancelled fails. */
export const cancelledBy = (
  provider: string,
  parent: CurrentAgent["Service"],
  cause: AbortCause = "parent"
): Cancelled | StartFailed =>
  parent.lifetime.ended === "closed"
    ? new StartFailed({ provider, reason: "ParentClosed", diagnostic: "the agent that delegates is closed" })
    : new Cancelled({ cause })

/** @internal Looks at once, not when the effect runs. */
export const check = (
  provider: ProviderInfo,
  request: AnyRequest,
  context: Context.Context<CurrentAgent>
): Effect.Effect<Checked, CheckError> => {
  if (!isRecord(request)) return Effect.fail(new InvalidRequest({ field: "request", issue: "a record is needed" }))
  for (const [capability, field] of gates) {
    if (request[field] !== undefined && provider.capabilities[capability] === false) {
      return Effect.fail(new UnsupportedCapability({ provider: provider.name, capability }))
    }
  }
  const issue = fieldIssue(request)
  if (issue !== undefined) return Effect.fail(new InvalidRequest(issue))
  const timeout = request.timeout === undefined ? Option.none() : Duration.fromInput(request.timeout)
  const rest = (output: Option.Option<ResolvedOutput>): Effect.Effect<Checked, CheckError> => {
    const parent = Context.get(context, CurrentAgent)
    if (request.signal?.aborted === true) return Effect.fail(new Cancelled({ cause: "parent" }))
    if (parent.lifetime.ended !== undefined) return Effect.fail(cancelledBy(provider.name, parent))
    const depth = parent.depth + 1
    if (!isNatural(parent.depth) || !isNatural(depth)) {
      return Effect.fail(
        new InvalidRequest({ field: "depth", issue: `${parent.depth} is no depth to delegate from` })
      )
    }
    if (request.maxDepth !== undefined && depth > request.maxDepth) {
      return Effect.fail(new DepthExceeded({ attempted: depth, max: request.maxDepth }))
    }
    // a limit that is no number admits nobody
    if (!(depth <= parent.limits.maxDepth)) {
      return Effect.fail(new LimitExceeded({ limit: "maxDepth", value: depth, max: parent.limits.maxDepth }))
    }
    if (provider.capabilities.toolFilter === false) {
      const blocking = parent.restrictions.find((restriction) => restriction.remote !== "allow")
      if (blocking !== undefined) {
        return Effect.fail(
          new InvalidRequest({
            field: "provider",
            issue: `the agent's tools are restricted, and children of provider ${JSON.stringify(provider.name)} ` +
              `cannot be; its restriction must say remote: "allow"`
          })
        )
      }
    }
    return Effect.succeed({
      parent,
      depth,
      limits: narrow(parent.limits, request.limits),
      output,
      timeout: Option.getOrUndefined(timeout)
    })
  }
  if (request.outputSchema === undefined) return rest(Option.none())
  return flatMapNow(fromSchema(request.outputSchema), (codec) =>
    rest(Option.some({
      jsonSchema: codec.jsonSchema,
      // sound: the caller's context holds what the schema's decoding needs, by the type of `start`
      decode: (json) => Effect.provideContext(codec.decode(json), context) as Effect.Effect<unknown, Schema.SchemaError>
    })))
}

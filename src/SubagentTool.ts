/**
 * Lets a model delegate: a tool that hands a task to a child of one provider and gives back its answer.
 *
 * It is an ordinary `effect/ai` tool that depends on `CurrentAgent`: it works in an agent of this library and in any
 * program that calls `LanguageModel.generateText` with a toolkit. One tool stands for one provider; the model never
 * chooses among providers (S249).
 *
 * @since 0.1.0
 */
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { CurrentAgent } from "./CurrentAgent.ts"
import { type AnyRequest, fieldIssue, gates, unseen } from "./internal/seam/check.ts"
import { Failure, Foreground, Parameters, Success, toModelOutput, Working } from "./internal/tool/delegation.ts"
import { type Begin, handle } from "./internal/tool/handler.ts"
import { Definition, madeFor } from "./internal/tools/definition.ts"
import { fromSchema, type StructuredSchema, type UnsupportedSchema } from "./OutputSchema.ts"
import {
  type Capabilities,
  InvalidRequest,
  type Provider,
  type ProviderInfo,
  type Request,
  Subagents,
  type Unchecked,
  UnsupportedCapability
} from "./Subagent.ts"

export { Failure, Foreground, Parameters, Success, Working }

// -----------------------------------------------------------------------------
// models
// -----------------------------------------------------------------------------

type Fixed<C extends Capabilities> = Omit<Request<C>, "prompt" | "label" | "signal">

/**
 * How a delegate tool uses its provider: what it says to the model in front of what the library says, and every field
 * of a request but the prompt.
 *
 * @category models
 * @since 0.1.0
 */
export type Options<C extends Capabilities> =
  & Fixed<C>
  & { readonly description?: string | undefined }
  & (C["outputSchema"] extends false ? { readonly outputSchema?: undefined }
    : { readonly outputSchema?: StructuredSchema | undefined })

interface Binding {
  readonly provider: { readonly key: Context.Key<unknown, unknown>; readonly info: ProviderInfo } | string
  readonly request: Omit<AnyRequest, "prompt">
  /** What its handler does. */
  readonly definition: object
  /** Where a tool that is bound by name looks its provider up, one for each layer of it that lives now. */
  readonly lookups: Array<() => ProviderInfo | undefined>
}

/**
 * Identifies delegate tools.
 *
 * @category type IDs
 * @since 0.1.0
 */
export const TypeId = "~effect-subagent/SubagentTool" as const

/**
 * The definition of a delegate tool. `Needs` is what its handler's layer requires: the provider it is bound to.
 *
 * @category models
 * @since 0.1.0
 */
export interface SubagentTool<Name extends string, Needs> extends
  Tool.Tool<Name, {
    readonly parameters: typeof Parameters
    readonly success: typeof Success
    readonly failure: typeof Failure
    readonly failureMode: "return"
  }, CurrentAgent>
{
  readonly [TypeId]: { readonly needs: (_: never) => Needs }
}

// -----------------------------------------------------------------------------
// constructors
// -----------------------------------------------------------------------------

const wording = (lead: string | undefined, inherits: boolean): string => {
  const knows = inherits
    ? "The agent knows this conversation up to the end of the last completed turn: say only what is new."
    : "The agent does not see this conversation: the prompt must say everything it needs to know."
  return [
    lead ?? "Hands a task to another agent and returns its answer.",
    knows,
    "Only its answer comes back. Several calls in one response run at the same time."
  ].join(" ")
}

const Binding = Context.Reference<Binding | undefined>("effect-subagent/SubagentTool/Binding", {
  defaultValue: () => undefined
})

const define = (
  name: string,
  provider: Binding["provider"],
  options: Partial<Options<Unchecked>>
): SubagentTool<string, unknown> => {
  const { description, ...request } = options
  const definition = { provider: typeof provider === "string" ? provider : provider.key, request }
  const binding: Binding = { provider, request, definition, lookups: [] }
  const tool = Tool.make(name, {
    description: wording(description, typeof provider !== "string" && provider.info.inheritsParentContext),
    parameters: Parameters,
    success: Success,
    failure: Failure,
    failureMode: "return",
    dependencies: [CurrentAgent],
    toModelOutput
  }).annotate(Binding, binding).annotate(Definition, definition)
  if (typeof provider === "string") {
    // A provider that is only known by name may come back as another one: the words follow it. They stand in the
    // prototype, which copies of the tool with other annotations share.
    Reflect.deleteProperty(tool, "description")
    Object.setPrototypeOf(
      tool,
      Object.create(Object.getPrototypeOf(tool), {
        description: { get: () => wording(description, binding.lookups.at(-1)?.()?.inheritsParentContext === true) }
      })
    )
  }
  return Object.assign(tool, { [TypeId]: { needs: (_: never): unknown => undefined } })
}

/**
 * Defines a delegate tool for a provider, given by its class or by its name.
 *
 * With a class, options that the provider cannot honour do not compile, and the layer needs the provider. With a
 * name, they fail when the layer is built or, where the provider comes later, at each call.
 *
 * Tools that are used side by side need names of their own: `effect/ai` knows a tool and its handler by the name alone,
 * so that a toolkit of two tools of one name has the last one only, and of two handlers the last one serves.
 *
 * @category constructors
 * @since 0.1.0
 */
export const make: {
  /**
   * Defines a delegate tool for the provider of a name, whose children answer with a value of a schema.
   *
   * @category constructors
   * @since 0.1.0
   */
  <const Name extends string, S extends StructuredSchema>(
    name: Name,
    provider: string,
    options: Options<Unchecked> & { readonly outputSchema: S }
  ): SubagentTool<Name, Subagents | S["DecodingServices"] | S["EncodingServices"]>
  /**
   * Defines a delegate tool for the provider of a name, whose children answer with a text.
   *
   * @category constructors
   * @since 0.1.0
   */
  <const Name extends string>(
    name: Name,
    provider: string,
    options?: Options<Unchecked> & { readonly outputSchema?: undefined }
  ): SubagentTool<Name, Subagents>
  /**
   * Defines a delegate tool whose children answer with a value of a schema.
   *
   * @category constructors
   * @since 0.1.0
   */
  <const Name extends string, Self, PName extends string, C extends Capabilities, S extends StructuredSchema>(
    name: Name,
    provider: Provider<Self, PName, C>,
    options: Options<C> & { readonly outputSchema: S }
  ): SubagentTool<Name, Self | S["DecodingServices"] | S["EncodingServices"]>
  /**
   * Defines a delegate tool whose children answer with a text.
   *
   * @category constructors
   * @since 0.1.0
   */
  <const Name extends string, Self, PName extends string, C extends Capabilities>(
    name: Name,
    provider: Provider<Self, PName, C>,
    options?: Options<C> & { readonly outputSchema?: undefined }
  ): SubagentTool<Name, Self>
} = (
  name: string,
  provider: string | (Provider.Any & { readonly providerName: string }),
  options: Partial<Options<Unchecked>> = {}
): SubagentTool<never, never> =>
  // sound: what the layer needs is only in the type, and each signature says what its binding makes the layer ask for
  define(
    name,
    typeof provider === "string" ? provider : {
      key: provider,
      info: {
        name: provider.providerName,
        capabilities: provider.capabilities,
        inheritsParentContext: provider.inheritsParentContext
      }
    },
    options
  ) as SubagentTool<never, never>

// -----------------------------------------------------------------------------
// layers
// -----------------------------------------------------------------------------

/**
 * What building the handler of a delegate tool can fail with.
 *
 * @category errors
 * @since 0.1.0
 */
export type BuildError = InvalidRequest | UnsupportedCapability | UnsupportedSchema

const unsupported = (info: ProviderInfo, request: Binding["request"]): UnsupportedCapability | undefined => {
  const gate = gates.find(([capability, field]) =>
    request[field] !== undefined && info.capabilities[capability] === false
  )
  return gate === undefined ? undefined : new UnsupportedCapability({ provider: info.name, capability: gate[0] })
}

const toolName = /^[A-Za-z0-9_-]{1,64}$/

const build = Effect.fnUntraced(function*(name: string, binding: Binding) {
  const { request } = binding
  if (!toolName.test(name)) {
    return yield* new InvalidRequest({ field: "name", issue: "1 to 64 letters, digits, '_' or '-' are needed" })
  }
  const issue = fieldIssue({ ...request, prompt: "checked at each call" })
  if (issue !== undefined) return yield* new InvalidRequest(issue)
  const codec = request.outputSchema === undefined ? undefined : yield* fromSchema(request.outputSchema)
  const begin = yield* beginning(binding)
  // sound: the services of the schema's encoding are in the layer's requirements, by the type of `make`
  const encode = codec === undefined ? undefined : Schema.encodeUnknownEffect(codec.schema) as never
  return madeFor(handle(begin, encode), binding.definition)
})

const beginning = Effect.fnUntraced(function*(binding: Binding) {
  const { provider, request } = binding
  if (typeof provider === "string") {
    const subagents = yield* Subagents
    const lookup = () => Effect.runSync(subagents.providers).find((info) => info.name === provider)
    const info = lookup()
    const missing = info === undefined ? undefined : unsupported(info, request)
    if (missing !== undefined) return yield* missing
    yield* Effect.acquireRelease(
      Effect.sync(() => void binding.lookups.push(lookup)),
      () => Effect.sync(() => void binding.lookups.splice(binding.lookups.indexOf(lookup), 1))
    )
    // sound: a request of any provider, whose result is only read as `Run<unknown>`
    const start = subagents.start as unknown as (provider: string, request: AnyRequest) => ReturnType<Begin>
    return (prompt: string, label: string, quiet: boolean) =>
      start(provider, { ...request, prompt, label, ...(quiet ? { [unseen]: true } : undefined) })
  }
  const missing = unsupported(provider.info, request)
  if (missing !== undefined) return yield* missing
  // sound: what stands under a provider's class is its client, which takes the options that `unsupported` let pass
  const client = (yield* provider.key) as { readonly start: (request: AnyRequest) => ReturnType<Begin> }
  return (prompt: string, label: string, quiet: boolean) =>
    client.start({ ...request, prompt, label, ...(quiet ? { [unseen]: true } : undefined) })
})

/**
 * The handler of a delegate tool. Fails when the tool's options are malformed, or its provider cannot honour them.
 *
 * Give it to whoever runs the tool: to `AgentTools.layer(Toolkit.make(tool))` for agents of this library, or around
 * a program that calls a model with the tool. Two tools of one name in one registry fail `DuplicateTool` there, and so
 * does one whose handler in the context is that of another delegate tool of its name.
 *
 * @category layers
 * @since 0.1.0
 */
export const layer = <Name extends string, Needs>(
  tool: SubagentTool<Name, Needs>
): Layer.Layer<Tool.Handler<Name>, BuildError, Needs> => {
  const binding = Context.get(tool.annotations, Binding)!
  const toolkit = Toolkit.make(tool)
  // sound: there is one tool and so one handler, of this very name; `Needs` is what its binding asks for
  return toolkit.toLayer(
    Effect.map(build(tool.name, binding), (handler) => ({ [tool.name]: handler })) as never
  ) as unknown as Layer.Layer<Tool.Handler<Name>, BuildError, Needs>
}

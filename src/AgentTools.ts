/**
 * Registers the tools that agents may use and decides which of them one agent sees.
 *
 * One resolver serves the prompt and the dispatch: a tool that is hidden from an agent is missing from its requests
 * *and* refused when its model calls it all the same (S158).
 *
 * @since 0.1.0
 */
import * as AiError from "effect/ai/AiError"
import type * as Tool from "effect/ai/Tool"
import type * as Toolkit from "effect/ai/Toolkit"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type { CurrentAgent, ToolRestriction } from "./CurrentAgent.ts"
import { isAnothers } from "./internal/tools/definition.ts"
import { direct, type RunTool, type ToolReply } from "./internal/tools/direct.ts"

export type { RunTool, ToolReply }

// -----------------------------------------------------------------------------
// errors
// -----------------------------------------------------------------------------

/**
 * A restriction names tools that do not exist or, with `hidden`, tools that the restricting agent cannot see itself
 * and so cannot allow (S159). `known` are the names that would be right.
 *
 * @category errors
 * @since 0.1.0
 */
export class UnknownTool extends Schema.TaggedError<UnknownTool>("effect-subagent/UnknownTool")("UnknownTool", {
  names: Schema.Array(Schema.String),
  known: Schema.Array(Schema.String),
  hidden: Schema.Boolean
}) {
  override get message(): string {
    const known = this.known.length === 0 ? "none" : this.known.join(", ")
    return `${this.hidden ? "tools that the parent cannot use" : "unknown tools"}: ${this.names.join(", ")}; ` +
      `known tools: ${known}`
  }
}

/**
 * A tool of this name is registered already, or has the handler of another delegate tool of this name.
 *
 * @category errors
 * @since 0.1.0
 */
export class DuplicateTool extends Schema.TaggedError<DuplicateTool>("effect-subagent/DuplicateTool")("DuplicateTool", {
  name: Schema.String
}) {
  override get message(): string {
    return `there is another tool ${JSON.stringify(this.name)}; each needs a name of its own`
  }
}

// -----------------------------------------------------------------------------
// models
// -----------------------------------------------------------------------------

/**
 * A toolkit whose tools are only known at run time, with all that its handlers need but the calling agent.
 *
 * @category models
 * @since 0.1.0
 */
export interface AnyToolkit extends
  // the record of tools is invariant in `WithHandler`, so a registry of many toolkits can only hold its widest form
  Toolkit.WithHandler<Record<string, Tool.Any>>
{
  /** Runs one call without a stream of results; made from `handle` where it is not given. */
  readonly run?: RunTool | undefined
}

/**
 * Marks a tool whose successful result ends the turn at its step: calls behind it in the same response wait for it
 * and are denied once it has succeeded (S189, S201). Annotate the tool with it.
 *
 * @category annotations
 * @since 0.1.0
 */
export const Concludes: Context.Reference<boolean> = Context.Reference<boolean>(
  "effect-subagent/AgentTools/Concludes",
  {
    defaultValue: () => false
  }
)

/**
 * What the agent that called a tool offers to its handler.
 *
 * - `progressWanted`: whether anybody watches; a handler may skip preliminary results when nobody does
 * - `onInterrupted`: what the log shall say as this call's result if it is interrupted; the last one given counts
 *
 * @category models
 * @since 0.1.0
 */
export interface CallSite {
  readonly progressWanted: boolean
  readonly onInterrupted: (toolCallId: string, result: () => unknown) => void
}

/**
 * The call site of the tool call that runs. Outside our agents nothing is known of it, and progress is wanted.
 *
 * @category references
 * @since 0.1.0
 */
export const CallSite: Context.Reference<CallSite> = Context.Reference<CallSite>(
  "effect-subagent/AgentTools/CallSite",
  {
    defaultValue: () => ({ progressWanted: true, onInterrupted: () => {} })
  }
)

/**
 * What one agent can use at the moment: the tools in lexicographic order of their names (S428), and whom to call.
 * Stays the same object as long as nothing changes, so that what is derived from it can be kept.
 *
 * @category models
 * @since 0.1.0
 */
export interface Resolved {
  readonly names: ReadonlyArray<string>
  readonly toolkit: AnyToolkit
  readonly run: RunTool
  /** The names of the tools that conclude the turn. */
  readonly concluding: ReadonlySet<string>
}

/**
 * The registry of tools.
 *
 * - `register`: adds the tools of a resolved toolkit for as long as the scope lives; fails `DuplicateTool`
 * - `names`: all registered names, sorted
 * - `resolver`: for one agent with these restrictions and tools of its own, what it sees at each call. Tools that are
 *   registered later show under `deny` lists and stay hidden under `allow` lists (S161); own tools are never filtered
 *   and shadow registered ones (S160)
 * - `check`: whether an agent under `inherited` restrictions may add `restriction`: fails `UnknownTool` for a name that
 *   nobody registered, and with `hidden` for an allowed name that the agent cannot see itself
 *
 * @category services
 * @since 0.1.0
 */
export class AgentTools extends Context.Service<AgentTools, {
  readonly register: (toolkit: AnyToolkit) => Effect.Effect<void, DuplicateTool, Scope.Scope>
  readonly names: Effect.Effect<ReadonlyArray<string>>
  readonly resolver: (options: {
    readonly restrictions: ReadonlyArray<ToolRestriction>
    readonly own?: AnyToolkit | undefined
  }) => () => Resolved
  readonly check: (
    restriction: ToolRestriction,
    inherited: ReadonlyArray<ToolRestriction>
  ) => Effect.Effect<void, UnknownTool>
}>()("effect-subagent/AgentTools") {}

// -----------------------------------------------------------------------------
// layers
// -----------------------------------------------------------------------------

const visible = (name: string, restrictions: ReadonlyArray<ToolRestriction>): boolean =>
  restrictions.every((one) =>
    (one.allow === undefined || one.allow.includes(name)) && one.deny?.includes(name) !== true
  )

// the calls of a toolkit that only has `handle`, by the same protocol
const handled = (owner: AnyToolkit): RunTool => (name, params, call) =>
  Effect.suspend(() => {
    let last: Tool.HandlerResult<Tool.Any> | undefined
    // sound: `handle` decodes what it is given, and says so of anything that does not fit
    return Effect.flatMap(owner.handle(name, params as never, call.toolCallId), (results) =>
      Effect.flatMap(
        Stream.runForEachArray(results, (all) =>
          Effect.sync(() => {
            for (const one of all) {
              if (!one.preliminary) last = one
              else call.preliminary(one.encodedResult)
            }
          })),
        () => {
          if (last === undefined) return Effect.die(new Error(`the tool "${name}" gave no result`))
          // a failure of the arguments or of the machinery is no result of the tool
          if (last.isFailure && AiError.isAiError(last.result)) return Effect.fail(last.result)
          return Effect.succeed<ToolReply>({
            isFailure: last.isFailure,
            result: last.encodedResult,
            modelOutput: last.modelOutput
          })
        }
      ))
    // sound: what a handler needs beyond the services of its layer is `CurrentAgent`, which the turn provides
  }) as Effect.Effect<ToolReply, unknown>

const assemble = (
  registered: ReadonlyMap<string, AnyToolkit>,
  restrictions: ReadonlyArray<ToolRestriction>,
  own: AnyToolkit | undefined
): Resolved => {
  const owners = new Map<string, AnyToolkit>()
  for (const [name, owner] of registered) if (visible(name, restrictions)) owners.set(name, owner)
  if (own !== undefined) { for (const name of Object.keys(own.tools)) owners.set(name, own) }
  const names = Array.from(owners.keys()).toSorted()
  const tools: Record<string, Tool.Any> = Object.create(null)
  for (const name of names) tools[name] = owners.get(name)!.tools[name]
  const ownerOf = (name: string): AnyToolkit => {
    const owner = owners.get(name)
    if (owner === undefined) throw new Error(`no tool ${JSON.stringify(name)} is visible here`)
    return owner
  }
  const runs = new Map(Array.from(owners, ([name, owner]) => [name, owner.run ?? handled(owner)]))
  return {
    names,
    toolkit: {
      tools,
      handle: (name, params, toolCallId, options) =>
        Effect.suspend(() => ownerOf(name).handle(name, params, toolCallId, options))
    },
    run: (name, params, call) => {
      const run = runs.get(name)
      return run === undefined
        ? Effect.die(new Error(`no tool ${JSON.stringify(name)} is visible here`))
        : run(name, params, call)
    },
    concluding: new Set(names.filter((name) => Context.get(tools[name].annotations, Concludes)))
  }
}

const make = Effect.sync(() => {
  const registered = new Map<string, AnyToolkit>()
  // what agents without restrictions and own tools share; rebuilt after a change
  let shared: Resolved | undefined
  let version = 0
  const changed = () => {
    version++
    shared = undefined
  }
  const everything = () => shared ??= assemble(registered, [], undefined)

  return AgentTools.of({
    register: (toolkit) =>
      Effect.acquireRelease(
        Effect.suspend(() => {
          const names = Object.keys(toolkit.tools)
          const taken = names.find((name) => registered.has(name))
          if (taken !== undefined) return Effect.fail(new DuplicateTool({ name: taken }))
          for (const name of names) registered.set(name, toolkit)
          changed()
          return Effect.succeed(names)
        }),
        (names) =>
          Effect.sync(() => {
            for (const name of names) registered.delete(name)
            changed()
          })
      ),
    names: Effect.sync(() => everything().names),
    resolver: ({ own, restrictions }) => {
      if (own === undefined && restrictions.length === 0) return everything
      let resolved: Resolved | undefined
      let seen = -1
      return () => {
        if (resolved === undefined || seen !== version) {
          seen = version
          resolved = assemble(registered, restrictions, own)
        }
        return resolved
      }
    },
    check: (restriction, inherited) =>
      Effect.suspend(() => {
        const known = everything().names
        const unknown = [...restriction.allow ?? [], ...restriction.deny ?? []].filter((name) => !registered.has(name))
        if (unknown.length > 0) return Effect.fail(new UnknownTool({ names: unknown, known, hidden: false }))
        const hidden = (restriction.allow ?? []).filter((name) => !visible(name, inherited))
        return hidden.length === 0 ? Effect.void : Effect.fail(
          new UnknownTool({ names: hidden, known: known.filter((name) => visible(name, inherited)), hidden: true })
        )
      })
  })
})

/**
 * An empty registry of tools; {@link layer} contributes to it.
 *
 * @category layers
 * @since 0.1.0
 */
export const layerRegistry: Layer.Layer<AgentTools> = Layer.effect(AgentTools, make)

/**
 * Contributes a toolkit for as long as the layer lives. Services that its handlers need are taken from the layer's
 * own requirements, except `CurrentAgent`, which is the agent that calls. Fails `DuplicateTool` for a taken name, and
 * for a delegate tool whose handler in the context is that of another of its name (`SubagentTool.layer`).
 *
 * @category layers
 * @since 0.1.0
 */
export const layer = <Tools extends Record<string, Tool.Any>>(
  toolkit: Toolkit.Toolkit<Tools>
): Layer.Layer<
  never,
  DuplicateTool,
  AgentTools | Tool.HandlersFor<Tools> | Exclude<Tool.HandlerServices<Tools[keyof Tools]>, CurrentAgent>
> => {
  type Needs = Exclude<Tool.HandlerServices<Tools[keyof Tools]>, CurrentAgent>
  return Layer.effectDiscard(Effect.gen(function*() {
    const registry = yield* AgentTools
    const context = yield* Effect.context<Needs>()
    // sound: `tools` is only read, by names that come from its own keys, and `handle` is given what `Needs` lists
    const kit = (yield* toolkit) as unknown as AnyToolkit
    const mistaken = Object.values(kit.tools).find((tool) => isAnothers(tool, context))
    if (mistaken !== undefined) return yield* new DuplicateTool({ name: mistaken.name })
    yield* registry.register({
      tools: kit.tools,
      handle: (name, params, toolCallId, options) =>
        Effect.contextWith((caller: Context.Context<never>) =>
          Effect.provideContext(kit.handle(name, params, toolCallId, options), Context.merge(context, caller))
        ),
      run: direct(kit.tools, context)
    })
  }))
}

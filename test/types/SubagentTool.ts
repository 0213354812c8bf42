/**
 * Says what a delegate tool may be given for each kind of provider, and what its layer needs.
 */
// an illegal use is one for the effect checks too, which do not know that it is expected
// @effect-diagnostics missingEffectContext:off missingEffectError:off missingLayerContext:off
import { Context, Effect, Layer, Schema, SchemaGetter } from "effect"
import { LanguageModel, type Tool, Toolkit } from "effect/ai"
import * as AgentTools from "../../src/AgentTools.ts"
import type { CurrentAgent } from "../../src/CurrentAgent.ts"
import type { UnsupportedSchema } from "../../src/OutputSchema.ts"
import type * as Subagent from "../../src/Subagent.ts"
import * as SubagentTool from "../../src/SubagentTool.ts"
import {
  agentLayer,
  Bare,
  bareLayer,
  cond,
  type Equal,
  Finding,
  Full,
  fullLayer,
  Negotiated,
  NoDepth,
  NoFilter,
  NoModel,
  NoPersona,
  NoSchema,
  NoTokens,
  prompt,
  runnable,
  same,
  uses,
  Verdict
} from "./helpers.ts"

// -----------------------------------------------------------------------------
// options are those of the provider
// -----------------------------------------------------------------------------

const outputSchema = Finding

uses(SubagentTool.make("ask", Full, {
  description: "Asks.",
  outputSchema,
  maxDepth: 1,
  toolFilter: { deny: ["ask"] },
  persona: "You are terse.",
  model: "small",
  maxTokens: 1,
  timeout: "1 minute",
  limits: { maxChildren: 1 }
}))
uses(SubagentTool.make("ask", Negotiated, { outputSchema, maxDepth: 1, persona: "You are terse.", maxTokens: 1 }))
uses(SubagentTool.make("ask", Bare, { description: "Asks.", timeout: "1 minute", limits: { maxChildren: 1 } }))
uses(SubagentTool.make("ask", Bare))

uses(SubagentTool.make("ask", Full, { maxDepth: 1 }))
// @ts-expect-error TS2769 Type 'number' is not assignable to type 'undefined'
uses(SubagentTool.make("ask", NoDepth, { maxDepth: 1 }))

uses(SubagentTool.make("ask", Full, { toolFilter: { deny: [] } }))
// @ts-expect-error TS2769 Type '{ deny: never[]; }' is not assignable to type 'undefined'
uses(SubagentTool.make("ask", NoFilter, { toolFilter: { deny: [] } }))

uses(SubagentTool.make("ask", Full, { persona: "You are terse." }))
// @ts-expect-error TS2769 Type 'string' is not assignable to type 'undefined'
uses(SubagentTool.make("ask", NoPersona, { persona: "You are terse." }))

uses(SubagentTool.make("ask", Full, { model: "small" }))
// @ts-expect-error TS2769 Type 'string' is not assignable to type 'undefined'
uses(SubagentTool.make("ask", NoModel, { model: "small" }))

uses(SubagentTool.make("ask", Full, { maxTokens: 1 }))
// @ts-expect-error TS2769 Type 'number' is not assignable to type 'undefined'
uses(SubagentTool.make("ask", NoTokens, { maxTokens: 1 }))

uses(SubagentTool.make("ask", Full, { outputSchema }))
// @ts-expect-error TS2769 Type 'Struct<...>' is not assignable to type 'undefined'
uses(SubagentTool.make("ask", NoSchema, { outputSchema }))

// what the model says is not an option, and neither is what ends a run from outside
uses(SubagentTool.make("ask", Full, { description: prompt }))
// @ts-expect-error TS2769 'prompt' does not exist in type
uses(SubagentTool.make("ask", Full, { prompt }))
// @ts-expect-error TS2769 'label' does not exist in type
uses(SubagentTool.make("ask", Full, { label: prompt }))
declare const signal: AbortSignal
// @ts-expect-error TS2769 'signal' does not exist in type
uses(SubagentTool.make("ask", Full, { signal }))

// what a schema might be proves nothing
uses(SubagentTool.make("ask", Full, { outputSchema: cond ? Finding : Verdict }))
// @ts-expect-error TS2769 Type 'Struct<...> | undefined' is not assignable to type 'undefined'
uses(SubagentTool.make("ask", Full, { outputSchema: cond ? Finding : undefined }))

// an object is needed where the value is JSON
uses(SubagentTool.make("ask", Full, { outputSchema: Schema.Struct({ one: Schema.String }) }))
// @ts-expect-error TS2769 Type 'String' is not assignable to type 'undefined'
uses(SubagentTool.make("ask", Full, { outputSchema: Schema.String }))

// by its name, a provider may be able to do anything
uses(SubagentTool.make("ask", "bare", { outputSchema, maxDepth: 1, persona: "You are terse.", model: "small" }))
// @ts-expect-error TS2769 Argument of type 'string' is not assignable to parameter of type 'Provider<...>'
uses(SubagentTool.make("ask", "bare", { prompt }))
uses(SubagentTool.make("ask", "acp", { persona: "You are terse." }))
// @ts-expect-error TS2769 Type 'string' is not assignable to type 'undefined'
uses(SubagentTool.make("ask", NoPersona, { persona: "You are terse." }))

// -----------------------------------------------------------------------------
// what a layer needs and how it fails (S250: without the service there is no tool)
// -----------------------------------------------------------------------------

class Store extends Context.Service<Store, { readonly find: (id: string) => Effect.Effect<string> }>()("Store") {}
class Names extends Context.Service<Names, { readonly of: (id: string) => Effect.Effect<string> }>()("Names") {}

/** Decoding needs one service, and encoding another. */
const Stored = Schema.Struct({
  id: Schema.String.pipe(Schema.decodeTo(Schema.String, {
    decode: SchemaGetter.transformEffect((id: string) => Effect.flatMap(Store, (store) => store.find(id))),
    encode: SchemaGetter.transformEffect((id: string) => Effect.flatMap(Names, (names) => names.of(id)))
  }))
})

type BuildError = Subagent.InvalidRequest | Subagent.UnsupportedCapability | UnsupportedSchema

const plain = SubagentTool.make("ask", Full)
const typed = SubagentTool.make("ask", Full, { outputSchema: Stored })
const byName = SubagentTool.make("ask", "full", { persona: "You are terse." })
const typedByName = SubagentTool.make("ask", "full", { outputSchema: Stored })

const plainLayer = SubagentTool.layer(plain)
same<Equal<typeof plainLayer, Layer.Layer<Tool.Handler<"ask">, BuildError, Full>>>()
const typedLayer = SubagentTool.layer(typed)
same<Equal<typeof typedLayer, Layer.Layer<Tool.Handler<"ask">, BuildError, Full | Store | Names>>>()
const byNameLayer = SubagentTool.layer(byName)
same<Equal<typeof byNameLayer, Layer.Layer<Tool.Handler<"ask">, BuildError, Subagent.Subagents>>>()
const typedByNameLayer = SubagentTool.layer(typedByName)
same<
  Equal<typeof typedByNameLayer, Layer.Layer<Tool.Handler<"ask">, BuildError, Subagent.Subagents | Store | Names>>
>()

same<Equal<Tool.Requirements<typeof plain>, CurrentAgent>>()
same<Equal<Tool.Requirements<typeof byName>, CurrentAgent>>()

declare const built: (layer: Layer.Layer<Tool.Handler<"ask">, unknown>) => void
built(plainLayer.pipe(Layer.provide(fullLayer)))
// @ts-expect-error TS2379 Type 'Full' is not assignable to type 'never'
built(plainLayer.pipe(Layer.provide(bareLayer)))

// -----------------------------------------------------------------------------
// in a program of its own
// -----------------------------------------------------------------------------

declare const modelLayer: Layer.Layer<LanguageModel.LanguageModel>

// S489: who delegates is a requirement, also where `effect/ai` runs the tool
const turn = LanguageModel.generateText({ prompt, toolkit: Toolkit.make(plain) })
same<Equal<Effect.Services<typeof turn>, LanguageModel.LanguageModel | Tool.Handler<"ask"> | CurrentAgent>>()

const run = turn.pipe(Effect.provide(plainLayer))
runnable(run.pipe(Effect.provide([modelLayer, fullLayer, agentLayer])))
// @ts-expect-error TS2379 Type 'CurrentAgent' is not assignable to type 'never'
runnable(run.pipe(Effect.provide([modelLayer, fullLayer, fullLayer])))

runnable(run.pipe(Effect.provide([modelLayer, fullLayer, agentLayer])))
// @ts-expect-error TS2379 Type 'Full' is not assignable to type 'never'
runnable(run.pipe(Effect.provide([modelLayer, bareLayer, agentLayer])))

// the answer of a tool is what it says, with nothing to cast
export const answers = Effect.map(turn, ({ toolResults: [one] }) => {
  const value: SubagentTool.Success | SubagentTool.Failure | object = one.result
  return one.isFailure ? undefined : value
})

// -----------------------------------------------------------------------------
// in our agents
// -----------------------------------------------------------------------------

const toolLayer = AgentTools.layer(Toolkit.make(plain, SubagentTool.make("test", Bare)))
same<
  Equal<
    typeof toolLayer,
    Layer.Layer<never, AgentTools.DuplicateTool, AgentTools.AgentTools | Tool.Handler<"ask"> | Tool.Handler<"test">>
  >
>()

const equipped = AgentTools.layer(Toolkit.make(typed)).pipe(Layer.provide(typedLayer))
same<
  Equal<
    typeof equipped,
    Layer.Layer<never, AgentTools.DuplicateTool | BuildError, AgentTools.AgentTools | Full | Store | Names>
  >
>()

/**
 * Defines providers. Capabilities are literal and complete, and an implementation keeps to them.
 */
// an illegal use is one for the effect checks too, which do not know that it is expected
// @effect-diagnostics missingEffectContext:off missingEffectError:off missingLayerContext:off
import { Effect, Option, Stream } from "effect"
import { UnknownTool } from "../../src/AgentTools.ts"
import { CurrentAgent } from "../../src/CurrentAgent.ts"
import * as Fork from "../../src/providers/Fork.ts"
import * as Spawn from "../../src/providers/Spawn.ts"
import * as Subagent from "../../src/Subagent.ts"
import {
  Bare,
  bareRun,
  cond,
  type everything,
  Full,
  Negotiated,
  NoFilter,
  type NoPersona,
  NoSteer,
  nothing,
  subagents,
  uses
} from "./helpers.ts"

// -----------------------------------------------------------------------------
// capabilities
// -----------------------------------------------------------------------------

interface Mine {
  readonly _: unique symbol
}
const define = Subagent.Provider<Mine>()

const literal = { ...nothing, persona: true } as const
const widened = { ...nothing, persona: cond }
const inferred = {
  outputSchema: false,
  depthLimit: false,
  toolFilter: false,
  persona: true,
  model: false,
  maxTokens: false,
  steer: false,
  resume: false
}
const { persona: _, ...incomplete } = nothing

uses(define("x", literal))
// @ts-expect-error TS2345 Type 'boolean' is not assignable to type 'never'
uses(define("x", widened))

uses(define("x", literal))
// @ts-expect-error TS2345 Type 'boolean' is not assignable to type 'never'
uses(define("x", inferred))

uses(define("x", literal))
// @ts-expect-error TS2345 Property 'persona' is missing in type
uses(define("x", incomplete))

uses(define("x", { ...nothing, persona: true }))
// @ts-expect-error TS2322 Type 'boolean' is not assignable to type 'never'
uses(define("x", { ...nothing, persona: cond }))

uses(define("x", { ...nothing, persona: "negotiated" }))
// @ts-expect-error TS2322 Type 'string' is not assignable to type 'never'
uses(define("x", { ...nothing, persona: "negotiable" }))

uses(define("x", { ...incomplete, persona: true }))
// @ts-expect-error TS2561 'personna' does not exist in type
uses(define("x", { ...incomplete, personna: true }))

// one too many
uses(define("x", { ...nothing, persona: true }))
// @ts-expect-error TS2322 Type 'true' is not assignable to type 'never'
uses(define("x", { ...nothing, personna: true }))

uses(define("x", nothing, { inheritsParentContext: true }))
// @ts-expect-error TS2353 'inheritsContext' does not exist in type
uses(define("x", nothing, { inheritsContext: true }))

uses(define("x", nothing))
// @ts-expect-error TS2345 Argument of type 'number' is not assignable to parameter of type 'string'
uses(define(0, nothing))

// providers of all kinds are one kind of value
uses([Full, Bare, Negotiated, NoSteer, Spawn.Spawn, Fork.Fork] satisfies ReadonlyArray<Subagent.Provider.Any>)

uses([Full, Bare] satisfies ReadonlyArray<Subagent.Provider.Any>)
// @ts-expect-error TS2739 Type 'typeof CurrentAgent' is missing the following properties
uses([Full, CurrentAgent] satisfies ReadonlyArray<Subagent.Provider.Any>)

// -----------------------------------------------------------------------------
// implementations
// -----------------------------------------------------------------------------

declare const steer: Subagent.Steer
const steered = { ...bareRun, steer }
const optional = { ...bareRun, steer: Option.some(steer) }
const serving = <A>(run: A) => Effect.succeed({ start: () => Effect.succeed(run) })

uses(Full.toLayer(serving(steered)))
// @ts-expect-error TS2379 Property 'steer' is missing in type
uses(Full.toLayer(serving(bareRun)))

uses(Full.toLayer(serving(steered)))
// @ts-expect-error TS2379 Type 'None<Steer>' is not assignable to type 'Steer'
uses(Full.toLayer(serving(optional)))

uses(NoSteer.toLayer(serving(bareRun)))
// @ts-expect-error TS2379 Type 'Steer' is not assignable to type 'undefined'
uses(NoSteer.toLayer(serving(steered)))

uses(NoSteer.toLayer(serving(bareRun)))
// @ts-expect-error TS2379 Type 'None<Steer>' is not assignable to type 'undefined'
uses(NoSteer.toLayer(serving(optional)))

uses(Negotiated.toLayer(serving(optional)))
// @ts-expect-error TS2379 Type 'Steer' is not assignable to type 'Option<Steer>'
uses(Negotiated.toLayer(serving(steered)))

uses(Negotiated.toLayer(serving(optional)))
// @ts-expect-error TS2379 Property 'steer' is missing in type
uses(Negotiated.toLayer(serving(bareRun)))

// a result is a result, with its text and usage
const usage = { inputTokens: 1, outputTokens: 1, steps: 1, elapsed: 1 }
const done = { _tag: "Completed", text: "", output: [], usage, structured: {} } as const
const tagless = { text: "", output: [], usage, structured: {} } as const
const refused = { _tag: "Refused", text: "", output: [], usage } as const
const resulting = <A>(result: A) => serving({ ...bareRun, result: Effect.succeed(result) })

uses(Bare.toLayer(resulting(done)))
// @ts-expect-error TS2379 Property '_tag' is missing in type
uses(Bare.toLayer(resulting(tagless)))

uses(Bare.toLayer(resulting(done)))
// @ts-expect-error TS2379 Property 'reason' is missing in type
uses(Bare.toLayer(resulting(refused)))

const watched = { ...bareRun, progress: Stream.empty }
const unwatched = { ...bareRun, progress: Effect.void }
uses(Bare.toLayer(serving(watched)))
// @ts-expect-error TS2379 Types of property 'progress' are incompatible
uses(Bare.toLayer(serving(unwatched)))

// it fails as its capabilities say, and needs nothing but its scope: the rest belongs to its layer
const unknownTool = new UnknownTool({ names: [], known: [], hidden: false })
const failing = <E>(error: E) => Effect.succeed({ start: () => Effect.fail(error) })
uses(Full.toLayer(failing(unknownTool)))
// @ts-expect-error TS2379 Type 'UnknownTool' is not assignable to type
uses(NoFilter.toLayer(failing(unknownTool)))

const needing = <R>(needs: Effect.Effect<unknown, never, R>) =>
  Effect.succeed({ start: () => Effect.as(needs, bareRun) })
const scope = Effect.scope
uses(Bare.toLayer(needing(scope)))
// @ts-expect-error TS2379 Type 'CurrentAgent' is missing the following properties from type 'Scope'
uses(Bare.toLayer(needing(CurrentAgent)))

// it is not given what it does not support, and needs no annotation to know
uses(Full.toLayer(Effect.succeed({ start: ({ runId }) => Effect.succeed({ ...steered, id: runId }) })))
uses((request: Subagent.ResolvedStart<typeof Full.capabilities>) => request.persona?.trim())
// @ts-expect-error TS2339 Property 'trim' does not exist on type 'never'
uses((request: Subagent.ResolvedStart<typeof NoPersona.capabilities>) => request.persona?.trim())

uses(Bare.toLayer(Effect.succeed({ start: () => Effect.succeed(bareRun) })))
// @ts-expect-error TS2379 Property 'start' is missing in type
uses(Bare.toLayer(Effect.succeed({ begin: () => Effect.succeed(bareRun) })))

// the registry holds them to the same
const impl = { start: () => Effect.succeed(steered) }
uses(subagents.register(Full, impl))
// @ts-expect-error TS2345 Type 'Steer' is not assignable to type 'undefined'
uses(subagents.register(NoSteer, impl))

// an implementation for one set of flags is none for another, and none is for all
declare const forFull: Subagent.Implementation<typeof everything>
declare const forAny: Subagent.Implementation<Subagent.Capabilities>
uses(subagents.register(Full, forFull))
// @ts-expect-error TS2345 Type 'Steer' is not assignable to type 'undefined'
uses(subagents.register(NoSteer, forFull))

uses(subagents.register(Full, forFull))
// @ts-expect-error TS2345 Type 'undefined' is not assignable to type 'Steer'
uses(subagents.register(Full, forAny))

uses(subagents.register(Full, forFull))
// @ts-expect-error TS2739 Type 'typeof CurrentAgent' is missing the following properties
uses(subagents.register(CurrentAgent, forFull))

/**
 * Runs what needs nothing more. Who delegates, the provider and the scope are requirements that a program can
 * forget only at compile time.
 */
// an illegal use is one for the effect checks too, which do not know that it is expected
// @effect-diagnostics missingEffectContext:off missingEffectError:off missingLayerContext:off
import { Context, Effect, Layer } from "effect"
import type { Schema, Scope } from "effect"
import type { CurrentAgent } from "../../src/CurrentAgent.ts"
import * as Fork from "../../src/providers/Fork.ts"
import * as Spawn from "../../src/providers/Spawn.ts"
import type * as Subagent from "../../src/Subagent.ts"
import {
  agentLayer,
  Bare,
  bareLayer,
  type Equal,
  type everything,
  Finding,
  Full,
  fullLayer,
  type nothing,
  prompt,
  runnable,
  same,
  subagents,
  uses,
  Verdict
} from "./helpers.ts"

// -----------------------------------------------------------------------------
// forgetting one
// -----------------------------------------------------------------------------

runnable(Full.delegate({ prompt }).pipe(Effect.provide([fullLayer, agentLayer])))
// @ts-expect-error TS2379 Type 'CurrentAgent' is not assignable to type 'never'
runnable(Full.delegate({ prompt }).pipe(Effect.provide([fullLayer, fullLayer])))

runnable(Full.delegate({ prompt }).pipe(Effect.provide([fullLayer, agentLayer])))
// @ts-expect-error TS2379 Type 'Full' is not assignable to type 'never'
runnable(Full.delegate({ prompt }).pipe(Effect.provide([bareLayer, agentLayer])))

runnable(Bare.delegate({ prompt }).pipe(Effect.provide([bareLayer, agentLayer])))
// @ts-expect-error TS2379 Type 'Full' is not assignable to type 'never'
runnable(Full.delegate({ prompt }).pipe(Effect.provide([bareLayer, agentLayer])))

runnable(Full.start({ prompt }).pipe(Effect.scoped, Effect.provide([fullLayer, agentLayer])))
// @ts-expect-error TS2379 Type 'Scope' is not assignable to type 'never'
runnable(Full.start({ prompt }).pipe(Effect.asVoid, Effect.provide([fullLayer, agentLayer])))

runnable(Full.start({ prompt }).pipe(Effect.scoped, Effect.provide([fullLayer, agentLayer])))
// @ts-expect-error TS2379 Type 'CurrentAgent' is not assignable to type 'never'
runnable(Full.start({ prompt }).pipe(Effect.scoped, Effect.provide([fullLayer, fullLayer])))

runnable(Full.start({ prompt }).pipe(Effect.scoped, Effect.provide([fullLayer, agentLayer])))
// @ts-expect-error TS2379 Type 'Full' is not assignable to type 'never'
runnable(Full.start({ prompt }).pipe(Effect.scoped, Effect.provide([bareLayer, agentLayer])))

// by name the provider is not required, who delegates is
runnable(subagents.delegate("acp", { prompt }).pipe(Effect.provide(agentLayer)))
// @ts-expect-error TS2379 Type 'CurrentAgent' is not assignable to type 'never'
runnable(subagents.delegate("acp", { prompt }).pipe(Effect.provide(fullLayer)))

// -----------------------------------------------------------------------------
// the services of a schema
// -----------------------------------------------------------------------------

class Catalog
  extends Context.Service<Catalog, { readonly find: (isbn: string) => Effect.Effect<string> }>()("Catalog")
{}
declare const catalogLayer: Layer.Layer<Catalog>
// its decoding needs the catalog, and its encoding would need something else
declare const Book: Schema.Codec<{ readonly title: string }, { readonly isbn: string }, Catalog, Full>

const library = Layer.merge(fullLayer, agentLayer)
runnable(Full.delegate({ prompt, outputSchema: Book }).pipe(Effect.provide([library, catalogLayer])))
// @ts-expect-error TS2379 Type 'Catalog' is not assignable to type 'never'
runnable(Full.delegate({ prompt, outputSchema: Book }).pipe(Effect.provide([library, fullLayer])))

runnable(Full.delegate({ prompt, outputSchema: Finding }).pipe(Effect.provide([library])))
// @ts-expect-error TS2379 Type 'Catalog' is not assignable to type 'never'
runnable(Full.delegate({ prompt, outputSchema: Book }).pipe(Effect.provide([library])))

runnable(subagents.delegate("acp", { prompt, outputSchema: Book }).pipe(Effect.provide([agentLayer, catalogLayer])))
// @ts-expect-error TS2379 Type 'Catalog' is not assignable to type 'never'
runnable(subagents.delegate("acp", { prompt, outputSchema: Book }).pipe(Effect.provide([agentLayer, agentLayer])))

// -----------------------------------------------------------------------------
// exactly
// -----------------------------------------------------------------------------

const started = {
  plain: Spawn.start({ prompt }),
  typed: Spawn.start({ prompt, outputSchema: Verdict }),
  book: Spawn.start({ prompt, outputSchema: Book }),
  fork: Fork.start({ prompt }),
  named: subagents.start("spawn", { prompt }),
  namedBook: subagents.start("spawn", { prompt, outputSchema: Book })
}
same<Equal<Effect.Services<typeof started.plain>, Spawn.Spawn | CurrentAgent | Scope.Scope>>()
same<Equal<Effect.Services<typeof started.typed>, Spawn.Spawn | CurrentAgent | Scope.Scope>>()
same<Equal<Effect.Services<typeof started.book>, Spawn.Spawn | CurrentAgent | Scope.Scope | Catalog>>()
same<Equal<Effect.Services<typeof started.fork>, Fork.Fork | CurrentAgent | Scope.Scope>>()
same<Equal<Effect.Services<typeof started.named>, CurrentAgent | Scope.Scope>>()
same<Equal<Effect.Services<typeof started.namedBook>, CurrentAgent | Scope.Scope | Catalog>>()

const delegated = {
  plain: Spawn.delegate({ prompt }),
  typed: Spawn.delegate({ prompt, outputSchema: Verdict }),
  book: Spawn.delegate({ prompt, outputSchema: Book }),
  fork: Fork.delegate({ prompt }),
  named: subagents.delegate("spawn", { prompt }),
  namedBook: subagents.delegate("spawn", { prompt, outputSchema: Book })
}
same<Equal<Effect.Services<typeof delegated.plain>, Spawn.Spawn | CurrentAgent>>()
same<Equal<Effect.Services<typeof delegated.typed>, Spawn.Spawn | CurrentAgent>>()
same<Equal<Effect.Services<typeof delegated.book>, Spawn.Spawn | CurrentAgent | Catalog>>()
same<Equal<Effect.Services<typeof delegated.fork>, Fork.Fork | CurrentAgent>>()
same<Equal<Effect.Services<typeof delegated.named>, CurrentAgent>>()
same<Equal<Effect.Services<typeof delegated.namedBook>, CurrentAgent | Catalog>>()

type InProcess = Subagent.StartError<typeof Spawn.Spawn.capabilities>
same<Equal<Effect.Error<typeof started.plain>, InProcess>>()
same<Equal<Effect.Error<typeof started.book>, InProcess>>()
same<Equal<Effect.Error<typeof started.fork>, InProcess>>()
same<Equal<Effect.Error<typeof delegated.plain>, InProcess | Subagent.RunFailed | Subagent.ReleaseFailed>>()
same<Equal<Effect.Error<typeof delegated.book>, InProcess | Subagent.RunFailed | Subagent.ReleaseFailed>>()
// in this process everything but going on is supported, so nothing is left out
same<Equal<InProcess, Subagent.StartError<typeof everything>>>()

same<Equal<Layer.Success<typeof Spawn.layer>, Spawn.Spawn>>()
same<Equal<Layer.Success<typeof Fork.layer>, Fork.Fork>>()

// -----------------------------------------------------------------------------
// the client as a value
// -----------------------------------------------------------------------------

declare const fullClient: Subagent.Client<typeof everything>
declare const bareClient: Subagent.Client<typeof nothing>
runnable(Full.delegate({ prompt }).pipe(Effect.provideService(Full, fullClient), Effect.provide(agentLayer)))
// @ts-expect-error TS2345 Type 'number' is not assignable to type 'undefined'
runnable(Full.delegate({ prompt }).pipe(Effect.provideService(Full, bareClient), Effect.provide(agentLayer)))

runnable(Bare.delegate({ prompt }).pipe(Effect.provideService(Bare, bareClient), Effect.provide(agentLayer)))
// @ts-expect-error TS2345 Type 'Steer' is not assignable to type 'undefined'
runnable(Bare.delegate({ prompt }).pipe(Effect.provideService(Bare, fullClient), Effect.provide(agentLayer)))

same<Equal<Effect.Success<typeof Full>, typeof fullClient>>()
// a client in hand does not require its provider again
const byClient = fullClient.delegate({ prompt })
same<Equal<Effect.Services<typeof byClient>, CurrentAgent>>()

uses(fullClient.start({ prompt, persona: "A sceptic" }))
// @ts-expect-error TS2322 Type 'string' is not assignable to type 'undefined'
uses(bareClient.start({ prompt, persona: "A sceptic" }))

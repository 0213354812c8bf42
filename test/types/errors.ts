/**
 * Catches what can go wrong, and nothing that cannot go wrong there.
 */
import { Effect } from "effect"
import type { Agent, Delivery } from "../../src/Agent.ts"
import type { UnknownModel } from "../../src/AgentModels.ts"
import type { UnknownTool } from "../../src/AgentTools.ts"
import type { UnsupportedSchema } from "../../src/OutputSchema.ts"
import type * as Subagent from "../../src/Subagent.ts"
import type { UnknownVariable } from "../../src/SystemPrompt.ts"
import {
  Bare,
  type Equal,
  Finding,
  Full,
  Negotiated,
  NoDepth,
  NoFilter,
  NoModel,
  NoPersona,
  NoSchema,
  prompt,
  same,
  subagents,
  uses
} from "./helpers.ts"

const ignored = () => Effect.void

// -----------------------------------------------------------------------------
// by capability
// -----------------------------------------------------------------------------

uses(Full.start({ prompt }).pipe(Effect.catchTag("UnsupportedSchema", ignored)))
// @ts-expect-error TS2345 Argument of type '"UnsupportedSchema"' is not assignable
uses(NoSchema.start({ prompt }).pipe(Effect.catchTag("UnsupportedSchema", ignored)))

uses(Full.start({ prompt }).pipe(Effect.catchTag("DepthExceeded", ignored)))
// @ts-expect-error TS2345 Argument of type '"DepthExceeded"' is not assignable
uses(NoDepth.start({ prompt }).pipe(Effect.catchTag("DepthExceeded", ignored)))

uses(Full.start({ prompt }).pipe(Effect.catchTag("UnknownTool", ignored)))
// @ts-expect-error TS2345 Argument of type '"UnknownTool"' is not assignable
uses(NoFilter.start({ prompt }).pipe(Effect.catchTag("UnknownTool", ignored)))

uses(Full.start({ prompt }).pipe(Effect.catchTag("UnknownVariable", ignored)))
// @ts-expect-error TS2345 Argument of type '"UnknownVariable"' is not assignable
uses(NoPersona.start({ prompt }).pipe(Effect.catchTag("UnknownVariable", ignored)))

uses(Full.start({ prompt }).pipe(Effect.catchTag("UnknownModel", ignored)))
// @ts-expect-error TS2345 Argument of type '"UnknownModel"' is not assignable
uses(NoModel.start({ prompt }).pipe(Effect.catchTag("UnknownModel", ignored)))

uses(Negotiated.start({ prompt }).pipe(Effect.catchTag("UnsupportedCapability", ignored)))
// @ts-expect-error TS2345 Argument of type '"UnsupportedCapability"' is not assignable
uses(Full.start({ prompt }).pipe(Effect.catchTag("UnsupportedCapability", ignored)))

uses(Negotiated.delegate({ prompt }).pipe(Effect.catchTag("UnsupportedCapability", ignored)))
// @ts-expect-error TS2345 Argument of type '"UnsupportedCapability"' is not assignable
uses(Bare.delegate({ prompt }).pipe(Effect.catchTag("UnsupportedCapability", ignored)))

// in the other ways of writing it
uses(Full.start({ prompt }).pipe(Effect.catchTag(["LimitExceeded", "UnknownTool"], ignored)))
// @ts-expect-error TS2345 Argument of type '["LimitExceeded", "UnknownTool"]' is not assignable
uses(NoFilter.start({ prompt }).pipe(Effect.catchTag(["LimitExceeded", "UnknownTool"], ignored)))

uses(Full.start({ prompt }).pipe(Effect.catchTags({ LimitExceeded: ignored, UnknownTool: ignored })))
// @ts-expect-error TS2322 Type '() => Effect.Effect<void, never, never>' is not assignable to type 'never'
uses(NoFilter.start({ prompt }).pipe(Effect.catchTags({ LimitExceeded: ignored, UnknownTool: ignored })))

// -----------------------------------------------------------------------------
// by operation
// -----------------------------------------------------------------------------

uses(Full.delegate({ prompt }).pipe(Effect.catchTag("ReleaseFailed", ignored)))
// @ts-expect-error TS2345 Argument of type '"ReleaseFailed"' is not assignable
uses(Full.start({ prompt }).pipe(Effect.catchTag("ReleaseFailed", ignored)))

uses(Full.delegate({ prompt }).pipe(Effect.catchTag("RunFailed", ignored)))
// @ts-expect-error TS2345 Argument of type '"RunFailed"' is not assignable
uses(Full.start({ prompt }).pipe(Effect.catchTag("RunFailed", ignored)))

uses(Full.start({ prompt }).pipe(Effect.catchTag("StartFailed", ignored)))
// @ts-expect-error TS2345 Argument of type '"ProviderNotFound"' is not assignable
uses(Full.start({ prompt }).pipe(Effect.catchTag("ProviderNotFound", ignored)))

const named = subagents.delegate("full", { prompt })
const direct = Full.delegate({ prompt })
uses(Effect.catchTag(named, "ProviderNotFound", ignored))
// @ts-expect-error TS2769 Argument of type '"ProviderNotFound"' is not assignable
uses(Effect.catchTag(direct, "ProviderNotFound", ignored))

declare const run: Subagent.Run<void>
uses(Effect.catchTag(run.result, "RunFailed", ignored))
// @ts-expect-error TS2769 Argument of type '"RunFailed"' is not assignable
uses(Effect.catchTag(run.released, "RunFailed", ignored))

// what a child does wrong is a result, not an error
uses(Full.delegate({ prompt }).pipe(Effect.catchTag("Cancelled", ignored)))
// @ts-expect-error TS2345 Argument of type '"Aborted"' is not assignable
uses(Full.delegate({ prompt }).pipe(Effect.catchTag("Aborted", ignored)))

// -----------------------------------------------------------------------------
// completely
// -----------------------------------------------------------------------------

type Always =
  | Subagent.InvalidRequest
  | Subagent.Cancelled
  | Subagent.LimitExceeded
  | Subagent.StartFailed
  | Subagent.ContractViolation
type Gated = UnsupportedSchema | Subagent.DepthExceeded | UnknownTool | UnknownVariable | UnknownModel
type Ended = Subagent.RunFailed | Subagent.ReleaseFailed

const started = {
  full: Full.start({ prompt }),
  typed: Full.start({ prompt, outputSchema: Finding }),
  bare: Bare.start({ prompt }),
  noFilter: NoFilter.start({ prompt }),
  negotiated: Negotiated.start({ prompt }),
  named: subagents.start("full", { prompt }),
  namedTyped: subagents.start("full", { prompt, outputSchema: Finding })
}
same<Equal<Effect.Error<typeof started.full>, Always | Gated>>()
// @ts-expect-error TS2344 Type 'false' does not satisfy the constraint 'true'
same<Equal<Effect.Error<typeof started.bare>, Always | Gated>>()

same<Equal<Effect.Error<typeof started.typed>, Always | Gated>>()
same<Equal<Effect.Error<typeof started.bare>, Always>>()
same<Equal<Effect.Error<typeof started.noFilter>, Always | Exclude<Gated, UnknownTool>>>()
same<Equal<Effect.Error<typeof started.negotiated>, Always | Gated | Subagent.UnsupportedCapability>>()
type ByName = Always | Gated | Subagent.UnsupportedCapability | Subagent.ProviderNotFound
same<Equal<Effect.Error<typeof started.named>, ByName>>()
same<Equal<Effect.Error<typeof started.namedTyped>, ByName>>()

const delegated = {
  full: Full.delegate({ prompt }),
  typed: Full.delegate({ prompt, outputSchema: Finding }),
  bare: Bare.delegate({ prompt }),
  negotiated: Negotiated.delegate({ prompt }),
  named: subagents.delegate("full", { prompt }),
  namedTyped: subagents.delegate("full", { prompt, outputSchema: Finding })
}
same<Equal<Effect.Error<typeof delegated.full>, Always | Gated | Ended>>()
same<Equal<Effect.Error<typeof delegated.typed>, Always | Gated | Ended>>()
same<Equal<Effect.Error<typeof delegated.bare>, Always | Ended>>()
same<Equal<Effect.Error<typeof delegated.negotiated>, Always | Gated | Subagent.UnsupportedCapability | Ended>>()
same<Equal<Effect.Error<typeof delegated.named>, ByName | Ended>>()
same<Equal<Effect.Error<typeof delegated.namedTyped>, ByName | Ended>>()

// -----------------------------------------------------------------------------
// by what a message is sent with
// -----------------------------------------------------------------------------

declare const agent: Agent
declare const delivery: Delivery

for (const deliver of [agent.send, agent.prompt, agent.inject]) {
  uses(deliver("go", { messageId: "m1" }).pipe(Effect.catchTag("DuplicateMessage", ignored)))
  uses(deliver("go", delivery).pipe(Effect.catchTag("DuplicateMessage", ignored)))
  // @ts-expect-error TS2345 Argument of type '"DuplicateMessage"' is not assignable
  uses(deliver("go", { later: true }).pipe(Effect.catchTag("DuplicateMessage", ignored)))
  // @ts-expect-error TS2345 Argument of type '"DuplicateMessage"' is not assignable
  uses(deliver("go").pipe(Effect.catchTag("DuplicateMessage", ignored)))
}

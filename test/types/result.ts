/**
 * Uses runs and their results. Nothing is read before it is known to be there.
 */
import { Effect, Option } from "effect"
import * as Subagent from "../../src/Subagent.ts"
import {
  Bare,
  type Equal,
  Finding,
  Full,
  Negotiated,
  NoSteer,
  prompt,
  same,
  subagents,
  user,
  uses,
  Verdict
} from "./helpers.ts"

// -----------------------------------------------------------------------------
// results
// -----------------------------------------------------------------------------

declare const result: Subagent.Result<Finding>
declare const nothing: Subagent.Result<void>

uses(result.text)
// @ts-expect-error TS2339 Property 'structured' does not exist on type 'Common & { readonly _tag: "Aborted";
uses(result.structured)

uses(result._tag === "Completed" ? result.structured.risk : undefined)
// @ts-expect-error TS2339 Property 'structured' does not exist on type 'Common & { readonly _tag: "Aborted";
uses(result._tag === "Aborted" ? result.structured.risk : undefined)

uses(result._tag === "Completed" ? result.structured.risk : undefined)
// @ts-expect-error TS2339 Property 'structured' does not exist on type 'Common & { readonly _tag: "Aborted";
uses(result._tag !== "Completed" ? result.structured.risk : undefined)

uses(result._tag === "Completed" ? result.structured.risk : undefined)
// @ts-expect-error TS2339 Property 'severity' does not exist on type '{ readonly file: string;
uses(result._tag === "Completed" ? result.structured.severity : undefined)

// the decoded side: a Date, not its text
uses(result._tag === "Completed" ? result.structured.at.getTime() : undefined)
// @ts-expect-error TS2339 Property 'toUpperCase' does not exist on type 'Date'
uses(result._tag === "Completed" ? result.structured.at.toUpperCase() : undefined)

uses((result: Subagent.Result<Finding>) => result._tag === "Completed" ? result.structured.file : undefined)
// @ts-expect-error TS2339 Property 'file' does not exist on type 'void'
uses((result: Subagent.Result<void>) => result._tag === "Completed" ? result.structured.file : undefined)

uses(result._tag === "Aborted" ? result.cause : undefined)
// @ts-expect-error TS2339 Property 'cause' does not exist on type 'Common & { readonly _tag: "Failed";
uses(result._tag === "Failed" ? result.cause : undefined)

uses(result._tag === "Failed")
// @ts-expect-error TS2367 have no overlap
uses(result._tag === "Rejected")

// `Result` and `Run` give their value and take none
declare const narrow: Subagent.Run<Finding>
declare const wide: Subagent.Run<unknown>
uses(result satisfies Subagent.Result<unknown>, narrow satisfies Subagent.Run<unknown>)

uses(narrow satisfies Subagent.Run<Finding>)
// @ts-expect-error TS1360 Type 'unknown' is not assignable to type '{ readonly file: string;
uses(wide satisfies Subagent.Run<Finding>)

uses(result satisfies Subagent.Result<Finding>)
// @ts-expect-error TS1360 Type 'void' is not assignable to type '{ readonly file: string;
uses(nothing satisfies Subagent.Result<Finding>)

// the schema and the type of one name are one
const ResultOfFinding = Subagent.Result(Finding)
same<Equal<typeof ResultOfFinding.Type extends Subagent.Result<Finding> ? true : false, true>>()
same<Equal<Subagent.Result<Finding> extends typeof ResultOfFinding.Type ? true : false, true>>()

// -----------------------------------------------------------------------------
// the value alone
// -----------------------------------------------------------------------------

const audited = Full.delegate({ prompt, outputSchema: Finding })
const running = Full.start({ prompt, outputSchema: Finding })
const completed = Subagent.completed(audited)
same<Equal<Effect.Success<typeof completed>, Finding>>()
same<Equal<Effect.Error<typeof completed>, Effect.Error<typeof audited> | Subagent.NotCompleted>>()
same<Equal<Effect.Services<typeof completed>, Effect.Services<typeof audited>>>()

uses(Subagent.completed(audited))
// @ts-expect-error TS2379 Type 'Run<{ … }> & { readonly steer: Steer; }' is not assignable to type 'Result<unknown>'
uses(Subagent.completed(running))

uses(Effect.map(completed, (finding) => finding.risk))
// @ts-expect-error TS2339 Property 'risk' does not exist on type 'Common & { readonly _tag: "Completed";
uses(Effect.map(audited, (finding) => finding.risk))

uses(Effect.catchTag(completed, "NotCompleted", () => Effect.void))
// @ts-expect-error TS2769 Argument of type '"NotCompleted"' is not assignable
uses(Effect.catchTag(audited, "NotCompleted", () => Effect.void))

// -----------------------------------------------------------------------------
// steering
// -----------------------------------------------------------------------------

const steerable = Full.start({ prompt })
const unsteerable = NoSteer.start({ prompt })
const negotiated = Negotiated.start({ prompt, outputSchema: Verdict })
const named = subagents.start("acp", { prompt })

same<Equal<Effect.Success<typeof steerable>["steer"], Subagent.Steer>>()
same<Equal<Effect.Success<typeof unsteerable>["steer"], undefined>>()
same<Equal<Effect.Success<typeof negotiated>["steer"], Option.Option<Subagent.Steer>>>()
same<Equal<Effect.Success<typeof named>["steer"], Option.Option<Subagent.Steer>>>()
same<Equal<Effect.Error<ReturnType<Subagent.Steer>>, Subagent.SteerRejected>>()

uses(Full.start({ prompt }).pipe(Effect.flatMap((run) => run.steer("Look at the lexer too", user))))
// @ts-expect-error TS2722 Cannot invoke an object which is possibly 'undefined'
uses(NoSteer.start({ prompt }).pipe(Effect.flatMap((run) => run.steer("Look at the lexer too", user))))

uses(Full.start({ prompt }).pipe(Effect.flatMap((run) => run.steer("Look at the lexer too", user))))
// @ts-expect-error TS2722 Cannot invoke an object which is possibly 'undefined'
uses(Bare.start({ prompt }).pipe(Effect.flatMap((run) => run.steer("Look at the lexer too", user))))

// not even with a question mark
uses(Effect.flatMap(steerable, (run) => run.steer?.("Look at the lexer too", user)))
// @ts-expect-error TS2349 Type 'never' has no call signatures
uses(Effect.flatMap(unsteerable, (run) => run.steer?.("Look at the lexer too", user)))

uses(Effect.flatMap(steerable, (run) => run.steer("Look at the lexer too", user)))
// @ts-expect-error TS2349 No constituent of type 'Option<Steer>' is callable
uses(Effect.flatMap(negotiated, (run) => run.steer("Look at the lexer too", user)))

uses(Effect.flatMap(steerable, (run) => run.steer("Look at the lexer too", user)))
// @ts-expect-error TS2349 No constituent of type 'Option<Steer>' is callable
uses(Effect.flatMap(named, (run) => run.steer("Look at the lexer too", user)))

uses(
  Effect.map(negotiated, (run) => Option.isSome(run.steer) ? run.steer.value("Look at the lexer too", user) : undefined)
)

uses(Effect.map(negotiated, (run) => Option.isSome(run.steer)))
// @ts-expect-error TS2345 Argument of type 'Steer' is not assignable to parameter of type 'Option<unknown>'
uses(Effect.map(steerable, (run) => Option.isSome(run.steer)))

uses(Effect.map(named, (run) => Option.isSome(run.steer)))
// @ts-expect-error TS2345 Argument of type 'undefined' is not assignable to parameter of type 'Option<unknown>'
uses(Effect.map(unsteerable, (run) => Option.isSome(run.steer)))

// there is no run to dispose of
uses(Effect.flatMap(steerable, (run) => run.interrupt))
// @ts-expect-error TS2339 Property 'dispose' does not exist on type 'Run<void> & { readonly steer: Steer; }'
uses(Effect.flatMap(steerable, (run) => run.dispose))

/**
 * Defines delegate tools. What the provider cannot honour is refused when the tool is written down.
 */
// an illegal use is one for the effect checks too, which do not know that it is expected
// @effect-diagnostics missingLayerContext:off
import type { Schema } from "effect"
import { Layer } from "effect"
import type { Tool } from "effect/ai"
import type { CurrentAgent } from "../../src/CurrentAgent.ts"
import type * as Subagent from "../../src/Subagent.ts"
import * as SubagentTool from "../../src/SubagentTool.ts"
import {
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
  same,
  uses,
  Verdict
} from "./helpers.ts"

uses(SubagentTool.make("audit", Full, { outputSchema: Finding }))
// @ts-expect-error TS2769 Type 'Struct<{ … }>' is not assignable to type 'undefined'
uses(SubagentTool.make("audit", NoSchema, { outputSchema: Finding }))

uses(SubagentTool.make("audit", Full, { maxDepth: 2 }))
// @ts-expect-error TS2769 Type 'number' is not assignable to type 'undefined'
uses(SubagentTool.make("audit", NoDepth, { maxDepth: 2 }))

uses(SubagentTool.make("audit", Full, { toolFilter: { allow: [] } }))
// @ts-expect-error TS2769 Type '{ allow: never[]; }' is not assignable to type 'undefined'
uses(SubagentTool.make("audit", NoFilter, { toolFilter: { allow: [] } }))

uses(SubagentTool.make("audit", Full, { persona: "A sceptic" }))
// @ts-expect-error TS2769 Type 'string' is not assignable to type 'undefined'
uses(SubagentTool.make("audit", NoPersona, { persona: "A sceptic" }))

uses(SubagentTool.make("audit", Full, { model: "small" }))
// @ts-expect-error TS2769 Type 'string' is not assignable to type 'undefined'
uses(SubagentTool.make("audit", NoModel, { model: "small" }))

uses(SubagentTool.make("audit", Full, { maxTokens: 1000 }))
// @ts-expect-error TS2769 Type 'number' is not assignable to type 'undefined'
uses(SubagentTool.make("audit", NoTokens, { maxTokens: 1000 }))

uses(SubagentTool.make("audit", "acp", { persona: "A sceptic" }))
// @ts-expect-error TS2769 Type 'string' is not assignable to type 'undefined'
uses(SubagentTool.make("audit", NoPersona, { persona: "A sceptic" }))

uses(SubagentTool.make("audit", Full, { outputSchema: cond ? Finding : Verdict }))
// @ts-expect-error TS2769 Type 'Struct<{ … }> | undefined' is not assignable to type 'undefined'
uses(SubagentTool.make("audit", Full, { outputSchema: cond ? Finding : undefined }))

// the model says what is to be done; the program says with what
uses(SubagentTool.make("audit", Full, { persona: "Audit" }))
// @ts-expect-error TS2769 'prompt' does not exist in type
uses(SubagentTool.make("audit", Full, { prompt: "Audit" }))

// -----------------------------------------------------------------------------
// exactly
// -----------------------------------------------------------------------------

declare const Book: Schema.Codec<{ readonly title: string }, { readonly isbn: string }, Bookshop, Library>
interface Bookshop {
  readonly _: unique symbol
}
interface Library {
  readonly _: unique symbol
}

const plain = SubagentTool.make("audit", Full)
const book = SubagentTool.make("audit", Full, { outputSchema: Book })
const named = SubagentTool.make("audit", "acp")
same<Equal<Tool.Requirements<typeof plain>, CurrentAgent>>()
same<Equal<Tool.Requirements<typeof named>, CurrentAgent>>()

const handlers = SubagentTool.layer(plain)
const bookHandlers = SubagentTool.layer(book)
const namedHandlers = SubagentTool.layer(named)
same<Equal<Layer.Success<typeof handlers>, Tool.Handler<"audit">>>()
same<Equal<Layer.Services<typeof handlers>, Full>>()
same<Equal<Layer.Services<typeof bookHandlers>, Full | Bookshop | Library>>()
same<Equal<Layer.Services<typeof namedHandlers>, Subagent.Subagents>>()

declare const built: (layer: Layer.Layer<Tool.Handler<"audit">, unknown>) => void
built(handlers.pipe(Layer.provide(fullLayer)))
// @ts-expect-error TS2379 Type 'Full' is not assignable to type 'never'
built(handlers.pipe(Layer.provide(bareLayer)))

uses(SubagentTool.make("audit", Negotiated, { outputSchema: Verdict, persona: "A sceptic", maxTokens: 1000 }))

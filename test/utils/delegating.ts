/**
 * Agents and programs that delegate through a tool, for the tests of that tool.
 */
import { assert } from "@effect/vitest"
import { Effect, Layer, Result, Stream } from "effect"
import { type Prompt, Toolkit } from "effect/ai"
import { type Agent, Agents } from "../../src/Agent.ts"
import * as AgentTools from "../../src/AgentTools.ts"
import * as Scripted from "../../src/providers/Scripted.ts"
import * as Spawn from "../../src/providers/Spawn.ts"
import * as Session from "../../src/Session.ts"
import { SessionStore } from "../../src/SessionStore.ts"
import * as SubagentTool from "../../src/SubagentTool.ts"
import { call, type Request, type Script, text } from "../../src/testing/ScriptedModel.ts"
import { rooted, subagents } from "./agents.ts"
import { unable } from "./seam.ts"

export const params = { description: "a task", prompt: "Do the task" }

/** A model that delegates once and then stops. */
export const once: Script = { root: [[call("delegate", params)], [text("done")]], children: [] }

/** The tool under test, over the scripted provider. */
export const Delegate = SubagentTool.make("delegate", Scripted.Scripted)

/** The same over fresh children of this process. */
export const Fresh = SubagentTool.make("delegate", Spawn.Spawn)

/** What the least provider can do. */
export { unable as nothing }

/** Agents with a scripted model, scripted children, and the delegate tool in the agents' registry. */
export const delegating = (children: Scripted.Script, model: Script = once, tool: typeof Delegate = Delegate) =>
  AgentTools.layer(Toolkit.make(tool)).pipe(
    Layer.provide(SubagentTool.layer(tool)),
    Layer.provideMerge(Scripted.layer(children).pipe(Layer.provideMerge(subagents(model))))
  )

/** A program that is no agent but delegates for one, with scripted children. */
export const program = (children: Scripted.Script, model: Script = once) =>
  Scripted.layer(children).pipe(Layer.provideMerge(rooted(model)))

/** The agent of a test. */
export const rootAgent = Effect.flatMap(Agents, (agents) => agents.create({ cwd: "/work", id: "root" }))

/** Runs a delegate tool once, as `effect/ai` does: all its results, the preliminary ones first. */
export const results = <Needs>(
  tool: SubagentTool.SubagentTool<"delegate", Needs>,
  args: { readonly description: string; readonly prompt: string } = params
) =>
  // the tools of a test differ in what their layers need, which their toolkits know nothing of
  Effect.flatMap(Toolkit.make(tool as unknown as typeof Delegate), ({ handle }) =>
    Stream.runCollect(Stream.unwrap(handle("delegate", args, "call-delegate")))).pipe(
      Effect.provide(SubagentTool.layer(tool))
    )

/** The result of a delegate tool. */
export const result = <Needs>(
  tool: SubagentTool.SubagentTool<"delegate", Needs>,
  args?: { readonly description: string; readonly prompt: string }
) => Effect.map(results(tool, args), (all) => all[all.length - 1])

/** Agents that delegate to fresh children of this process, which may delegate in turn. */
export const spawning = (model: Script) =>
  AgentTools.layer(Toolkit.make(Fresh)).pipe(
    Layer.provide(SubagentTool.layer(Fresh)),
    Layer.provideMerge(subagents(model))
  )

/** The log of a session. */
export const eventsOf = (id: string) => Effect.flatMap(SessionStore, (store) => Stream.runCollect(store.read(id)))

/** The log of an agent breaks no rule, and survives being written as JSON. */
export const assertSound = (agent: Agent) =>
  Effect.map(Stream.runCollect(agent.events), (events) => {
    assert.deepStrictEqual(Session.validate(agent.header, events), [])
    const written = JSON.parse(JSON.stringify(events.map(Session.encodeEvent))) as ReadonlyArray<unknown>
    assert.deepStrictEqual(written.map((json) => Result.getOrThrow(Session.decodeEvent(json))), events)
  })

/** What a model was shown as the results of its tools. */
export const shownResults = (request: Request): ReadonlyArray<Prompt.ToolResultPart> =>
  request.prompt.content.flatMap((message) =>
    message.role === "tool" ? message.content.filter((part) => part.type === "tool-result") : []
  )

/** The tool results in an agent's log, in order. */
export const logged = (agent: Agent) =>
  Effect.map(
    Stream.runCollect(agent.events),
    (events) =>
      events.flatMap((event): ReadonlyArray<Prompt.ToolResultPart> =>
        event._tag === "MessageAppended" && event.message.role === "tool"
          ? event.message.content.filter((part) => part.type === "tool-result")
          : []
      )
  )

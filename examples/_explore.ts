import { Effect, Layer, Stream, Fiber } from "effect"
import { Toolkit, LanguageModel } from "effect/ai"
import * as Agent from "../src/Agent.ts"
import * as AgentTools from "../src/AgentTools.ts"
import * as Session from "../src/Session.ts"
import { SessionStore } from "../src/SessionStore.ts"
import * as Spawn from "../src/providers/Spawn.ts"
import * as SubagentTool from "../src/SubagentTool.ts"
import { call, hang, part, ScriptedModel, text } from "../src/testing/ScriptedModel.ts"
import { subagents, rooted } from "../test/utils/agents.ts"

const Delegate = SubagentTool.make("delegate", Spawn.Spawn)
const delegating = (script: any) =>
  AgentTools.layer(Toolkit.make(Delegate)).pipe(
    Layer.provide(SubagentTool.layer(Delegate)),
    Layer.provideMerge(subagents(script))
  )
const file = part({ type: "file", mediaType: "image/png", data: "AAEC" })
const p1 = Effect.gen(function*() {
  const agents = yield* Agent.Agents
  const root = yield* agents.create({ cwd: "/w", id: "root" })
  const seen: any[] = []
  yield* Effect.forkScoped(Stream.runForEach(root.progress, (p) => Effect.sync(() => seen.push(p))), { startImmediately: true })
  const outcome = yield* root.prompt("Go")
  console.log(outcome)
  const events = yield* Stream.runCollect(root.events)
  console.log(JSON.stringify(events.map(Session.encodeEvent), null, 1))
  console.log(JSON.stringify(seen, null, 1))
}).pipe(Effect.scoped, Effect.provide(delegating({ root: [[text("I will"), call("delegate", { description: "say", prompt: "Say" })], [text("done")]], children: [[[text("a", "b"), file]]] })))
await Effect.runPromise(p1)

const p2 = Effect.gen(function*() {
  const agents = yield* Agent.Agents
  const root = yield* agents.create({ cwd: "/w", id: "root" })
  const f = yield* Effect.forkChild(root.prompt("Go"), { startImmediately: true })
  yield* Effect.sleep(100)
  yield* root.interrupt("user")
  const outcome = yield* Fiber.join(f)
  console.log(outcome)
  const events = yield* Stream.runCollect(root.events)
  console.log(JSON.stringify(events.map(Session.encodeEvent), null, 1))
  console.log(Session.validate(root.header, events))
}).pipe(Effect.scoped, Effect.provide(delegating({ root: [[call("delegate", { description: "say", prompt: "Say" })], [text("done")]], children: [[[text("a", "b"), hang]]] })))
await Effect.runPromise(p2)

const p3 = Effect.gen(function*() {
  const kit = Toolkit.make(Delegate)
  const r = yield* LanguageModel.generateText({ prompt: "x", toolkit: kit })
  console.log(JSON.stringify(r.content, null, 1))
  const s = yield* Stream.runCollect(LanguageModel.streamText({ prompt: "x", toolkit: kit }))
  console.log(JSON.stringify(s, null, 1))
}).pipe(Effect.provide(SubagentTool.layer(Delegate)), Effect.provide(rooted({ root: [[call("delegate", { description: "say", prompt: "Say" })], [call("delegate", { description: "say", prompt: "Say" })]], children: [[[text("a", "b")]]] })))
await Effect.runPromise(p3)

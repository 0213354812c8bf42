import { Effect, Layer, Schema, Stream, Option } from "effect"
import { LanguageModel, Prompt, Tool, Toolkit } from "effect/ai"
import * as Agent from "../src/Agent.ts"
import * as AgentModels from "../src/AgentModels.ts"
import * as AgentTools from "../src/AgentTools.ts"
import * as SystemPrompt from "../src/SystemPrompt.ts"
import * as SessionStore from "../src/SessionStore.ts"
const usage = { inputTokens: { total: 1, uncached: 1, cacheRead: undefined, cacheWrite: undefined }, outputTokens: { total: 1, text: 1, reasoning: undefined } }
let id = 0
const textParts = (t: string) => [{ type: "text-start", id: "t" }, { type: "text-delta", id: "t", delta: t }, { type: "text-end", id: "t" }, { type: "finish", reason: "stop", usage, response: undefined }]
const callParts = (n: string) => [{ type: "tool-call", id: `c${++id}`, name: n, params: { input: "x" } }, { type: "finish", reason: "tool-calls", usage, response: undefined }]
const decide = (o: any) => { const m = o.prompt.content[o.prompt.content.length - 1]; const last = m.content[m.content.length - 1]; return m.role === "user" && last.text === "parent" ? callParts("delegate") : textParts("done") }
const Fake = Layer.effect(LanguageModel.LanguageModel, LanguageModel.make({ generateText: (o) => Effect.die("x"), streamText: (o) => Stream.suspend(() => Stream.fromArray(decide(o) as any)) }))
const S = { parameters: Schema.Struct({ input: Schema.String }), success: Schema.String }
const Kit = Toolkit.make(Tool.make("delegate", S), Tool.make("work", S))
const lean = Effect.gen(function*() {
  const kit: any = yield* Kit
  const model = yield* LanguageModel.LanguageModel
  const agent = (prompt: string): Effect.Effect<string, any, any> => Effect.gen(function*() {
  const messages: any[] = [Prompt.makeMessage("user", { content: [Prompt.makePart("text", { text: prompt })] })]
  for (;;) {
    let text = ""; const calls: any[] = []
    const opts: any = { prompt: Prompt.fromMessages(messages), toolkit: kit, disableToolCallResolution: true, toolCallValidation: "deferred" }
    yield* (model.streamText as any)(opts).pipe(Stream.runForEachArray((ps: any) => Effect.sync(() => { for (const p of ps) { if (p.type === "text-delta") text += p.delta; else if (p.type === "tool-call") calls.push(p) } })))
    if (calls.length === 0) return text
    messages.push(Prompt.makeMessage("assistant", { content: calls.map((c) => Prompt.makePart("tool-call", { id: c.id, name: c.name, params: c.params, providerExecuted: false })) }))
    const results: any[] = []
    for (const c of calls) { const st: any = yield* kit.handle(c.name, c.params, c.id); results.push(yield* Stream.runLast(st)) }
    messages.push(Prompt.makeMessage("tool", { content: calls.map((c, i) => Prompt.makePart("tool-result", { id: c.id, name: c.name, isFailure: false, result: (results[i] as any).value.encodedResult, providerExecuted: false })) }))
  }
})
  return agent
})
const N = 1000
const bench = (name: string, eff: Effect.Effect<any, any, any>) => Effect.gen(function*() {
  const c = process.cpuUsage()
  for (let i = 0; i < N; i++) yield* eff
  const d = process.cpuUsage(c)
  console.log(name.padEnd(12), ((d.user + d.system) / N).toFixed(0), "us cpu per round")
})
let leanAgent: any
const ours: Effect.Effect<any, any, any> = Effect.scoped(Effect.gen(function*() {
  const agents = yield* Agent.Agents
  const a = yield* agents.create({ cwd: "/" })
  return yield* a.prompt("parent")
}))
const child: Effect.Effect<any, any, any> = Effect.scoped(Effect.gen(function*() {
  const agents = yield* Agent.Agents
  const a = yield* agents.create({ cwd: "/" })
  return (yield* a.prompt("child")).text
}))
const mode = process.argv[2]
const handlersLean = Kit.toLayer({ delegate: () => Effect.suspend(() => leanAgent("child")).pipe(Effect.orDie) as any, work: () => Effect.succeed("w") })
const base = Layer.mergeAll(Fake, SessionStore.layerMemory, SystemPrompt.layer, AgentTools.layerRegistry)
const agentsL = Agent.layer().pipe(Layer.provideMerge(AgentModels.layer()), Layer.provideMerge(base))
let agentsRef: any
const handlersOurs = Kit.toLayer({ delegate: () => Effect.suspend(() => Effect.provideService(child, Agent.Agents, agentsRef)).pipe(Effect.orDie) as any, work: () => Effect.succeed("w") })
const oursL = AgentTools.layer(Kit).pipe(Layer.provide(handlersOurs), Layer.provideMerge(agentsL))
await Effect.runPromise(Effect.gen(function*() {
  agentsRef = yield* Agent.Agents
  const r: any = yield* ours
  console.log(r)
  for (let k = 0; k < 6; k++) {
    yield* bench("lean", Effect.gen(function*() { leanAgent = yield* lean; return yield* leanAgent("parent") }).pipe(Effect.provide(handlersLean)) as any).pipe(Effect.when(Effect.succeed(mode !== "ours")))
    yield* bench("ours", ours)
  }
}).pipe(Effect.provide(oursL)) as any)

import { Effect, Layer, Option, Schema, Stream } from "effect"
import { LanguageModel, Prompt, Tool, Toolkit } from "effect/ai"
import * as Agent from "../src/Agent.ts"
import * as AgentModels from "../src/AgentModels.ts"
import * as AgentTools from "../src/AgentTools.ts"
import * as SessionStore from "../src/SessionStore.ts"
import * as SystemPrompt from "../src/SystemPrompt.ts"
const usage = {
  inputTokens: { total: 1, uncached: 1, cacheRead: undefined, cacheWrite: undefined },
  outputTokens: { total: 1, text: 1, reasoning: undefined }
}
let id = 0
const textParts = (
  t: string
) => [{ type: "text-start", id: "t" }, { type: "text-delta", id: "t", delta: t }, { type: "text-end", id: "t" }, {
  type: "finish",
  reason: "stop",
  usage,
  response: undefined
}]
const callParts = (
  n: string
) => [{ type: "tool-call", id: `c${++id}`, name: n, params: { input: "x" } }, {
  type: "finish",
  reason: "tool-calls",
  usage,
  response: undefined
}]
const decide = (o: any) => {
  const m = o.prompt.content[o.prompt.content.length - 1]
  const last = m.content[m.content.length - 1]
  return m.role === "user" && last.text === "parent" ? callParts("delegate") : textParts("done")
}
const Fake = Layer.effect(
  LanguageModel.LanguageModel,
  LanguageModel.make({
    generateText: (o) => Effect.die("x"),
    streamText: (o) => Stream.suspend(() => Stream.fromArray(decide(o) as any))
  })
)
const S = { parameters: Schema.Struct({ input: Schema.String }), success: Schema.String }
const Kit = Toolkit.make(Tool.make("delegate", S), Tool.make("work", S))
const lean = Effect.gen(function*() {
  const kit: any = yield* Kit
  const model = yield* LanguageModel.LanguageModel
  const agent = (prompt: string): Effect.Effect<string, any, any> =>
    Effect.gen(function*() {
      const messages: any[] = [Prompt.makeMessage("user", { content: [Prompt.makePart("text", { text: prompt })] })]
      for (;;) {
        let text = ""
        const calls: any[] = []
        const opts: any = {
          prompt: Prompt.fromMessages(messages),
          toolkit: kit,
          disableToolCallResolution: true,
          toolCallValidation: "deferred"
        }
        yield* (model.streamText as any)(opts).pipe(Stream.runForEachArray((ps: any) =>
          Effect.sync(() => {
            for (const p of ps) {
              if (p.type === "text-delta") text += p.delta
              else if (p.type === "tool-call") calls.push(p)
            }
          })
        ))
        if (calls.length === 0) return text
        messages.push(Prompt.makeMessage("assistant", {
          content: calls.map((c) =>
            Prompt.makePart("tool-call", { id: c.id, name: c.name, params: c.params, providerExecuted: false })
          )
        }))
        const results: any[] = []
        for (const c of calls) {
          const st: any = yield* kit.handle(c.name, c.params, c.id)
          results.push(yield* Stream.runLast(st))
        }
        messages.push(Prompt.makeMessage("tool", {
          content: calls.map((c, i) =>
            Prompt.makePart("tool-result", {
              id: c.id,
              name: c.name,
              isFailure: false,
              result: (results[i] as any).value.encodedResult,
              providerExecuted: false
            })
          )
        }))
      }
    })
  return agent
})

import * as Spawn from "../src/providers/Spawn.ts"
import * as Subagent from "../src/Subagent.ts"
import * as SubagentTool from "../src/SubagentTool.ts"
const mode = process.argv[2] ?? "both"
const N = Number(process.argv[3] ?? 1000)
const decide2 = (o: any) => {
  const m = o.prompt.content[o.prompt.content.length - 1]
  const last = m.content[m.content.length - 1]
  return m.role === "user" && last.text === "parent"
    ? (() => {
      const p: any[] = callParts("delegate")
      p[0].params = { prompt: "child", description: "d", input: "x" }
      return p
    })()
    : textParts("done")
}
const Fake2 = Layer.effect(
  LanguageModel.LanguageModel,
  LanguageModel.make({
    generateText: (o) => Effect.die("x"),
    streamText: (o) => Stream.suspend(() => Stream.fromArray(decide2(o) as any))
  })
)
let leanAgent: any
const handlersLean = Kit.toLayer({
  delegate: () => Effect.suspend(() => leanAgent("child")).pipe(Effect.orDie) as any,
  work: () => Effect.succeed("w")
})
const Delegate = SubagentTool.make("delegate", Spawn.Spawn)
const Work = Tool.make("work", S)
const KitO = Toolkit.make(Delegate, Work)
const base = Layer.mergeAll(Fake2, SessionStore.layerMemory, SystemPrompt.layer, AgentTools.layerRegistry)
const subs = Spawn.layer.pipe(
  Layer.provideMerge(Subagent.layer()),
  Layer.provideMerge(Agent.layer()),
  Layer.provideMerge(AgentModels.layer()),
  Layer.provideMerge(base)
)
const oursL = AgentTools.layer(KitO).pipe(
  Layer.provide(Layer.mergeAll(
    SubagentTool.layer(Delegate),
    Toolkit.make(Work).toLayer({ work: () => Effect.succeed("w") })
  )),
  Layer.provideMerge(subs)
)
const ours: Effect.Effect<any, any, any> = Effect.scoped(Effect.gen(function*() {
  const agents = yield* Agent.Agents
  const a = yield* agents.create({ cwd: "/" })
  return yield* a.prompt("parent")
}))
const time = (eff: Effect.Effect<any, any, any>) =>
  Effect.gen(function*() {
    const c = process.cpuUsage()
    for (let i = 0; i < N; i++) yield* eff
    const d = process.cpuUsage(c)
    return (d.user + d.system) / N
  })
await Effect.runPromise(
  Effect.gen(function*() {
    console.log(JSON.stringify(yield* ours))
    leanAgent = yield* lean
    const leanRound = Effect.suspend(() => leanAgent("parent"))
    const rs: number[] = []
    for (let k = 0; k < 12; k++) {
      const l = mode !== "ours" ? yield* time(leanRound as any) : 1
      const o = mode !== "lean" ? yield* time(ours) : 1
      if (k >= 2) rs.push(o / l)
      console.log(l.toFixed(0), o.toFixed(0), (o / l).toFixed(2))
    }
    rs.sort((a, b) => a - b)
    console.log("median", rs[rs.length >> 1].toFixed(3))
  }).pipe(Effect.provide(Layer.mergeAll(oursL, handlersLean))) as any
)

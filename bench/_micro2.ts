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

const min = (name: string, eff: Effect.Effect<any, any, any>) =>
  Effect.gen(function*() {
    let best = Infinity
    const all: number[] = []
    for (let k = 0; k < 15; k++) {
      const t = yield* time(eff)
      all.push(t)
      if (t < best) best = t
    }
    all.sort((a, b) => a - b)
    console.log(name.padEnd(30), "min", best.toFixed(1), "med", all[7].toFixed(1))
  })
const leanChild = Effect.suspend(() => leanAgent("child"))
const createOnly: any = Effect.scoped(Effect.gen(function*() {
  const agents = yield* Agent.Agents
  return yield* agents.create({ cwd: "/" })
}))
const childOnly: any = Effect.scoped(Effect.gen(function*() {
  const agents = yield* Agent.Agents
  const a = yield* agents.create({ cwd: "/" })
  return yield* a.prompt("child")
}))
const root: any = yield_root()
function yield_root() {
  return {
    sessionId: "root",
    depth: 0,
    cwd: "/",
    model: undefined,
    maxTokens: undefined,
    restrictions: [],
    limits: { maxDepth: 9, maxChildren: 1000, maxWait: 1000, maxRunning: 1000 },
    lifetime: { ended: undefined, onEnd: () => () => {} }
  }
}
import { CurrentAgent } from "../src/CurrentAgent.ts"
const delegateOnly: any = Spawn.delegate({ prompt: "child" }).pipe(Effect.provideService(CurrentAgent, root))
const startOnly: any = Effect.scoped(Spawn.start({ prompt: "child" })).pipe(Effect.provideService(CurrentAgent, root))
class Noop extends Subagent.Provider<Noop>()("noop", {
  outputSchema: false,
  depthLimit: false,
  toolFilter: false,
  persona: false,
  model: false,
  maxTokens: false,
  steer: false,
  resume: false
}) {}
let nn = 0
const noopL = Noop.toLayer(
  Effect.succeed({
    start: () =>
      Effect.sync(() => ({
        id: "n" + ++nn,
        localAgent: Option.none(),
        progress: Stream.empty,
        result: Effect.succeed(
          {
            _tag: "Completed",
            text: "",
            output: [],
            usage: { inputTokens: 0, outputTokens: 0, steps: 0, elapsed: 0 },
            structured: undefined
          } as any
        )
      })) as any
  })
)
const noopOnly: any = Noop.delegate({ prompt: "child" }).pipe(Effect.provideService(CurrentAgent, root))

const createPromptSame: any = Effect.gen(function*() {
  return yield* shared.prompt("child")
})
let shared: any
import { ask, defaultRetry } from "../src/internal/agent/ask.ts"
await Effect.runPromise(
  Effect.scoped(Effect.gen(function*() {
    leanAgent = yield* lean
    const agents = yield* Agent.Agents
    shared = yield* agents.create({ cwd: "/" })
    const model = yield* LanguageModel.LanguageModel
    const tools = yield* AgentTools.AgentTools
    const resolved = tools.resolver({ restrictions: [] })()
    const messages = [Prompt.makeMessage("user", { content: [Prompt.makePart("text", { text: "x" })] })]
    const q: any = {
      model,
      messages,
      toolkit: resolved.toolkit,
      hasTools: true,
      forced: undefined,
      maxTokens: undefined,
      retry: defaultRetry,
      step: 0,
      observed: () => false,
      publish: () => {},
      onText: () => {},
      onCall: () => {}
    }
    const kit = yield* Kit
    const bare = (tk: any) =>
      Effect.suspend(() =>
        (model.streamText as any)({
          prompt: Prompt.fromMessages(messages),
          toolkit: tk,
          disableToolCallResolution: true,
          toolCallValidation: "deferred"
        }).pipe(Stream.runForEachArray(() => Effect.void))
      )
    yield* min("leanChild", leanChild)
    yield* min("bare Kit", bare(kit) as any)
    yield* min("bare resolved", bare(resolved.toolkit) as any)
    yield* min("ask", ask(q))
    yield* min("createOnly", createOnly)
    yield* min("childOnly", childOnly)
    const store = yield* SessionStore.SessionStore
    const log = yield* store.create({
      version: 1,
      id: "x" as any,
      depth: 0,
      cwd: "/",
      createdAt: 0,
      origin: { kind: "root" }
    })
    let seq = 0
    yield* min("append", Effect.suspend(() => log.append([{ _tag: "TurnStarted", seq: seq++, at: 0, turn: 0 }])))
  }) as any).pipe(Effect.provide(Layer.mergeAll(noopL.pipe(Layer.provideMerge(oursL)), handlersLean))) as any
)

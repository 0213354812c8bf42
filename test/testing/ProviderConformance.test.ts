import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Layer, Option, Stream } from "effect"
import { AiError, type Prompt } from "effect/ai"
import * as Agent from "../../src/Agent.ts"
import { CurrentAgent } from "../../src/CurrentAgent.ts"
import * as Fork from "../../src/providers/Fork.ts"
import * as Scripted from "../../src/providers/Scripted.ts"
import * as Spawn from "../../src/providers/Spawn.ts"
import { noUsage } from "../../src/Session.ts"
import type * as SessionStore from "../../src/SessionStore.ts"
import * as Subagent from "../../src/Subagent.ts"
import * as ProviderConformance from "../../src/testing/ProviderConformance.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import { agents } from "../utils/agents.ts"
import { leakCheck } from "../utils/leaks.ts"

leakCheck()

type Behaviour = ProviderConformance.Behaviour

// ----- children that are agents of this process, made to behave by their model

const lastMessage = (prompt: Prompt.Prompt): string => {
  const message = prompt.content.findLast((one) => one.role === "user")
  return message === undefined
    ? ""
    : message.content.flatMap((part) => part.type === "text" ? [part.text] : []).join("")
}

const reply = (behaviour: Behaviour, request: ScriptedModel.Request): ScriptedModel.Reply => {
  switch (behaviour._tag) {
    case "Answer":
      return [ScriptedModel.wait(behaviour.until), ScriptedModel.text(lastMessage(request.prompt))]
    case "Hang":
      return [ScriptedModel.wait(behaviour.after), ScriptedModel.text(behaviour.text), ScriptedModel.hang]
    case "Structured":
      return request.index === 0
        ? [ScriptedModel.call("structured_output", behaviour.json)]
        : [ScriptedModel.text("I give up")]
    case "Fail":
      return [ScriptedModel.fail(new AiError.InvalidRequestError({ description: "too long" }))]
  }
}

const inProcess = (behaviour: Behaviour) =>
  Layer.mergeAll(Subagent.layer(), Agent.layerRoot({ cwd: "/work", id: "root" })).pipe(
    Layer.provideMerge(
      agents((request) => request.depth === 0 ? [ScriptedModel.text("I am")] : reply(behaviour, request))
    )
  )

const withHistory = (behaviour: Behaviour) =>
  Layer.effectDiscard(Effect.gen(function*() {
    const root = Option.getOrThrow(yield* (yield* Agent.Agents).get("root"))
    yield* root.prompt("Who are you?")
  })).pipe(Layer.provideMerge(inProcess(behaviour)))

const otherAgents = Effect.gen(function*() {
  const alive = yield* (yield* Agent.Agents).list
  return alive.filter((agent) => agent.id !== "root").map((agent) => `agent ${agent.id}`)
})

// ----- children that are played

const play = (behaviour: Behaviour): Scripted.Script => ({ prompt }) => {
  switch (behaviour._tag) {
    case "Answer":
      return [
        Scripted.wait(behaviour.until),
        Scripted.decide((heard) => [Scripted.text(String(heard.at(-1)?.content ?? prompt))])
      ]
    case "Hang":
      return [Scripted.wait(behaviour.after), Scripted.text(behaviour.text), Scripted.hang]
    case "Structured":
      return [Scripted.complete(behaviour.json)]
    case "Fail":
      return [Scripted.fail("Exited")]
  }
}

const bare = () => Layer.mergeAll(Subagent.layer(), Scripted.layerCaller())

const run = (title: string, cases: ReadonlyArray<ProviderConformance.Case>) =>
  describe(title, () => {
    for (const { effect, name } of cases) it.effect(name, () => effect)
  })

run(
  "Spawn conforms",
  ProviderConformance.suite({
    provider: Spawn.Spawn,
    layer: () => Spawn.layer,
    environment: inProcess,
    leftovers: otherAgents
  })
)

run(
  "Fork conforms",
  ProviderConformance.suite({
    provider: Fork.Fork,
    layer: (): Layer.Layer<
      Fork.Fork,
      Subagent.DuplicateProvider | Subagent.InvalidProvider,
      Agent.Agents | SessionStore.SessionStore | Subagent.Subagents
    > => Fork.layer,
    environment: withHistory,
    leftovers: otherAgents
  })
)

run(
  "Scripted conforms",
  ProviderConformance.suite({
    provider: Scripted.Scripted,
    layer: (behaviour) => Scripted.layer(play(behaviour)),
    environment: bare
  })
)

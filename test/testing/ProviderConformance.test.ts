import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber, Layer, Option, PubSub, Stream } from "effect"
import { AiError, type Prompt } from "effect/ai"
import * as Agent from "../../src/Agent.ts"
import * as Fork from "../../src/providers/Fork.ts"
import * as Scripted from "../../src/providers/Scripted.ts"
import * as Spawn from "../../src/providers/Spawn.ts"
import { noUsage } from "../../src/Session.ts"
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
    layer: () => Fork.layer,
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

// ----- the suite finds what is wrong

class Broken extends Subagent.Provider<Broken>()("broken", {
  outputSchema: true,
  depthLimit: false,
  toolFilter: false,
  persona: false,
  model: false,
  maxTokens: false,
  steer: true,
  resume: false
}) {}

/** What each broken provider is caught at. */
const faults = {
  "takes its parent's id": [
    "publishes a child that is what it says it is: effect-subagent/ContractViolation"
  ],
  "mixes its children up": [
    "keeps twenty children apart that run at once: the result is"
  ],
  "forgets what was said": [
    "is aborted by its signal, with what it had said: the result is",
    "is released when its scope closes, with what it had said: the result is"
  ],
  "keeps something when cancelled while it starts": [
    "leaves nothing, or an aborted run, whenever its signal is aborted: left behind: half",
    "leaves nothing whenever its start is interrupted: left behind: half"
  ],
  "keeps something of each child": [
    "publishes a child that is what it says it is: left behind"
  ],
  "never ends its progress": [
    "goes on when somebody gives up waiting for it: its progress does not end when it has settled"
  ],
  "fails with its child": [
    "turns its child's failure into a result: effect-subagent/RunFailed"
  ],
  "takes its children with it": [
    "goes on when its provider closes: the result is"
  ],
  "takes messages after the end": [
    "takes messages while it runs, and none afterwards: steering after the end succeeds"
  ],
  "loses messages": [
    "takes messages while it runs, and none afterwards: the result is"
  ],
  "makes up its values": [
    "gives a structured value, decoded: the result is"
  ],
  "never settles": [
    "publishes a child that is what it says it is: not done within"
  ]
} as const

type Fault = keyof typeof faults | "none"

const resultOf = (text: string) => ({ text, output: [], usage: noUsage })

/** A provider that keeps its contract, but for one fault. `alive` is what exists because of it. */
const broken = (fault: Fault, alive: Set<string>) => (behaviour: Behaviour) =>
  Broken.toLayer(Effect.gen(function*() {
    let latest: unknown
    const closed = yield* Deferred.make<void>()
    if (fault === "takes its children with it") yield* Effect.addFinalizer(() => Deferred.succeed(closed, undefined))

    const act = (heard: ReadonlyArray<unknown>, say: (text: string) => void) =>
      Effect.gen(function*(): Effect.fn.Return<Subagent.Result<unknown>, never> {
        switch (behaviour._tag) {
          case "Answer": {
            yield* behaviour.until
            if (fault === "never settles") return yield* Effect.never
            const text = String(fault === "mixes its children up" ? latest : heard.at(-1))
            return { _tag: "Completed", structured: undefined, ...resultOf(text) }
          }
          case "Hang": {
            yield* behaviour.after
            say(behaviour.text)
            return yield* Effect.never
          }
          case "Structured":
            return {
              _tag: "Completed",
              structured: fault === "makes up its values" ? {} : behaviour.json,
              ...resultOf("")
            }
          case "Fail":
            return fault === "fails with its child"
              ? yield* Effect.die("the child died")
              : { _tag: "Failed", reason: "x", retryable: false, diagnostic: "y", ...resultOf("") }
        }
      })

    return {
      start: Effect.fnUntraced(function*(request: Subagent.ResolvedStart<typeof Broken.capabilities>) {
        const { runId } = request
        if (fault === "keeps something when cancelled while it starts") {
          alive.add(`half of ${runId}`)
          yield* Effect.yieldNow
          alive.delete(`half of ${runId}`)
        }
        alive.add(runId)
        latest = request.prompt
        const settled = yield* Deferred.make<Subagent.Result<unknown>, Subagent.RunFailed>()
        const progress = yield* PubSub.unbounded<Subagent.Progress>({ replay: 10 })
        const heard: Array<unknown> = [request.prompt]
        let said = ""
        const say = (text: string) => {
          said = text
          PubSub.publishUnsafe(progress, { _tag: "Text", delta: text })
        }
        const aborted = (): Subagent.Result<unknown> => ({
          _tag: "Aborted",
          cause: "disposed",
          ...resultOf(fault === "forgets what was said" ? "" : said)
        })
        const fiber = yield* act(heard, say).pipe(
          Effect.raceFirst(Effect.map(Deferred.await(closed), aborted)),
          Effect.onExit((exit) => Deferred.done(settled, exit)),
          Effect.forkDetach
        )
        yield* Effect.addFinalizer(() =>
          Effect.gen(function*() {
            yield* Deferred.succeed(settled, aborted())
            yield* Fiber.interrupt(fiber)
            if (fault !== "never ends its progress") yield* PubSub.shutdown(progress)
            if (fault !== "keeps something of each child") alive.delete(runId)
          })
        )
        return {
          id: fault === "takes its parent's id" ? request.parent.sessionId : `broken-${runId}`,
          localAgent: Option.none(),
          result: Deferred.await(settled),
          progress: Stream.fromPubSub(progress),
          steer: (content: Subagent.CommonRequest["prompt"]) =>
            Effect.suspend(() => {
              if (settled.effect !== undefined && fault !== "takes messages after the end") {
                return Effect.fail(new Subagent.SteerRejected({ reason: "settled" }))
              }
              if (fault !== "loses messages") heard.push(content)
              return Effect.void
            })
        }
      })
    }
  }))

const caught = (fault: Fault) =>
  Effect.gen(function*() {
    const alive = new Set<string>()
    const messages: Array<string> = []
    for (
      const { effect } of ProviderConformance.suite({
        provider: Broken,
        layer: broken(fault, alive),
        environment: () => Layer.mergeAll(Subagent.layer({ grace: "50 millis" }), Scripted.layerCaller()),
        leftovers: Effect.sync(() => Array.from(alive)),
        timeout: "300 millis"
      })
    ) {
      alive.clear()
      const result = yield* Effect.result(effect)
      if (result._tag === "Failure") messages.push(result.failure.message)
    }
    return messages
  })

describe("ProviderConformance", () => {
  it.effect("finds nothing wrong with a provider that keeps its contract", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* caught("none"), [])
    }))

  it.effect.each(Object.entries(faults))("catches a provider that %s", ([fault, expected]) =>
    Effect.gen(function*() {
      // sound: the keys of a literal
      const messages = yield* caught(fault as Fault)
      for (const start of expected) {
        assert.isTrue(
          messages.some((message) => message.startsWith(start)),
          `${start}\nnot in:\n${messages.join("\n")}`
        )
      }
    }))
})

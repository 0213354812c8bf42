/**
 * One parent and one child against a real model. Runs where `ANTHROPIC_API_KEY` or `OPENAI_API_KEY` is set
 * (`SUBAGENT_LIVE_MODEL` names another model of that provider), and says that it skips where none is.
 */
import { createAnthropic } from "@ai-sdk/anthropic"
import { createOpenAI } from "@ai-sdk/openai"
import { assert, describe, it } from "@effect/vitest"
import { Config, Effect, Layer, Option, Redacted, Schema } from "effect"
import { Toolkit } from "effect/ai"
import * as Agent from "../../src/Agent.ts"
import * as AgentTools from "../../src/AgentTools.ts"
import * as AiSdkModel from "../../src/layers/AiSdkModel.ts"
import * as Memory from "../../src/layers/Memory.ts"
import * as Spawn from "../../src/providers/Spawn.ts"
import * as SubagentTool from "../../src/SubagentTool.ts"

const key = (name: string) => Effect.runSync(Effect.map(Config.option(Config.Redacted(name)), Option.getOrUndefined))

const model = (() => {
  const anthropic = key("ANTHROPIC_API_KEY")
  const openai = key("OPENAI_API_KEY")
  const name = Effect.runSync(Effect.map(Config.option(Config.String("SUBAGENT_LIVE_MODEL")), Option.getOrUndefined))
  if (anthropic !== undefined) {
    return createAnthropic({ apiKey: Redacted.value(anthropic) })(name ?? "claude-haiku-4-5")
  }
  if (openai !== undefined) return createOpenAI({ apiKey: Redacted.value(openai) })(name ?? "gpt-5-mini")
  return undefined
})()

if (model === undefined) console.log("test:live skips: neither ANTHROPIC_API_KEY nor OPENAI_API_KEY is set")

const Sum = Schema.Struct({ sum: Schema.Int })
const Delegate = SubagentTool.make("delegate", Spawn.Spawn, { description: "Hands a sum to a fresh agent." })

describe.skipIf(model === undefined)("a real model", () => {
  const layer = Layer.suspend(() =>
    AgentTools.layer(Toolkit.make(Delegate)).pipe(
      Layer.provide(SubagentTool.layer(Delegate)),
      Layer.provideMerge(Agent.layerRoot({ cwd: "/" })),
      Layer.provideMerge(Memory.layer()),
      Layer.provide(AiSdkModel.layer(model!))
    )
  )

  it.live("answers a delegation with a typed value", () =>
    Effect.gen(function*() {
      const result = yield* Spawn.delegate({ prompt: "Add 17 and 25.", outputSchema: Sum, timeout: "1 minute" })
      assert.strictEqual(result._tag, "Completed")
      if (result._tag === "Completed") assert.strictEqual(result.structured.sum, 42)
    }).pipe(Effect.provide(layer)), 90_000)

  it.live("delegates through the tool", () =>
    Effect.gen(function*() {
      const agents = yield* Agent.Agents
      const agent = yield* agents.create({ cwd: "/" })
      const outcome = yield* agent.prompt(
        "Use the tool `delegate` once to have another agent add 17 and 25, then tell me the number it found."
      )
      assert.include(outcome.text, "42")
    }).pipe(Effect.provide(layer)), 90_000)
})

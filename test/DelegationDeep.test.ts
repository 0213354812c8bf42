import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Layer, Scope } from "effect"
import { Toolkit } from "effect/ai"
import { Agents } from "../src/Agent.ts"
import * as AgentTools from "../src/AgentTools.ts"
import * as Fork from "../src/providers/Fork.ts"
import * as Subagent from "../src/Subagent.ts"
import * as SubagentTool from "../src/SubagentTool.ts"
import { call, hang, type Request, text } from "../src/testing/ScriptedModel.ts"
import { subagents } from "./utils/agents.ts"
import { params, spawning } from "./utils/delegating.ts"
import { leakCheck } from "./utils/leaks.ts"

leakCheck()

const levels = 1000

const limits = { maxDepth: levels, maxChildren: 1, maxRunning: levels }

const root = Effect.flatMap(Agents, (agents) => agents.create({ cwd: "/work", id: "root", limits }))

/** Delegates down to the last level, which does `last`; then each says how far below it the last one is. */
const chain = (last: ReturnType<typeof text> | typeof hang) => ({ depth, index, prompt }: Request) => {
  if (depth === levels) return [last]
  if (index === 0) return [call("delegate", params)]
  const { content } = prompt.content[prompt.content.length - 1]
  const part = typeof content === "string" ? undefined : content[0]
  const said = part?.type === "tool-result" ? (part.result as { readonly text?: string }).text : undefined
  return [text(String(Number(said) + 1))]
}

const Forked = SubagentTool.make("delegate", Fork.Fork)

const forking = (...[model]: Parameters<typeof subagents>) =>
  AgentTools.layer(Toolkit.make(Forked)).pipe(
    Layer.provide(SubagentTool.layer(Forked)),
    Layer.provideMerge(subagents(model))
  )

/** Waits until all levels are alive. */
const allAlive = Effect.gen(function*() {
  const agents = yield* Agents
  while ((yield* agents.list).length < levels + 1) yield* Effect.yieldNow
})

describe("a chain of a thousand delegations", () => {
  for (const [name, layer] of [["fresh", spawning], ["forked", forking]] as const) {
    it.effect(`gives each answer to the level above, with ${name} children`, () =>
      Effect.gen(function*() {
        const agent = yield* root
        const outcome = yield* agent.prompt("Go down")
        assert.strictEqual(outcome.text, String(levels))
        assert.lengthOf(yield* Agents.use((agents) => agents.list), 1)
      }).pipe(Effect.scoped, Effect.provide(layer(chain(text("0"))))))
  }

  it.live("is interrupted from its top, with nothing left alive", () =>
    Effect.gen(function*() {
      const agent = yield* root
      yield* agent.send("Go down")
      yield* allAlive
      yield* agent.interrupt("user")
      assert.deepStrictEqual(yield* agent.survivors, [])
      assert.lengthOf(yield* Agents.use((agents) => agents.list), 1)
      assert.lengthOf(yield* Subagent.Subagents.use((service) => service.running), 0)
    }).pipe(Effect.scoped, Effect.provide(spawning(chain(hang)))))

  it.live("is closed from its top, with nothing left alive", () =>
    Effect.gen(function*() {
      const scope = yield* Scope.make()
      const agent = yield* Scope.provide(root, scope)
      yield* agent.send("Go down")
      yield* allAlive
      yield* Scope.close(scope, Exit.void)
      assert.deepStrictEqual(yield* agent.survivors, [])
      assert.lengthOf(yield* Agents.use((agents) => agents.list), 0)
    }).pipe(Effect.provide(spawning(chain(hang)))))

  it.live("is cancelled from its bottom: one level that ends ends all above it", () =>
    Effect.gen(function*() {
      const agents = yield* Agents
      const agent = yield* root
      yield* agent.send("Go down")
      yield* allAlive
      const last = (yield* agents.list).find(({ header }) => header.depth === levels)!
      yield* last.interrupt("user")
      yield* agent.idle
      assert.lengthOf(yield* agents.list, 1)
    }).pipe(Effect.scoped, Effect.provide(spawning(chain(hang)))))
})

import { assert, describe } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import * as Approvals from "../src/Approvals.ts"
import { CurrentAgent } from "../src/CurrentAgent.ts"
import * as Fork from "../src/providers/Fork.ts"
import * as Spawn from "../src/providers/Spawn.ts"
import * as SubagentLimits from "../src/SubagentLimits.ts"
import { call, type Script, text } from "../src/testing/ScriptedModel.ts"
import { agentTest, create, moment, resultsOf, settle, textsOf, tool } from "./utils/agentTest.ts"
import { leakCheck } from "./utils/leaks.ts"

leakCheck()

/** A tool that wants approval. */
const guarded = tool("exec", () => Effect.succeed("ran"), { needsApproval: true })

const answers = { allow: Approvals.layerAllow, deny: Approvals.layerDeny }

const outcome = {
  allow: "ran",
  deny: { type: "execution-denied", reason: "nobody is there to approve this call" }
}

const results = (id: string) => Effect.map(resultsOf(id), (all) => all.map(({ result }) => result))

/** Calls the tool for each message, and then says done. */
const script: Script = ({ prompt }) =>
  prompt.content.at(-1)?.role === "tool" ? [text("done")] : [call("exec", {}, `call-${prompt.content.length}`)]

describe("Approvals of children", () => {
  for (const [first, then] of [["allow", "deny"], ["deny", "allow"]] as const) {
    agentTest(`S379 one that waits to start under ${first} keeps it when its parent goes on under ${then}`, () => {
      const gate = moment()
      return {
        script: (request) =>
          textsOf(request).includes("user: wait")
            ? [{ _tag: "Wait", effect: gate.passed }, text("done")]
            : script(request),
        with: [guarded],
        body: Effect.gen(function*() {
          yield* Effect.forkChild(Spawn.delegate({ prompt: "wait" }), { startImmediately: true })
          const pending = yield* Effect.forkChild(
            Effect.provide(Spawn.start({ prompt: "go" }), answers[first]),
            { startImmediately: true }
          )
          yield* settle
          assert.isUndefined(pending.pollUnsafe(), "it waits for the place of the other")
          yield* Effect.gen(function*() {
            yield* gate.now
            const run = yield* Fiber.join(pending)
            yield* run.result
            assert.deepStrictEqual(yield* results(run.id), [outcome[first]])
            const later = yield* Spawn.start({ prompt: "go" })
            yield* later.result
            assert.deepStrictEqual(yield* results(later.id), [outcome[then]])
          }).pipe(Effect.provide(answers[then]))
        }).pipe(SubagentLimits.within({ maxChildren: 1 }))
      }
    })
  }

  agentTest("S378 a fork asks whoever is asked where it was started, whatever the copied log says", () => ({
    script,
    with: [guarded],
    body: Effect.gen(function*() {
      const parent = yield* create("a")
      yield* Effect.provide(parent.prompt("go"), Approvals.layerAllow)
      const fork = yield* Effect.provideService(Fork.start({ prompt: "go" }), CurrentAgent, parent.identity)
      yield* fork.result
      assert.deepStrictEqual(yield* results(fork.id), [outcome.allow, outcome.deny])
    })
  }))
})

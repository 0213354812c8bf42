import { assert, describe } from "@effect/vitest"
import { Effect, Logger, Schedule, Stream } from "effect"
import { AiError } from "effect/ai"
import type { Progress } from "../src/Agent.ts"
import * as Spawn from "../src/providers/Spawn.ts"
import { call, cut, fail, finish, part, ScriptedModel, text } from "../src/testing/ScriptedModel.ts"
import { agentTest, create, eventsOf, settle, tool } from "./utils/agentTest.ts"
import { leakCheck } from "./utils/leaks.ts"

leakCheck()

const secret = "sw0rdf1sh-x7"

const unreachable = (url: string, description?: string) =>
  new AiError.NetworkError({
    reason: "TransportError",
    method: "POST",
    url,
    ...(description === undefined ? undefined : { description })
  })

const planted: ReadonlyArray<readonly [where: string, reason: AiError.AiErrorReason]> = [
  ["the user info of a URL", unreachable(`https://me:${secret}@models.test/v1/chat`)],
  ["the user info of a URL, with an @ in it", unreachable(`https://me:a@${secret}@models.test/v1/chat`)],
  ["?key= of a URL", unreachable(`https://models.test/v1/chat?key=${secret}`)],
  ["&api_key= of a URL", unreachable(`https://models.test/v1/chat?alt=sse&api_key=${secret}`)],
  ["the text of a header", unreachable("https://models.test/v1/chat", `sent authorization: Bearer ${secret}`)],
  [
    "a bearer token",
    new AiError.InternalProviderError({ description: `Bearer ${secret} is overloaded by models.test` })
  ],
  [
    "a long text",
    new AiError.InternalProviderError({
      description: `models.test ${"word ".repeat(2000)}`.replace("word", `api_key=${secret}`)
    })
  ]
]

describe("no secret of a model's failure is shown", () => {
  for (const [where, reason] of planted) {
    agentTest(`S557 that was in ${where}`, () => {
      const logged: Array<unknown> = []
      return {
        options: { retry: Schedule.recurs(1) },
        script: () => [fail(reason)],
        body: Effect.gen(function*() {
          const agent = yield* create("a")
          const seen: Array<Progress> = []
          yield* Effect.forkScoped(
            Stream.runForEach(agent.progress, (one) => Effect.sync(() => void seen.push(one))),
            { startImmediately: true }
          )
          const outcome = yield* agent.prompt("go")
          yield* settle
          const result = yield* Spawn.delegate({ prompt: "go" })
          assert.strictEqual(outcome.cause._tag, "Failed")
          assert.strictEqual(result._tag, "Failed")
          assert.isTrue(seen.some((one) => one._tag === "StepRestarted"))
          for (const shown of [outcome, result, seen, yield* eventsOf("a"), logged]) {
            assert.notInclude(JSON.stringify(shown), secret)
          }
          for (const shown of [outcome, result, seen, yield* eventsOf("a")]) {
            assert.include(JSON.stringify(shown), "models.test")
          }
        }).pipe(Effect.provide(Logger.layer([Logger.make((entry) => void logged.push(entry.message))])))
      }
    })
  }

  for (
    const [what, parts] of [
      ["broke off", [cut]],
      ["ended with an error", [finish("error")]]
    ] as const
  ) {
    agentTest(`S557 that a model said when its answer ${what}`, () => ({
      options: { retry: Schedule.recurs(0) },
      script: [[part({ type: "error", error: new Error(`models.test refused api_key=${secret}`) }), ...parts]],
      body: Effect.gen(function*() {
        const { cause } = yield* (yield* create("a")).prompt("go")
        if (cause._tag !== "Failed") return assert.fail(cause._tag)
        assert.notInclude(cause.diagnostic, secret)
        assert.include(cause.diagnostic, "models.test")
      })
    }))
  }

  agentTest("S557 that a tool met when it asked a model", () => ({
    script: [[call("ask", {})], [text("done")]],
    with: [
      tool("ask", () =>
        Effect.fail(AiError.make({
          module: "Test",
          method: "streamText",
          reason: unreachable(`https://me:${secret}@models.test/v1/chat`)
        })))
    ],
    body: Effect.gen(function*() {
      const agent = yield* create("a")
      assert.strictEqual((yield* agent.prompt("go")).text, "done")
      const [, request] = yield* (yield* ScriptedModel).requestsOf("a")
      for (const shown of [yield* eventsOf("a"), request.prompt]) {
        assert.notInclude(JSON.stringify(shown), secret)
        assert.include(JSON.stringify(shown), "models.test")
      }
    })
  }))
})

import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { noUsage } from "../src/Session.ts"
import * as Subagent from "../src/Subagent.ts"
import { leakCheck } from "./utils/leaks.ts"
import { able, agent, child, logging, on, says, settled, unprintable, watching } from "./utils/seam.ts"

leakCheck()

class Alpha extends Subagent.Provider<Alpha>()("alpha", able) {}

const alphaOf = (implementation: Subagent.Implementation<typeof able>) =>
  Subagent.Subagents.use((subagents) => subagents.register(Alpha, implementation))

const finalizer = (effect: Effect.Effect<unknown>) => Effect.addFinalizer(() => effect)

/** A run with a property that throws when it is read. */
const unreadable = (name: string) =>
  Object.defineProperty({ ...child() }, name, {
    get: () => {
      throw new Error("secret")
    }
  })

const { layer: logger } = logging()

const run = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  effect.pipe(on(agent()), Effect.provide(Subagent.layer({ grace: "2 seconds" })), Effect.provide(logger))

describe("a provider that gives no result", () => {
  it.effect("S35 S60 S85 S304 that fails: everybody who holds the run sees the failure", () =>
    Effect.gen(function*() {
      const seen = yield* Subagent.Subagents.use((subagents) => watching(subagents.events))
      const failed = new Subagent.RunFailed({ provider: "alpha", reason: "DurabilityFailed", diagnostic: "no space" })
      const alpha = yield* alphaOf({ start: () => Effect.sync(() => child({ result: Effect.fail(failed) })) })
      const started = yield* alpha.start({ prompt: "go" })
      assert.deepStrictEqual(yield* Effect.flip(started.result), failed)
      assert.deepStrictEqual(yield* Effect.flip(started.interrupt), failed)
      yield* started.released
      assert.deepStrictEqual(yield* Effect.flip(alpha.delegate({ prompt: "go" })), failed)
      yield* settled
      assert.deepInclude(seen.at(-1), { _tag: "RunEnded", outcome: "RunFailed", text: "", output: [], released: true })
    }).pipe(run))

  const broken: ReadonlyArray<readonly [string, Effect.Effect<Subagent.Result<unknown>, Subagent.RunFailed>]> = [
    ["dies", Effect.die(new Error("secret"))],
    ["dies of something that cannot be shown", Effect.die(unprintable)],
    ["interrupts itself", Effect.interrupt],
    [
      "interrupts its fiber",
      Effect.andThen(Effect.withFiber((fiber) => Effect.sync(() => fiber.interruptUnsafe())), Effect.never)
    ],
    // what a provider without types may do
    ["gives back nothing", Effect.succeed(undefined as never)],
    ["gives back something else", Effect.succeed({ _tag: "Completed" } as never)],
    ["gives back parts that are none", Effect.succeed({ ...says("go"), output: ["go"] } as never)],
    ["fails with something else", Effect.fail("oops" as never)]
  ]

  it.effect.each(broken)("S84 that %s", ([, result]) =>
    Effect.gen(function*() {
      let released = false
      const alpha = yield* alphaOf({
        start: () =>
          Effect.as(
            finalizer(Effect.sync(() => {
              released = true
            })),
            child({ result })
          )
      })
      const error = yield* Effect.flip(alpha.delegate({ prompt: "go" }))
      assert.deepInclude(error, { _tag: "RunFailed", provider: "alpha", reason: "ProviderFault" })
      assert.notInclude(error.message, "secret")
      assert.isTrue(released)
      yield* alpha.start({ prompt: "go" })
    }).pipe(run))

  it.effect("S557 S599 diagnostics are bounded", () =>
    Effect.gen(function*() {
      const diagnostic = "é".repeat(5000)
      const results: Array<Effect.Effect<Subagent.Result<unknown>, Subagent.RunFailed>> = [
        Effect.succeed({
          _tag: "Failed",
          text: "",
          output: [],
          usage: noUsage,
          reason: "Network",
          retryable: true,
          diagnostic
        }),
        Effect.fail(new Subagent.RunFailed({ provider: "alpha", reason: "ProviderFault", diagnostic }))
      ]
      const alpha = yield* alphaOf({
        start: () =>
          results.length > 0
            ? Effect.sync(() => child({ result: results.shift()! }))
            : Effect.fail(new Subagent.StartFailed({ provider: "alpha", reason: "Exited", diagnostic }))
      })
      const bytes = (text: string) => new TextEncoder().encode(text).length
      const result = yield* alpha.delegate({ prompt: "go" })
      assert.isTrue(result._tag === "Failed" && bytes(result.diagnostic) <= 4096 && result.diagnostic.endsWith("(cut)"))
      for (const _ of [1, 2]) {
        const error = yield* Effect.flip(alpha.delegate({ prompt: "go" }))
        assert.isTrue("diagnostic" in error && bytes(error.diagnostic) <= 4096 && error.diagnostic.endsWith("(cut)"))
      }
    }).pipe(run))
})

describe("a provider that gives no child", () => {
  it.effect("S59 S302 a failed start is the provider's own error, without a pair of events", () =>
    Effect.gen(function*() {
      const seen = yield* Subagent.Subagents.use((subagents) => watching(subagents.events))
      const alpha = yield* alphaOf({
        start: () =>
          Effect.fail(new Subagent.StartFailed({ provider: "alpha", reason: "AuthRequired", diagnostic: "log in" }))
      })
      const error = yield* Effect.flip(alpha.delegate({ prompt: "go" }))
      assert.deepStrictEqual(
        error,
        new Subagent.StartFailed({ provider: "alpha", reason: "AuthRequired", diagnostic: "log in" })
      )
      yield* settled
      assert.deepStrictEqual(seen.map((event) => event._tag), ["ProviderAdded"])
    }).pipe(run))

  it.effect.each(
    [
      ["dies", () => Effect.die(new Error("secret"))],
      ["throws", () => {
        throw new Error("secret")
      }],
      ["interrupts itself", () => Effect.interrupt],
      ["interrupts itself later", () => Effect.andThen(Effect.yieldNow, Effect.interrupt)]
    ] as const
  )("one that %s is a fault, and its caller goes on", ([, start]) =>
    Effect.gen(function*() {
      const alpha = yield* alphaOf({ start })
      const error = yield* Effect.flip(alpha.start({ prompt: "go" }))
      assert.deepInclude(error, { _tag: "StartFailed", provider: "alpha", reason: "ProviderFault" })
      assert.notInclude(error.message, "secret")
      // and its place is free
      yield* Effect.flip(alpha.start({ prompt: "go" }))
    }).pipe(run))

  it.effect.each(["id", "localAgent", "result", "steer"])(
    "one whose run throws where its %s is read is a fault",
    (name) =>
      Effect.gen(function*() {
        let released = false
        const alpha = yield* alphaOf({
          start: () =>
            Effect.as(
              finalizer(Effect.sync(() => {
                released = true
              })),
              unreadable(name)
            )
        })
        const error = yield* Effect.flip(alpha.delegate({ prompt: "go" }))
        assert.deepInclude(error, { _tag: "StartFailed", provider: "alpha", reason: "ProviderFault" })
        assert.notInclude(error.message, "secret")
        assert.isTrue(released)
        assert.deepStrictEqual(yield* Subagent.Subagents.use((subagents) => subagents.running), [])
      }).pipe(run)
  )
})

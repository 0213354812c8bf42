import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Fiber, Option, Schema, SchemaGetter } from "effect"
import { TestClock } from "effect/testing"
import * as OutputSchema from "../src/OutputSchema.ts"
import * as Subagent from "../src/Subagent.ts"
import { leakCheck } from "./utils/leaks.ts"
import { able, agent, child, on, puppeteer, says } from "./utils/seam.ts"

leakCheck()

class Alpha extends Subagent.Provider<Alpha>()("alpha", able) {}

const Finding = Schema.Struct({ file: Schema.String, at: Schema.Date, size: Schema.NumberFromString })

const json = { file: "a.ts", at: "2026-01-02T03:04:05.000Z", size: "12" }

/** Hands back a result as it is. */
const handing = (result: Subagent.Result<unknown>) =>
  Subagent.Subagents.use((subagents) =>
    subagents.register(Alpha, { start: () => Effect.sync(() => child({ result: Effect.succeed(result) })) })
  )

const run = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  effect.pipe(on(agent()), Effect.provide(Subagent.layer({ grace: "2 seconds" })))

class Prices extends Context.Service<Prices, { readonly of: (name: string) => Effect.Effect<number> }>()("Prices") {}

/** A schema that needs a service to decode. */
const Order = Schema.Struct({
  price: Schema.String.pipe(
    Schema.decodeTo(Schema.Number, {
      decode: SchemaGetter.transformEffect((name: string) => Prices.use((prices) => prices.of(name))),
      encode: SchemaGetter.transform(String)
    })
  )
})

describe("structured results", () => {
  it.effect("the provider hands back plain JSON, and the caller gets what the schema says", () =>
    Effect.gen(function*() {
      const alpha = yield* handing(says("done", json))
      const result = yield* alpha.delegate({ prompt: "go", outputSchema: Finding })
      assert.isTrue(result._tag === "Completed")
      if (result._tag === "Completed") {
        assert.deepStrictEqual(result.structured, { file: "a.ts", at: new Date(json.at), size: 12 })
      }
      const structured = yield* Subagent.completed(alpha.delegate({ prompt: "go", outputSchema: Finding }))
      assert.strictEqual(structured.at.getTime(), Date.parse(json.at))
    }).pipe(run))

  it.effect("by name too", () =>
    Effect.gen(function*() {
      yield* handing(says("done", json))
      const subagents = yield* Subagent.Subagents
      const { size } = yield* Subagent.completed(subagents.delegate("alpha", { prompt: "go", outputSchema: Finding }))
      assert.strictEqual(size, 12)
    }).pipe(run))

  it.effect("the provider gets the JSON Schema, and a decoder to find out early", () =>
    Effect.gen(function*() {
      const puppets = puppeteer()
      const alpha = yield* Subagent.Subagents.use((subagents) => subagents.register(Alpha, puppets.implementation))
      const started = yield* alpha.start({ prompt: "go", outputSchema: Finding })
      const output = Option.getOrThrow(puppets.started[0].request.output)
      assert.deepInclude(output.jsonSchema, { type: "object", required: ["file", "at", "size"] })
      yield* output.decode(json)
      assert.strictEqual((yield* Effect.flip(output.decode({ file: "a.ts" })))._tag, "SchemaError")
      yield* started.interrupt
    }).pipe(run))

  it.effect.each([
    ["is missing", undefined],
    ["is decoded already", { ...json, at: new Date(json.at), size: 12 }],
    ["lacks a field", { file: "a.ts" }],
    ["is no object", "a.ts"],
    ["is a string of JSON", JSON.stringify(json)]
  ])("S23 one that %s fails, and what was said is kept", ([, structured]) =>
    Effect.gen(function*() {
      const alpha = yield* handing(says("I looked", structured))
      const result = yield* alpha.delegate({ prompt: "go", outputSchema: Finding })
      assert.deepInclude(result, {
        _tag: "Failed",
        reason: "InvalidStructuredOutput",
        retryable: false,
        text: "I looked",
        output: says("I looked").output
      })
      assert.isTrue(result._tag === "Failed" && result.diagnostic !== "")
      assert.notProperty(result, "structured")
      yield* Effect.flip(Subagent.completed(Effect.succeed(result)))
    }).pipe(run))

  it.effect("S23 one that nobody asked for is dropped", () =>
    Effect.gen(function*() {
      const alpha = yield* handing(says("done", json))
      const result = yield* alpha.delegate({ prompt: "go" })
      assert.isTrue(result._tag === "Completed" && result.structured === undefined)
    }).pipe(run))

  it.effect("S23 a provider that has none may leave it out", () =>
    Effect.gen(function*() {
      const { structured: _, ...none } = { ...says("done"), structured: undefined }
      const alpha = yield* handing(none as Subagent.Result<unknown>)
      assert.deepInclude(yield* alpha.delegate({ prompt: "go" }), { _tag: "Completed", structured: undefined })
      assert.deepInclude(yield* alpha.delegate({ prompt: "go", outputSchema: Finding }), {
        _tag: "Failed",
        reason: "InvalidStructuredOutput"
      })
    }).pipe(run))

  it.effect("a result that is not complete has none", () =>
    Effect.gen(function*() {
      const { output, text, usage } = says("no")
      const alpha = yield* handing({ _tag: "Refusal", output, text, usage })
      const result = yield* alpha.delegate({ prompt: "go", outputSchema: Finding })
      assert.deepInclude(result, { _tag: "Refusal", text: "no" })
    }).pipe(run))

  it.effect("the services of the schema are the caller's", () =>
    Effect.gen(function*() {
      const alpha = yield* handing(says("done", { price: "tea" }))
      const order = Effect.map(
        Subagent.completed(alpha.delegate({ prompt: "go", outputSchema: Order })),
        ({ price }) => price
      )
      const prices = (price: number) => Effect.provideService(Prices, Prices.of({ of: () => Effect.succeed(price) }))
      assert.deepStrictEqual(yield* Effect.all([prices(3)(order), prices(4)(order)]), [3, 4])
    }).pipe(run))

  const decoders: ReadonlyArray<readonly [string, Effect.Effect<number>]> = [
    ["dies", Effect.die(new Error("secret"))],
    ["interrupts itself", Effect.interrupt],
    ["never ends", Effect.never]
  ]

  it.effect.each(decoders)("a decoder that %s costs the value, and nothing else", ([, of]) =>
    Effect.gen(function*() {
      const alpha = yield* handing(says("tea, please", { price: "tea" }))
      const delegating = yield* Effect.forkChild(
        alpha.delegate({ prompt: "go", outputSchema: Order }).pipe(
          Effect.provideService(Prices, Prices.of({ of: () => of }))
        ),
        { startImmediately: true }
      )
      yield* TestClock.adjust("2 seconds")
      const result = yield* Fiber.join(delegating)
      assert.deepInclude(result, { _tag: "Failed", reason: "InvalidStructuredOutput", text: "tea, please" })
      assert.isTrue(result._tag === "Failed" && !result.diagnostic.includes("secret"))
    }).pipe(run))

  it.effect("S14 S299 a schema whose root is no object never reaches the provider", () =>
    Effect.gen(function*() {
      const puppets = puppeteer()
      const alpha = yield* Subagent.Subagents.use((subagents) => subagents.register(Alpha, puppets.implementation))
      // it is an object before it is decoded, and a list in JSON
      const tricky = Schema.Array(Schema.String)
      const error = yield* Effect.flip(alpha.delegate({ prompt: "go", outputSchema: tricky }))
      assert.strictEqual(error._tag, "UnsupportedSchema")
      // @ts-expect-error: a scalar is no object
      const scalar = yield* Effect.flip(alpha.delegate({ prompt: "go", outputSchema: Schema.String }))
      assert.strictEqual(scalar._tag, "UnsupportedSchema")
      assert.strictEqual(puppets.calls, 0)
    }).pipe(run))

  it.effect("S14 a user's own JSON Schema is checked by itself, and decoded like any other", () =>
    Effect.gen(function*() {
      const schema = yield* OutputSchema.fromJsonSchema({
        type: "object",
        properties: { risk: { type: "string", enum: ["low", "high"] } },
        required: ["risk"]
      })
      const good = yield* handing(says("done", { risk: "low" }))
      assert.deepStrictEqual(
        yield* Subagent.completed(good.delegate({ prompt: "go", outputSchema: schema })),
        { risk: "low" }
      )
      const bad = yield* handing(says("done", { risk: "none" }))
      assert.deepInclude(yield* bad.delegate({ prompt: "go", outputSchema: schema }), {
        _tag: "Failed",
        reason: "InvalidStructuredOutput"
      })
    }).pipe(run))
})

import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Result, Schema } from "effect"
import { CurrentAgent } from "../src/CurrentAgent.ts"
import * as Subagent from "../src/Subagent.ts"
import * as SubagentTool from "../src/SubagentTool.ts"
import { leakCheck } from "./utils/leaks.ts"
import { able, agent, puppeteer, settled, watching } from "./utils/seam.ts"

leakCheck()

class Alpha extends Subagent.Provider<Alpha>()("alpha", able) {}

const unprintable: object = Object.create(null)

/** Values of every type that JavaScript has. */
const values = {
  null: null,
  false: false,
  true: true,
  zero: 0,
  "a number": 7,
  "no number": Number.NaN,
  "a bigint": 7n,
  "an empty text": "",
  "a text": "seven",
  "a symbol": Symbol("seven"),
  "a function": () => 7,
  "an object": {},
  "an object without a prototype": unprintable,
  "an empty list": [],
  "a list of numbers": [1],
  "a list of texts": ["seven"],
  "a date": new Date(0),
  "an AbortSignal": new AbortController().signal,
  "a Schema": Schema.Struct({ file: Schema.String })
} as const

type Kind = keyof typeof values

/** Which of them are right; any other is wrong. */
const right: Readonly<Record<keyof Subagent.Request<Subagent.Unchecked> | "outputSchema", ReadonlyArray<Kind>>> = {
  prompt: ["a text"],
  label: ["a text", "an empty text"],
  persona: ["a text", "an empty text"],
  model: ["a text"],
  timeout: ["a number", "a bigint"],
  signal: ["an AbortSignal"],
  // whatever has no fields of its own narrows nothing
  limits: ["an object", "an object without a prototype", "a date", "an AbortSignal"],
  maxDepth: ["a number"],
  maxTokens: ["a number"],
  toolFilter: [],
  outputSchema: ["a Schema"]
}

const file = { type: "file", mediaType: "text/plain", data: "aGk=" }

/** What is wrong further inside. */
const inside: ReadonlyArray<readonly [field: string, request: object]> = [
  ...[
    { ...file, mediaType: 7 },
    { ...file, data: undefined },
    { ...file, data: { href: "https://example.org" } },
    { ...file, fileName: 7 },
    { type: "text", text: 7 },
    { type: 7 },
    7,
    "go"
  ].map((part) => ["prompt", { prompt: [part] }] as const),
  ...[
    { allow: ["a", 7] },
    { deny: [null] },
    { allow: ["a"], deny: "b" },
    { deny: ["a"], remote: true },
    { deny: ["a"], remote: "deny" },
    { allow: ["a"], denied: ["b"] }
  ].map((toolFilter) => ["toolFilter", { toolFilter }] as const),
  ...[{ hours: {} }, { houres: 1 }, [1], ["1", "2"]].map((timeout) => ["timeout", { timeout }] as const),
  ["signal", { signal: { aborted: true } }],
  ["signal", { signal: new AbortController() }],
  ["outputSchema", { outputSchema: { type: "object" } }],
  ...Object.values(values).flatMap((value) =>
    value === 7 || value === 0 ?
      [] :
      ["maxDepth", "maxChildren", "maxWait", "maxRunning"].map((limit) =>
        [`limits.${limit}`, { limits: { [limit]: value } }] as const
      )
  )
]

const wrong = [
  ...Object.entries(right).flatMap(([field, kinds]) =>
    Object.entries(values).flatMap(([kind, value]) =>
      // sound: the entries of `values` are its own
      kinds.includes(kind as Kind) ? [] : [[field, { [field]: value }, kind] as const]
    )
  ),
  ...inside.map(([field, request], index) => [field, request, `inside ${index}`] as const)
].filter(([field, , kind]) => !(field === "maxDepth" && kind === "zero"))

interface AnyError {
  readonly _tag: string
  readonly field?: string
  readonly issue?: string
}

const loosely = (request: object) => ({ prompt: "go", ...request }) as unknown as { readonly prompt: string }

const alone = Layer.mergeAll(
  Subagent.layer(),
  Layer.succeed(CurrentAgent, agent({ depth: 0, limits: { maxChildren: 99 } }))
)

/** An alpha that must not be asked, by all ways to ask it. */
const ways = Effect.gen(function*() {
  const subagents = yield* Subagent.Subagents
  const puppets = puppeteer()
  const alpha = yield* subagents.register(Alpha, puppets.implementation)
  return {
    puppets,
    subagents,
    ask: (request: object): ReadonlyArray<Effect.Effect<unknown, AnyError, CurrentAgent>> => {
      // sound: what is asked for is wrong on purpose
      const asked = request as { readonly prompt: string }
      return [
        Effect.scoped(alpha.start(asked)),
        alpha.delegate(asked),
        Effect.scoped(subagents.start("alpha", asked)),
        subagents.delegate("alpha", asked)
      ]
    }
  }
})

describe("Subagents: fields of the wrong type", () => {
  it.effect("S44 S45 S51 are InvalidRequest by name and by class, and nothing happens", () =>
    Effect.gen(function*() {
      const { ask, puppets, subagents } = yield* ways
      const seen = yield* watching(subagents.events)
      for (const [field, request, kind] of wrong) {
        for (const [way, starting] of ask(loosely(request)).entries()) {
          const name = `${field}: ${kind}, way ${way}`
          const error = yield* Effect.flip(starting)
          assert.strictEqual(error._tag, "InvalidRequest", name)
          assert.isTrue(error.field?.startsWith(field), name)
          assert.isNotEmpty(error.issue, name)
        }
      }
      assert.strictEqual(puppets.calls, 0)
      yield* settled
      assert.deepStrictEqual(seen.map((event) => event._tag), ["ProviderAdded"])
      assert.isAbove(wrong.length, 200)
    }).pipe(Effect.provide(alone)))

  it.effect("of the right type pass, the signal of a program's own and the file parts by hand included", () =>
    Effect.gen(function*() {
      const { puppets, subagents } = yield* ways
      const good = [
        ...Object.entries(right).flatMap(([field, kinds]) => kinds.map((kind) => ({ [field]: values[kind] }))),
        { toolFilter: { allow: ["a"], remote: "allow" } },
        { toolFilter: { deny: ["a"], allow: undefined, remote: undefined } },
        { prompt: [file] },
        { prompt: [{ ...file, data: new Uint8Array([1]), fileName: "a.txt" }] },
        { prompt: [{ ...file, data: new URL("https://example.org") }] },
        { signal: { aborted: false, addEventListener: () => {}, removeEventListener: () => {} } },
        { timeout: [1, 500] },
        { timeout: { hours: 1 } },
        { label: undefined, persona: undefined, model: undefined, signal: undefined, outputSchema: undefined }
      ]
      for (const request of good) yield* subagents.start("alpha", loosely(request))
      assert.strictEqual(puppets.calls, good.length)
    }).pipe(Effect.provide(alone)))

  it.effect("S44 S51 a request that is none, and a provider's name that is none, are InvalidRequest", () =>
    Effect.gen(function*() {
      const { ask, puppets, subagents } = yield* ways
      for (const request of [null, undefined, 7, "go"]) {
        for (const starting of ask(request as unknown as object)) {
          const error = yield* Effect.flip(starting)
          assert.strictEqual(error._tag, "InvalidRequest")
          assert.include(["request", "prompt"], error.field)
        }
      }
      for (const name of [undefined, null, 7, {}] as unknown as ReadonlyArray<string>) {
        const expected = { _tag: "InvalidRequest", field: "provider" } as const
        const request = { prompt: "go" }
        assert.deepInclude(yield* Effect.flip(Effect.scoped(subagents.start(name, request))), expected)
        assert.deepInclude(yield* Effect.flip(subagents.delegate(name, request)), expected)
      }
      assert.strictEqual(puppets.calls, 0)
    }).pipe(Effect.provide(alone)))

  it.effect("S591 the options of a delegate tool are refused when its layer is built", () =>
    Effect.gen(function*() {
      yield* ways
      for (const [field, request, kind] of wrong) {
        // these are the call's
        if (["prompt", "label", "signal"].includes(field)) continue
        const tool = SubagentTool.make("delegate", "alpha", request)
        const built = yield* Effect.result(Layer.build(SubagentTool.layer(tool)))
        assert.isTrue(Result.isFailure(built), `${field}: ${kind}`)
        if (Result.isFailure(built)) assert.strictEqual(built.failure._tag, "InvalidRequest", `${field}: ${kind}`)
      }
    }).pipe(Effect.provide(alone)))
})

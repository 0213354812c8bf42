import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Schema } from "effect"
import * as Prompt from "effect/ai/Prompt"
import { Lifetime, type ToolRestriction } from "../src/CurrentAgent.ts"
import * as Subagent from "../src/Subagent.ts"
import { leakCheck } from "./utils/leaks.ts"
import { able, agent, on, puppeteer, settled, watching } from "./utils/seam.ts"

leakCheck()

class Alpha extends Subagent.Provider<Alpha>()("alpha", able) {}

const Finding = Schema.Struct({ file: Schema.String })

/** The requests of this file are wrong on purpose, in ways that mostly do not compile. */
type Loose = Readonly<Record<string, unknown>>

const loosely = (request: Loose) => ({ prompt: "go", ...request }) as unknown as { readonly prompt: string }

/** What is wrong, what comes of it, and with what kind of provider and parent. */
interface Fault {
  readonly name: string
  readonly error: Readonly<Record<string, unknown>>
  readonly lacks?: keyof typeof able
  readonly request?: Loose
  readonly parent?: Parameters<typeof agent>[0]
  readonly missing?: boolean
}

const lacking = (lacks: keyof typeof able, request: Loose): Fault => ({
  name: `lacks ${lacks}`,
  error: { _tag: "UnsupportedCapability", provider: "alpha", capability: lacks },
  lacks,
  request
})

const malformed = (field: string, value: unknown, name = `${field} ${JSON.stringify(value)}`): Fault => ({
  name,
  error: { _tag: "InvalidRequest", field },
  request: field.startsWith("limits.") ? { limits: { [field.slice("limits.".length)]: value } } : { [field]: value }
})

const closed = new Lifetime()
closed.end("closed")

const interrupted = new Lifetime()
interrupted.end("interrupted")

/** One fault for each check, in the order of the checks. */
const inOrder: ReadonlyArray<Fault> = [
  { name: "lookup", error: { _tag: "ProviderNotFound", provider: "missing" }, missing: true },
  lacking("outputSchema", { outputSchema: Finding }),
  lacking("depthLimit", { maxDepth: 5 }),
  lacking("toolFilter", { toolFilter: { deny: [] } }),
  lacking("persona", { persona: "You audit" }),
  lacking("model", { model: "small" }),
  lacking("maxTokens", { maxTokens: 9 }),
  malformed("maxDepth", -1),
  malformed("prompt", " "),
  malformed("maxTokens", 0),
  malformed("model", ""),
  malformed("toolFilter", {}),
  malformed("timeout", 0),
  malformed("persona", 7),
  malformed("label", 7),
  malformed("signal", 7),
  malformed("outputSchema", 7),
  malformed("limits.maxWait", -1),
  { name: "output schema", error: { _tag: "UnsupportedSchema" }, request: { outputSchema: Schema.String } },
  {
    name: "aborted signal",
    error: { _tag: "Cancelled", cause: "parent" },
    request: { signal: AbortSignal.abort() }
  },
  {
    name: "closed parent",
    error: { _tag: "StartFailed", reason: "ParentClosed", provider: "alpha" },
    parent: { lifetime: closed }
  },
  {
    name: "depth of the request",
    error: { _tag: "DepthExceeded", attempted: 3, max: 0 },
    request: { maxDepth: 0 }
  },
  {
    name: "depth of the limits",
    error: { _tag: "LimitExceeded", limit: "maxDepth", value: 3, max: 2 },
    parent: { limits: { maxDepth: 2 } }
  },
  {
    name: "restriction",
    error: { _tag: "InvalidRequest", field: "provider" },
    lacks: "toolFilter",
    parent: { restrictions: [{ deny: ["shell"] }] }
  },
  {
    name: "no place",
    error: { _tag: "LimitExceeded", limit: "maxChildren", value: 1, max: 0 },
    parent: { limits: { maxChildren: 0 } }
  }
]

const keys = (record: object | undefined): ReadonlyArray<string> => Object.keys(record ?? {})

/** Two faults that cannot be in one request are not compared. */
const compatible = (a: Fault, b: Fault): boolean =>
  !keys(a.request).some((key) => keys(b.request).includes(key)) &&
  // a capability that is missing shows up only where it is asked for
  !(a.lacks === "toolFilter" && b.lacks === undefined && keys(b.request).includes("toolFilter")) &&
  !(b.lacks === "toolFilter" && a.lacks === undefined && keys(a.request).includes("toolFilter"))

const attempt = Effect.fnUntraced(function*(faults: ReadonlyArray<Fault>) {
  const subagents = yield* Subagent.Subagents
  const puppets = puppeteer()
  yield* subagents.register(
    {
      providerName: "alpha",
      capabilities: { ...able, ...Object.fromEntries(faults.map(({ lacks }) => [lacks, false])) },
      inheritsParentContext: false
    },
    puppets.implementation
  )
  const parent = faults.map((fault) => fault.parent ?? {})
  const error = yield* subagents.start(
    faults.some((fault) => fault.missing) ? "missing" : "alpha",
    loosely(Object.assign({}, ...faults.map((fault) => fault.request)))
  ).pipe(
    on(agent({
      depth: 2,
      ...Object.assign({}, ...parent),
      limits: Object.assign({}, ...parent.map(({ limits }) => limits))
    })),
    Effect.flip
  )
  assert.strictEqual(puppets.calls, 0)
  return error
}, (effect) => Effect.provide(effect, Subagent.layer(), { local: true }))

describe("Subagents: what is checked", () => {
  it.effect("S44 S45 S46 the checks come in their order, and none lets the provider hear of a bad request", () =>
    Effect.gen(function*() {
      let pairs = 0
      for (const [index, first] of inOrder.entries()) {
        for (const second of [undefined, ...inOrder.slice(index + 1)]) {
          if (second !== undefined && !compatible(first, second)) continue
          const error = yield* attempt(second === undefined ? [first] : [first, second])
          assert.deepInclude(error, first.error, `${first.name}, and ${second?.name ?? "nothing else"}`)
          pairs++
        }
      }
      assert.isAbove(pairs, 180)
    }))

  it.effect.each(
    [
      ["S294", "outputSchema", { outputSchema: Finding }],
      ["S295", "depthLimit", { maxDepth: 5 }],
      ["S296", "toolFilter", { toolFilter: { allow: [] } }],
      ["S297", "persona", { persona: "" }],
      ["S7", "model", { model: "small" }],
      ["S7", "maxTokens", { maxTokens: 1 }]
    ] as const
  )(
    "S6 S7 S294 S295 S296 S297 (%s) what lacks %s cannot be asked for it, with whatever value",
    ([, lacks, request]) =>
      Effect.gen(function*() {
        assert.deepInclude(yield* attempt([lacking(lacks, request)]), {
          _tag: "UnsupportedCapability",
          provider: "alpha",
          capability: lacks
        })
      })
  )

  it.effect("S298 a malformed maxDepth is refused by a provider that can do everything", () =>
    Effect.gen(function*() {
      assert.deepInclude(yield* attempt([malformed("maxDepth", -1)]), { _tag: "InvalidRequest", field: "maxDepth" })
    }))

  it.effect("S44 depth comes before a restriction, and a full queue last of all", () =>
    Effect.gen(function*() {
      const parent = agent({ limits: { maxChildren: 1, maxDepth: 0 } })
      const alpha = yield* Subagent.Subagents.use((subagents) => subagents.register(Alpha, puppeteer().implementation))
      assert.deepInclude(yield* Effect.flip(on(parent)(alpha.start({ prompt: "go" }))), { limit: "maxDepth" })
    }).pipe(Effect.provide(Subagent.layer())))
})

const text = (value: string) => ({ type: "text", text: value })

const badInput: ReadonlyArray<Fault> = [
  ...[-1, -0, 1.5, Number.NaN, 2 ** 53, Infinity, -Infinity, "3", null].map((value) =>
    malformed("maxDepth", value, `maxDepth ${Object.is(value, -0) ? "-0" : String(value)}`)
  ),
  ...[
    "",
    " \n\t",
    [],
    [text("")],
    [text(" "), text("\n")],
    [{ type: "reasoning", text: "hm" }],
    [text("go"), { type: "tool-call", id: "1" }],
    [{ role: "system", content: "obey" }],
    [text("go"), { type: "text" }],
    [null],
    undefined,
    null,
    7
  ].map((value) => malformed("prompt", value)),
  ...[{}, { remote: "allow" }, { allow: "read_file" }, { deny: [1] }, null].map((value) =>
    malformed("toolFilter", value)
  ),
  ...[0, -1, 0.5, Number.NaN, Infinity, "7"].map((value) =>
    malformed("maxTokens", value, `maxTokens ${String(value)}`)
  ),
  ...[0, -5, Number.NaN, "0 seconds", "-1 minute", "soon", {}, null].map((value) =>
    malformed("timeout", value, `timeout ${String(value)}`)
  ),
  ...["maxDepth", "maxChildren", "maxWait", "maxRunning"].flatMap((name) =>
    [-1, -0, 0.5, Number.NaN, Infinity, "1"].map((value) =>
      malformed(`limits.${name}`, value, `limits.${name} ${value}`)
    )
  ),
  malformed("limits.maxdepth", 1),
  malformed("limits", null),
  malformed("limits", 3),
  malformed("model", ""),
  ...[Schema.String, Schema.Array(Schema.String), Schema.NullOr(Schema.Struct({}))].map((outputSchema): Fault => ({
    name: "an output schema that is no object",
    error: { _tag: "UnsupportedSchema" },
    request: { outputSchema }
  })),
  { name: "an aborted signal", error: { _tag: "Cancelled" }, request: { signal: AbortSignal.abort() } },
  {
    name: "an agent whose turn was interrupted",
    error: { _tag: "Cancelled", cause: "parent" },
    parent: { lifetime: interrupted }
  },
  {
    name: "an agent that is closed",
    error: { _tag: "StartFailed", reason: "ParentClosed" },
    parent: { lifetime: closed }
  },
  ...[Number.NaN, -1.5, 2 ** 53 - 1, 0.5].map((depth): Fault => ({
    name: `an agent of depth ${depth}`,
    error: { _tag: "InvalidRequest", field: "depth" },
    parent: { depth }
  })),
  ...(["maxDepth", "maxChildren", "maxRunning"] as const).map((limit): Fault => ({
    name: `an agent whose ${limit} is no number`,
    error: { _tag: "LimitExceeded", limit },
    parent: { limits: { [limit]: Number.NaN } }
  }))
]

describe("S15 S51 Subagents: bad input", () => {
  it.effect.each(badInput.map((fault) => [fault.name, fault] as const))(
    "%s",
    ([name, fault]) =>
      Effect.gen(function*() {
        const subagents = yield* Subagent.Subagents
        const puppets = puppeteer()
        const alpha = yield* subagents.register(Alpha, puppets.implementation)
        const seen = yield* watching(subagents.events)
        const limits = { maxChildren: 1, maxRunning: 1 }
        const parent = agent({ ...fault.parent, limits: { ...limits, ...fault.parent?.limits } })
        const request = loosely(fault.request ?? {})

        const byClass = yield* on(parent)(Effect.flip(Effect.scoped(alpha.start(request))))
        assert.deepInclude(byClass, fault.error, name)
        const byName = yield* on(parent)(Effect.flip(subagents.delegate("alpha", request)))
        assert.deepInclude(byName, fault.error, name)
        assert.isNotEmpty(byName.message)

        // nothing is left: no start, no event, no place
        assert.strictEqual(puppets.calls, 0)
        assert.deepStrictEqual(yield* subagents.running, [])
        const good = yield* Effect.forkScoped(on(agent({ limits }))(alpha.delegate({ prompt: "go" })), {
          startImmediately: true
        })
        assert.strictEqual(puppets.started.length, 1)
        puppets.started[0].say("fine")
        assert.strictEqual((yield* Fiber.join(good)).text, "fine")
        yield* settled
        assert.deepStrictEqual(seen.map((event) => event._tag), ["ProviderAdded", "RunStarted", "RunEnded"])
      }).pipe(Effect.provide(Subagent.layer()))
  )

  it.effect("S15 what is at the edge of the allowed passes", () =>
    Effect.gen(function*() {
      const puppets = puppeteer()
      const alpha = yield* Subagent.Subagents.use((subagents) => subagents.register(Alpha, puppets.implementation))
      for (
        const request of [
          { maxDepth: 1 },
          { maxDepth: Number.MAX_SAFE_INTEGER },
          { prompt: [text(""), text("go")] },
          { prompt: [{ type: "file", mediaType: "text/plain", data: "aGk=" }] },
          { toolFilter: { allow: [] } },
          { maxTokens: 1 },
          { timeout: 1 },
          { timeout: "Infinity" },
          { limits: {} },
          { limits: { maxDepth: 0, maxChildren: undefined } },
          { persona: "" },
          { label: "" },
          { outputSchema: undefined, persona: undefined }
        ]
      ) yield* alpha.start(loosely(request))
      assert.strictEqual(puppets.started.length, 13)
    }).pipe(Effect.provide(Subagent.layer()), on(agent({ limits: { maxChildren: 99 } }))))
})

describe("Subagents: restrictions", () => {
  const able2 = { ...able, toolFilter: false } as const
  class Unfiltered extends Subagent.Provider<Unfiltered>()("unfiltered", able2) {}

  it.effect("a provider that cannot carry a restriction is refused to a restricted agent, unless it says so", () =>
    Effect.gen(function*() {
      const subagents = yield* Subagent.Subagents
      const puppets = puppeteer()
      const unfiltered = yield* subagents.register(Unfiltered, puppets.implementation)
      const alpha = yield* subagents.register(Alpha, puppets.implementation)
      const from = (...restrictions: ReadonlyArray<ToolRestriction>) => on(agent({ restrictions }))
      const start = Effect.scoped(unfiltered.start({ prompt: "go" }))

      const error = yield* from({ allow: ["read_file"] })(Effect.flip(start))
      assert.deepInclude(error, { _tag: "InvalidRequest", field: "provider" })
      assert.include(error.message, "remote")
      // every restriction on the way down has to say so
      yield* from({ deny: ["a"], remote: "allow" }, { deny: ["b"] })(Effect.flip(start))
      assert.strictEqual(puppets.calls, 0)

      yield* from()(start)
      yield* from({ deny: ["a"], remote: "allow" }, { allow: ["b"], remote: "allow" })(start)
      yield* from({ deny: ["a"] })(Effect.scoped(alpha.start({ prompt: "go" })))
      assert.strictEqual(puppets.calls, 3)
    }).pipe(Effect.provide(Subagent.layer())))
})

describe("Subagents: what a provider gets", () => {
  it.effect("S10 S11 S151 the request as it was, who delegates, the child's depth and limits", () =>
    Effect.gen(function*() {
      const puppets = puppeteer()
      const alpha = yield* Subagent.Subagents.use((subagents) => subagents.register(Alpha, puppets.implementation))
      const parent = agent({ depth: 1, limits: { maxChildren: 4 } })
      const prompt = [Prompt.makePart("text", { text: "look" }), Prompt.makePart("text", { text: "closely" })]
      const run = yield* on(parent)(alpha.start({
        prompt,
        label: "look",
        persona: "You look",
        maxDepth: 7,
        timeout: "1 hour",
        signal: new AbortController().signal,
        limits: { maxChildren: 9, maxDepth: 2 },
        outputSchema: Finding
      }))
      const { abortCause: _, output, ...request } = puppets.started[0].request
      assert.deepStrictEqual(
        request,
        {
          prompt,
          label: "look",
          persona: "You look",
          outputSchema: Finding,
          parent,
          depth: 2,
          limits: { ...parent.limits, maxChildren: 4, maxDepth: 2 },
          runId: run.runId
        } as unknown as typeof request
      )
      assert.strictEqual(request.prompt, prompt)
      assert.isTrue(output._tag === "Some" && output.value.jsonSchema.type === "object")
      yield* run.interrupt
    }).pipe(Effect.provide(Subagent.layer())))

  it.effect("S13 S19 a record of its own with the caller's values, and never a depth or parent that somebody asks for", () =>
    Effect.gen(function*() {
      const puppets = puppeteer()
      const alpha = yield* Subagent.Subagents.use((subagents) => subagents.register(Alpha, puppets.implementation))
      const parent = agent({ depth: 1 })
      const shared = { prompt: [text("look")], toolFilter: { deny: ["shell"] }, outputSchema: Finding }
      const asked = Object.freeze({ ...shared, depth: 0, parent: agent({ id: "somebody else" }), runId: "mine" })
      const run = yield* on(parent)(alpha.start(loosely(asked)))
      const { request } = puppets.started[0]
      for (const [field, value] of Object.entries(shared)) {
        assert.strictEqual((request as unknown as Loose)[field], value, field)
      }
      assert.notStrictEqual(request as unknown, asked)
      assert.isFalse(Object.isFrozen(request))
      assert.strictEqual(request.depth, 2)
      assert.strictEqual(request.parent, parent)
      assert.strictEqual(request.runId, run.runId)
      assert.notStrictEqual(run.runId, "mine")
    }).pipe(Effect.provide(Subagent.layer())))
})

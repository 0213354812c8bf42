import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Exit, Fiber, Layer, Option, Schema, Scope, Stream } from "effect"
import { CurrentAgent } from "../src/CurrentAgent.ts"
import { noUsage } from "../src/Session.ts"
import * as Subagent from "../src/Subagent.ts"
import { leakCheck } from "./utils/leaks.ts"
import { able, agent, child, on, puppeteer, says, settled, unable, watching } from "./utils/seam.ts"

leakCheck()

class Alpha extends Subagent.Provider<Alpha>()("alpha", able) {}
class Beta extends Subagent.Provider<Beta>()("beta", unable, { inheritsParentContext: true }) {}
class OtherAlpha extends Subagent.Provider<OtherAlpha>()("alpha", unable) {}
class Nameless extends Subagent.Provider<Nameless>()(" ", unable) {}
class Steered extends Subagent.Provider<Steered>()("steered", { ...unable, steer: true }) {}
class Negotiating extends Subagent.Provider<Negotiating>()("negotiating", { ...unable, steer: "negotiated" }) {}

const saying = (text: string): Subagent.Implementation<typeof able> => ({
  start: () => Effect.sync(() => child({ result: Effect.succeed(says(text)) }))
})

const names = Subagent.Subagents.use((subagents) =>
  Effect.map(subagents.providers, (infos) => infos.map((info) => info.name))
)

const alone = Layer.mergeAll(Subagent.layer(), Layer.succeed(CurrentAgent, agent()))

describe("Subagents: the registry", () => {
  it.effect("S28 S37 S39 S288 a provider is there for as long as its layer, and comes and goes once", () =>
    Effect.gen(function*() {
      const subagents = yield* Subagent.Subagents
      const seen = yield* watching(subagents.events)
      const scope = yield* Scope.make()
      assert.deepStrictEqual(yield* names, [])
      const context = yield* Layer.buildWithScope(Alpha.toLayer(Effect.succeed(saying("hi"))), scope)
      assert.deepStrictEqual(yield* subagents.providers, [
        { name: "alpha", capabilities: able, inheritsParentContext: false }
      ])
      const result = yield* Effect.provideContext(Alpha.delegate({ prompt: "go" }), context)
      assert.strictEqual(result.text, "hi")
      yield* Scope.close(scope, Exit.void)
      assert.deepStrictEqual(yield* names, [])
      yield* settled
      assert.deepStrictEqual(seen.map((event) => event._tag), [
        "ProviderAdded",
        "RunStarted",
        "RunEnded",
        "ProviderRemoved"
      ])
    }).pipe(Effect.provide(alone)))

  it.effect("S37 S290 another class under a taken name fails DuplicateProvider, and the first goes on", () =>
    Effect.gen(function*() {
      const subagents = yield* Subagent.Subagents
      yield* subagents.register(Alpha, saying("first"))
      const seen = yield* watching(subagents.events)
      const error = yield* Effect.flip(
        Layer.build(OtherAlpha.toLayer(Effect.succeed({ start: () => Effect.sync(child) })))
      )
      assert.deepStrictEqual(error, new Subagent.DuplicateProvider({ provider: "alpha" }))
      assert.strictEqual((yield* subagents.delegate("alpha", { prompt: "go" })).text, "first")
      yield* settled
      assert.deepStrictEqual(seen.map((event) => event._tag), ["ProviderAdded", "RunStarted", "RunEnded"])
    }).pipe(Effect.provide(alone)))

  it.effect("S37 the same class stacks: the last wins, and is popped when it closes", () =>
    Effect.gen(function*() {
      const subagents = yield* Subagent.Subagents
      const seen = yield* watching(subagents.events)
      const ask = Effect.map(subagents.delegate("alpha", { prompt: "go" }), (result) => result.text)
      const scopes: Array<Scope.Closeable> = []
      for (const text of ["one", "two", "three"]) {
        const scope = yield* Scope.make()
        yield* Scope.provide(subagents.register(Alpha, saying(text)), scope)
        scopes.push(scope)
        assert.strictEqual(yield* ask, text)
      }
      const [one, two, three] = scopes
      // the one in the middle goes, and nobody notices
      yield* Scope.close(two, Exit.void)
      assert.strictEqual(yield* ask, "three")
      yield* Scope.close(three, Exit.void)
      assert.strictEqual(yield* ask, "one")
      assert.deepStrictEqual(yield* names, ["alpha"])
      yield* Scope.close(one, Exit.void)
      assert.strictEqual((yield* Effect.flip(ask))._tag, "ProviderNotFound")
      yield* settled
      assert.deepStrictEqual(
        seen.map((event) => event._tag).filter((tag) => tag.startsWith("Provider")),
        ["ProviderAdded", "ProviderRemoved"]
      )
    }).pipe(Effect.provide(alone)))

  it.effect("S37 a layer and a registration by hand of one class stack too", () =>
    Effect.gen(function*() {
      const subagents = yield* Subagent.Subagents
      yield* subagents.register(Alpha, saying("by hand"))
      assert.strictEqual((yield* subagents.delegate("alpha", { prompt: "go" })).text, "by hand")
      assert.strictEqual((yield* Alpha.delegate({ prompt: "go" })).text, "by layer")
    }).pipe(
      Effect.provide(Alpha.toLayer(Effect.succeed(saying("by layer")))),
      Effect.provide(alone)
    ))

  it.effect("S64 S307 S598 an empty name and a missing method fail InvalidProvider", () =>
    Effect.gen(function*() {
      const subagents = yield* Subagent.Subagents
      const nameless = yield* Effect.flip(
        Layer.build(Nameless.toLayer(Effect.succeed({ start: () => Effect.sync(child) })))
      )
      assert.deepInclude(nameless, { _tag: "InvalidProvider", provider: " " })
      // @ts-expect-error: an implementation needs a start
      const startless = yield* Effect.flip(subagents.register(Alpha, {}))
      assert.deepInclude(startless, { _tag: "InvalidProvider", provider: "alpha" })
      assert.deepStrictEqual(yield* names, [])
    }).pipe(Effect.provide(alone)))

  it.effect("S42 S43 lists providers in the order of registration; one that comes back goes to the end", () =>
    Effect.gen(function*() {
      const subagents = yield* Subagent.Subagents
      const scope = yield* Scope.make()
      yield* Scope.provide(subagents.register(Alpha, saying("a")), scope)
      yield* subagents.register(Beta, { start: () => Effect.sync(child) })
      assert.deepStrictEqual(yield* names, ["alpha", "beta"])
      assert.isTrue((yield* subagents.providers)[1].inheritsParentContext)
      yield* Scope.close(scope, Exit.void)
      yield* subagents.register(Alpha, saying("a"))
      assert.deepStrictEqual(yield* names, ["beta", "alpha"])
    }).pipe(Effect.provide(alone)))

  it.effect("S40 S41 S70 removal blocks new starts only", () =>
    Effect.gen(function*() {
      const subagents = yield* Subagent.Subagents
      const puppets = puppeteer()
      const scope = yield* Scope.make()
      const context = yield* Layer.buildWithScope(Alpha.toLayer(Effect.succeed(puppets.implementation)), scope)
      const run = yield* Effect.provideContext(Alpha.start({ prompt: "go" }), context)
      yield* Scope.close(scope, Exit.void)

      const byClass = yield* Effect.flip(Effect.provideContext(Alpha.start({ prompt: "go" }), context))
      assert.deepInclude(byClass, { _tag: "StartFailed", reason: "ProviderClosed", provider: "alpha" })
      const byName = yield* Effect.flip(subagents.start("alpha", { prompt: "go" }))
      assert.deepStrictEqual(byName, new Subagent.ProviderNotFound({ provider: "alpha", registered: [] }))
      assert.strictEqual(puppets.calls, 1)

      assert.deepStrictEqual((yield* subagents.running).map((info) => info.runId), [run.runId])
      puppets.started[0].say("still here")
      assert.strictEqual((yield* run.result).text, "still here")
      yield* run.released
    }).pipe(Effect.provide(alone)))

  it.effect("S44 a closed provider is noticed before anything else is", () =>
    Effect.gen(function*() {
      const client = yield* Effect.scoped(Subagent.Subagents.use((subagents) => subagents.register(Alpha, saying("a"))))
      const error = yield* Effect.flip(client.start({ prompt: "", maxDepth: -1, signal: AbortSignal.abort() }))
      assert.deepInclude(error, { _tag: "StartFailed", reason: "ProviderClosed" })
    }).pipe(Effect.provide(alone)))

  it.effect("S291 an unknown name fails ProviderNotFound with what is registered", () =>
    Effect.gen(function*() {
      const subagents = yield* Subagent.Subagents
      const error = yield* Effect.flip(subagents.delegate("missing", { prompt: "" }))
      assert.deepStrictEqual(
        error,
        new Subagent.ProviderNotFound({ provider: "missing", registered: ["alpha", "beta"] })
      )
      assert.include(error.message, "alpha, beta")
    }).pipe(
      Effect.provide(
        Layer.mergeAll(
          Alpha.toLayer(Effect.succeed(saying("a"))),
          Beta.toLayer(Effect.succeed({ start: () => Effect.sync(child) }))
        ).pipe(Layer.provideMerge(alone))
      )
    ))

  it.effect("S10 S560 concurrent starts of one provider are kept apart", () =>
    Effect.gen(function*() {
      const open = yield* Deferred.make<void>()
      const puppets = puppeteer({ opening: () => Deferred.await(open) })
      const context = yield* Layer.build(Alpha.toLayer(Effect.succeed(puppets.implementation)))
      const fibers = yield* Effect.forEach(["a", "b", "c"], (prompt) =>
        Effect.forkScoped(Effect.provideContext(Alpha.start({ prompt }), context), { startImmediately: true }))
      assert.strictEqual(puppets.calls, 3)
      yield* Deferred.succeed(open, undefined)
      const runs = yield* Effect.forEach(fibers, Fiber.join)
      assert.deepStrictEqual(
        puppets.started.map((puppet) =>
          puppet.request.prompt
        ),
        ["a", "b", "c"]
      )
      assert.strictEqual(new Set(runs.map((run) => run.runId)).size, 3)
      for (const puppet of puppets.started.toReversed()) puppet.say(`answer to ${String(puppet.request.prompt)}`)
      assert.deepStrictEqual(
        (yield* Effect.forEach(runs, (run) => run.result)).map((result) => result.text),
        ["answer to a", "answer to b", "answer to c"]
      )
    }).pipe(Effect.provide(alone)))
})

describe("Subagents: clients", () => {
  it.effect("the client in the context is a value that can be captured", () =>
    Effect.gen(function*() {
      const alpha = yield* Alpha
      const result = yield* alpha.delegate({ prompt: "go" })
      assert.strictEqual(result.text, "real")
      const run = yield* alpha.start({ prompt: "go" })
      assert.strictEqual((yield* run.result).text, "real")
    }).pipe(Effect.provide(Alpha.toLayer(Effect.succeed(saying("real")))), Effect.provide(alone)))

  it.effect("a test provides a client of its own", () =>
    Effect.gen(function*() {
      const fake: Subagent.Client<typeof unable> = {
        start: () =>
          Effect.fail(new Subagent.StartFailed({ provider: "beta", reason: "NotInstalled", diagnostic: "" })),
        delegate: ({ prompt }) =>
          Effect.succeed({ _tag: "Refusal", text: `not ${String(prompt)}`, output: [], usage: noUsage })
      }
      const program = Effect.all([
        Beta.delegate({ prompt: "this" }),
        Effect.flip(Effect.scoped(Beta.start({ prompt: "go" })))
      ])
      const [result, error] = yield* program.pipe(Effect.provideService(Beta, fake), on(agent()))
      assert.deepInclude(result, { _tag: "Refusal", text: "not this" })
      assert.deepInclude(error, { _tag: "StartFailed", reason: "NotInstalled" })
    }))

  it.effect("S8 S27 S93 a run has a method steer exactly when its provider can", () =>
    Effect.gen(function*() {
      const subagents = yield* Subagent.Subagents
      const steered: Array<unknown> = []
      const steer: Subagent.Steer = (content) => Effect.sync(() => void steered.push(content))
      const user = { kind: "user" } as const
      yield* subagents.register(Steered, { start: () => Effect.sync(() => ({ ...child(), steer })) })
      let knows = true
      yield* subagents.register(Negotiating, {
        start: () => Effect.sync(() => ({ ...child(), steer: knows ? Option.some(steer) : Option.none() }))
      })
      const beta = yield* subagents.register(Beta, { start: () => Effect.sync(child) })
      assert.isUndefined((yield* beta.start({ prompt: "go" })).steer)

      const direct = yield* Effect.provideService(
        Steered.start({ prompt: "go" }),
        Steered,
        yield* subagents.register(Steered, { start: () => Effect.sync(() => ({ ...child(), steer })) })
      )
      yield* direct.steer("directly", user)
      // by name it is an option, whatever the class says
      for (
        const [name, known] of [["steered", true], ["negotiating", true], ["negotiating", false], [
          "beta",
          false
        ]] as const
      ) {
        knows = known
        const run = yield* subagents.start(name, { prompt: "go" })
        assert.strictEqual(Option.isSome(run.steer), known)
        if (Option.isSome(run.steer)) yield* run.steer.value(name, user)
      }
      assert.deepStrictEqual(steered, ["directly", "steered", "negotiating"])
    }).pipe(Effect.provide(alone)))

  it.effect("S574 a run shows its child's progress and its names", () =>
    Effect.gen(function*() {
      const alpha = yield* Subagent.Subagents.use((subagents) =>
        subagents.register(Alpha, {
          start: () =>
            Effect.succeed(child({ id: "remote-1", progress: Stream.make({ _tag: "Text", delta: "hm" } as const) }))
        })
      )
      const run = yield* alpha.start({ prompt: "go", label: "thinker" })
      assert.deepInclude(run, { id: "remote-1", provider: "alpha", localAgent: Option.none() })
      assert.deepStrictEqual(yield* Stream.runCollect(run.progress), [{ _tag: "Text", delta: "hm" }])
    }).pipe(Effect.provide(alone)))
})

describe("Result", () => {
  const common = { text: "hello", output: says("hello").output, usage: { ...noUsage, inputTokens: 3, cost: 0.5 } }
  const Finding = Schema.Struct({ file: Schema.String, at: Schema.Date })
  const codec = Schema.toCodecJson(Subagent.Result(Finding))
  const results: ReadonlyArray<Subagent.Result<typeof Finding.Type>> = [
    { _tag: "Completed", ...common, structured: { file: "a.ts", at: new Date(0) } },
    { _tag: "Aborted", ...common, cause: "timeout" },
    { _tag: "Failed", ...common, reason: "RateLimited", retryable: true, diagnostic: "slow down" },
    { _tag: "MaxTokens", ...common },
    { _tag: "Refusal", ...common },
    { _tag: "Other", ...common, reason: "max-steps" }
  ]

  it.effect("S24 every result survives JSON", () =>
    Effect.gen(function*() {
      for (const result of results) {
        const json = JSON.stringify(yield* Schema.encodeEffect(codec)(result))
        assert.deepStrictEqual(yield* Schema.decodeUnknownEffect(codec)(JSON.parse(json)), result)
      }
    }))

  it.effect("a result without a structured value survives JSON", () =>
    Effect.gen(function*() {
      const codec = Schema.toCodecJson(Subagent.Result(Schema.Undefined))
      const result: Subagent.Result<undefined> = { _tag: "Completed", ...common, structured: undefined }
      const json = JSON.stringify(yield* Schema.encodeEffect(codec)(result))
      assert.deepStrictEqual(yield* Schema.decodeUnknownEffect(codec)(JSON.parse(json)), result)
    }))

  it.effect("S306 the errors survive JSON, with the results that they hold", () =>
    Effect.gen(function*() {
      const failed = new Subagent.ReleaseFailed({
        provider: "alpha",
        result: { _tag: "Aborted", ...common, cause: "user" },
        survivors: ["pid 1"],
        diagnostic: "slow"
      })
      const both = new Subagent.ReleaseFailed({
        provider: "alpha",
        result: undefined,
        run: new Subagent.RunFailed({ provider: "alpha", reason: "ProviderFault", diagnostic: "broken" }),
        survivors: [],
        diagnostic: "slow"
      })
      const codec = Schema.toCodecJson(Subagent.ReleaseFailed)
      for (const error of [failed, both]) {
        const json = JSON.stringify(yield* Schema.encodeEffect(codec)(error))
        const back = yield* Schema.decodeUnknownEffect(codec)(JSON.parse(json))
        assert.instanceOf(back, Error)
        assert.deepStrictEqual(back, error)
        assert.strictEqual(back.message, error.message)
      }
      assert.include(both.message, "broken")
    }))

  const errors = [
    new Subagent.InvalidRequest({ field: "prompt", issue: "an empty prompt" }),
    new Subagent.Cancelled({ cause: "parent" }),
    new Subagent.LimitExceeded({ limit: "maxChildren", value: 11, max: 10 }),
    new Subagent.DepthExceeded({ attempted: 4, max: 3 }),
    new Subagent.StartFailed({ provider: "alpha", reason: "NotInstalled", diagnostic: "no such file" }),
    new Subagent.ContractViolation({ provider: "alpha", issue: "an empty id" }),
    new Subagent.UnsupportedCapability({ provider: "alpha", capability: "steer" }),
    new Subagent.UnsupportedCapability({ provider: "acp", capability: "resume", agent: "x", version: "1.0" }),
    new Subagent.RunFailed({ provider: "alpha", reason: "DurabilityFailed", diagnostic: "no space" }),
    new Subagent.ProviderNotFound({ provider: "alpha", registered: ["beta"] }),
    new Subagent.DuplicateProvider({ provider: "alpha" }),
    new Subagent.InvalidProvider({ provider: "", issue: "an empty name" }),
    new Subagent.NotCompleted({ result: { _tag: "MaxTokens", ...common } }),
    new Subagent.SteerRejected({ reason: "settled" })
  ]

  it.effect.each(errors.map((error) => [error._tag, error] as const))(
    "S49 S306 S599 %s has a tag, says what it is about, and survives JSON",
    ([tag, error]) =>
      Effect.gen(function*() {
        const codec: Schema.Codec<unknown, unknown> = Schema.toCodecJson(error.constructor as typeof Subagent.Cancelled)
        const json = JSON.stringify(yield* Schema.encodeEffect(codec)(error))
        const back = yield* Schema.decodeUnknownEffect(codec)(JSON.parse(json))
        assert.isTrue(back instanceof error.constructor)
        assert.deepStrictEqual(back, error)
        assert.isNotEmpty(error.message)
        assert.strictEqual(yield* Effect.catchTag(Effect.fail(error), tag, () => Effect.succeed("caught")), "caught")
      })
  )

  it.effect("completed gives the structured value, or NotCompleted with the result", () =>
    Effect.gen(function*() {
      const [first, ...others] = results
      assert.deepStrictEqual(yield* Subagent.completed(Effect.succeed(first)), { file: "a.ts", at: new Date(0) })
      for (const result of others) {
        const error = yield* Effect.flip(Subagent.completed(Effect.succeed(result)))
        assert.deepStrictEqual(error.result, result)
        assert.match(error.message, /^the child /)
      }
      const error = yield* Effect.flip(Subagent.completed(Effect.fail("before" as const)))
      assert.strictEqual(error, "before")
    }))
})

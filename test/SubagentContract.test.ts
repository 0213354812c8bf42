import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Layer, Option, type Scope } from "effect"
import { Agents } from "../src/Agent.ts"
import { CurrentAgent } from "../src/CurrentAgent.ts"
import * as Fork from "../src/providers/Fork.ts"
import * as Scripted from "../src/providers/Scripted.ts"
import * as Spawn from "../src/providers/Spawn.ts"
import type { SessionId } from "../src/Session.ts"
import * as Subagent from "../src/Subagent.ts"
import { agents } from "./utils/agents.ts"
import { leakCheck } from "./utils/leaks.ts"
import { able, agent, child, on, says, settled, unable, watching } from "./utils/seam.ts"

leakCheck()

class Alpha extends Subagent.Provider<Alpha>()("alpha", able) {}
class Steered extends Subagent.Provider<Steered>()("steered", { ...unable, steer: true }) {}
class Negotiating extends Subagent.Provider<Negotiating>()("negotiating", { ...unable, steer: "negotiated" }) {}

/** That it compiles says that the flags are literals. */
const literal: { readonly outputSchema: true; readonly steer: true; readonly resume: false } = Spawn.Spawn.capabilities

describe("what a provider's class says", () => {
  it("S6 S9 S28 S476 its name, eight flags of its own, frozen, and whether a child knows its parent's conversation", () => {
    const flags = { ...unable }
    class First extends Subagent.Provider<First>()("first", flags) {}
    class Second extends Subagent.Provider<Second>()("second", flags) {}
    const names = ["outputSchema", "depthLimit", "toolFilter", "persona", "model", "maxTokens", "steer", "resume"]
    for (const provider of [First, Second, Steered, Negotiating, Spawn.Spawn, Fork.Fork, Scripted.Scripted]) {
      assert.sameMembers(Object.keys(provider.capabilities), names)
      assert.isTrue(Object.isFrozen(provider.capabilities))
      assert.throws(() => Object.assign(provider.capabilities, { steer: "maybe" }), TypeError)
      for (const flag of Object.values(provider.capabilities)) assert.include([true, false, "negotiated"], flag)
      assert.strictEqual(provider.inheritsParentContext, provider.providerName === "fork")
    }
    assert.deepStrictEqual([First.providerName, Second.providerName], ["first", "second"])
    // no record is shared, and what becomes of the one it was made from is of no interest
    assert.notStrictEqual(First.capabilities as object, Second.capabilities)
    Object.assign(flags, { persona: true })
    assert.isFalse(First.capabilities.persona)
    assert.strictEqual(Negotiating.capabilities.steer, "negotiated")
    assert.deepInclude(Spawn.Spawn.capabilities, literal)
  })
})

type Run = Subagent.ProviderRun<typeof able>
type Request = Subagent.ResolvedStart<typeof able>

const parent = agent({ depth: 1, limits: { maxChildren: 1 } })

const inProcess = Layer.mergeAll(Subagent.layer(), agents([]), Layer.succeed(CurrentAgent, parent))

/** A child in this process as it should be, and whatever is to be wrong with it. */
const local = (wrong: { readonly parent?: SessionId | undefined; readonly depth?: number } = {}) =>
  Effect.fnUntraced(function*(request: Request) {
    const made = yield* Agents.use((agents) =>
      agents.create({
        cwd: "/work",
        parent: request.parent.sessionId,
        depth: request.depth,
        origin: { kind: "subagent", provider: "alpha" },
        ...wrong
      })
    )
    return child({ id: made.id, localAgent: Option.some(made) })
  })

type Start = (request: Request) => Effect.Effect<unknown, unknown, Agents | Scope.Scope>

const violations: ReadonlyArray<readonly [string, RegExp, Start]> = [
  ["has an empty id", /empty id/, () => Effect.succeed(child({ id: "" }))],
  ["has its parent's id", /parent's id/, ({ parent }) => Effect.succeed(child({ id: parent.sessionId }))],
  [
    "has another id than its agent",
    /its agent's/,
    (request) => Effect.map(local()(request), (run): Run => ({ ...run, id: "another" }))
  ],
  ["belongs to somebody else", /names somebody-else/, local({ parent: "somebody-else" as SessionId })],
  ["belongs to nobody", /names no parent/, local({ parent: undefined })],
  ["is not deep enough", /depth 1, not 2/, local({ depth: 1 })],
  ["is nothing", /no run/, () => Effect.void],
  ["has no id", /no run/, () => Effect.succeed({ ...child(), id: 7 })],
  ["has no result", /no run/, () => Effect.succeed({ ...child(), result: Promise.resolve() })],
  ["has no agent, nor says so", /no run/, () => Effect.succeed({ ...child(), localAgent: undefined })]
]

describe("S47 S583 S597 what a provider promises", () => {
  it.effect.each(violations)(
    "a child that %s is released, and the start fails",
    ([, issue, start]) =>
      Effect.gen(function*() {
        const subagents = yield* Subagent.Subagents
        const agents = yield* Agents
        let released = 0
        const alpha = yield* subagents.register(Alpha, {
          start: (request) =>
            Effect.andThen(
              Effect.addFinalizer(() => Effect.sync(() => released++)),
              Effect.provideService(start(request), Agents, agents)
            ) as Effect.Effect<Run>
        })
        const seen = yield* watching(subagents.events)
        const error = yield* Effect.flip(alpha.start({ prompt: "go" }))
        assert.deepInclude(error, { _tag: "ContractViolation", provider: "alpha" })
        assert.match(error.message, issue)
        assert.strictEqual(released, 1)
        assert.deepStrictEqual(yield* subagents.running, [])
        assert.deepStrictEqual(yield* agents.list, [])
        yield* settled
        assert.deepStrictEqual(seen.map((event) => event._tag), ["ProviderAdded"])
        // its place is free
        yield* Effect.flip(alpha.delegate({ prompt: "go" }))
        assert.strictEqual(released, 2)
      }).pipe(Effect.provide(inProcess))
  )

  it.effect("S25 S26 S58 S71 a child in this process that keeps them all", () =>
    Effect.gen(function*() {
      const subagents = yield* Subagent.Subagents
      const agents = yield* Agents
      const alpha = yield* subagents.register(Alpha, {
        start: (request) => Effect.orDie(Effect.provideService(local()(request), Agents, agents))
      })
      const seen = yield* watching(subagents.events)
      const run = yield* alpha.start({ prompt: "go" })
      const made = Option.getOrThrow(run.localAgent)
      assert.strictEqual(made.id, run.id)
      assert.strictEqual(made.header.parent, parent.sessionId)
      assert.strictEqual(made.header.depth, 2)
      yield* settled
      assert.deepInclude(seen[1], { _tag: "RunStarted", id: run.id, local: true })
      assert.deepInclude(seen[2], { _tag: "RunEnded", id: run.id, local: true })
    }).pipe(Effect.provide(inProcess)))

  it.effect("a child in this process whose id runs already, here or elsewhere", () =>
    Effect.gen(function*() {
      const subagents = yield* Subagent.Subagents
      const agents = yield* Agents
      const done = yield* Deferred.make<Subagent.Result<unknown>>()
      let made: Run | undefined
      let remote: string | undefined
      const alpha = yield* subagents.register(Alpha, {
        start: (request) => {
          if (remote !== undefined) return Effect.succeed(child({ id: remote }))
          if (made !== undefined) return Effect.succeed(made)
          return Effect.map(Effect.orDie(Effect.provideService(local()(request), Agents, agents)), (run) => {
            made = { ...run, result: Deferred.await(done) }
            return made
          })
        }
      })
      const many = on(agent({ depth: 1 }))
      const first = yield* many(alpha.start({ prompt: "go" }))
      const error = yield* Effect.flip(many(alpha.start({ prompt: "go" })))
      assert.deepInclude(error, { _tag: "ContractViolation", issue: `a child ${first.id} is running already` })
      remote = first.id
      assert.deepInclude(yield* Effect.flip(many(alpha.start({ prompt: "go" }))), { _tag: "ContractViolation" })
      assert.strictEqual((yield* subagents.running).length, 1)
      yield* Deferred.succeed(done, says("done"))
      // and once it is over, its id is free
      yield* first.released
      assert.strictEqual((yield* many(alpha.start({ prompt: "go" }))).id, first.id)
    }).pipe(Effect.provide(inProcess)))

  it.effect("S8 a run can be steered exactly as its provider's flag says", () =>
    Effect.gen(function*() {
      const subagents = yield* Subagent.Subagents
      const steered = yield* subagents.register(Steered, { start: () => Effect.sync(child) as Effect.Effect<never> })
      const negotiating = yield* subagents.register(Negotiating, {
        start: () => Effect.sync(child) as Effect.Effect<never>
      })
      const alpha = yield* subagents.register(Alpha, {
        start: () => Effect.sync(() => ({ ...child(), steer: () => Effect.void })) as Effect.Effect<never>
      })
      const errors = [
        yield* Effect.flip(alpha.start({ prompt: "go" })),
        yield* Effect.flip(steered.start({ prompt: "go" })),
        yield* Effect.flip(negotiating.start({ prompt: "go" }))
      ]
      for (const error of errors) {
        assert.deepInclude(error, { _tag: "ContractViolation" })
        assert.match(error.message, /steer/)
      }
    }).pipe(Effect.provide(Subagent.layer()), on(agent())))
})

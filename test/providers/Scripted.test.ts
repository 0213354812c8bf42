import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Exit, Fiber, Layer, Option, Schema, Stream } from "effect"
import { TestClock } from "effect/testing"
import * as Agent from "../../src/Agent.ts"
import { CurrentAgent } from "../../src/CurrentAgent.ts"
import * as Scripted from "../../src/providers/Scripted.ts"
import * as Subagent from "../../src/Subagent.ts"
import { agents } from "../utils/agents.ts"
import { leakCheck } from "../utils/leaks.ts"

leakCheck()

const rooted = Layer.provideMerge(Subagent.layer(), Agent.layerRoot({ cwd: "/work", id: "root" })).pipe(
  Layer.provideMerge(agents([]))
)

const played = (script: Scripted.Script) => Layer.provideMerge(Scripted.layer(script), rooted)

const recorded = <A>(get: (recording: Scripted.Recording["Service"]) => Effect.Effect<A>) =>
  Effect.flatMap(Scripted.Recording, get)

const byUser = { kind: "user" } as const

const Verdict = Schema.Struct({ risk: Schema.Literals(["low", "high"]) })

class Weak extends Subagent.Provider<Weak>()("weak", {
  outputSchema: false,
  depthLimit: false,
  toolFilter: false,
  persona: false,
  model: false,
  maxTokens: false,
  steer: false,
  resume: false
}) {}

class Remote extends Subagent.Provider<Remote>()("remote", {
  outputSchema: "negotiated",
  depthLimit: false,
  toolFilter: false,
  persona: false,
  model: false,
  maxTokens: false,
  steer: "negotiated",
  resume: false
}) {}

describe("Scripted", () => {
  it.effect("plays a list in the order of the starts", () =>
    Effect.gen(function*() {
      const first = yield* Scripted.delegate({ prompt: "one" })
      const second = yield* Scripted.delegate({ prompt: "two" })
      assert.deepInclude(first, { _tag: "Completed", text: "hello" })
      assert.deepInclude(second, { _tag: "Completed", text: "bye" })
      assert.deepStrictEqual(second.output.map((part) => part.type === "text" ? part.text : part.type), ["bye"])
      const third = yield* Effect.flip(Scripted.delegate({ prompt: "three" }))
      assert.deepInclude(third, { _tag: "StartFailed", reason: "ProviderFault", provider: "scripted" })
    }).pipe(Effect.provide(played([[Scripted.text("hel", "lo")], [Scripted.text("bye")]]))))

  it.effect("plays a function of the request, which may be an effect", () =>
    Effect.gen(function*() {
      const results = yield* Effect.forEach(
        ["a", "b", "none"],
        (prompt) => Effect.exit(Scripted.delegate({ prompt })),
        { concurrency: "unbounded" }
      )
      assert.deepStrictEqual(results.map(Exit.map((result) => result.text)).map(Exit.getSuccess), [
        Option.some("0:a"),
        Option.some("1:b"),
        Option.none()
      ])
    }).pipe(Effect.provide(played((request) =>
      request.prompt === "none"
        ? Effect.succeed(undefined)
        : Effect.as(Effect.yieldNow, [Scripted.text(`${request.index}:${String(request.prompt)}`)])
    ))))

  it.effect("records what was asked, after every check, as plain data", () =>
    Effect.gen(function*() {
      const parent = yield* CurrentAgent
      yield* Scripted.delegate({
        prompt: "Audit",
        label: "audit",
        outputSchema: Verdict,
        toolFilter: { deny: [] },
        persona: "You audit",
        model: "small",
        maxTokens: 7,
        maxDepth: 4,
        timeout: "1 minute",
        limits: { maxChildren: 2 }
      })
      const [request] = yield* recorded((recording) => recording.starts)
      const { lifetime: _, ...identity } = parent
      assert.deepStrictEqual({ ...request, runId: "r", jsonSchema: request.jsonSchema?.type }, {
        provider: "scripted",
        index: 0,
        runId: "r",
        parent: identity,
        depth: 1,
        limits: { ...parent.limits, maxChildren: 2 },
        prompt: "Audit",
        label: "audit",
        toolFilter: { deny: [] },
        persona: "You audit",
        model: "small",
        maxTokens: 7,
        jsonSchema: "object"
      })
    }).pipe(Effect.provide(played([[Scripted.complete({ risk: "low" })]]))))

  it.effect("hands back structured JSON, which is decoded or refused by the service", () =>
    Effect.gen(function*() {
      const ask = Scripted.delegate({ prompt: "Audit", outputSchema: Verdict })
      assert.deepInclude(yield* ask, { _tag: "Completed", structured: { risk: "high" } })
      assert.deepInclude(yield* ask, { _tag: "Failed", reason: "InvalidStructuredOutput", text: "done" })
      assert.deepInclude(yield* ask, { _tag: "Failed", reason: "InvalidStructuredOutput" })
    }).pipe(Effect.provide(played([
      [Scripted.complete({ risk: "high" })],
      [Scripted.text("done"), Scripted.complete({ risk: "none" })],
      []
    ]))))

  it.effect("ends in every way there is", () =>
    Effect.gen(function*() {
      const run = Effect.map(Scripted.delegate({ prompt: "go" }), ({ output: _, usage: __, ...result }) => result)
      assert.deepStrictEqual(yield* run, {
        _tag: "Failed",
        text: "so far",
        reason: "Overloaded",
        retryable: true,
        diagnostic: "503"
      })
      assert.deepStrictEqual(yield* run, { _tag: "MaxTokens", text: "" })
      assert.deepStrictEqual(yield* run, { _tag: "Refusal", text: "" })
      assert.deepStrictEqual(yield* run, { _tag: "Aborted", cause: "budget", text: "" })
      assert.deepStrictEqual(yield* run, { _tag: "Other", reason: "paused", text: "" })
      assert.deepInclude(yield* Effect.flip(run), {
        _tag: "RunFailed",
        reason: "DurabilityFailed",
        diagnostic: "disk full"
      })
      assert.deepInclude(yield* Effect.flip(run), { _tag: "RunFailed", reason: "ProviderFault" })
    }).pipe(Effect.provide(played([
      [
        Scripted.text("so far"),
        Scripted.fail("Overloaded", { retryable: true, diagnostic: "503" }),
        Scripted.text("x")
      ],
      [Scripted.maxTokens],
      [Scripted.refusal],
      [Scripted.abort("budget")],
      [Scripted.other("paused")],
      [Scripted.runFailed("DurabilityFailed", "disk full")],
      [Scripted.wait(Effect.die("broken"))]
    ]))))

  it.effect("S557 bounds diagnostics", () =>
    Effect.gen(function*() {
      const result = yield* Scripted.delegate({ prompt: "go" })
      assert.strictEqual(result._tag, "Failed")
      if (result._tag === "Failed") assert.isAtMost(new TextEncoder().encode(result.diagnostic).length, 4096)
      const refused = yield* Effect.flip(Scripted.delegate({ prompt: "go" }))
      assert.strictEqual(refused._tag, "StartFailed")
      if (refused._tag === "StartFailed") assert.isAtMost(new TextEncoder().encode(refused.diagnostic).length, 4096)
    }).pipe(
      Effect.provide(
        played([[Scripted.fail("Big", { diagnostic: "ä".repeat(9000) })], Scripted.refuse("Exited", "ä".repeat(9000))])
      )
    ))

  it.effect("shows progress to whoever subscribes right after the start, and ends it at settlement", () =>
    Effect.gen(function*() {
      const run = yield* Scripted.start({ prompt: "go" })
      const seen = yield* Stream.runCollect(run.progress)
      assert.deepStrictEqual(seen, [
        { _tag: "Reasoning", delta: "hm" },
        { _tag: "ToolStarted", id: "call-read", name: "read", params: { path: "a" } },
        { _tag: "Text", delta: "inside" },
        { _tag: "ToolEnded", id: "call-read", name: "read", isFailure: false },
        { _tag: "Text", delta: "a" },
        { _tag: "Text", delta: "b" },
        { _tag: "StepEnded", usage: { inputTokens: 3, outputTokens: 4, steps: 1, elapsed: 0 } },
        { _tag: "StepEnded", usage: { inputTokens: 3, outputTokens: 4, steps: 2, elapsed: 0, cost: 0.5 } }
      ])
      const result = yield* run.result
      assert.deepInclude(result, { _tag: "Completed", text: "ab" })
      assert.deepInclude(result.usage, { inputTokens: 3, outputTokens: 4, steps: 2, cost: 0.5 })
      assert.deepStrictEqual(yield* Stream.runCollect(run.progress), [])
    }).pipe(Effect.provide(played([[
      Scripted.reasoning("hm"),
      Scripted.tool("read", { params: { path: "a" }, during: [Scripted.text("inside")] }),
      Scripted.text("a", "b"),
      Scripted.spend({ inputTokens: 3, outputTokens: 4, steps: 1 }),
      Scripted.spend({ steps: 1, cost: 0.5 })
    ]]))))

  it.effect("keeps 1024 events for a slow reader, and says how many it missed", () =>
    Effect.gen(function*() {
      const run = yield* Scripted.start({ prompt: "go" })
      const latch = yield* Deferred.make<void>()
      const reader = yield* Stream.runCollect(
        Stream.tap(run.progress, () => Deferred.await(latch))
      ).pipe(Effect.forkChild({ startImmediately: true }))
      yield* run.result
      yield* Deferred.succeed(latch, undefined)
      const seen = yield* Fiber.join(reader)
      const dropped = seen.reduce((sum, one) => one._tag === "Dropped" ? sum + one.count : sum, 0)
      const texts = seen.filter((one) => one._tag === "Text")
      assert.isAbove(dropped, 0)
      assert.strictEqual(texts.length + dropped, 5001)
      assert.deepStrictEqual(texts.at(-1), { _tag: "Text", delta: "4999" })
    }).pipe(Effect.provide(played([[
      Scripted.text("first"),
      Scripted.text(...Array.from({ length: 5000 }, (_, i) => String(i)))
    ]]))))

  it.effect("waits, pauses and tells the test how far it is", () =>
    Effect.gen(function*() {
      const reached = yield* Deferred.make<void>()
      const go = yield* Deferred.make<void>()
      const script: Scripted.Script = [[
        Scripted.wait(Deferred.succeed(reached, undefined)),
        Scripted.wait(Deferred.await(go)),
        Scripted.delay("1 hour"),
        Scripted.text("late")
      ]]
      yield* Effect.gen(function*() {
        const run = yield* Scripted.start({ prompt: "go" })
        yield* Deferred.await(reached)
        yield* Deferred.succeed(go, undefined)
        const result = yield* Effect.forkChild(run.result)
        yield* TestClock.adjust("59 minutes")
        assert.isUndefined(result.pollUnsafe())
        yield* TestClock.adjust("1 minute")
        assert.deepInclude(yield* Fiber.join(result), { _tag: "Completed", text: "late" })
      }).pipe(Effect.provide(played(script)))
    }))

  it.effect("S370 keeps what was said when it is cancelled, and records why", () =>
    Effect.gen(function*() {
      const run = yield* Effect.scoped(
        Effect.tap(Scripted.start({ prompt: "go" }), (run) => Stream.runHead(run.progress))
      )
      assert.deepInclude(yield* run.result, { _tag: "Aborted", cause: "disposed", text: "partial" })
      yield* run.released
      const other = yield* Scripted.start({ prompt: "go" })
      yield* Stream.runHead(other.progress)
      assert.deepInclude(yield* other.interrupt, { _tag: "Aborted", cause: "user", text: "before" })
      yield* Scripted.delegate({ prompt: "go" })
      const releases = yield* recorded((recording) => recording.releases)
      assert.deepStrictEqual(releases.map((one) => one.aborted), ["disposed", "user", undefined])
      assert.deepStrictEqual(releases.slice(0, 2).map((one) => one.runId), [run.runId, other.runId])
    }).pipe(Effect.provide(played([
      [Scripted.text("partial"), Scripted.hang],
      [Scripted.text("before"), Scripted.text(), Scripted.hang],
      []
    ]))))

  it.effect("refuses to start, for a reason that names the provider", () =>
    Effect.gen(function*() {
      const error = yield* Effect.flip(Scripted.start({ prompt: "go" }))
      assert.deepInclude(error, {
        _tag: "StartFailed",
        provider: "scripted",
        reason: "AuthRequired",
        diagnostic: "log in first"
      })
      assert.strictEqual((yield* recorded((recording) => recording.starts)).length, 1)
      assert.deepStrictEqual(yield* recorded((recording) => recording.releases), [])
    }).pipe(Effect.provide(played([Scripted.refuse("AuthRequired", "log in first")]))))

  it.effect("takes its time to start, and can be cancelled meanwhile", () =>
    Effect.gen(function*() {
      const slow = yield* Effect.forkChild(Scripted.delegate({ prompt: "go" }))
      yield* TestClock.adjust("1 minute")
      assert.strictEqual((yield* Fiber.join(slow))._tag, "Completed")
      const abort = new AbortController()
      const cancelled = yield* Effect.forkChild(Scripted.start({ prompt: "go", signal: abort.signal }))
      yield* Effect.yieldNow
      abort.abort()
      assert.deepInclude(yield* Effect.flip(Fiber.join(cancelled)), { _tag: "Cancelled", cause: "parent" })
      assert.deepStrictEqual((yield* recorded((recording) => recording.starts)).length, 2)
    }).pipe(Effect.provide(played(() => ({ start: Effect.sleep("1 minute"), run: [] })))))

  it.effect("S68 is given up, and leaves nothing, when its start ignores being cancelled", () =>
    Effect.gen(function*() {
      const abort = new AbortController()
      const start = yield* Effect.forkChild(Scripted.start({ prompt: "go", signal: abort.signal }))
      yield* Effect.yieldNow
      abort.abort()
      yield* TestClock.adjust("10 seconds")
      assert.strictEqual((yield* Effect.flip(Fiber.join(start)))._tag, "Cancelled")
      assert.deepStrictEqual(yield* (yield* Subagent.Subagents).running, [])
      yield* TestClock.adjust("1 minute")
      assert.deepStrictEqual(yield* recorded((recording) => recording.releases), [])
    }).pipe(Effect.provide(played(() => ({ start: Effect.uninterruptible(Effect.sleep("1 minute")), run: [] })))))

  it.effect("S451 has its partial output, and is a survivor, when it ignores being cancelled", () =>
    Effect.gen(function*() {
      const run = yield* Scripted.start({ prompt: "go" })
      yield* Stream.runHead(run.progress)
      const interrupted = yield* Effect.forkChild(run.interrupt)
      yield* TestClock.adjust("10 seconds")
      assert.deepInclude(yield* Fiber.join(interrupted), { _tag: "Aborted", cause: "user", text: "busy" })
      const error = yield* Effect.flip(run.released)
      assert.strictEqual(error.survivors.length, 1)
      yield* TestClock.adjust("1 minute")
      assert.deepInclude(yield* run.result, { _tag: "Aborted", text: "busy" })
    }).pipe(Effect.provide(played([[
      Scripted.text("busy"),
      Scripted.wait(Effect.uninterruptible(Effect.sleep("1 minute"))),
      Scripted.text("too late"),
      Scripted.complete()
    ]]))))

  it.effect("releases in time, late, never wholly, or with a defect", () =>
    Effect.gen(function*() {
      const timely = yield* Effect.forkChild(Scripted.delegate({ prompt: "go" }))
      yield* TestClock.adjust("5 seconds")
      assert.strictEqual((yield* Fiber.join(timely))._tag, "Completed")
      const late = yield* Effect.forkChild(Effect.flip(Scripted.delegate({ prompt: "go" })))
      yield* TestClock.adjust("1 minute")
      const overdue = yield* Fiber.join(late)
      assert.strictEqual(overdue._tag, "ReleaseFailed")
      if (overdue._tag === "ReleaseFailed") assert.deepInclude(overdue.result, { _tag: "Completed", text: "fine" })
      const left = yield* Effect.flip(Scripted.delegate({ prompt: "go" }))
      assert.strictEqual(left._tag, "ReleaseFailed")
      if (left._tag === "ReleaseFailed") assert.deepStrictEqual(left.survivors, ["process 42"])
      const died = yield* Effect.flip(Scripted.delegate({ prompt: "go" }))
      assert.deepInclude(died, { _tag: "ReleaseFailed", survivors: [] })
      assert.include(died.message, "no such socket")
    }).pipe(Effect.provide(played([
      { run: [], release: Effect.sleep("5 seconds") },
      { run: [Scripted.text("fine")], release: Effect.sleep("1 minute") },
      { run: [], survivors: ["process 42"] },
      { run: [], release: Effect.die(new Error("no such socket")) }
    ]))))

  it.effect("S597 is caught when its child has an id that cannot be", () =>
    Effect.gen(function*() {
      assert.strictEqual((yield* Effect.flip(Scripted.start({ prompt: "go" })))._tag, "ContractViolation")
      assert.strictEqual((yield* recorded((recording) => recording.releases)).length, 1)
      const run = yield* Scripted.start({ prompt: "go" })
      assert.strictEqual(run.id, "mine")
      assert.strictEqual((yield* run.result)._tag, "Completed")
    }).pipe(Effect.provide(played([{ id: "root", run: [] }, { id: "mine", run: [] }]))))
})

describe("Scripted: steering", () => {
  it.effect("S88 takes messages while it runs, and acts on them", () =>
    Effect.gen(function*() {
      const run = yield* Scripted.start({ prompt: "go" })
      yield* run.steer("left", byUser)
      yield* run.steer("right", { kind: "coordinator", senderId: "root" })
      assert.deepInclude(yield* run.result, { _tag: "Completed", text: "left,right" })
      assert.deepStrictEqual(yield* recorded((recording) => recording.steers), [
        { provider: "scripted", runId: run.runId, content: "left", source: byUser, rejected: undefined },
        {
          provider: "scripted",
          runId: run.runId,
          content: "right",
          source: { kind: "coordinator", senderId: "root" },
          rejected: undefined
        }
      ])
    }).pipe(Effect.provide(played([[
      Scripted.steered,
      Scripted.steered,
      Scripted.decide((heard) => [Scripted.text(heard.map((message) => message.content).join())])
    ]]))))

  it.effect("S89 rejects messages for the reason that its script gives, and once it has ended", () =>
    Effect.gen(function*() {
      const reason = (run: { readonly steer: Subagent.Steer }) =>
        Effect.map(Effect.flip(run.steer("x", byUser)), (error) => error.reason)
      const concluded = yield* Scripted.start({ prompt: "go" })
      assert.strictEqual(yield* reason(concluded), "concluded")
      const choosy = yield* Scripted.start({ prompt: "go" })
      assert.strictEqual(yield* reason(choosy), "captured")
      yield* choosy.steer("fine", byUser)
      yield* choosy.interrupt
      yield* choosy.released
      assert.strictEqual(yield* reason(choosy), "disposed")
      const steers = yield* recorded((recording) => recording.steers)
      assert.deepStrictEqual(steers.map((one) => one.rejected), ["concluded", "captured", undefined, "disposed"])
    }).pipe(Effect.provide(played([
      { run: [Scripted.hang], steer: "concluded" },
      { run: [Scripted.hang], steer: ({ content }) => content === "fine" ? undefined : "captured" }
    ]))))

  it.effect("keeps a sender waiting until it settles, and forgets one who gives up", () =>
    Effect.gen(function*() {
      const run = yield* Scripted.start({ prompt: "go" })
      const patient = yield* Effect.forkChild(Effect.flip(run.steer("one", byUser)))
      const hasty = yield* Effect.forkChild(run.steer("two", byUser))
      yield* Effect.yieldNow
      yield* Fiber.interrupt(hasty)
      assert.isUndefined(patient.pollUnsafe())
      yield* run.interrupt
      assert.strictEqual((yield* Fiber.join(patient)).reason, "cancelled")
      const steers = yield* recorded((recording) => recording.steers)
      assert.deepStrictEqual(steers.map((one) => [one.content, one.rejected]), [["one", "cancelled"]])
    }).pipe(Effect.provide(played([{ run: [Scripted.hang], steer: () => Effect.never }]))))

  it.effect("rejects a message between its cancellation and its release", () =>
    Effect.gen(function*() {
      const run = yield* Scripted.start({ prompt: "go" })
      const interrupted = yield* Effect.forkChild(run.interrupt)
      yield* TestClock.adjust("1 second")
      assert.deepInclude(yield* Effect.flip(run.steer("x", byUser)), { reason: "cancelled" })
      yield* TestClock.adjust("1 second")
      yield* Fiber.join(interrupted)
    }).pipe(Effect.provide(played([{ run: [Scripted.hang], release: Effect.sleep("2 seconds") }]))))
})

describe("Scripted.layerFor", () => {
  it.effect("plays a provider of one's own, with exactly its capabilities", () =>
    Effect.gen(function*() {
      const run = yield* Weak.start({ prompt: "go" })
      assert.isUndefined(run.steer)
      assert.deepInclude(yield* run.result, { _tag: "Completed", text: "weak" })
      const byName = yield* (yield* Subagent.Subagents).start("weak", { prompt: "go" })
      assert.isTrue(Option.isNone(byName.steer))
      assert.strictEqual((yield* recorded((recording) => recording.starts)).length, 2)
    }).pipe(Effect.provide(Scripted.layerFor(Weak, () => [Scripted.text("weak")]).pipe(Layer.provideMerge(rooted)))))

  it.effect("negotiates", () =>
    Effect.gen(function*() {
      const can = yield* Remote.start({ prompt: "go" })
      yield* Option.getOrThrow(can.steer)("hello", byUser)
      assert.isTrue(Option.isNone((yield* Remote.start({ prompt: "go" })).steer))
      const error = yield* Effect.flip(Remote.start({ prompt: "go", outputSchema: Verdict }))
      assert.deepInclude(error, {
        _tag: "UnsupportedCapability",
        provider: "remote",
        capability: "outputSchema",
        agent: "old",
        version: "0.1"
      })
    }).pipe(Effect.provide(
      Scripted.layerFor(Remote, [
        [Scripted.hang],
        { run: [Scripted.hang], steer: "unsupported" },
        {
          start: Effect.fail(
            new Subagent.UnsupportedCapability({
              provider: "",
              capability: "outputSchema",
              agent: "old",
              version: "0.1"
            })
          ),
          run: []
        }
      ]).pipe(Layer.provideMerge(rooted))
    )))

  it.effect("shares one recording between providers that are built together", () =>
    Effect.gen(function*() {
      yield* Weak.delegate({ prompt: "one" })
      yield* Scripted.delegate({ prompt: "two" })
      const starts = yield* recorded((recording) => recording.starts)
      assert.deepStrictEqual(starts.map((one) => [one.provider, one.index, one.prompt]), [
        ["weak", 0, "one"],
        ["scripted", 0, "two"]
      ])
    }).pipe(Effect.provide(
      Layer.mergeAll(Scripted.layerFor(Weak, [[]]), Scripted.layer([[]])).pipe(Layer.provideMerge(rooted))
    )))

  it.effect("needs nothing but the service and somebody to delegate for", () =>
    Effect.gen(function*() {
      assert.deepInclude(yield* Scripted.delegate({ prompt: "go" }), { _tag: "Completed", text: "done" })
      const [request] = yield* recorded((recording) => recording.starts)
      assert.strictEqual(`${request.parent.sessionId} ${request.parent.depth} ${request.parent.cwd}`, "caller 1 /")
      assert.strictEqual(request.depth, 2)
    }).pipe(
      Effect.provide(Scripted.layer([[Scripted.text("done")]])),
      Effect.provide([Subagent.layer(), Scripted.layerCaller({ depth: 1 })])
    ))

  it.effect("starts afresh when its layer is built again", () =>
    Effect.gen(function*() {
      const once = Effect.andThen(
        Scripted.delegate({ prompt: "go" }),
        recorded((recording) => recording.starts)
      ).pipe(Effect.provide(Scripted.layer([[]])))
      assert.strictEqual((yield* once).length, 1)
      assert.strictEqual((yield* once).length, 1)
    }).pipe(Effect.provide(rooted)))

  it.effect("leaves defects of a script to whoever reads the log", () =>
    Effect.gen(function*() {
      assert.deepInclude(yield* Effect.flip(Scripted.start({ prompt: "go" })), {
        _tag: "StartFailed",
        reason: "ProviderFault"
      })
      assert.deepStrictEqual(yield* (yield* Subagent.Subagents).running, [])
    }).pipe(Effect.provide(played(() => Effect.die("no script")))))
})

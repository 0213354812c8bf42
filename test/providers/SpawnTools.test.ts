import { assert, describe } from "@effect/vitest"
import { Effect, Exit, Fiber, Layer, Scope } from "effect"
import { Prompt } from "effect/ai"
import { Agents } from "../../src/Agent.ts"
import { CurrentAgent, type ToolRestriction } from "../../src/CurrentAgent.ts"
import * as Spawn from "../../src/providers/Spawn.ts"
import * as Subagent from "../../src/Subagent.ts"
import * as SystemPrompt from "../../src/SystemPrompt.ts"
import { call, ScriptedModel, text, wait } from "../../src/testing/ScriptedModel.ts"
import { agentTest, heldCreation, moment, resultsOf, systemOf, textsOf, tool, toolkit } from "../utils/agentTest.ts"
import { leakCheck } from "../utils/leaks.ts"

leakCheck()

const saying = (name: string) => tool(name, () => Effect.succeed(name))
const some = [saying("exec"), saying("read"), saying("write")]

const listed = Agents.use((agents) => Effect.map(agents.list, (all) => all.map(({ id }) => id as string)))

/** The tools that a child saw in its first request. */
const seen = Effect.fnUntraced(function*(toolFilter?: ToolRestriction) {
  const run = yield* Spawn.start({ prompt: "go", toolFilter })
  yield* run.result
  const [request] = yield* (yield* ScriptedModel).requestsOf(run.id)
  return request.tools
})

/** A tool that delegates, with a restriction of each generation's own, and ends where there is none. */
const delegating = (filters: Record<number, ToolRestriction>, starts: Array<unknown> = []) =>
  Layer.unwrap(
    Effect.map(Spawn.Spawn, (spawn) =>
      tool("delegate", () =>
        Effect.flatMap(CurrentAgent, ({ depth }) =>
          Effect.matchEffect(spawn.delegate({ prompt: "go", toolFilter: filters[depth] }), {
            onSuccess: ({ _tag }) =>
              Effect.succeed(_tag),
            onFailure: (error) => {
              starts.push(error)
              return Effect.succeed(error._tag)
            }
          }))))
  )

const generations = ({ depth, index }: { readonly depth: number; readonly index: number }) =>
  depth < 3 && index === 0 ? [call("delegate", {})] : [text("done")]

describe("a child's tools", () => {
  agentTest("S158 S396 a denied tool is missing from its request and refused, and the run completes", () => {
    let ran = false
    return {
      script: [[call("exec", {})], [text("done")]],
      with: [tool("exec", () => Effect.sync(() => void (ran = true))), saying("read")],
      body: Effect.gen(function*() {
        const run = yield* Spawn.start({ prompt: "go", toolFilter: { deny: ["exec"] } })
        const result = yield* run.result
        assert.deepStrictEqual([result._tag, result.text], ["Completed", "done"])
        assert.isFalse(ran)
        const requests = yield* (yield* ScriptedModel).requestsOf(run.id)
        assert.deepStrictEqual(requests.map(({ tools }) => tools), [["read"], ["read"]])
        const [{ isFailure, result: told }] = yield* resultsOf(run.id)
        assert.isTrue(isFailure)
        assert.deepStrictEqual(told, {
          error: { code: "unknown_tool", message: "there is no tool \"exec\"; the tools are: read" }
        })
      })
    }
  })

  agentTest("S16 S160 are what its filter leaves", () => ({
    script: () => [text("done")],
    with: some,
    body: Effect.gen(function*() {
      assert.deepStrictEqual(yield* seen(), ["exec", "read", "write"])
      assert.deepStrictEqual(yield* seen({ allow: ["read", "exec"], deny: ["exec"] }), ["read"])
      assert.deepStrictEqual(yield* seen({ allow: [] }), [])
    })
  }))

  agentTest("S51 S146 S159 S371 S397 an unknown name in its filter starts nothing", () => ({
    script: [],
    with: some,
    root: { restriction: { deny: ["exec"] } },
    body: Effect.gen(function*() {
      const refused = (toolFilter: ToolRestriction) =>
        Effect.flip(Spawn.start({ prompt: "go", toolFilter })).pipe(
          Effect.map((error) => error._tag === "UnknownTool" ? [error.names, error.known, error.hidden] : error._tag)
        )
      assert.deepStrictEqual(yield* refused({ deny: ["nope", "read"] }), [["nope"], ["exec", "read", "write"], false])
      assert.deepStrictEqual(yield* refused({ allow: ["exec", "read"] }), [["exec"], ["read", "write"], true])
      assert.deepStrictEqual(yield* refused({ allow: ["structured_output"] }), [
        ["structured_output"],
        ["exec", "read", "write"],
        false
      ])
      assert.strictEqual(yield* refused({}), "InvalidRequest")
      assert.deepStrictEqual(yield* listed, ["root"])
      assert.deepStrictEqual(yield* (yield* Subagent.Subagents).running, [])
    })
  }))

  agentTest("S144 what becomes of the lists of a request after it was made is of no interest", () => {
    const allow = ["read"]
    const prompt = [Prompt.makePart("text", { text: "go" })]
    const { created, creating, store } = heldCreation()
    return {
      store,
      script: () => [text("done")],
      with: some,
      body: Effect.gen(function*() {
        const starting = yield* Effect.forkScoped(Spawn.start({ prompt, toolFilter: { allow } }), {
          startImmediately: true
        })
        yield* creating.passed
        allow.push("exec")
        prompt.push(Prompt.makePart("text", { text: "and more" }))
        yield* created.now
        const run = yield* Fiber.join(starting)
        yield* run.result
        const [request] = yield* (yield* ScriptedModel).requestsOf(run.id)
        assert.deepStrictEqual(request.tools, ["read"])
        assert.deepStrictEqual(textsOf(request), ["user: go"])
      })
    }
  })

  agentTest("S162 what the system prompt says of a hidden tool stays", () => ({
    script: () => [text("done")],
    with: [
      ...some,
      SystemPrompt.layerSection({ name: "exec guidance", order: 100, text: "run programs with exec" })
    ],
    body: Effect.gen(function*() {
      const run = yield* Spawn.start({ prompt: "go", toolFilter: { deny: ["exec"] } })
      yield* run.result
      const [request] = yield* (yield* ScriptedModel).requestsOf(run.id)
      assert.deepStrictEqual(request.tools, ["read", "write"])
      assert.strictEqual(systemOf(request), "run programs with exec")
    })
  }))

  agentTest("a hidden tool may be denied once more", () => ({
    script: () => [text("done")],
    with: some,
    root: { restriction: { deny: ["exec"] } },
    body: Effect.gen(function*() {
      assert.deepStrictEqual(yield* seen({ deny: ["exec"] }), ["read", "write"])
      assert.deepStrictEqual(yield* seen(), ["read", "write"])
    })
  }))

  agentTest("S16 S148 S160 restrictions intersect downward, over three generations", () => ({
    script: generations,
    with: [
      ...some,
      delegating({ 0: { deny: ["exec"] }, 1: { allow: ["delegate", "read", "write"] }, 2: { deny: ["write"] } })
    ],
    body: Effect.gen(function*() {
      yield* Spawn.delegate({ prompt: "go", toolFilter: { deny: ["exec"] } })
      const requests = yield* (yield* ScriptedModel).requests
      const first = [1, 2, 3].map((depth) => requests.find((request) => request.depth === depth)?.tools)
      assert.deepStrictEqual(first, [
        ["delegate", "read", "write"],
        ["delegate", "read", "write"],
        ["delegate", "read"]
      ])
    })
  }))

  agentTest("a grandchild cannot get back what its parent was denied", () => {
    const errors: Array<unknown> = []
    return {
      script: generations,
      with: [...some, delegating({ 1: { allow: ["exec"] } }, errors)],
      body: Effect.gen(function*() {
        const run = yield* Spawn.start({ prompt: "go", toolFilter: { deny: ["exec"] } })
        yield* run.result
        const [error] = errors as ReadonlyArray<
          { readonly _tag: string; readonly names: unknown; readonly hidden: unknown }
        >
        assert.deepStrictEqual([error._tag, error.names, error.hidden], ["UnknownTool", ["exec"], true])
        assert.deepStrictEqual((yield* resultsOf(run.id)).map(({ result }) => result), ["UnknownTool"])
      })
    }
  })

  agentTest("S161 tools that come later show under deny lists and stay hidden under allow lists", () => {
    const gate = moment()
    return {
      script: ({ index }) => index === 0 ? [wait(gate.passed), call("read", {})] : [text("done")],
      with: some,
      body: Effect.gen(function*() {
        const denying = yield* Spawn.start({ prompt: "go", toolFilter: { deny: ["exec"] } })
        const allowing = yield* Spawn.start({ prompt: "go", toolFilter: { allow: ["read"] } })
        yield* Effect.yieldNow
        yield* Layer.build(saying("late"))
        yield* gate.now
        yield* denying.result
        yield* allowing.result
        const model = yield* ScriptedModel
        assert.deepStrictEqual((yield* model.requestsOf(denying.id)).map(({ tools }) => tools), [
          ["read", "write"],
          ["late", "read", "write"]
        ])
        assert.deepStrictEqual((yield* model.requestsOf(allowing.id)).map(({ tools }) => tools), [["read"], ["read"]])
      })
    }
  })

  agentTest("a name that its parent's restriction keeps and nobody registers any more is no obstacle", () => {
    const scope = Scope.makeUnsafe()
    return {
      script: () => [text("done")],
      with: some,
      body: Effect.gen(function*() {
        yield* Scope.provide(Layer.build(saying("gone")), scope)
        const agents = yield* Agents
        const parent = yield* agents.create({ cwd: "/work", restriction: { deny: ["gone", "exec"] } })
        yield* Scope.close(scope, Exit.void)
        const tools = Effect.provideService(seen({ allow: ["read"] }), CurrentAgent, parent.identity)
        assert.deepStrictEqual(yield* tools, ["read"])
        assert.deepStrictEqual(yield* Effect.provideService(seen(), CurrentAgent, parent.identity), ["read", "write"])
        // a new restriction may not name it
        const error = yield* Effect.flip(
          Effect.provideService(
            Spawn.start({ prompt: "go", toolFilter: { deny: ["gone"] } }),
            CurrentAgent,
            parent.identity
          )
        )
        assert.strictEqual(error._tag, "UnknownTool")
      })
    }
  })

  agentTest("S148 tools of its parent's own are not inherited", () => ({
    script: ({ depth, index }) => depth === 1 && index === 0 ? [call("delegate", {})] : [text("done")],
    with: [delegating({})],
    body: Effect.gen(function*() {
      const kit = toolkit("own")
      const own = yield* Effect.provide(kit, kit.toLayer({ own: () => Effect.succeed(1) } as never))
      const agents = yield* Agents
      // sound: what is in it is only read by its names
      const parent = yield* agents.create({ cwd: "/work", depth: 1, tools: own as never })
      yield* parent.prompt("go")
      const requests = yield* (yield* ScriptedModel).requests
      assert.deepStrictEqual(requests.map(({ depth, tools }) => [depth, tools]), [
        [1, ["delegate", "own"]],
        [2, ["delegate"]],
        [1, ["delegate", "own"]]
      ])
    })
  }))
})

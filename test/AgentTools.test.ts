import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Exit, Layer, Schema, Scope, Stream } from "effect"
import { Tool, Toolkit } from "effect/ai"
import * as AgentTools from "../src/AgentTools.ts"
import { CurrentAgent, type ToolRestriction } from "../src/CurrentAgent.ts"
import { call, ScriptedModel, text } from "../src/testing/ScriptedModel.ts"
import { agentTest, create, resultsOf, tool } from "./utils/agentTest.ts"
import { leakCheck } from "./utils/leaks.ts"

leakCheck()

const saying = (name: string, says: unknown = name) => tool(name, () => Effect.succeed(says))

const registry = <A, E>(effect: Effect.Effect<A, E, AgentTools.AgentTools | Scope.Scope>) =>
  Effect.provide(
    effect,
    Layer.mergeAll(saying("read"), saying("write"), saying("exec")).pipe(
      Layer.provideMerge(AgentTools.layerRegistry)
    )
  )

const seen = (...restrictions: ReadonlyArray<ToolRestriction>) =>
  Effect.map(AgentTools.AgentTools, (tools) => tools.resolver({ restrictions })().names)

describe("AgentTools", () => {
  it.effect("S428 lists tools in the order of their names", () =>
    registry(Effect.gen(function*() {
      const tools = yield* AgentTools.AgentTools
      assert.deepStrictEqual(yield* tools.names, ["exec", "read", "write"])
      const { names, toolkit } = tools.resolver({ restrictions: [] })()
      assert.deepStrictEqual(names, ["exec", "read", "write"])
      assert.deepStrictEqual(Object.keys(toolkit.tools), ["exec", "read", "write"])
    })))

  it.effect("S160 applies allow before deny, and every restriction", () =>
    registry(Effect.gen(function*() {
      assert.deepStrictEqual(yield* seen({ allow: ["read", "write"] }), ["read", "write"])
      assert.deepStrictEqual(yield* seen({ deny: ["exec"] }), ["read", "write"])
      assert.deepStrictEqual(yield* seen({ allow: ["read", "write"], deny: ["write"] }), ["read"])
      assert.deepStrictEqual(yield* seen({ allow: [] }), [])
      assert.deepStrictEqual(yield* seen({ deny: [] }), ["exec", "read", "write"])
      assert.deepStrictEqual(yield* seen({ allow: ["read", "write"] }, { allow: ["write", "exec"] }), ["write"])
      assert.deepStrictEqual(yield* seen({ allow: ["read"] }, { deny: ["read"] }), [])
    })))

  it.effect("S161 a tool that comes later shows under deny and stays hidden under allow", () =>
    registry(Effect.gen(function*() {
      const tools = yield* AgentTools.AgentTools
      const allowing = tools.resolver({ restrictions: [{ allow: ["read"] }] })
      const denying = tools.resolver({ restrictions: [{ deny: ["read"] }] })
      const free = tools.resolver({ restrictions: [] })
      assert.deepStrictEqual([allowing().names, denying().names], [["read"], ["exec", "write"]])
      const scope = yield* Scope.make()
      yield* Scope.provide(Layer.build(saying("late")), scope)
      assert.deepStrictEqual(allowing().names, ["read"])
      assert.deepStrictEqual(denying().names, ["exec", "late", "write"])
      assert.deepStrictEqual(free().names, ["exec", "late", "read", "write"])
      yield* Scope.close(scope, Exit.void)
      assert.deepStrictEqual(denying().names, ["exec", "write"])
      assert.deepStrictEqual(free().names, ["exec", "read", "write"])
    })))

  it.effect("gives the same object for as long as nothing changes", () =>
    registry(Effect.gen(function*() {
      const tools = yield* AgentTools.AgentTools
      const resolver = tools.resolver({ restrictions: [{ deny: ["read"] }] })
      const first = resolver()
      assert.strictEqual(resolver(), first)
      assert.strictEqual(tools.resolver({ restrictions: [] })(), tools.resolver({ restrictions: [] })())
      yield* Layer.build(saying("late"))
      assert.notStrictEqual(resolver(), first)
    })))

  it.effect("S159 checks what a restriction names", () =>
    registry(Effect.gen(function*() {
      const tools = yield* AgentTools.AgentTools
      yield* tools.check({ allow: ["read"], deny: ["exec"] }, [])
      yield* tools.check({ allow: [] }, [])
      const unknown = yield* Effect.flip(tools.check({ allow: ["read", "raed"], deny: ["wirte"] }, []))
      assert.deepStrictEqual([unknown.names, unknown.known, unknown.hidden], [
        ["raed", "wirte"],
        ["exec", "read", "write"],
        false
      ])
      assert.strictEqual(unknown.message, "unknown tools: raed, wirte; known tools: exec, read, write")
      // who cannot see a tool may deny it and cannot allow it
      yield* tools.check({ deny: ["exec"] }, [{ deny: ["exec"] }])
      const hidden = yield* Effect.flip(tools.check({ allow: ["read", "exec"] }, [{ deny: ["exec"] }]))
      assert.deepStrictEqual([hidden.names, hidden.known, hidden.hidden], [["exec"], ["read", "write"], true])
      assert.strictEqual(hidden.message, "tools that the parent cannot use: exec; known tools: read, write")
      // what is inherited was right once, and is not looked at again
      yield* tools.check({ allow: ["read"] }, [{ deny: ["gone"] }])
    })))

  it.effect("a name is taken for as long as its layer lives", () =>
    registry(Effect.gen(function*() {
      const scope = yield* Scope.make()
      yield* Scope.provide(Layer.build(saying("once")), scope)
      const error = yield* Effect.flip(Effect.scoped(Layer.build(saying("once"))))
      assert.strictEqual(error instanceof AgentTools.DuplicateTool && error.name, "once")
      // one that is refused takes none of its names
      const both = Toolkit.make(Tool.make("fresh"), Tool.make("once"))
      const refused = yield* Effect.flip(Effect.scoped(Layer.build(
        AgentTools.layer(both).pipe(Layer.provide(both.toLayer({ fresh: () => Effect.void, once: () => Effect.void })))
      )))
      assert.strictEqual(refused._tag, "DuplicateTool")
      yield* Scope.close(scope, Exit.void)
      assert.deepStrictEqual(yield* (yield* AgentTools.AgentTools).names, ["exec", "read", "write"])
      yield* Layer.build(saying("once"))
    })))

  it.effect("S160 own tools are never filtered and shadow registered ones", () =>
    registry(Effect.gen(function*() {
      const tools = yield* AgentTools.AgentTools
      const Own = Toolkit.make(
        Tool.make("read", { success: Schema.String }),
        Tool.make("zap", { success: Schema.String })
      )
      const own = yield* Effect.provide(
        Own,
        Own.toLayer({ read: () => Effect.succeed("own"), zap: () => Effect.succeed("zap") })
      )
      const { names, toolkit } = tools.resolver({
        restrictions: [{ allow: ["write"] }],
        // sound: what is in it is only read by its names
        own: own as unknown as AgentTools.AnyToolkit
      })()
      assert.deepStrictEqual(names, ["read", "write", "zap"])
      const results = yield* Stream.runCollect(yield* toolkit.handle("read", {} as never))
      assert.deepStrictEqual(results.map(({ encodedResult }) => encodedResult), ["own"])
    })))

  it.effect("what a layer's handlers need is its own, and who calls is the caller", () => {
    class Disk extends Context.Service<Disk, string>()("test/Disk") {}
    const Write = Tool.make("save", { success: Schema.String, dependencies: [Disk, CurrentAgent] })
    const kit = Toolkit.make(Write)
    const layer = AgentTools.layer(kit).pipe(
      Layer.provide(kit.toLayer({
        save: () => Effect.map(Effect.all([Disk, CurrentAgent]), ([disk, agent]) => `${agent.sessionId} on ${disk}`)
      }))
    )
    return Effect.gen(function*() {
      const { toolkit } = (yield* AgentTools.AgentTools).resolver({ restrictions: [] })()
      const save = (agent: string) =>
        Effect.flatMap(toolkit.handle("save", {} as never), Stream.runCollect).pipe(
          Effect.map((results) => results.map(({ encodedResult }) => encodedResult)),
          Effect.provideService(CurrentAgent, { sessionId: agent } as CurrentAgent["Service"])
        )
      assert.deepStrictEqual(yield* save("one"), ["one on disk of the layer"])
      assert.deepStrictEqual(yield* Effect.provideService(save("two"), Disk, "disk of the caller"), [
        "two on disk of the caller"
      ])
    }).pipe(
      Effect.provide(
        layer.pipe(
          Layer.provide(Layer.succeed(Disk, "disk of the layer")),
          Layer.provideMerge(AgentTools.layerRegistry)
        )
      )
    )
  })

  agentTest("S158 a hidden tool is missing from the request and refused when it is called all the same", () => {
    let ran = false
    return {
      script: [[call("exec", {})], [text("done")]],
      with: [saying("read"), tool("exec", () => Effect.sync(() => void (ran = true)))],
      body: Effect.gen(function*() {
        const agent = yield* create("a", { restriction: { deny: ["exec"] } })
        const outcome = yield* agent.prompt("go")
        assert.strictEqual(outcome.cause._tag, "Completed")
        assert.isFalse(ran)
        assert.deepStrictEqual((yield* resultsOf("a")).map(({ result }) => result), [
          { error: { code: "unknown_tool", message: "there is no tool \"exec\"; the tools are: read" } }
        ])
        const requests = yield* (yield* ScriptedModel).requestsOf("a")
        assert.deepStrictEqual(requests.map(({ tools }) => tools), [["read"], ["read"]])
      })
    }
  })

  agentTest("S426 an agent whose tools are all hidden asks without any", () => ({
    script: [[text("done")]],
    with: [saying("read")],
    body: Effect.gen(function*() {
      yield* (yield* create("a", { restriction: { allow: [] } })).prompt("go")
      const [request] = yield* (yield* ScriptedModel).requestsOf("a")
      assert.deepStrictEqual(request.tools, [])
    })
  }))

  agentTest("S161 what a caller does to its lists later changes nothing", () => {
    const allow = ["read"]
    const deny = ["exec"]
    return {
      script: () => [text("done")],
      with: [saying("read"), saying("write"), saying("exec")],
      body: Effect.gen(function*() {
        const one = yield* create("one", { restriction: { allow } })
        const other = yield* create("other", { restriction: { deny } })
        allow.push("exec")
        deny.length = 0
        yield* one.prompt("go")
        yield* other.prompt("go")
        const requests = yield* (yield* ScriptedModel).requests
        assert.deepStrictEqual(requests.map(({ tools }) => tools), [["read"], ["read", "write"]])
        assert.deepStrictEqual(one.identity.restrictions, [{ allow: ["read"] }])
      })
    }
  })

  agentTest("S160 a restriction needs a list", () => ({
    script: [],
    body: Effect.gen(function*() {
      for (const restriction of [{}, { remote: "allow" as const }]) {
        const error = yield* Effect.flip(create("a", { restriction }))
        assert.deepStrictEqual([error._tag, "field" in error && error.field], ["InvalidAgent", "restriction"])
      }
    })
  }))

  agentTest("a handler calls another tool of its own toolkit", () => {
    const Search = Tool.make("search", { success: Schema.String })
    const Research = Tool.make("research", { success: Schema.String })
    const searching = Toolkit.make(Search)
    return {
      script: [[call("research", {}, "one"), call("search", {}, "two")], [call("research", {}, "three")], [
        text("done")
      ]],
      with: [
        AgentTools.layer(Toolkit.make(Research, Search)).pipe(
          Layer.provide(
            Toolkit.make(Research).toLayer({
              research: () =>
                Effect.flatMap(searching, ({ handle }) =>
                  Effect.map(
                    Stream.runCollect(Stream.unwrap(handle("search", {}, "inner"))),
                    (found) => `${found[0].result}, so it is so`
                  ))
            } as never).pipe(Layer.provideMerge(searching.toLayer({ search: () => Effect.succeed("found") })))
          )
        )
      ],
      body: Effect.gen(function*() {
        yield* (yield* create("a")).prompt("go")
        assert.deepStrictEqual((yield* resultsOf("a")).map(({ result }) => result), [
          "found, so it is so",
          "found",
          "found, so it is so"
        ])
      })
    }
  })

  agentTest("a tool that comes while an agent works is in its next request", () => {
    const scope = Scope.makeUnsafe()
    return {
      script: [[call("read", {})], [call("late", {})], [text("done")]],
      with: [
        Layer.effectDiscard(
          Effect.flatMap(
            AgentTools.AgentTools,
            (tools) =>
              Layer.build(tool("read", () =>
                Effect.as(Scope.provide(Layer.build(saying("late")), scope), "read").pipe(
                  Effect.provideService(AgentTools.AgentTools, tools)
                )))
          )
        )
      ],
      body: Effect.gen(function*() {
        yield* Effect.addFinalizer(() => Scope.close(scope, Exit.void))
        yield* (yield* create("a")).prompt("go")
        const requests = yield* (yield* ScriptedModel).requestsOf("a")
        assert.deepStrictEqual(requests.map(({ tools }) => tools), [["read"], ["late", "read"], ["late", "read"]])
        assert.deepStrictEqual((yield* resultsOf("a")).map(({ result }) => result), ["read", "late"])
      })
    }
  })
})

import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Layer, Schema, Scope, Stream } from "effect"
import { LanguageModel, Tool, Toolkit } from "effect/ai"
import * as AgentTools from "../src/AgentTools.ts"
import * as Fork from "../src/providers/Fork.ts"
import * as Scripted from "../src/providers/Scripted.ts"
import * as Spawn from "../src/providers/Spawn.ts"
import * as Subagent from "../src/Subagent.ts"
import * as SubagentTool from "../src/SubagentTool.ts"
import { Delegate, nothing, params, program, result } from "./utils/delegating.ts"
import { leakCheck } from "./utils/leaks.ts"

leakCheck()

class Weak extends Subagent.Provider<Weak>()("weak", nothing) {}
/** Two kinds of child under one name, as a configuration may swap them. */
class Fresh extends Subagent.Provider<Fresh>()("worker", nothing) {}
class Knowing extends Subagent.Provider<Knowing>()("worker", nothing, { inheritsParentContext: true }) {}

const fresh = /does not see this conversation.*must say everything/
const knowing = /knows this conversation up to the end of the last completed turn.*only what is new/

/** What a model is told of the tools, as `effect/ai` hands it over. */
const told = <Tools extends Record<string, Tool.Any>>(toolkit: Toolkit.WithHandler<Tools>) =>
  Effect.gen(function*() {
    const seen: Array<string> = []
    const model = yield* LanguageModel.make({
      generateText: ({ tools }) =>
        Effect.sync(() => {
          for (const tool of tools) seen.push(Tool.getDescription(tool) ?? "")
          return []
        }),
      streamText: () => {
        throw new Error("not used")
      }
    })
    yield* model.generateText({ prompt: "Go", toolkit, disableToolCallResolution: true })
    return seen.join("\n")
  })

/** Builds the layer of a tool and tells how that failed. */
const built = <Name extends string, Needs>(tool: SubagentTool.SubagentTool<Name, Needs>) =>
  Effect.flip(Effect.scoped(Layer.build(SubagentTool.layer(tool))))

describe("SubagentTool", () => {
  describe("what a model is asked for", () => {
    it("S251 S482 takes a description and a prompt, both required, and no provider", () => {
      const schema = Tool.getJsonSchema(Delegate)
      assert.deepStrictEqual(Object.keys(schema.properties as object), ["description", "prompt"])
      assert.deepStrictEqual(schema.required, ["description", "prompt"])
    })

    it("S252 S493 a fresh child's prompt stands for itself", () => {
      const description = Tool.getDescription(SubagentTool.make("delegate", Spawn.Spawn)) ?? ""
      assert.match(description, fresh)
      assert.notMatch(description, knowing)
    })

    it("S252 S493 a fork's prompt says only what is new", () => {
      const description = Tool.getDescription(SubagentTool.make("delegate", Fork.Fork)) ?? ""
      assert.match(description, knowing)
      assert.notMatch(description, fresh)
    })

    it("S253 S483 says nothing of background tasks or of messages", () => {
      assert.notMatch(Tool.getDescription(Delegate) ?? "", /background|task_output|task_kill|send_message/)
    })

    it("begins with the description that it was given", () => {
      const tool = SubagentTool.make("delegate", Fork.Fork, { description: "Asks a reviewer." })
      assert.match(Tool.getDescription(tool) ?? "", /^Asks a reviewer\. /)
      assert.match(Tool.getDescription(tool) ?? "", knowing)
    })
  })

  describe("a tool that is bound by name", () => {
    const ByName = SubagentTool.make("delegate", "worker", { description: "Asks a worker." })
    const add = (provider: Subagent.Provider.Named<typeof nothing>, id: string) =>
      Effect.gen(function*() {
        const subagents = yield* Subagent.Subagents
        const scope = yield* Scope.make()
        // sound: what it needs of a class is its name, its flags and its identity
        const layer = Scripted.layerFor(provider as typeof Fresh, () => ({ id, run: [Scripted.text(`from ${id}`)] }))
        yield* Layer.buildWithScope(Layer.fresh(layer), scope).pipe(
          Effect.provideService(Subagent.Subagents, subagents)
        )
        return Scope.close(scope, Exit.void)
      })

    it.effect("S248 S490 follows the provider that is registered now", () =>
      Effect.gen(function*() {
        const toolkit = yield* Toolkit.make(ByName)
        const describe = told(toolkit)
        // nobody there yet: nothing is claimed that the model could rely on
        assert.match(yield* describe, /^Asks a worker\. .*does not see this conversation/)
        const first = yield* add(Fresh, "first")
        assert.match(yield* describe, fresh)
        yield* first
        const second = yield* add(Knowing, "second")
        assert.match(yield* describe, knowing)
        assert.notMatch(yield* describe, fresh)
        yield* second
        assert.match(yield* describe, fresh)
      }).pipe(Effect.provide(SubagentTool.layer(ByName)), Effect.provide(program([]))))

    it.effect("S490 fails while its provider is away and works once it is there, without any order of loading", () =>
      Effect.gen(function*() {
        const away = yield* result(ByName)
        assert.isTrue(away.isFailure)
        assert.deepInclude(away.result, { error: "the agent could not be started", reason: "ProviderNotFound" })
        assert.match(JSON.stringify(away.encodedResult), /worker.*registered: .*spawn/)
        const first = yield* add(Fresh, "first")
        assert.deepInclude((yield* result(ByName)).result, { kind: "foreground", childId: "first", text: "from first" })
        yield* first
        assert.deepInclude((yield* result(ByName)).result, { reason: "ProviderNotFound" })
        const second = yield* add(Knowing, "second")
        assert.deepInclude((yield* result(ByName)).result, { childId: "second", text: "from second" })
        yield* second
      }).pipe(Effect.provide(program([]))))

    it.effect("S492 heeds no other provider", () =>
      Effect.gen(function*() {
        const describe = told(yield* Toolkit.make(ByName))
        const before = yield* describe
        yield* Layer.build(Scripted.layerFor(Weak, [])).pipe(Effect.scoped)
        assert.strictEqual(yield* describe, before)
      }).pipe(Effect.provide(SubagentTool.layer(ByName)), Effect.provide(program([]))))

    it.effect("keeps its words when it is annotated", () =>
      Effect.gen(function*() {
        const annotated = ByName.annotate(Tool.Title, "Worker")
        const close = yield* add(Knowing, "second")
        assert.match(Tool.getDescription(annotated) ?? "", knowing)
        yield* close
        assert.match(Tool.getDescription(annotated) ?? "", fresh)
      }).pipe(Effect.provide(SubagentTool.layer(ByName)), Effect.provide(program([]))))

    it.effect("follows the registry whose layer of it was built last, for as long as that lives", () =>
      Effect.gen(function*() {
        yield* Effect.asVoid(add(Fresh, "first"))
        yield* Layer.build(SubagentTool.layer(ByName))
        yield* Effect.scoped(Effect.gen(function*() {
          yield* Effect.asVoid(add(Knowing, "second"))
          yield* Layer.build(Layer.fresh(SubagentTool.layer(ByName)))
          assert.match(Tool.getDescription(ByName) ?? "", knowing)
        })).pipe(Effect.provide(Layer.fresh(Subagent.layer())))
        assert.match(Tool.getDescription(ByName) ?? "", fresh)
      }).pipe(Effect.provide(program([]))))

    it.effect("S491 follows nothing any more when its layer is closed", () =>
      Effect.gen(function*() {
        yield* Effect.asVoid(add(Knowing, "second"))
        yield* Effect.scoped(Effect.gen(function*() {
          yield* Layer.build(SubagentTool.layer(ByName))
          assert.match(Tool.getDescription(ByName) ?? "", knowing)
        }))
        assert.match(Tool.getDescription(ByName) ?? "", fresh)
      }).pipe(Effect.provide(program([]))))
  })

  describe("options", () => {
    const options = {
      maxDepth: 0,
      toolFilter: { deny: ["delegate"] },
      persona: "You are terse.",
      model: "small",
      maxTokens: 100,
      limits: { maxChildren: 2 }
    }

    it.effect("S243 S244 S487 S508 reach the request as they are, and its prompt is the model's own", () =>
      Effect.gen(function*() {
        const tool = SubagentTool.make("delegate", Scripted.Scripted, { ...options, maxDepth: 1 })
        yield* result(tool)
        const [request] = yield* (yield* Scripted.Recording).starts
        assert.strictEqual(request.prompt, params.prompt)
        assert.strictEqual(request.label, params.description)
        assert.deepStrictEqual(request.toolFilter, { deny: ["delegate"] })
        assert.deepInclude(request, { persona: "You are terse.", model: "small", maxTokens: 100, depth: 1 })
        assert.strictEqual(request.limits.maxChildren, 2)
      }).pipe(Effect.provide(program([[]]))))

    it.effect("S244 S487 S488 what is left out is absent", () =>
      Effect.gen(function*() {
        let seen: object = {}
        const layer = Weak.toLayer(Effect.succeed({
          start: (request: object) => {
            seen = request
            return Effect.fail(new Subagent.StartFailed({ provider: "weak", reason: "Exited", diagnostic: "enough" }))
          }
        }))
        yield* result(SubagentTool.make("delegate", Weak)).pipe(Effect.provide(layer))
        assert.deepStrictEqual(
          ["toolFilter", "persona", "model", "maxTokens", "maxDepth", "outputSchema"].filter((key) => key in seen),
          []
        )
      }).pipe(Effect.provide(program([]))))

    it.effect("S264 S508 a cap of 0 forbids every child", () =>
      Effect.gen(function*() {
        const refused = yield* result(SubagentTool.make("delegate", Scripted.Scripted, options))
        assert.deepInclude(refused.result, {
          error: "the agent could not be started",
          reason: "DepthExceeded",
          diagnostic: "the child would have depth 1, and maxDepth is 0"
        })
        assert.deepStrictEqual(yield* (yield* Scripted.Recording).starts, [])
      }).pipe(Effect.provide(program([[]]))))

    for (const maxDepth of ["3", NaN, Infinity, -Infinity, -1, 1.5, -0, 2 ** 53, null]) {
      const shown = Object.is(maxDepth, -0) ? "-0" : JSON.stringify(maxDepth) === "null" ? String(maxDepth) : maxDepth
      it.effect(`S245 S497 S591 S601 a maxDepth of ${shown} fails the layer`, () =>
        Effect.gen(function*() {
          // no type stops a program without types
          const error = yield* built(SubagentTool.make("delegate", Scripted.Scripted, { maxDepth: maxDepth as number }))
          assert.deepInclude(error, { _tag: "InvalidRequest", field: "maxDepth" })
          const byName = yield* built(SubagentTool.make("delegate", "scripted", { maxDepth: maxDepth as number }))
          assert.deepInclude(byName, { _tag: "InvalidRequest", field: "maxDepth" })
        }).pipe(Effect.provide(program([]))))
    }

    it.effect("S245 S498 S591 S601 a filter without any list fails the layer", () =>
      Effect.gen(function*() {
        const error = yield* built(SubagentTool.make("delegate", Scripted.Scripted, { toolFilter: {} }))
        assert.deepInclude(error, { _tag: "InvalidRequest", field: "toolFilter" })
      }).pipe(Effect.provide(program([]))))

    const malformed: ReadonlyArray<
      readonly [string, string, Omit<SubagentTool.Options<Subagent.Unchecked>, "outputSchema">]
    > = [
      ["maxTokens", "0", { maxTokens: 0 }],
      ["model", "an empty name", { model: "" }],
      ["limits.maxChildren", "1.5", { limits: { maxChildren: 1.5 } }],
      ["timeout", "nothing", { timeout: "0 seconds" }],
      ["timeout", "no duration", { timeout: "soon" as "1 second" }]
    ]
    for (const [field, value, options] of malformed) {
      it.effect(`S245 S591 S601 a ${field} of ${value} fails the layer`, () =>
        Effect.gen(function*() {
          const error = yield* built(SubagentTool.make("delegate", Scripted.Scripted, options))
          assert.deepInclude(error, { _tag: "InvalidRequest", field })
        }).pipe(Effect.provide(program([]))))
    }

    it.effect.each(["", "two words", "ünicode", "x".repeat(65)])(
      "a tool that is called %j fails the layer",
      (name) =>
        Effect.gen(function*() {
          const error = yield* built(SubagentTool.make(name, Scripted.Scripted))
          assert.deepInclude(error, { _tag: "InvalidRequest", field: "name" })
        }).pipe(Effect.provide(program([])))
    )

    it.effect("a schema that is no object fails the layer", () =>
      Effect.gen(function*() {
        const outputSchema = Schema.Union([Schema.Struct({ a: Schema.String }), Schema.Struct({ b: Schema.String })])
        const error = yield* built(SubagentTool.make("delegate", Scripted.Scripted, { outputSchema }))
        assert.strictEqual(error._tag, "UnsupportedSchema")
      }).pipe(Effect.provide(program([]))))

    const weak = Scripted.layerFor(Weak, [[], []])
    const misfits = {
      depthLimit: { maxDepth: 2 },
      toolFilter: { toolFilter: { deny: [] } },
      persona: { persona: "You are terse." },
      model: { model: "small" },
      maxTokens: { maxTokens: 1 },
      outputSchema: { outputSchema: Schema.Struct({ a: Schema.String }) }
    }

    for (const [capability, misfit] of Object.entries(misfits)) {
      it.effect(`S246 S508 S591 S601 without ${capability} at the provider of its name, its option fails the layer`, () =>
        Effect.gen(function*() {
          const error = yield* built(SubagentTool.make("delegate", "weak", misfit as { readonly persona: string }))
          assert.deepInclude(error, { _tag: "UnsupportedCapability", provider: "weak", capability })
        }).pipe(Effect.provide(weak), Effect.provide(program([]))))

      it.effect(`S247 where the provider comes later, without ${capability} every call fails`, () =>
        Effect.gen(function*() {
          const tool = SubagentTool.make("delegate", "weak", misfit as { readonly persona: string })
          const { handle } = yield* Toolkit.make(tool).pipe(Effect.provide(SubagentTool.layer(tool)))
          yield* Layer.build(weak)
          const [refused] = yield* Stream.runCollect(Stream.unwrap(handle("delegate", params)))
          assert.deepInclude(refused.result, { reason: "UnsupportedCapability" })
          assert.deepStrictEqual(yield* (yield* Scripted.Recording).starts, [])
        }).pipe(Effect.provide(program([]))))
    }

    it.effect("S508 says nothing of a cap to a provider without one", () =>
      Effect.gen(function*() {
        assert.deepInclude((yield* result(SubagentTool.make("delegate", Weak))).result, { kind: "foreground" })
      }).pipe(Effect.provide(weak), Effect.provide(program([]))))
  })

  describe("names", () => {
    const A = SubagentTool.make("ask", Scripted.Scripted)
    const B = SubagentTool.make("ask", Spawn.Spawn)

    it.effect("S249 S575 S601 two tools of one name in one registry are refused", () =>
      Effect.gen(function*() {
        yield* Layer.build(AgentTools.layer(Toolkit.make(A)).pipe(Layer.provide(SubagentTool.layer(A))))
        const error = yield* Effect.flip(
          Layer.build(AgentTools.layer(Toolkit.make(B)).pipe(Layer.provide(SubagentTool.layer(B))))
        )
        assert.deepInclude(error, { _tag: "DuplicateTool", name: "ask" })
        assert.deepStrictEqual(yield* (yield* AgentTools.AgentTools).names, ["ask"])
      }).pipe(Effect.provide(program([]))))

    it.effect("S249 S601 a handler that was made for another tool of its name is refused where it would answer", () =>
      Effect.gen(function*() {
        const both = Layer.mergeAll(SubagentTool.layer(A), SubagentTool.layer(B))
        const contribute = (tool: typeof A | typeof B) =>
          Layer.build(AgentTools.layer(Toolkit.make(tool)).pipe(Layer.provide(both)))
        assert.deepInclude(yield* Effect.flip(contribute(A)), { _tag: "DuplicateTool", name: "ask" })
        assert.deepStrictEqual(yield* (yield* AgentTools.AgentTools).names, [])
        // the one that was provided last is its own
        yield* contribute(B)
        assert.deepStrictEqual(yield* (yield* AgentTools.AgentTools).names, ["ask"])
      }).pipe(Effect.provide(program([]))))

    it.effect("S249 a handler that does what its tool says is never refused", () =>
      Effect.gen(function*() {
        const contribute = <Tools extends Record<string, Tool.Any>, E, R>(
          toolkit: Toolkit.Toolkit<Tools>,
          handlers: Layer.Layer<Tool.HandlersFor<Tools>, E, R>
        ) => Effect.scoped(Layer.build(AgentTools.layer(toolkit).pipe(Layer.provide(handlers))))
        // another layer of the tool, the tool with one more annotation, and the same tool defined twice
        yield* contribute(Toolkit.make(A), Layer.mergeAll(SubagentTool.layer(A), Layer.fresh(SubagentTool.layer(A))))
        yield* contribute(Toolkit.make(A.annotate(Tool.Title, "Ask")), SubagentTool.layer(A))
        const twice = () => SubagentTool.make("ask", "scripted", { toolFilter: { deny: ["a"] }, timeout: "1 minute" })
        yield* contribute(Toolkit.make(twice()), SubagentTool.layer(twice()))
        // a program may answer for the tool itself
        const byHand = Toolkit.make(A)
        yield* contribute(byHand, byHand.toLayer({ ask: () => Effect.fail({ error: "no", reason: "closed" }) }))
        // an ordinary tool of another kit, which has the name as well
        const plain = Toolkit.make(Tool.make("ask", { success: Schema.String }))
        yield* contribute(plain, plain.toLayer({ ask: () => Effect.succeed("yes") }))
      }).pipe(Effect.provide(program([]))))

    it.effect("a name that was given back may be taken again", () =>
      Effect.gen(function*() {
        yield* Effect.scoped(
          Layer.build(AgentTools.layer(Toolkit.make(A)).pipe(Layer.provide(SubagentTool.layer(A))))
        )
        yield* Layer.build(AgentTools.layer(Toolkit.make(B)).pipe(Layer.provide(SubagentTool.layer(B))))
        assert.deepStrictEqual(yield* (yield* AgentTools.AgentTools).names, ["ask"])
      }).pipe(Effect.provide(program([]))))
  })
})

import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Layer, Scope } from "effect"
import * as Spawn from "../src/providers/Spawn.ts"
import * as SystemPrompt from "../src/SystemPrompt.ts"
import { ScriptedModel, text } from "../src/testing/ScriptedModel.ts"
import { agentTest, causesOf, create, systemOf } from "./utils/agentTest.ts"
import { leakCheck } from "./utils/leaks.ts"

leakCheck()

const section = (name: string, order: number, text: string): SystemPrompt.Section => ({ name, order, text })

const assemble = (sections: ReadonlyArray<SystemPrompt.Section>, variables: SystemPrompt.Variables = {}) =>
  SystemPrompt.SystemPrompt.use((prompt) => prompt.assemble({ sections, variables }))

describe("SystemPrompt", () => {
  it.effect("joins sections by a blank line in their order, ties by name", () =>
    Effect.gen(function*() {
      assert.strictEqual(
        yield* assemble([section("z", 1, "last"), section("b", 0, "second"), section("a", 0, "first")]),
        "first\n\nsecond\n\nlast"
      )
      assert.isUndefined(yield* assemble([]))
      assert.isUndefined(yield* assemble([section("a", 0, ""), section("b", 0, "")]))
      assert.strictEqual(yield* assemble([section("a", 0, ""), section("b", 0, "only")]), "only")
    }).pipe(Effect.provide(SystemPrompt.layer)))

  it.effect("S156 substitutes known variables, once", () =>
    Effect.gen(function*() {
      const variables = { cwd: "/work", recursive: "{{cwd}}", "dotted.name-1": "ok", empty: "" }
      const text = (text: string) => assemble([section("s", 0, text)], variables)
      assert.strictEqual(yield* text("in {{cwd}} and {{ cwd }}"), "in /work and /work")
      assert.strictEqual(yield* text("{{recursive}}"), "{{cwd}}")
      assert.strictEqual(yield* text("{{dotted.name-1}}[{{empty}}]"), "ok[]")
      assert.strictEqual(yield* text("{{{cwd}}} { {cwd} }"), "{/work} { {cwd} }")
      assert.strictEqual(yield* text("{{{cwd}}{"), "{/work{")
      assert.strictEqual(yield* text("no {references} here"), "no {references} here")
    }).pipe(Effect.provide(SystemPrompt.layer)))

  it.effect("S156 fails for what is unknown, has no value or is malformed", () =>
    Effect.gen(function*() {
      const refused = (text: string) =>
        Effect.flip(assemble([section("s", 0, text)], { cwd: "/work", nothing: undefined }))
      for (
        const [text, reference] of [
          ["{{unknown}}", "unknown"],
          ["{{nothing}}", "nothing"],
          ["{{}}", ""],
          ["{{ }}", " "],
          ["{{1a}}", "1a"],
          ["{{toString}}", "toString"],
          ["{{__proto__}}", "__proto__"],
          ["{{cwd", "{{cwd"],
          ["cwd}}", "}}"],
          ["{{cwd}} {{", "{{"],
          ["{{{{cwd}}}}", "{{ }}"]
        ] as const
      ) {
        const error = yield* refused(text)
        assert.deepStrictEqual([error._tag, error.section, error.reference, error.known], [
          "UnknownVariable",
          "s",
          reference,
          ["cwd"]
        ], text)
      }
      const error = yield* refused("{{unknown}}")
      assert.strictEqual(
        error.message,
        "section \"s\" refers to {{unknown}}, which has no value; known variables: cwd"
      )
    }).pipe(Effect.provide(SystemPrompt.layer)))

  it.effect("an agent's own sections and variables win over the shared ones", () =>
    Effect.gen(function*() {
      const own = [section("persona", 0, "you are {{name}}"), section("more", 1, "own")]
      assert.strictEqual(yield* assemble(own, { name: "own" }), "you are own\n\nshared rules for own\n\nown")
      assert.strictEqual(yield* assemble([]), "you are shared, anyone\n\nshared rules for anyone")
    }).pipe(Effect.provide(
      Layer.mergeAll(
        SystemPrompt.layerSection(section("persona", 0, "you are shared, {{name}}")),
        SystemPrompt.layerSection(section("rules", 0, "shared rules for {{name}}")),
        SystemPrompt.layerVariable("name", "anyone")
      ).pipe(Layer.provideMerge(SystemPrompt.layer))
    )))

  it.effect("names are taken for as long as their scope lives", () =>
    Effect.gen(function*() {
      const prompt = yield* SystemPrompt.SystemPrompt
      const scope = yield* Scope.make()
      yield* Scope.provide(prompt.register(section("a", 0, "one")), scope)
      yield* Scope.provide(prompt.variable("v", "1"), scope)
      const taken = yield* Effect.flip(prompt.register(section("a", 1, "two")))
      assert.deepStrictEqual([taken._tag, taken.name], ["DuplicateSection", "a"])
      assert.strictEqual((yield* Effect.flip(prompt.variable("v", "2")))._tag, "DuplicateSection")
      assert.strictEqual(yield* assemble([]), "one")
      yield* Scope.close(scope, Exit.void)
      assert.isUndefined(yield* assemble([]))
      yield* prompt.register(section("a", 1, "two {{v}}"))
      yield* prompt.variable("v", "2")
      assert.strictEqual(yield* assemble([]), "two 2")
    }).pipe(Effect.provide(SystemPrompt.layer)))

  agentTest("S157 an agent's requests say its sections with its directory, model and session", () => ({
    script: () => [text("done")],
    with: [
      SystemPrompt.layerSection(section("where", 5, "in {{cwd}} as {{session}} by {{model}}")),
      SystemPrompt.layerVariable("cwd", "elsewhere")
    ],
    body: Effect.gen(function*() {
      yield* (yield* create("a", { sections: [section("own", 1, "for {{session}}")] })).prompt("go")
      yield* (yield* create("b")).prompt("go")
      const requests = yield* (yield* ScriptedModel).requests
      assert.deepStrictEqual(requests.map(systemOf), [
        "for a\n\nin /work as a by default",
        "in /work as b by default"
      ])
    })
  }))

  agentTest("nothing is said when there is nothing to say, and the log has no system message", () => ({
    script: () => [text("done")],
    body: Effect.gen(function*() {
      yield* (yield* create("a")).prompt("go")
      const [request] = yield* (yield* ScriptedModel).requests
      assert.deepStrictEqual(request.prompt.content.map(({ role }) => role), ["user"])
    })
  }))

  agentTest("S17 S395 a persona is its child's alone, and nothing that is inherited", () => ({
    script: () => [text("done")],
    root: { persona: "you are the root" },
    with: [SystemPrompt.layerSection(section("persona", 0, "you are anyone"))],
    body: Effect.gen(function*() {
      const pirate = yield* Spawn.start({ prompt: "go", persona: "you are a pirate in {{cwd}}" })
      const plain = yield* Spawn.start({ prompt: "go" })
      const nobody = yield* Spawn.start({ prompt: "go", persona: "" })
      for (const run of [pirate, plain, nobody]) yield* run.result
      const model = yield* ScriptedModel
      const first = (id: string) => Effect.map(model.requestsOf(id), ([request]) => systemOf(request))
      assert.strictEqual(yield* first(pirate.id), "you are a pirate in /work")
      assert.strictEqual(yield* first(plain.id), "you are anyone")
      assert.strictEqual(yield* first(nobody.id), "")
    })
  }))

  agentTest("S156 an unknown variable fails the start and leaves no child", () => ({
    script: [],
    body: Effect.gen(function*() {
      const error = yield* Effect.flip(Spawn.start({ prompt: "go", persona: "you are {{who}}" }))
      assert.strictEqual(error._tag, "UnknownVariable")
      assert.deepStrictEqual(error._tag === "UnknownVariable" && [error.section, error.reference, error.known], [
        "persona",
        "who",
        ["cwd", "model", "session"]
      ])
      assert.strictEqual((yield* Effect.flip(create("a", { persona: "{{" })))._tag, "UnknownVariable")
      // the id is free
      yield* create("a", { persona: "{ fine }" })
    })
  }))

  agentTest("a shared section that goes bad fails the turn", () => ({
    script: [],
    body: Effect.gen(function*() {
      const agent = yield* create("a")
      yield* SystemPrompt.SystemPrompt.use((prompt) => prompt.register(section("late", 0, "{{who}}")))
      const outcome = yield* agent.prompt("go")
      assert.strictEqual(outcome.cause._tag === "Failed" && outcome.cause.reason, "UnknownVariable")
      assert.deepStrictEqual(yield* causesOf("a"), [outcome.cause])
    })
  }))
})

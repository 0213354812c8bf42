import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Fiber, Layer, Stream } from "effect"
import * as fs from "node:fs"
import { hostname } from "node:os"
import * as path from "node:path"
import * as Agent from "../../src/Agent.ts"
import { AgentTools } from "../../src/AgentTools.ts"
import * as Local from "../../src/layers/Local.ts"
import * as Spawn from "../../src/providers/Spawn.ts"
import { SessionStore } from "../../src/SessionStore.ts"
import { call, ScriptedModel, text } from "../../src/testing/ScriptedModel.ts"
import * as Scripted from "../../src/testing/ScriptedModel.ts"
import { leakCheck, makeTempDir } from "../utils/leaks.ts"
import { assertHeld, storeOn } from "../utils/sessionStores.ts"

leakCheck()

const program = (store: string, cwd: string, script: Scripted.Script) =>
  Agent.layerRoot({ cwd, id: "root" }).pipe(
    Layer.provideMerge(Local.layer({ store })),
    Layer.provideMerge(Scripted.layer(script))
  )

describe("Local", () => {
  it.live("runs children with file tools and keeps their sessions", () => {
    const dir = makeTempDir()
    const store = path.join(dir, ".subagents")
    fs.writeFileSync(path.join(dir, "a.txt"), "forty-two\n")
    return Effect.gen(function*() {
      const result = yield* Spawn.delegate({ prompt: "What does a.txt say?", toolFilter: { allow: ["read_file"] } })
      assert.strictEqual(result.text, "it says forty-two")
      const [first, second] = yield* (yield* ScriptedModel).requests
      assert.deepStrictEqual(first.tools, ["read_file"])
      assert.include(JSON.stringify(second.prompt.content.at(-1)), "forty-two")
      const sessions = yield* Stream.runCollect((yield* SessionStore).list)
      assert.strictEqual(sessions.length, 2)
      assert.strictEqual(fs.existsSync(path.join(store, "root", "header.json")), true)
    }).pipe(Effect.provide(program(store, dir, [
      [call("read_file", { path: "a.txt" })],
      [text("it says forty-two")]
    ])))
  })

  it.live("a walk leaves the sessions out, and the tools can be left out", () => {
    const dir = makeTempDir()
    const store = path.join(dir, "sessions")
    return Effect.gen(function*() {
      const names = yield* Effect.flatMap(AgentTools, (tools) => tools.names)
      assert.deepStrictEqual(names, ["list_files", "read_file", "search_text"])
      const fiber = yield* Effect.forkChild(Spawn.delegate({ prompt: "List" }))
      const result = yield* Fiber.join(fiber)
      assert.strictEqual(result._tag, "Completed")
      const [, second] = yield* (yield* ScriptedModel).requests
      const listing = JSON.stringify(second.prompt.content.at(-1))
      assert.include(listing, "the sessions are stored there")
      const without = yield* Effect.flatMap(AgentTools, (tools) => tools.names).pipe(
        Effect.provide(Layer.fresh(Local.layer({ store: path.join(dir, "other"), fileTools: false })))
      )
      assert.deepStrictEqual(without, [])
    }).pipe(Effect.provide(program(store, dir, [
      [call("list_files", { path: ".", recursive: true })],
      [text("done")]
    ])))
  })

  it.live.each([["there", "there"], [undefined, hostname()]] as const)(
    "S572 (host %s) holds its sessions in the name of a host",
    ([host, name]) =>
      Effect.gen(function*() {
        const store = makeTempDir()
        const local = Local.layer({ store, host }).pipe(Layer.provide(Scripted.layer([])))
        const agents = Context.get(yield* Layer.build(local), Agent.Agents)
        yield* agents.create({ cwd: store, id: "a" })
        const here = yield* storeOn({ directory: store, host: "here" })
        const error = yield* Effect.flip(here.open("a"))
        assertHeld(error, process.pid, name)
        // no process of another host is looked for, though this one lives: its lease counts
        assert.property(error, "until")
      })
  )
})

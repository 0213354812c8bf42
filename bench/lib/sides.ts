/**
 * The sides of the comparisons: each holds a conversation of a given size, any number of times.
 */
import { Effect, type Layer, ManagedRuntime } from "effect"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Agents } from "../../src/Agent.ts"
import type { Limits } from "../../src/CurrentAgent.ts"
import * as FileSessionStore from "../../src/layers/FileSessionStore.ts"
import type { StoreFailed } from "../../src/SessionStore.ts"
import * as SessionStore from "../../src/SessionStore.ts"
import { plainStore } from "./files.ts"
import { type Bare, makeBare, promptAsync } from "./floors.ts"
import type { Side } from "./measure.ts"
import * as model from "./model.ts"
import * as Ours from "./ours.ts"

/** The prompts that are sent to one agent, one after the other. */
export type Prompts = (size: number) => ReadonlyArray<string>

const repeated = (effect: Effect.Effect<void>, times: number): Effect.Effect<void> =>
  Effect.gen(function*() {
    for (let i = 0; i < times; i++) yield* effect
  })

/** The library, with a new parent each time. */
export const ours = (
  prompts: Prompts,
  limits: Partial<Limits> = Ours.unlimited,
  store: Layer.Layer<SessionStore.SessionStore, StoreFailed> = SessionStore.layerMemory
): Side => ({
  prepare: async () => {
    const runtime = ManagedRuntime.make(Ours.layer(store))
    const agents = await runtime.runPromise(Agents)
    return {
      run: (size, repeat) => {
        const all = prompts(size)
        return runtime.runPromise(repeated(
          Effect.scoped(Effect.gen(function*() {
            const parent = yield* Effect.orDie(Ours.parent(agents, limits))
            for (const prompt of all) yield* Ours.ask(parent, prompt)
          })),
          repeat
        ))
      },
      dispose: () => runtime.dispose()
    }
  }
})

/** Floor (b). */
export const bare = (prompts: Prompts): Side => ({
  prepare: async () => {
    const runtime = ManagedRuntime.make(model.layer)
    const prompt = await runtime.runPromise(makeBare())
    return {
      run: (size, repeat) => {
        const all = prompts(size)
        return runtime.runPromise(repeated(
          Effect.gen(function*() {
            const messages: Parameters<typeof prompt>[0] = []
            for (const one of all) yield* prompt(messages, one)
          }),
          repeat
        ))
      },
      dispose: () => runtime.dispose()
    }
  }
})

/** Floor (a). */
export const plain = (prompts: Prompts): Side => ({
  prepare: async () => ({
    run: async (size, repeat) => {
      const all = prompts(size)
      for (let i = 0; i < repeat; i++) {
        const messages: Parameters<typeof promptAsync>[0] = []
        for (const one of all) await promptAsync(messages, one)
      }
    },
    dispose: async () => {}
  })
})

const inDirectory = (makeSide: (directory: string) => Side): Side => ({
  prepare: async () => {
    const directory = mkdtempSync(join(tmpdir(), "effect-subagent-bench-"))
    const { dispose, run } = await makeSide(directory).prepare()
    return {
      run,
      dispose: async () => {
        await dispose()
        rmSync(directory, { recursive: true, force: true })
      }
    }
  }
})

/** The library on files, in a directory of its own. */
export const oursOnFiles = (prompts: Prompts): Side =>
  inDirectory((directory) => ours(prompts, Ours.unlimited, FileSessionStore.layerNode({ directory })))

/** Floor (c). */
export const bareOnFiles = (prompts: Prompts): Side =>
  inDirectory((directory) => ({
    prepare: async () => {
      const store = await plainStore(directory)
      const runtime = ManagedRuntime.make(model.layer)
      const kept = (bare: Bare, all: ReadonlyArray<string>): Effect.Effect<string> =>
        Effect.gen(function*() {
          const session = yield* Effect.promise(store.create)
          const messages: Parameters<Bare>[0] = []
          let text = ""
          for (const prompt of all) {
            text = yield* bare(messages, prompt)
            yield* Effect.promise(() => session.end(messages))
          }
          yield* Effect.promise(session.close)
          return text
        })
      const bare = await runtime.runPromise(makeBare((bare, prompt) => kept(bare, [prompt])))
      return {
        run: (size, repeat) => runtime.runPromise(repeated(Effect.asVoid(kept(bare, prompts(size))), repeat)),
        dispose: async () => {
          await runtime.dispose()
          await store.close()
        }
      }
    }
  }))

/** File stores on a directory, as other processes would have them, and what they leave in it. */
import { assert } from "@effect/vitest"
import { Context, Effect, Latch, Layer, Stream } from "effect"
import { readdirSync } from "node:fs"
import { join } from "node:path"
import * as FileSessionStore from "../../src/layers/FileSessionStore.ts"
import { SessionStore } from "../../src/SessionStore.ts"
import { tempDir } from "./leaks.ts"
import * as Watched from "./watchedFileSystem.ts"

/** One more store on a directory, as another process would have it. */
export const storeOn = (options: FileSessionStore.Options) =>
  Effect.map(Layer.build(Layer.fresh(FileSessionStore.layerNode(options))), Context.get(SessionStore))

/** A store whose every call goes through a gate: closed, it is as good as a stopped process. */
export const gatedStoreOn = (options: FileSessionStore.Options, hook: Watched.Hook = () => Effect.void) =>
  Effect.gen(function*() {
    const gate = yield* Latch.make(true)
    const layer = Layer.provide(
      FileSessionStore.layer(options),
      Watched.layer((call) => Effect.andThen(hook(call), gate.await))
    )
    // opened before the store is closed, which has calls to make as well
    const context = yield* Layer.build(Layer.fresh(layer))
    yield* Effect.addFinalizer(() => gate.open)
    return { gate, store: Context.get(context, SessionStore) }
  })

export const readAll = (store: SessionStore["Service"], id: string) => Stream.runCollect(store.read(id))

export const assertHeld = (error: unknown, pid: number, host: string): void =>
  assert.deepInclude(error as object, { _tag: "HeldElsewhere", id: "a", holder: `pid ${pid} on host ${host}` })

export const locks = (directory: string, id = "a") =>
  readdirSync(join(directory, id)).filter((name) => name.endsWith(".lock"))

/** A store whose calls are recorded, and fail when `fails` says so. */
export const watched = (
  fails: (call: Watched.Call, calls: ReadonlyArray<Watched.Call>) => string | undefined = () => undefined
) =>
  Effect.gen(function*() {
    const directory = yield* tempDir
    const calls: Array<Watched.Call> = []
    const context = yield* Layer.build(Layer.provide(
      FileSessionStore.layer({ directory }),
      Watched.layer((call) =>
        Effect.suspend(() => {
          const short = { name: call.name, path: call.path.replace(directory, "").replace(/\/\.holders\/[^/]+/, "H") }
          const code = fails(short, calls)
          calls.push(short)
          return code === undefined ? Effect.void : Effect.fail(Watched.systemFailure(code, call))
        })
      )
    ))
    const syncs = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
      Effect.gen(function*() {
        calls.length = 0
        yield* effect
        return calls.filter((call) => call.name === "file.sync").map((call) => call.path)
      })
    return { directory, calls, syncs, store: Context.get(context, SessionStore) }
  })

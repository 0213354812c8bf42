import { it } from "@effect/vitest"
import { Effect, Layer, Stream } from "effect"
import * as Agent from "../src/Agent.ts"
import * as Scripted from "../src/providers/Scripted.ts"
import * as Subagent from "../src/Subagent.ts"
import { agents } from "./utils/agents.ts"
const rooted = Layer.provideMerge(Subagent.layer(), Agent.layerRoot({ cwd: "/work", id: "root" })).pipe(
  Layer.provideMerge(agents([]))
)
const played = (script: Scripted.Script) => Layer.provideMerge(Scripted.layer(script), rooted)
it.effect("a", () => Effect.gen(function*() {
      const run = yield* Effect.scoped(
        Effect.tap(Scripted.start({ prompt: "go" }), (run) => Effect.tap(Stream.runHead(run.progress), (x) => Effect.sync(() => console.log(x))))
      )
      console.log(yield* run.result, yield* Effect.exit(run.released))
}).pipe(Effect.provide(played([[Scripted.text("partial"), Scripted.hang]]))), 1500)
it.effect("b", () => Effect.gen(function*() {
      const run = yield* Scripted.start({ prompt: "go" })
      yield* Effect.yieldNow
      yield* Effect.yieldNow
      console.log("y")
      yield* Effect.forkChild(run.interrupt, {startImmediately: true})
      console.log("z")
      console.log(yield* run.result, yield* Effect.exit(run.released))
}).pipe(Effect.provide(played([[Scripted.text("partial"), Scripted.hang]]))), 1500)

import { assert, describe, it } from "@effect/vitest"
import { Arbitrary, Effect, type Layer } from "effect"
import * as FileSessionStore from "../src/layers/FileSessionStore.ts"
import { layerMemory, SessionStore } from "../src/SessionStore.ts"
import { leakCheck, snapshot, tempDir } from "./utils/leaks.ts"
import { type Plants, Program, runProgram, withStore } from "./utils/lifecycle.ts"
import * as checks from "./utils/lifecycleChecks.ts"

leakCheck()

/** Everything that is wrong after a program. */
const issuesOf = (
  program: Program,
  layer: Layer.Layer<SessionStore, unknown>,
  options: { readonly plants?: Plants; readonly directory?: string } = {}
) =>
  Effect.gen(function*() {
    const start = snapshot()
    const issues = yield* Effect.scoped(Effect.gen(function*() {
      const store = yield* withStore(layer)
      const history = yield* Effect.provideService(runProgram(program, options.plants), SessionStore, store)
      return [
        ...history.issues,
        ...checks.unpaired(history.events),
        ...yield* checks.wrongResults(history),
        ...yield* checks.wrongSteering(history, store),
        ...options.directory === undefined ? [] : checks.locks(options.directory),
        ...yield* checks.wrongSessions(store)
      ]
    }))
    return [
      ...issues,
      ...options.directory === undefined ? [] : checks.holders(options.directory),
      ...yield* checks.leftovers(start)
    ]
  })

const holds = (
  run: (program: Program) => Effect.Effect<ReadonlyArray<string>, unknown>,
  runs: number
) =>
  Effect.gen(function*() {
    const result = yield* Arbitrary.checkEffect(
      Arbitrary.schema(Program),
      (program) =>
        Effect.flatMap(run(program), (issues) => issues.length === 0 ? Effect.succeed(true) : Effect.fail(issues)),
      { runs, maxShrinks: 300 }
    )
    const failure = Arbitrary.formatCheckFailure(result)
    assert.isUndefined(failure, `${failure}\n${JSON.stringify(result)}`)
  })

describe("any life of agents that delegate", () => {
  it.live("leaves nothing behind, in memory", () => holds((program) => issuesOf(program, layerMemory), 500), 60_000)

  it.live(
    "leaves nothing behind, in files",
    () =>
      holds(
        (program) =>
          Effect.scoped(Effect.flatMap(tempDir, (directory) =>
            issuesOf(program, FileSessionStore.layerNode({ directory }), { directory }))),
        40
      ),
    60_000
  )
})

/**
 * Walks a directory in one fixed order: names sorted, a directory right before what is in it, links never followed.
 *
 * Nothing is left out silently: what a walk does not enter, by rule or because it cannot, is reported with the reason.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import { Fence, type Place } from "./fileToolsFence.ts"

/** @internal */
export interface Found {
  readonly real: string
  readonly path: string
  readonly type: FileSystem.File.Type
}

/** @internal Something that a walk left out, and why. */
export interface Skipped {
  readonly path: string
  readonly why: string
}

/** @internal What a visitor wants next. */
export type Verdict = "go on" | "stop"

/**
 * @internal Visits what is below a directory. `skipped` is told what was left out. Returns `"stop"` when the visitor
 * stopped it.
 */
export const walk = <R>(
  top: Place,
  options: {
    readonly recursive: boolean
    readonly visit: (found: Found) => Effect.Effect<Verdict, never, R>
    readonly skipped: (skipped: Skipped) => void
  }
): Effect.Effect<Verdict, never, R | Fence> =>
  Effect.gen(function*() {
    const { fs, path, show, skip } = yield* Fence

    const enter = (directory: string): Effect.Effect<Verdict, never, R> =>
      Effect.flatMap(Effect.result(fs.readDirectoryEntries(directory)), (entries) =>
        Effect.gen(function*() {
          if (entries._tag === "Failure") {
            options.skipped({ path: show(top.root, directory), why: "it cannot be read" })
            return "go on"
          }
          const sorted = entries.success.toSorted((a, b) => a.name < b.name ? -1 : a.name > b.name ? 1 : 0)
          for (const { name, type } of sorted) {
            const real = path.join(directory, name)
            const found: Found = { real, path: show(top.root, real), type }
            const why = type === "Directory" && options.recursive ? skip.get(name) ?? skip.get(real) : undefined
            if (why !== undefined) {
              options.skipped({ path: found.path, why })
              continue
            }
            if ((yield* options.visit(found)) === "stop") return "stop"
            if (type === "Directory" && options.recursive && (yield* enter(real)) === "stop") return "stop"
          }
          return "go on"
        }))

    return yield* enter(top.real)
  })

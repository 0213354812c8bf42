/**
 * Draws a run as a living tree in the terminal behind standard error.
 *
 * Each frame is one write that overwrites the one before, so nothing flickers; the last one stays on the screen. The
 * cursor is hidden meanwhile, and shown again however the run ends.
 *
 * @since 0.1.0
 */
import { displayWidth } from "effect/cli/CliOutput"
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import { Diagnostics } from "../diagnostics.ts"
import { Output, type OutputClosed } from "../output.ts"
import { advance, emptyState } from "./state.ts"
import { printable } from "./text.ts"
import { drawTree } from "./tree.ts"
import { offlineNote, type View } from "./view.ts"

const hideCursor = "\x1b[?25l"
const showCursor = "\x1b[?25h"
// a terminal that knows it shows what is in between at once; others ignore it
const beginFrame = "\x1b[?2026h"
const endFrame = "\x1b[?2026l"
const eraseToEndOfLine = "\x1b[K"
const eraseBelow = "\x1b[J"

/** @internal How many lines of a terminal the given lines take that were drawn when it had another width. */
export const linesTaken = (lines: ReadonlyArray<string>, columns: number): number =>
  lines.reduce((sum, line) => sum + Math.max(1, Math.ceil(displayWidth(line) / Math.max(1, columns))), 0)

/** @internal */
export const make = (
  options: { readonly color: boolean }
): Effect.Effect<View, never, Output | Diagnostics | Scope.Scope> =>
  Effect.gen(function*() {
    const { err, size } = yield* Output
    const diagnostics = yield* Diagnostics
    const state = emptyState()
    const broken = yield* Deferred.make<never, OutputClosed>()
    // lines that go above the tree and stay there
    let above: Array<string> = []
    let drawn: ReadonlyArray<string> = []
    let tick = 0

    const frame = (now: number): string => {
      const { columns, rows } = size()
      const lines = drawTree(state, { now, columns, rows: Math.max(1, rows - 2), color: options.color, tick: tick++ })
      const back = linesTaken(drawn, columns)
      const text = [
        beginFrame,
        back > 0 ? `\x1b[${back}A\r` : "\r",
        ...above.map((line) => `${line}${eraseToEndOfLine}\n`),
        ...lines.map((line) => `${line}${eraseToEndOfLine}\n`),
        eraseBelow,
        endFrame
      ].join("")
      above = []
      drawn = lines
      return text
    }
    const draw = Effect.flatMap(Clock.currentTimeMillis, (now) => err(frame(now)))

    yield* diagnostics.redirect((line) => above.push(...line.split("\n")))
    yield* Effect.acquireRelease(
      Effect.ignore(err(hideCursor)),
      () => Effect.ignore(Effect.andThen(draw, err(`${showCursor}\n`)))
    )
    yield* Effect.forkScoped(
      Effect.catch(Effect.repeat(draw, Schedule.spaced("80 millis")), (error) => Deferred.fail(broken, error)),
      { startImmediately: true }
    )
    return {
      show: (event) =>
        Effect.sync(() => {
          if (event._tag === "Began") {
            if (event.model === "offline") above.push(offlineNote)
            above.push(`session ${event.session} in ${printable(event.cwd)}, stored in ${printable(event.store)}`)
          }
          advance(state, event)
        }),
      broken: Deferred.await(broken)
    }
  })

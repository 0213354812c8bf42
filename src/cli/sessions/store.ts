/**
 * Reads the sessions of a directory for people, without taking a lease on any.
 *
 * @since 0.1.0
 */
import * as Flag from "effect/cli/Flag"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Path from "effect/Path"
import * as Stream from "effect/Stream"
import * as FileSessionStore from "../../layers/FileSessionStore.ts"
import * as Session from "../../Session.ts"
import { type Corrupt, SessionNotFound, SessionStore, type StoreFailed } from "../../SessionStore.ts"

/** @internal */
export const storeFlag = Flag.String("store").pipe(
  Flag.withMetavar("DIR"),
  Flag.withDescription("Where the sessions are stored; .subagents by default"),
  Flag.filter((path) => path !== "", () => "Expected a directory"),
  Flag.withDefault(".subagents")
)

/** @internal */
export const jsonFlag = Flag.Boolean("json").pipe(
  Flag.withDescription("Print JSON, one object a line, each with an id"),
  Flag.withDefault(false)
)

/** @internal Runs with the store in a directory; `missing` where there is none, since looking must not make one. */
export const withStore = <A, E, R, A2, E2, R2>(
  directory: string,
  effect: Effect.Effect<A, E, R>,
  missing: (directory: string) => Effect.Effect<A2, E2, R2>
): Effect.Effect<
  A | A2,
  E | E2 | StoreFailed,
  Exclude<R, SessionStore> | R2 | FileSystem.FileSystem | Path.Path
> =>
  Effect.gen(function*() {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const absolute = path.resolve(directory)
    const exists = yield* Effect.orElseSucceed(fs.exists(absolute), () => true)
    if (!exists) return yield* missing(absolute)
    return yield* Effect.provide(effect, FileSessionStore.layer({ directory: absolute }))
  })

/** @internal */
export const notFound = (id: string) => (): Effect.Effect<never, SessionNotFound> =>
  Effect.fail(new SessionNotFound({ id }))

/** @internal A header as plain JSON: an object with the `id` first. */
export const headerJson = (header: Session.Header): { readonly [key: string]: unknown } => {
  // sound: a header is a struct
  const { version: _, ...encoded } = Session.encodeHeader(header) as { readonly [key: string]: unknown }
  return { id: header.id, ...encoded }
}

/** @internal When a session was created, in UTC, to the second. */
export const created = (header: Session.Header): string =>
  DateTime.formatIso(DateTime.makeUnsafe(header.createdAt)).slice(0, 19).replace("T", " ")

/** @internal Who made a session: the name of its provider, or `root`. */
export const maker = (header: Session.Header): string => header.origin.kind === "root" ? "root" : header.origin.provider

/** @internal What came of a session so far. */
export interface Summary {
  readonly turns: number
  readonly usage: Session.Usage
  readonly cause: Session.TurnCause | undefined
  /** A turn has begun and not ended: it runs, or its process died. */
  readonly open: boolean
}

/** @internal Reads one session's log through. */
export const summarize = (id: string): Effect.Effect<Summary, SessionNotFound | Corrupt | StoreFailed, SessionStore> =>
  SessionStore.use((store) =>
    Stream.runFold(
      store.read(id),
      (): Summary => ({ turns: 0, usage: Session.noUsage, cause: undefined, open: false }),
      (summary, event): Summary => {
        switch (event._tag) {
          case "TurnStarted":
            return { ...summary, turns: summary.turns + 1, open: true }
          case "TurnEnded":
            return {
              ...summary,
              usage: Session.addUsage(summary.usage, event.usage),
              cause: event.cause,
              open: false
            }
          default:
            return summary
        }
      }
    )
  )

/**
 * Lists the stored sessions.
 *
 * @since 0.1.0
 */
import * as Command from "effect/cli/Command"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { type Entry, SessionStore } from "../../SessionStore.ts"
import { Diagnostics } from "../diagnostics.ts"
import { Output } from "../output.ts"
import { oneLine, pad, printable } from "../view/text.ts"
import { created, headerJson, jsonFlag, maker, storeFlag, withStore } from "./store.ts"

const rowJson = (entry: Entry): unknown =>
  entry._tag === "Session" ? headerJson(entry.header) : { id: entry.id, damaged: entry.what }

const row = (entry: Entry): string => {
  if (entry._tag === "Damaged") return `${pad(printable(entry.id), 24)}  damaged: ${oneLine(entry.what)}`
  const { header } = entry
  return [
    pad(header.id, 24),
    created(header),
    pad(printable(maker(header)), 8),
    pad(String(header.depth), 5),
    oneLine(header.label ?? "")
  ].join("  ").trimEnd()
}

/** @internal */
export const command = Command.make("list", { store: storeFlag, json: jsonFlag }, ({ json, store }) =>
  withStore(
    store,
    Effect.gen(function*() {
      const sessions = yield* SessionStore
      const { out } = yield* Output
      let isFirst = true
      yield* Stream.runForEach(sessions.list, (entry) => {
        const title = isFirst && !json
          ? `${pad("SESSION", 24)}  ${pad("CREATED (UTC)", 19)}  BY        DEPTH  LABEL\n`
          : ""
        isFirst = false
        return out(json ? `${JSON.stringify(rowJson(entry))}\n` : `${title}${row(entry)}\n`)
      })
    }),
    (directory) =>
      Effect.map(Diagnostics, ({ emit }) => emit(`no sessions: there is no directory ${printable(directory)}`))
  )).pipe(
    Command.withDescription(
      "Lists the stored sessions, oldest first. A session that cannot be read is a line of its own that says why."
    ),
    Command.withShortDescription("List the stored sessions")
  )

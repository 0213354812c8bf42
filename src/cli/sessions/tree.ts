/**
 * Shows a stored session with all sessions below it.
 *
 * @since 0.1.0
 */
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Stream from "effect/Stream"
import type * as Session from "../../Session.ts"
import { SessionStore } from "../../SessionStore.ts"
import { causeText, SessionDamaged } from "../errors.ts"
import { Output } from "../output.ts"
import { count, seconds, short } from "../view/numbers.ts"
import { oneLine } from "../view/text.ts"
import { headerJson, jsonFlag, maker, notFound, storeFlag, summarize, type Summary, withStore } from "./store.ts"

/** @internal The state of a session in a word or two. */
export const stateOf = ({ cause, open }: Summary): string =>
  open ? "in a turn" : cause === undefined ? "no turn yet" : cause._tag === "Completed" ? "done" : causeText(cause)

const line = (branch: string, header: Session.Header, summary: Result.Result<Summary, string>): string => {
  const name = oneLine(header.label ?? "") || maker(header)
  const told = Result.match(summary, {
    onFailure: (what) => `damaged: ${oneLine(what)}`,
    onSuccess: (found) =>
      [
        oneLine(stateOf(found)),
        count(found.usage.steps, "step"),
        `${short(found.usage.inputTokens + found.usage.outputTokens)} tokens`,
        seconds(found.usage.elapsed)
      ].join(", ")
  })
  return `${branch}${header.id}  ${name} (${maker(header)})  ${told}\n`
}

const nodeJson = (header: Session.Header, summary: Result.Result<Summary, string>): unknown => ({
  ...headerJson(header),
  ...Result.match(summary, {
    onFailure: (what): object => ({ damaged: what }),
    onSuccess: ({ cause, open, turns, usage }): object => ({
      turns,
      open,
      ...(cause === undefined ? undefined : { cause }),
      usage
    })
  })
})

const show = Effect.fnUntraced(function*(id: string, json: boolean) {
  const sessions = yield* SessionStore
  const { out } = yield* Output
  const headers = new Map<string, Session.Header>()
  const below = new Map<string, Array<Session.Header>>()
  const damaged: Array<{ readonly id: string; readonly what: string }> = []
  yield* Stream.runForEach(sessions.list, (entry) =>
    Effect.sync(() => {
      if (entry._tag === "Damaged") return void damaged.push(entry)
      const { header } = entry
      headers.set(header.id, header)
      if (header.parent !== undefined) below.set(header.parent, [...below.get(header.parent) ?? [], header])
    }))
  const broken = damaged.find((entry) => entry.id === id)
  if (broken !== undefined) {
    if (json) yield* out(`${JSON.stringify({ id, damaged: broken.what })}\n`)
    return yield* new SessionDamaged({ id, what: broken.what })
  }
  const top = headers.get(id)
  if (top === undefined) return yield* notFound(id)()

  const seen = new Set<string>()
  const print = (header: Session.Header, branch: string, indent: string): Effect.Effect<
    void,
    Effect.Error<ReturnType<typeof out>>,
    SessionStore
  > =>
    Effect.gen(function*() {
      // headers are files that anybody can write: a circle of parents must not go on for ever
      if (seen.has(header.id)) return
      seen.add(header.id)
      const summary = yield* Effect.result(Effect.mapError(summarize(header.id), (error) => error.message))
      yield* out(json ? `${JSON.stringify(nodeJson(header, summary))}\n` : line(branch, header, summary))
      const children = below.get(header.id) ?? []
      for (const [i, child] of children.entries()) {
        const last = i === children.length - 1
        yield* print(child, indent + (last ? "└─ " : "├─ "), indent + (last ? "   " : "│  "))
      }
    })
  yield* print(top, "", "")
  // nobody knows whose children these are
  for (const { id, what } of damaged) {
    yield* out(json ? `${JSON.stringify({ id, damaged: what })}\n` : `?  ${oneLine(id)}  damaged: ${oneLine(what)}\n`)
  }
})

/** @internal */
export const idArgument = Argument.String("id").pipe(Argument.withDescription("The id of a session: see list"))

/** @internal */
export const command = Command.make(
  "tree",
  { id: idArgument, store: storeFlag, json: jsonFlag },
  ({ id, json, store }) => withStore(store, show(id, json), notFound(id))
).pipe(
  Command.withDescription(
    "Shows a stored session and all sessions below it: what came of them, their steps, tokens and seconds. Sessions " +
      "whose place is not known because they are damaged come last."
  ),
  Command.withShortDescription("Show a session and those below it")
)

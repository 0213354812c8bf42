/**
 * Shows the conversation of a stored session.
 *
 * @since 0.1.0
 */
import type * as Prompt from "effect/ai/Prompt"
import * as Command from "effect/cli/Command"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import * as Session from "../../Session.ts"
import { SessionStore } from "../../SessionStore.ts"
import { causeText, SessionDamaged } from "../errors.ts"
import { Output } from "../output.ts"
import { count, seconds, short } from "../view/numbers.ts"
import { oneLine, printable, printableText } from "../view/text.ts"
import { created, headerJson, jsonFlag, maker, notFound, storeFlag, withStore } from "./store.ts"
import { idArgument } from "./tree.ts"

/** @internal Characters of a tool's arguments or result that are shown; JSON has all of them. */
export const mostShown = 600

const cut = (text: string): string =>
  text.length <= mostShown ? text : `${text.slice(0, mostShown)} … (${text.length} characters; --json has all)`

const value = (json: unknown): string => cut(oneLine(typeof json === "string" ? json : JSON.stringify(json) ?? ""))

const indented = (text: string): string =>
  printableText(text).trimEnd().split("\n").map((line) => line === "" ? "" : `  ${line}`).join("\n")

const part = (one: Exclude<Prompt.Message["content"], string>[number]): string => {
  switch (one.type) {
    case "text":
      return indented(one.text)
    case "reasoning":
      return `  (reasoning)\n${indented(one.text)}`
    case "tool-call":
      return `  call ${printable(one.name)} ${value(one.params)}`
    case "tool-result":
      return `  ${one.isFailure ? "failure" : "result"} ${printable(one.name)} ${value(one.result)}`
    default:
      return `  (${one.type})`
  }
}

const messageText = (title: string, message: Prompt.Message): string => {
  const body = typeof message.content === "string" ? indented(message.content) : message.content.map(part).join("\n")
  return `${title}\n${body}\n`
}

/** @internal */
export const eventText = (event: Session.Event): string => {
  switch (event._tag) {
    case "TurnStarted":
      return `--- turn ${event.turn}\n`
    case "MessageAppended": {
      const by = event.source === undefined || event.source.kind === "user" ? "" : ` (${event.source.kind})`
      return messageText(`${event.message.role}${by}:`, event.message)
    }
    case "SteeringAdmitted":
      return messageText("user (sent into the turn):", event.message)
    case "TurnEnded": {
      const { inputTokens, outputTokens, steps, elapsed } = event.usage
      return `--- turn ${event.turn} ${oneLine(causeText(event.cause))}: ${count(steps, "step")}, ${
        short(inputTokens + outputTokens)
      } tokens, ${seconds(elapsed)}\n`
    }
    case "DescriptorRecorded":
      return `(descriptor) ${value(event.descriptor)}\n`
    case "RemoteBound":
      return `(remote agent) ${printable(event.agent)} ${printable(event.version)}: ${printable(event.remoteId)}\n`
    case "Unknown":
      return `(an event that this version does not know) ${value(event.raw)}\n`
  }
}

const headerText = (header: Session.Header): string =>
  [
    `session ${header.id}`,
    `  created ${created(header)} UTC by ${printable(maker(header))}, depth ${header.depth}`,
    `  in ${printable(header.cwd)}`,
    ...(header.parent === undefined ? [] : [`  below ${header.parent}`]),
    ...(header.label === undefined ? [] : [`  ${oneLine(header.label)}`])
  ].join("\n") + "\n"

const eventJson = (id: string, event: Session.Event): unknown => {
  // sound: an event encodes to an object
  const { _tag, ...rest } = Session.encodeEvent(event) as { readonly [key: string]: unknown }
  return { id, _tag, ...rest }
}

const show = Effect.fnUntraced(function*(id: string, json: boolean) {
  const sessions = yield* SessionStore
  const { out } = yield* Output
  const damage = Effect.fnUntraced(function*(what: string) {
    if (json) yield* out(`${JSON.stringify({ id, damaged: what })}\n`)
    return yield* new SessionDamaged({ id, what })
  })
  yield* Effect.gen(function*() {
    const header = yield* sessions.header(id)
    yield* out(json ? `${JSON.stringify({ ...headerJson(header), _tag: "Header" })}\n` : headerText(header))
    yield* Stream.runForEach(
      sessions.read(id),
      (event) => out(json ? `${JSON.stringify(eventJson(id, event))}\n` : eventText(event))
    )
  }).pipe(Effect.catchTag("Corrupt", (error) => damage(`${error.where}: ${error.what}`)))
})

/** @internal */
export const command = Command.make(
  "show",
  { id: idArgument, store: storeFlag, json: jsonFlag },
  ({ id, json, store }) => withStore(store, show(id, json), notFound(id))
).pipe(
  Command.withDescription(
    "Shows the conversation of a stored session, also of one that runs, as far as it is stored. With --json first its " +
      "header, then every event of its log."
  ),
  Command.withShortDescription("Show the conversation of a session")
)

/**
 * Plays recorded sessions back as a language model, so that a program runs again as it once ran, without its model.
 *
 * A call is answered with what the model answered when it had been told the same: the place in the recording is found
 * by the conversation, not by a counter. A conversation that was never recorded fails, and says where it left.
 *
 * @since 0.1.0
 */
import * as AiError from "effect/ai/AiError"
import type * as LanguageModel from "effect/ai/LanguageModel"
import type * as Prompt from "effect/ai/Prompt"
import type * as Response from "effect/ai/Response"
import * as Effect from "effect/Effect"
import * as Base64 from "effect/encoding/Base64"
import * as Layer from "effect/Layer"
import * as Predicate from "effect/Predicate"
import * as Stream from "effect/Stream"
import { boundText } from "../internal/session/bounded.ts"
import type * as Session from "../Session.ts"
import { type ReadError, SessionStore, type StoreFailed } from "../SessionStore.ts"
import * as ScriptedModel from "./ScriptedModel.ts"

/**
 * A tree of recorded sessions: the log at its top, and the logs of its descendants in the order in which they first
 * asked their model.
 *
 * @category models
 * @since 0.1.0
 */
export interface Recording {
  readonly root: ReadonlyArray<Session.Event>
  readonly children: ReadonlyArray<ReadonlyArray<Session.Event>>
}

/**
 * - `toolResults`: whether the results of tools have to be those of the recording (`exact`, the default), or only have
 *   to answer the same calls (`any`): results that hold an id or a time, as those of delegations do, differ every time
 *
 * @category options
 * @since 0.1.0
 */
export interface Options {
  readonly toolResults?: "exact" | "any" | undefined
}

// -----------------------------------------------------------------------------
// what was recorded
// -----------------------------------------------------------------------------

/** One model call: what it had been told since its last answer, and what it answered. */
interface Call {
  readonly told: ReadonlyArray<Prompt.Message>
  readonly answer: Prompt.AssistantMessage | undefined
  /** How its turn ended, if it did with this call. */
  ended: Session.TurnCause | undefined
  usage: Session.Usage | undefined
}

/** The calls of a log by the number of answers before them: one that failed was followed by another with more told. */
type Calls = ReadonlyArray<ReadonlyArray<Call>>

// the calls of an answer that was cut off do not run
const isDenied = (message: Prompt.Message): boolean =>
  message.role === "tool" &&
  message.content.every((part) =>
    part.type === "tool-result" && Predicate.hasProperty(part.result, "type") && part.result.type === "execution-denied"
  )

const callsOf = (events: ReadonlyArray<Session.Event>): Calls => {
  const calls: Array<Array<Call>> = [[]]
  let told: Array<Prompt.Message> = []
  let last: Call | undefined
  for (const event of events) {
    switch (event._tag) {
      case "TurnStarted": {
        last = undefined
        break
      }
      case "MessageAppended":
      case "SteeringAdmitted": {
        const { message } = event
        if (message.role !== "assistant") {
          told.push(message)
          break
        }
        last = { told, answer: message, ended: undefined, usage: undefined }
        calls[calls.length - 1].push(last)
        calls.push([])
        told = []
        break
      }
      case "TurnEnded": {
        const { cause } = event
        // told and not answered; a turn that a tool concluded looks the same, and is not asked again
        if (told.length > 0 && !(cause._tag !== "Completed" && told.every(isDenied))) {
          calls[calls.length - 1].push({ told: told.slice(), answer: undefined, ended: cause, usage: undefined })
        } else if (last !== undefined) {
          last.ended = cause
        }
        if (last !== undefined) last.usage = event.usage
        break
      }
    }
  }
  return calls
}

// -----------------------------------------------------------------------------
// whether it is the same conversation
// -----------------------------------------------------------------------------

const essence = (message: Prompt.Message, exact: boolean): unknown => {
  switch (message.role) {
    case "system":
      return [message.role]
    case "user":
      return [
        message.role,
        message.content.map((part) => part.type === "text" ? part.text : [part.mediaType, part.data])
      ]
    case "assistant":
      return [message.role]
    case "tool":
      return [
        message.role,
        message.content.map((part) =>
          part.type === "tool-result"
            ? [part.id, part.name, part.isFailure, exact ? part.result : undefined]
            : [part.approvalId, part.approved]
        )
      ]
  }
}

const difference = (
  recorded: ReadonlyArray<Prompt.Message>,
  told: ReadonlyArray<Prompt.Message>,
  exact: boolean
): string | undefined => {
  for (let i = 0; i < Math.max(recorded.length, told.length); i++) {
    const [before, now] = [recorded[i], told[i]].map((message) =>
      message === undefined ? "nothing more" : JSON.stringify(essence(message, exact))
    )
    if (before !== now) return `it had been told ${boundText(before, 400)}, and now is told ${boundText(now, 400)}`
  }
  return undefined
}

interface Place {
  readonly position: number
  readonly told: ReadonlyArray<Prompt.Message>
}

const placeOf = (prompt: Prompt.Prompt): Place => {
  const messages = prompt.content.filter((message) => message.role !== "system")
  const answers = messages.filter((message) => message.role === "assistant").length
  const last = messages.findLastIndex((message) => message.role === "assistant")
  return { position: answers, told: messages.slice(last + 1) }
}

const find = (calls: Calls, { position, told }: Place, exact: boolean): Call | undefined =>
  calls[position]?.find((call) => difference(call.told, told, exact) === undefined)

// -----------------------------------------------------------------------------
// answers
// -----------------------------------------------------------------------------

const fails = (description: string): ScriptedModel.Reply => [
  ScriptedModel.fail(new AiError.InvalidRequestError({ description }))
]

const partsOf = (
  part: Prompt.AssistantMessagePart,
  index: number
): ReadonlyArray<Response.StreamPartEncoded> => {
  const id = String(index)
  const metadata = part.options
  switch (part.type) {
    case "text":
    case "reasoning":
      return [
        { type: `${part.type}-start`, id, metadata },
        { type: `${part.type}-delta`, id, delta: part.text },
        { type: `${part.type}-end`, id }
      ]
    case "file": {
      const data = part.data instanceof Uint8Array ? Base64.encode(part.data) : String(part.data)
      return [{ type: "file", mediaType: part.mediaType, data, metadata }]
    }
    case "tool-call": {
      const { id, name, params, providerExecuted } = part
      return [{ type: "tool-call", id, name, params, providerExecuted, metadata }]
    }
    case "tool-result": {
      const { id, isFailure, name, result } = part
      return [{ type: "tool-result", id, name, isFailure, result, providerExecuted: true, metadata }]
    }
    case "tool-approval-request":
      return [{ type: "tool-approval-request", approvalId: part.approvalId, toolCallId: part.toolCallId }]
  }
}

const reasonOf = (answer: Prompt.AssistantMessage, ended: Session.TurnCause | undefined): Response.FinishReason => {
  switch (ended?._tag) {
    case "MaxTokens":
      return "length"
    case "Refusal":
      return "content-filter"
    case "Failed":
      return ended.reason === "ModelError" ? "error" : "stop"
    default:
      return answer.content.some((part) => part.type === "tool-call" && !part.providerExecuted) ? "tool-calls" : "stop"
  }
}

const reply = ({ answer, ended, usage }: Call): ScriptedModel.Reply => {
  if (answer === undefined) {
    switch (ended?._tag) {
      case "Completed":
        return []
      case "Refusal":
        return [ScriptedModel.fail(new AiError.ContentPolicyError({ description: "the recorded call was declined" }))]
      default:
        return fails(`the recorded call was never answered: its turn ended with ${JSON.stringify(ended)}`)
    }
  }
  return [
    ...answer.content.flatMap(partsOf).map(ScriptedModel.part),
    ScriptedModel.finish(reasonOf(answer, ended), { input: usage?.inputTokens ?? 0, output: usage?.outputTokens ?? 0 })
  ]
}

// -----------------------------------------------------------------------------
// the model
// -----------------------------------------------------------------------------

const toScript = (recording: Recording, exact: boolean): ScriptedModel.Script => {
  const root = callsOf(recording.root)
  const unclaimed = recording.children.map(callsOf)
  const claimed = new Map<string, Calls>()

  const callsFor = (request: ScriptedModel.Request, place: Place): Calls | undefined => {
    if (request.depth === 0) return root
    const key = request.sessionId ?? ""
    const known = claimed.get(key)
    if (known !== undefined) return known
    // children that ask at once may ask in another order than they did
    const same = unclaimed.findIndex((calls) => find(calls, place, exact) !== undefined)
    const [calls] = unclaimed.splice(Math.max(same, 0), 1)
    if (calls !== undefined) claimed.set(key, calls)
    return calls
  }

  return (request) => {
    const place = placeOf(request.prompt)
    const calls = callsFor(request, place)
    const who = request.depth === 0 ? "the root session" : `session ${request.sessionId}`
    if (calls === undefined) return fails(`${who} has no recording: there are ${recording.children.length} of children`)
    const call = find(calls, place, exact)
    if (call !== undefined) return reply(call)
    const where = `${who} leaves its recording at model call ${place.position}`
    const recorded = calls[place.position]?.[0]
    return fails(
      recorded === undefined
        ? `${where}: no more calls were recorded`
        : `${where}: ${difference(recorded.told, place.told, exact)}`
    )
  }
}

/**
 * A language model that answers as it did in a recording: of a whole tree, or of one session without children. What
 * the program is told differently than it was then fails its model call as an invalid request, which is not retried and
 * names the first message that differs. So does a call that was never answered, because its turn failed or was aborted.
 *
 * Each turn that was answered uses as many tokens as it did. The answers are the recorded ones, in one piece, whatever they had been
 * streamed as.
 *
 * @category layers
 * @since 0.1.0
 */
export const layer = (
  recording: Recording | ReadonlyArray<Session.Event>,
  options: Options = {}
): Layer.Layer<LanguageModel.LanguageModel | ScriptedModel.ScriptedModel> =>
  Layer.suspend(() =>
    ScriptedModel.layer(
      toScript("root" in recording ? recording : { root: recording, children: [] }, options.toolResults !== "any")
    )
  )

/**
 * Reads the recording of a stored session and all its descendants.
 *
 * @category constructors
 * @since 0.1.0
 */
export const load = (id: string): Effect.Effect<Recording, ReadError | StoreFailed, SessionStore> =>
  Effect.gen(function*() {
    const store = yield* SessionStore
    const root = yield* Stream.runCollect(store.read(id))
    const children: Array<{ readonly events: ReadonlyArray<Session.Event>; readonly since: number }> = []
    const parents = [id]
    for (const parent of parents) {
      for (const entry of yield* Stream.runCollect(store.children(parent))) {
        const header = entry._tag === "Session" ? entry.header : undefined
        const child = header?.id ?? (entry._tag === "Damaged" ? entry.id : "")
        const events = yield* Stream.runCollect(store.read(child))
        const first = events.slice(header?.seedLength ?? 0).find((event) => event._tag === "TurnStarted")
        children.push({ events, since: first?.at ?? Number.MAX_SAFE_INTEGER })
        parents.push(child)
      }
    }
    children.sort((one, other) => one.since - other.since)
    return { root, children: children.map(({ events }) => events) }
  })

/**
 * {@link layer} of a stored session and its descendants, read when the layer is built.
 *
 * @category layers
 * @since 0.1.0
 */
export const layerStore = (
  id: string,
  options: Options = {}
): Layer.Layer<
  LanguageModel.LanguageModel | ScriptedModel.ScriptedModel,
  ReadError | StoreFailed,
  SessionStore
> => Layer.unwrap(Effect.map(load(id), (recording) => layer(recording, options)))

/**
 * Plays language models from a script, so that programs with agents can be tested without one.
 *
 * Scripts are kept apart by session: a parent and each of its children play their own turns, in whatever order they
 * are scheduled. What the models were sent is recorded.
 *
 * @since 0.1.0
 */
import * as AiError from "effect/ai/AiError"
import * as LanguageModel from "effect/ai/LanguageModel"
import type * as Prompt from "effect/ai/Prompt"
import type * as Response from "effect/ai/Response"
import * as Context from "effect/Context"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import { MaxOutputTokens } from "../AgentModels.ts"
import { CurrentAgent } from "../CurrentAgent.ts"

// -----------------------------------------------------------------------------
// scripts
// -----------------------------------------------------------------------------

/**
 * One thing a model does: a part of its answer, a pause, a wait for something, a failure, an answer that breaks off, or
 * nothing ever again.
 *
 * @category models
 * @since 0.1.0
 */
export type Act =
  | { readonly _tag: "Part"; readonly part: Response.StreamPartEncoded }
  | { readonly _tag: "Wait"; readonly effect: Effect.Effect<unknown> }
  | { readonly _tag: "Fail"; readonly error: AiError.AiError }
  | { readonly _tag: "Cut" }

/**
 * One answer of a model: what it does, in order. An answer without a `finish` gets one: `tool-calls` when it has tool
 * calls, `stop` otherwise, with one input and one output token.
 *
 * @category models
 * @since 0.1.0
 */
export type Reply = ReadonlyArray<Act | ReadonlyArray<Act>>

/**
 * What a model was asked: by whom, with what, and the how-manieth question of this session it is (from 0).
 *
 * @category models
 * @since 0.1.0
 */
export interface Request {
  readonly sessionId: string | undefined
  readonly depth: number
  readonly index: number
  readonly prompt: Prompt.Prompt
  readonly tools: ReadonlyArray<string>
  readonly toolChoice: LanguageModel.ProviderOptions["toolChoice"]
  readonly maxTokens: number | undefined
}

/**
 * What models say.
 *
 * - a list: the answers of every session, each session from the start
 * - `{ root, children }`: the answers of the agent at the top, and of its descendants in the order in which they first
 *   ask; the last list of `children` serves all further ones
 * - a function: anything; `undefined` means that the script has ended
 *
 * A model that is asked more often than its script says fails, in a way that is not worth a retry.
 *
 * @category models
 * @since 0.1.0
 */
export type Script =
  | ReadonlyArray<Reply>
  | { readonly root: ReadonlyArray<Reply>; readonly children: ReadonlyArray<ReadonlyArray<Reply>> }
  | ((request: Request) => Reply | undefined | Effect.Effect<Reply | undefined>)

/**
 * Says a text, piece by piece.
 *
 * @category constructors
 * @since 0.1.0
 */
export const text = (...deltas: ReadonlyArray<string>): ReadonlyArray<Act> => [
  part({ type: "text-start", id: "text" }),
  ...deltas.map((delta) => part({ type: "text-delta", id: "text", delta })),
  part({ type: "text-end", id: "text" })
]

/**
 * Thinks aloud, piece by piece.
 *
 * @category constructors
 * @since 0.1.0
 */
export const reasoning = (...deltas: ReadonlyArray<string>): ReadonlyArray<Act> => [
  part({ type: "reasoning-start", id: "reasoning" }),
  ...deltas.map((delta) => part({ type: "reasoning-delta", id: "reasoning", delta })),
  part({ type: "reasoning-end", id: "reasoning" })
]

/**
 * Calls a tool. The id is made up from the name when it is not given; two calls of one tool in a session need ids.
 *
 * @category constructors
 * @since 0.1.0
 */
export const call = (name: string, params: unknown, id: string = `call-${name}`): Act =>
  part({ type: "tool-call", id, name, params })

/**
 * Ends the answer, with a reason and with what it used.
 *
 * @category constructors
 * @since 0.1.0
 */
export const finish = (
  reason: Response.FinishReason,
  usage: { readonly input?: number | undefined; readonly output?: number | undefined } = {}
): Act =>
  part({
    type: "finish",
    reason,
    usage: {
      inputTokens: { total: usage.input ?? 1, uncached: undefined, cacheRead: undefined, cacheWrite: undefined },
      outputTokens: { total: usage.output ?? 1, text: undefined, reasoning: undefined }
    },
    response: undefined
  })

/**
 * Any part of an answer, as `effect/ai` encodes it.
 *
 * @category constructors
 * @since 0.1.0
 */
export const part = (value: Response.StreamPartEncoded): Act => ({ _tag: "Part", part: value })

/**
 * Waits for an effect: a latch of the test, for example.
 *
 * @category constructors
 * @since 0.1.0
 */
export const wait = (effect: Effect.Effect<unknown>): Act => ({ _tag: "Wait", effect })

/**
 * Pauses.
 *
 * @category constructors
 * @since 0.1.0
 */
export const delay = (duration: Duration.Input): Act => wait(Effect.sleep(duration))

/**
 * Never goes on.
 *
 * @category constants
 * @since 0.1.0
 */
export const hang: Act = wait(Effect.never)

/**
 * Fails, by default as an overloaded server would.
 *
 * @category constructors
 * @since 0.1.0
 */
export const fail = (
  reason: AiError.AiErrorReason = new AiError.InternalProviderError({ description: "overloaded" })
): Act => ({ _tag: "Fail", error: AiError.make({ module: "ScriptedModel", method: "streamText", reason }) })

/**
 * Breaks the answer off, as a connection that is lost: nothing follows, not even a `finish`.
 *
 * @category constants
 * @since 0.1.0
 */
export const cut: Act = { _tag: "Cut" }

// -----------------------------------------------------------------------------
// the model
// -----------------------------------------------------------------------------

/**
 * What the scripted models of a program were asked so far, in order.
 *
 * @category services
 * @since 0.1.0
 */
export class ScriptedModel extends Context.Service<ScriptedModel, {
  readonly requests: Effect.Effect<ReadonlyArray<Request>>
  readonly requestsOf: (sessionId: string) => Effect.Effect<ReadonlyArray<Request>>
}>()("effect-subagent/testing/ScriptedModel") {}

const exhausted = (request: Request): AiError.AiError =>
  AiError.make({
    module: "ScriptedModel",
    method: "streamText",
    reason: new AiError.InvalidRequestError({
      description: `the script of session ${request.sessionId ?? "(none)"} has no reply ${request.index}`
    })
  })

const withFinish = (acts: ReadonlyArray<Act>): ReadonlyArray<Act> => {
  const cutAt = acts.indexOf(cut)
  if (cutAt >= 0) return acts.slice(0, cutAt)
  const types = new Set(acts.flatMap((act) => act._tag === "Part" ? [act.part.type] : []))
  if (types.has("finish") || acts.some((act) => act._tag === "Fail")) return acts
  return [...acts, finish(types.has("tool-call") ? "tool-calls" : "stop")]
}

const play = (reply: Reply): Stream.Stream<Response.StreamPartEncoded, AiError.AiError> =>
  Stream.fromIterable(withFinish(reply.flat())).pipe(
    Stream.rechunk(1),
    Stream.mapEffect((act) => {
      switch (act._tag) {
        case "Part":
          return Effect.succeed<ReadonlyArray<Response.StreamPartEncoded>>([act.part])
        case "Wait":
          return Effect.as(act.effect, [])
        case "Fail":
          return Effect.fail(act.error)
        case "Cut":
          return Effect.succeed([])
      }
    }),
    Stream.flatMap(Stream.fromIterable)
  )

const complete = (parts: ReadonlyArray<Response.StreamPartEncoded>): Array<Response.PartEncoded> => {
  const whole: Array<Response.PartEncoded> = []
  const open = new Map<string, string>()
  for (const one of parts) {
    switch (one.type) {
      case "text-start":
      case "reasoning-start":
        open.set(one.id, "")
        break
      case "text-delta":
      case "reasoning-delta":
        open.set(one.id, (open.get(one.id) ?? "") + one.delta)
        break
      case "text-end":
        whole.push({ type: "text", text: open.get(one.id) ?? "" })
        break
      case "reasoning-end":
        whole.push({ type: "reasoning", text: open.get(one.id) ?? "" })
        break
      case "tool-params-start":
      case "tool-params-delta":
      case "tool-params-end":
      case "error":
        break
      default:
        whole.push(one)
    }
  }
  return whole
}

const replyOf = (
  script: Script,
  order: Map<string, number>,
  request: Request
): Effect.Effect<Reply | undefined> => {
  if (typeof script === "function") {
    return Effect.suspend(() => {
      const reply = script(request)
      return Effect.isEffect(reply) ? reply : Effect.succeed(reply)
    })
  }
  if (!("root" in script)) return Effect.succeed(script[request.index])
  if (request.depth === 0) return Effect.succeed(script.root[request.index])
  const key = request.sessionId ?? ""
  const nth = order.get(key) ?? order.size
  order.set(key, nth)
  return Effect.succeed(script.children[Math.min(nth, script.children.length - 1)]?.[request.index])
}

/**
 * A language model that plays a script, and the record of what it was asked.
 *
 * @category layers
 * @since 0.1.0
 */
export const layer = (script: Script): Layer.Layer<LanguageModel.LanguageModel | ScriptedModel> =>
  Layer.effectContext(Effect.gen(function*() {
    const requests: Array<Request> = []
    const asked = new Map<string, number>()
    const order = new Map<string, number>()

    const answer = Effect.fnUntraced(function*(options: LanguageModel.ProviderOptions) {
      const agent = Option.getOrUndefined(yield* Effect.serviceOption(CurrentAgent))
      const key = agent?.sessionId ?? ""
      const index = asked.get(key) ?? 0
      asked.set(key, index + 1)
      const request: Request = {
        sessionId: agent?.sessionId,
        depth: agent?.depth ?? 0,
        index,
        prompt: options.prompt,
        tools: options.tools.map((tool) => tool.name),
        toolChoice: options.toolChoice,
        maxTokens: yield* MaxOutputTokens
      }
      requests.push(request)
      const reply = yield* replyOf(script, order, request)
      return reply === undefined ? Stream.fail(exhausted(request)) : play(reply)
    })

    const model = yield* LanguageModel.make({
      generateText: (options) => Effect.map(Stream.runCollect(Stream.unwrap(answer(options))), complete),
      streamText: (options) => Stream.unwrap(answer(options))
    })
    return Context.make(LanguageModel.LanguageModel, model).pipe(
      Context.add(ScriptedModel, {
        requests: Effect.sync(() => requests.slice()),
        requestsOf: (sessionId) => Effect.sync(() => requests.filter((one) => one.sessionId === sessionId))
      })
    )
  }))

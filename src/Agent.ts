/**
 * Runs agents: a session, a model and tools that answer one message after the other.
 *
 * An agent lives in a `Scope`. Closing it interrupts the turn that runs, writes that turn's end, and gives the
 * session back to the store; waiting for that is bounded by a grace, and what outlives it can write no more.
 *
 * @since 0.1.0
 */
import type * as LanguageModel from "effect/ai/LanguageModel"
import type * as Prompt from "effect/ai/Prompt"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { AgentModels } from "./AgentModels.ts"
import { AgentTools } from "./AgentTools.ts"
import { CurrentAgent, defaultLimits, type Limits } from "./CurrentAgent.ts"
import {
  type ComposeError,
  type Composition,
  type CreateOptions,
  invalid,
  type OpenOptions,
  type Options,
  seedIssue,
  settled,
  toBehaviour
} from "./internal/agent/composition.ts"
import { Handle } from "./internal/agent/handle.ts"
import * as live from "./internal/agent/live.ts"
import { type Enlivened, guarded, living } from "./internal/agent/living.ts"
import {
  AgentClosed,
  type Content,
  type Deliver,
  type Delivery,
  DuplicateMessage,
  InvalidAgent,
  type OutputPart,
  type Progress,
  SteerRejected,
  type TurnOutcome
} from "./internal/agent/model.ts"
import { now, nowUnsafe } from "./internal/agent/record.ts"
import { createNowOf } from "./internal/session/atOnce.ts"
import { otherSessionIdUnsafe, sessionIdUnsafe } from "./internal/session/ids.ts"
import { limitsIssue, limitsOf } from "./internal/session/limits.ts"
import { flatMapNow } from "./internal/session/now.ts"
import { isNatural, isPositive } from "./internal/session/numbers.ts"
import * as Session from "./Session.ts"
import type { AppendError, CreateError, OpenError, ReadError, SessionLog } from "./SessionStore.ts"
import { SessionStore } from "./SessionStore.ts"
import { personaSection, type Section, SystemPrompt } from "./SystemPrompt.ts"

export type { ComposeError, Composition, CreateOptions, OpenOptions, Options } from "./internal/agent/composition.ts"
export {
  AgentClosed,
  type Content,
  type Deliver,
  type Delivery,
  DuplicateMessage,
  InvalidAgent,
  type OutputPart,
  type Progress,
  SteerRejected,
  type TurnOutcome
}

// -----------------------------------------------------------------------------
// models
// -----------------------------------------------------------------------------

/**
 * A live agent.
 *
 * - `identity`: what it delegates as, outside of any turn
 * - `send`: queues a message that opens a turn and wakes the agent; messages are answered in the order they came. A
 *   message id that the session knows fails `DuplicateMessage`, here as with `prompt` and `inject`
 * - `prompt`: the same, and waits for that turn; giving up waiting cancels nothing
 * - `steer`: delivers into the running turn, and succeeds once the message is part of the next request and stored;
 *   fails `SteerRejected` otherwise, and then nothing of it is stored unless the reason is `unconfirmed` (S87–S92)
 * - `inject`: adds a message without waking the agent: with the next request of a running turn, else at once (S199)
 * - `interrupt`: ends the running turn and drops what waits; returns when that turn is over. Giving up waiting for that
 *   changes nothing
 * - `idle`: waits until nothing runs and nothing waits
 * - `status`: what it does now
 * - `last`, `usage`: the outcome of the last turn, and all that was used, since it became live
 * - `transcript`: the conversation as the model would see it, without the system prompt
 * - `events`: its log as it is stored now
 * - `progress`: what happens from now on; 1024 events are kept for a slow reader, the oldest are dropped and counted
 * - `survivors`: what outlived its grace
 *
 * @category models
 * @since 0.1.0
 */
export interface Agent {
  readonly id: Session.SessionId
  readonly header: Session.Header
  readonly identity: CurrentAgent["Service"]
  readonly send: Deliver<void, AgentClosed>
  readonly prompt: Deliver<TurnOutcome, AgentClosed>
  readonly steer: (content: Content, source: Session.Source) => Effect.Effect<void, SteerRejected>
  readonly inject: Deliver<void, AgentClosed | AppendError>
  readonly interrupt: (cause: Session.AbortCause) => Effect.Effect<void>
  readonly idle: Effect.Effect<void>
  readonly status: Effect.Effect<"idle" | "running" | "closed">
  readonly last: Effect.Effect<Option.Option<TurnOutcome>>
  readonly usage: Effect.Effect<Session.Usage>
  readonly transcript: Effect.Effect<ReadonlyArray<Prompt.Message>>
  readonly events: Stream.Stream<Session.Event, ReadError>
  readonly progress: Stream.Stream<Progress>
  readonly survivors: Effect.Effect<ReadonlyArray<string>>
}

/**
 * The agents of a program.
 *
 * - `create`: a new session with an agent over it, for as long as the scope lives. When it fails nothing is left
 * - `open`: an agent over a stored session; a session whose process died inside a turn is repaired first (S203)
 * - `get`, `list`: the agents that live now
 *
 * @category services
 * @since 0.1.0
 */
export class Agents extends Context.Service<Agents, {
  readonly create: (options: CreateOptions) => Effect.Effect<Agent, ComposeError | CreateError, Scope.Scope>
  readonly open: (
    id: string,
    options?: OpenOptions | undefined
  ) => Effect.Effect<Agent, ComposeError | OpenError | AppendError, Scope.Scope>
  readonly get: (id: string) => Effect.Effect<Option.Option<Agent>>
  readonly list: Effect.Effect<ReadonlyArray<Agent>>
}>()("effect-subagent/Agents") {}

// -----------------------------------------------------------------------------
// construction
// -----------------------------------------------------------------------------

/** How many ids of ours a store may say it has before it is believed. */
const idTries = 8

const disposed = Effect.succeed<Session.AbortCause>("disposed")

const make = Effect.fnUntraced(function*(options: Options) {
  const store = yield* SessionStore
  const models = yield* AgentModels
  const tools = yield* AgentTools
  const systemPrompt = yield* SystemPrompt
  const { grace, maxRetryAfter, maxSteps, retry } = yield* toBehaviour(options)
  const agents = new Map<string, Agent>()
  const createNow = createNowOf(store.create)

  interface Checked {
    readonly model: LanguageModel.LanguageModel
    readonly sections: ReadonlyArray<Section>
    readonly limits: Limits
  }

  // everything about a composition that can be wrong is found before a session exists
  const check = (composition: Composition, cwd: string, session: string): Effect.Effect<Checked, ComposeError> => {
    const { maxTokens, persona, restriction } = composition
    if (cwd === "") return invalid("cwd", "a working directory is needed")
    if (maxTokens !== undefined && !isPositive(maxTokens)) return invalid("maxTokens", "a positive integer is needed")
    if (restriction !== undefined && restriction.allow === undefined && restriction.deny === undefined) {
      return invalid("restriction", "a list of allowed or of denied tools is needed")
    }
    // most children are handed down the default limits as they are
    let limits = defaultLimits
    if (composition.limits !== undefined && composition.limits !== defaultLimits) {
      const issue = limitsIssue(composition.limits)
      if (issue !== undefined) return invalid(issue.field, issue.issue)
      limits = limitsOf(composition.limits)
    }
    const restricted = restriction === undefined
      ? Effect.void
      : tools.check(restriction, composition.restrictions ?? [])
    return flatMapNow(restricted, () =>
      flatMapNow(models.get(composition.model), (model) => {
        const own = composition.sections ?? []
        const sections = persona === undefined ? own : [{ name: personaSection, order: 0, text: persona }, ...own]
        if (sections.length === 0) return Effect.succeed({ model, sections, limits })
        const variables = { cwd, model: composition.model ?? "default", session }
        return Effect.as(systemPrompt.assemble({ sections, variables }), { model, sections, limits })
      }))
  }

  const enliven = (
    composition: Composition,
    checked: Checked,
    header: Session.Header,
    depth: number,
    log: SessionLog,
    transcript: Session.Transcript
  ): Enlivened<Agent> => {
    const { restriction, restrictions: inherited = [] } = composition
    const restrictions = restriction === undefined ? inherited : [...inherited, restriction]
    const state = live.makeState({
      header,
      log,
      model: checked.model,
      identity: {
        sessionId: header.id,
        depth,
        cwd: header.cwd,
        model: composition.model,
        maxTokens: composition.maxTokens,
        restrictions,
        limits: checked.limits
      },
      tools: tools.resolver({ restrictions, own: composition.tools }),
      systemPrompt,
      sections: checked.sections,
      output: composition.output,
      maxSteps,
      retry,
      maxRetryAfter,
      grace
    }, transcript)
    const agent: Agent = new Handle(state, store)
    agents.set(header.id, agent)
    const { closedBy } = composition
    return {
      agent,
      close: () => {
        if (agents.get(header.id) === agent) agents.delete(header.id)
        return live.close(state, closedBy ?? disposed)
      }
    }
  }

  const create = (given: CreateOptions): Effect.Effect<Agent, ComposeError | CreateError, Scope.Scope> =>
    Effect.withFiber((fiber) => {
      const options = settled(given)
      const { depth = 0, label, parent, seed = [] } = options
      if (!isNatural(depth)) return invalid("depth", "a natural number is needed")
      if (options.id !== undefined && !Schema.is(Session.SessionId)(options.id)) {
        return invalid("id", "1 to 128 letters, digits, '_', '.' or '-' are needed, not starting with '.' or '-'")
      }
      const transcript = Session.fold(seed)
      const issue = seedIssue(seed, transcript)
      if (issue !== undefined) return invalid("seed", issue)
      // sound: checked above, or made by us
      const id = options.id === undefined ? sessionIdUnsafe(fiber) : options.id as Session.SessionId
      return flatMapNow(check(options, options.cwd, id), (checked) => {
        const under = (id: Session.SessionId, tries: number): Effect.Effect<Agent, CreateError, Scope.Scope> => {
          const header: Session.Header = {
            version: 1,
            id,
            ...(parent === undefined ? undefined : { parent }),
            depth,
            cwd: options.cwd,
            createdAt: nowUnsafe(fiber.context),
            origin: options.origin ?? { kind: "root" },
            ...(seed.length === 0 ? undefined : { seedLength: seed.length }),
            ...(label === undefined ? undefined : { label })
          }
          // a session is kept from the moment that somebody got to see its agent, or that it has something to keep
          let wanted = false
          const unwanted = () => !wanted
          const use = (log: SessionLog): Enlivened<Agent> => {
            const { agent, close } = enliven(options, checked, header, depth, log, transcript)
            return {
              agent,
              close: (exit) => {
                // a child whose start failed, and that nobody got to see, leaves nothing behind (S69)
                wanted = Exit.isSuccess(exit) || parent === undefined || transcript.next > seed.length
                return close(exit)
              }
            }
          }
          const otherwise = (error: CreateError) =>
            // an id of ours that is taken is one that a seeded program has made before
            error._tag === "SessionExists" && options.id === undefined && tries > 1
              ? under(otherSessionIdUnsafe(fiber), tries - 1)
              : undefined
          return createNow === undefined
            ? guarded(store.create(header, options.seed, { unwanted }), use, otherwise)
            : Effect.uninterruptible(Effect.suspend(() => {
              const created = createNow(header, options.seed, unwanted)
              return Exit.isSuccess(created)
                ? living(fiber, use(created.value.log), () => {
                  created.value.release()
                  return Effect.void
                })
                : Effect.catch(Effect.failCause(created.cause), (error) => otherwise(error) ?? Effect.fail(error))
            }))
        }
        return under(id, idTries)
      })
    })

  const open = Effect.fnUntraced(function*(id: string, given: OpenOptions = {}) {
    const options = settled(given)
    const log = yield* store.open(id)
    const { header } = log
    const depth = Math.max(header.depth, options.depth ?? 0)
    if (!isNatural(depth)) return yield* invalid("depth", "a natural number is needed")
    const checked = yield* check(options, header.cwd, header.id)
    const transcript = Session.emptyTranscript()
    yield* Stream.runForEachArray(store.read(id), (events) =>
      Effect.sync(() => {
        for (const event of events) Session.advance(transcript, event)
      }))
    const closers = Session.repair(transcript, yield* now)
    if (closers.length > 0) {
      yield* log.append(closers)
      yield* log.flush
      for (const event of closers) Session.advance(transcript, event)
    }
    return () => enliven(options, checked, header, depth, log, transcript)
  })

  return Agents.of({
    create,
    open: (id, options) => guarded(open(id, options), (enlivened) => enlivened()),
    get: (id) => Effect.sync(() => Option.fromNullishOr(agents.get(id))),
    list: Effect.sync(() => Array.from(agents.values()))
  })
})

/**
 * Agents over the ambient stores, models, tools and prompt sections.
 *
 * @category layers
 * @since 0.1.0
 */
export const layer = (
  options: Options = {}
): Layer.Layer<Agents, InvalidAgent, SessionStore | AgentModels | AgentTools | SystemPrompt> =>
  Layer.effect(Agents, make(options))

/**
 * The top of a tree of agents: a stored session on whose behalf a program delegates, for as long as the layer lives.
 *
 * With an `id`, the session of that id is opened again where it exists, and with it the right to its children. Its
 * working directory and label are those it was created with, whatever `cwd` and `label` say; a `depth` may only deepen
 * it. Fails as `Agents.create` and `Agents.open` do: `HeldElsewhere` when somebody else holds the session.
 *
 * @category layers
 * @since 0.1.0
 */
export const layerRoot = (
  options: Omit<CreateOptions, "seed" | "parent" | "origin">
): Layer.Layer<CurrentAgent, ComposeError | CreateError | OpenError | AppendError, Agents> =>
  Layer.effect(
    CurrentAgent,
    Effect.gen(function*() {
      const agents = yield* Agents
      const { id } = options
      const agent = id === undefined
        ? yield* agents.create(options)
        : yield* Effect.catchTag(agents.open(id, options), "SessionNotFound", () => agents.create(options))
      return agent.identity
    })
  )

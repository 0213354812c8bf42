/**
 * Says what an agent is made of, and what such a description must keep to.
 *
 * It is read once: what its owner does to it later changes no agent.
 */
import type * as AiError from "effect/ai/AiError"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Schedule from "effect/Schedule"
import type { UnknownModel } from "../../AgentModels.ts"
import type { AnyToolkit, UnknownTool } from "../../AgentTools.ts"
import type { Limits, ToolRestriction } from "../../CurrentAgent.ts"
import type * as Session from "../../Session.ts"
import type { Section, UnknownVariable } from "../../SystemPrompt.ts"
import { toBound } from "../session/bounded.ts"
import { isPositive } from "../session/numbers.ts"
import { defaultRetry } from "./ask.ts"
import { InvalidAgent } from "./model.ts"

/**
 * How agents behave.
 *
 * - `maxSteps`: model calls of one turn, 100 by default; a turn that needs more ends with `MaxSteps`
 * - `retry`: when a model call that failed in a way that may pass is made again: by default four times, after about
 *   1, 2, 4 and 8 seconds, and never sooner than the server wishes
 * - `maxRetryAfter`: for how long a server may wish an agent to wait, 5 minutes by default, from zero to `Infinity`; a
 *   turn whose server wishes for longer fails at once, and says what the server wished for
 * - `grace`: how long an interrupted turn may take to end, 5 seconds by default, from zero to `Infinity`
 *
 * @category models
 * @since 0.1.0
 */
export interface Options {
  readonly maxSteps?: number | undefined
  readonly retry?: Schedule.Schedule<unknown, AiError.AiError> | undefined
  readonly maxRetryAfter?: Duration.Input | undefined
  readonly grace?: Duration.Input | undefined
}

/**
 * What an agent is made of, beyond its session.
 *
 * - `model`: a name of `AgentModels`; the default model without one
 * - `maxTokens`: output tokens of one model call, a positive integer
 * - `restriction`: which tools are hidden from it, on top of the `restrictions` that it inherits
 * - `limits`: what it may delegate; the default limits where it says nothing. Natural numbers
 * - `persona`: who it is; shadows the shared persona. `sections` are further ones of its own
 * - `tools`: tools of its own, never filtered
 * - `output`: the name of a concluding tool of its own without which a turn is not complete: the model is reminded
 *   once, with that tool forced, and the turn fails if it still does not call it
 * - `closedBy`: the cause that a turn gets which runs when the agent closes; `disposed` by default
 *
 * @category models
 * @since 0.1.0
 */
export interface Composition {
  readonly model?: string | undefined
  readonly maxTokens?: number | undefined
  readonly restriction?: ToolRestriction | undefined
  readonly restrictions?: ReadonlyArray<ToolRestriction> | undefined
  readonly limits?: Partial<Limits> | undefined
  readonly persona?: string | undefined
  readonly sections?: ReadonlyArray<Section> | undefined
  readonly tools?: AnyToolkit | undefined
  readonly output?: string | undefined
  readonly closedBy?: Effect.Effect<Session.AbortCause> | undefined
}

/**
 * A new agent's session and composition. `id` is made up when it is not given, and is new to the store then; `seed` are
 * the copied events of a fork.
 *
 * @category models
 * @since 0.1.0
 */
export interface CreateOptions extends Composition {
  readonly cwd: string
  readonly id?: string | undefined
  readonly parent?: Session.SessionId | undefined
  readonly depth?: number | undefined
  readonly origin?: Session.Origin | undefined
  readonly label?: string | undefined
  readonly seed?: ReadonlyArray<Session.Event> | undefined
}

/**
 * The composition of a stored session that becomes live again. `depth` may deepen it and never lifts it (S151).
 *
 * @category models
 * @since 0.1.0
 */
export interface OpenOptions extends Composition {
  readonly depth?: number | undefined
}

/**
 * What composing an agent can fail with.
 *
 * @category errors
 * @since 0.1.0
 */
export type ComposeError = InvalidAgent | UnknownModel | UnknownTool | UnknownVariable

/** @internal */
export const invalid = (field: string, issue: string) => Effect.fail(new InvalidAgent({ field, issue }))

/** @internal How agents behave that are asked to behave like that. */
export interface Behaviour {
  readonly maxSteps: number
  readonly retry: Schedule.Schedule<unknown, AiError.AiError>
  readonly maxRetryAfter: Duration.Duration
  readonly grace: Duration.Duration
}

/** @internal */
export const toBehaviour = (options: Options): Effect.Effect<Behaviour, InvalidAgent> => {
  const { maxSteps = 100, retry = defaultRetry } = options
  if (!isPositive(maxSteps)) return invalid("maxSteps", "a positive integer is needed")
  const maxRetryAfter = toBound(options.maxRetryAfter ?? "5 minutes")
  if (maxRetryAfter === undefined) return invalid("maxRetryAfter", "a duration that is not negative is needed")
  const grace = toBound(options.grace ?? "5 seconds")
  if (grace === undefined) return invalid("grace", "a duration that is not negative is needed")
  return Effect.succeed({ maxSteps, retry, maxRetryAfter, grace })
}

/** @internal What a caller does to its lists later is no restriction any more (S144, S161). */
export const settled = <A extends Composition>(options: A): A => {
  if (options.restriction === undefined) return options
  const { allow, deny, ...rest } = options.restriction
  const restriction: ToolRestriction = {
    ...rest,
    ...(allow === undefined ? undefined : { allow: allow.slice() }),
    ...(deny === undefined ? undefined : { deny: deny.slice() })
  }
  return { ...options, restriction }
}

/** @internal What is wrong with a seed: a log can only go on from events that are a whole log themselves (S202). */
export const seedIssue = (
  seed: ReadonlyArray<Session.Event>,
  { openTurn, pending }: Session.Transcript
): string | undefined => {
  const misplaced = seed.findIndex((event, i) => event.seq !== i)
  if (misplaced >= 0) return `seq ${seed[misplaced].seq} where ${misplaced} was due`
  if (seed.length > 0 && seed[seed.length - 1]._tag !== "TurnEnded") return "it does not end with the end of a turn"
  return openTurn !== undefined || pending.size > 0 ? "it ends inside a turn" : undefined
}

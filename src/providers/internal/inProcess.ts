/**
 * Runs a child as an ordinary agent of this process: what Spawn and Fork share.
 *
 * Everything the child gets from its parent is read when it is started; later changes of the parent are the parent's
 * own future (S144).
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import type { Agent, Agents, ComposeError, Content, TurnOutcome } from "../../Agent.ts"
import { Handle } from "../../internal/agent/handle.ts"
import { idle, sendNow } from "../../internal/agent/live.ts"
import type { State } from "../../internal/agent/state.ts"
import { unseen } from "../../internal/seam/check.ts"
import { own, type OwnRun } from "../../internal/seam/result.ts"
import type { Event } from "../../Session.ts"
import type { CreateError } from "../../SessionStore.ts"
import * as Subagent from "../../Subagent.ts"
import { type Capture, capture, section, toolName } from "./capture.ts"

/** @internal What a provider in this process can do. */
export const capabilities = {
  outputSchema: true,
  depthLimit: true,
  toolFilter: true,
  persona: true,
  model: true,
  maxTokens: true,
  steer: true,
  resume: false
} as const

/** @internal */
export type InProcess = typeof capabilities

const startError = (
  provider: string,
  error: ComposeError | CreateError
): Subagent.StartError<InProcess> => {
  switch (error._tag) {
    case "InvalidAgent":
      return new Subagent.InvalidRequest({ field: error.field, issue: error.issue })
    case "SessionExists":
    case "StoreFailed":
      return new Subagent.StartFailed({ provider, reason: "StoreFailed", diagnostic: error.message })
    default:
      return error
  }
}

const toResult = (outcome: TurnOutcome, capturing: Capture | undefined): Subagent.Result<unknown> => {
  const { cause, output, text, usage } = outcome
  const common = { output, text, usage }
  switch (cause._tag) {
    case "Completed": {
      if (capturing === undefined) return { _tag: "Completed", ...common, structured: undefined }
      const captured = Option.match(outcome.concluded, {
        onNone: () => undefined,
        onSome: ({ toolCallId }) => capturing.captured(toolCallId)
      })
      return captured === undefined
        ? {
          _tag: "Failed",
          ...common,
          reason: "NoStructuredOutput",
          retryable: false,
          diagnostic: `the child ended without a valid call of "${toolName}"`
        }
        : { _tag: "Completed", ...common, structured: captured.json }
    }
    case "Aborted":
      return { _tag: "Aborted", ...common, cause: cause.cause }
    case "Failed":
      return { ...common, ...cause }
    case "MaxTokens":
    case "Refusal":
      return { _tag: cause._tag, ...common }
    case "MaxSteps":
      return { _tag: "Other", ...common, reason: "max-steps" }
    case "Interrupted":
      return { _tag: "Other", ...common, reason: "interrupted" }
  }
}

const nothing: TurnOutcome = {
  turn: undefined,
  cause: { _tag: "Aborted", cause: "disposed" },
  text: "",
  output: [],
  usage: { inputTokens: 0, outputTokens: 0, steps: 0, elapsed: 0 },
  concluded: Option.none()
}

class ChildRun implements Subagent.ProviderRun<InProcess>, OwnRun {
  readonly localAgent: Option.Option<Agent>
  readonly #agent: Agent
  readonly #state: State | undefined
  readonly #capturing: Capture | undefined
  readonly #prompt: Content
  /** Whether its caller is to go on before the child acts. */
  readonly #later: boolean
  #sent = false

  constructor(agent: Agent, prompt: Content, later: boolean, capturing: Capture | undefined) {
    this.localAgent = Option.some(agent)
    this.#agent = agent
    this.#state = Handle.stateOf(agent)
    this.#capturing = capturing
    this.#prompt = prompt
    this.#later = later
  }

  get id(): string {
    return this.#agent.id
  }

  // the prompt goes out when the run is published, which is when somebody first waits for its result
  get result(): Effect.Effect<Subagent.Result<unknown>> {
    return Effect.withFiber((fiber) => {
      const first = !this.#sent
      this.#sent = true
      const state = this.#state
      if (state === undefined) {
        return first
          ? Effect.andThen(Effect.ignore(this.#agent.send(this.#prompt, { later: this.#later })), this.#read)
          : this.#read
      }
      if (first) sendNow(fiber, state, this.#prompt, { later: this.#later })
      return state.turn === undefined
        ? Effect.succeed(this.#told(state))
        : Effect.map(idle(state), () => this.#told(state))
    })
  }

  get progress(): Agent["progress"] {
    return this.#agent.progress
  }

  get survivors(): Agent["survivors"] {
    return this.#agent.survivors
  }

  [own](): ReadonlyArray<string> | undefined {
    return this.#state?.survivors
  }

  get steer(): Agent["steer"] {
    return this.#agent.steer
  }

  // a run may go through several turns: its result is the last one's, its usage everybody's
  get #read(): Effect.Effect<Subagent.Result<unknown>> {
    return Effect.andThen(
      this.#agent.idle,
      Effect.zipWith(
        this.#agent.last,
        this.#agent.usage,
        (last, usage) => toResult({ ...Option.getOrElse(last, () => nothing), usage }, this.#capturing)
      )
    )
  }

  #told({ last = nothing, usage }: State): Subagent.Result<unknown> {
    return toResult({ ...last, usage }, this.#capturing)
  }
}

/** @internal Starts a child of this process, seeded with the given events. */
export const start = (
  agents: Agents["Service"],
  provider: string,
  request: Subagent.ResolvedStart<InProcess>,
  seed?: ReadonlyArray<Event>
): Effect.Effect<Subagent.ProviderRun<InProcess>, Subagent.StartError<InProcess>, Scope.Scope> => {
  const { parent } = request
  const capturing = Option.getOrUndefined(Option.map(request.output, capture))
  // it is sent later than it was asked for
  const prompt = typeof request.prompt === "string" ? request.prompt : request.prompt.slice()
  return Effect.mapBoth(
    agents.create({
      cwd: parent.cwd,
      parent: parent.sessionId,
      depth: request.depth,
      origin: { kind: "subagent", provider },
      label: request.label,
      seed,
      model: request.model ?? parent.model,
      maxTokens: request.maxTokens ?? parent.maxTokens,
      restriction: request.toolFilter,
      restrictions: parent.restrictions,
      limits: request.limits,
      persona: request.persona,
      tools: capturing?.toolkit,
      sections: capturing === undefined ? undefined : [section],
      output: capturing === undefined ? undefined : toolName,
      closedBy: Effect.map(request.abortCause, Option.getOrElse(() => "disposed" as const))
    }),
    {
      onSuccess: (agent) => new ChildRun(agent, prompt, !(unseen in request), capturing),
      onFailure: (error) => startError(provider, error)
    }
  )
}

/**
 * Gathers what the agents of a run do, and shows it in the order in which it happens.
 *
 * Watching slows nobody: an agent never waits for its watcher, and what a slow one misses is counted.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import type * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { type Agent, Agents, type Progress, type TurnOutcome } from "../Agent.ts"
import { awaitWithin } from "../internal/session/bounded.ts"
import * as Subagent from "../Subagent.ts"
import type { OutputClosed } from "./output.ts"
import type { ViewEvent } from "./view/events.ts"
import type { View } from "./view/view.ts"

/** Registered when the run is over: its event comes behind all others, so whoever has seen it has seen them all. */
class End extends Subagent.Provider<End>()("subagent-cli-end", {
  outputSchema: false,
  depthLimit: false,
  toolFilter: false,
  persona: false,
  model: false,
  maxTokens: false,
  steer: false,
  resume: false
}) {}

const markEnd = Effect.flatMap(Subagent.Subagents, (subagents) =>
  Effect.scoped(subagents.register(End, {
    start: () =>
      Effect.fail(
        new Subagent.StartFailed({ provider: End.providerName, reason: "Exited", diagnostic: "it is no agent" })
      )
  })))

/** What an agent had done in its turn before it was watched, as its conversation shows it. */
const missedBy = (
  transcript: Effect.Success<Agent["transcript"]>,
  status: Effect.Success<Agent["status"]>
): ReadonlyArray<Progress> => {
  const missed: Array<Progress> = []
  let step = 0
  for (const message of transcript.slice(transcript.findLastIndex(({ role }) => role === "user") + 1)) {
    if (message.role === "assistant") {
      missed.push({ _tag: "StepStarted", step: step++ })
      for (const part of message.content) {
        if (part.type !== "tool-call") continue
        missed.push({ _tag: "ToolStarted", id: part.id, name: part.name, params: part.params })
      }
    } else if (message.role === "tool") {
      for (const part of message.content) {
        if (part.type !== "tool-result") continue
        missed.push({ _tag: "ToolEnded", id: part.id, name: part.name, isFailure: part.isFailure })
      }
    }
  }
  // between its calls and their results it runs tools, otherwise it asks its model
  if (status === "running" && transcript.at(-1)?.role !== "assistant" && transcript.length > 0) {
    missed.push({ _tag: "StepStarted", step })
  }
  return missed
}

/** @internal */
export interface Watch {
  /** Says what runs, and watches the agent at the top. */
  readonly root: (
    agent: Agent,
    began: Omit<Extract<ViewEvent, { readonly _tag: "Began" }>, "_tag" | "at" | "session">
  ) => Effect.Effect<void>
  /** What came of it; shown last. */
  readonly ended: (agent: Agent, outcome: TurnOutcome) => Effect.Effect<void>
  /** Fails when nothing can be shown any more; never succeeds. */
  readonly broken: Effect.Effect<never, OutputClosed>
}

/** @internal Watches until the scope closes; shows then what is still to be shown. */
export const watch = (
  view: View
): Effect.Effect<Watch, never, Agents | Subagent.Subagents | Scope.Scope> =>
  Effect.gen(function*() {
    const agents = yield* Agents
    const subagents = yield* Subagent.Subagents
    const scope = yield* Effect.scope
    const broken = yield* Deferred.make<never, OutputClosed>()
    const watchers = new Map<string, Fiber.Fiber<void>>()
    let last: ViewEvent | undefined

    const show = (event: ViewEvent): Effect.Effect<void> =>
      Effect.catch(view.show(event), (error) => Deferred.fail(broken, error))

    // subscribes first: an agent acts as soon as it is there, and does not wait until that has been shown
    const follow = (agent: Agent, first: ViewEvent): Effect.Effect<void> =>
      Effect.gen(function*() {
        const pull = yield* Stream.toPull(agent.progress)
        const missed = missedBy(yield* agent.transcript, yield* agent.status)
        const tell = (progress: Progress) =>
          Effect.flatMap(Clock.currentTimeMillis, (at) => show({ _tag: "Agent", at, session: agent.id, progress }))
        yield* show(first)
        yield* Effect.forEach(missed, tell, { discard: true })
        const last = missed.at(-1)
        let told = last?._tag === "StepStarted" ? last.step : undefined
        while (true) {
          for (const progress of yield* pull) {
            // the step that was said to begin may only begin now
            const isTold = progress._tag === "StepStarted" && progress.step === told
            told = undefined
            if (!isTold) yield* tell(progress)
          }
        }
      }).pipe(
        Effect.scoped,
        // the end of the stream is that of the agent
        Effect.ignore,
        Effect.forkIn(scope, { startImmediately: true }),
        Effect.map((fiber) => void watchers.set(agent.id, fiber))
      )

    // what an agent did comes before its end
    const unfollow = (id: string): Effect.Effect<void> => {
      const fiber = watchers.get(id)
      watchers.delete(id)
      return fiber === undefined ? Effect.void : Effect.asVoid(awaitWithin(fiber, "1 second"))
    }

    const events = yield* Stream.runForEach(
      Stream.takeUntil(subagents.events, (event) => event._tag === "ProviderAdded" && event.name === End.providerName),
      (event) => {
        switch (event._tag) {
          case "RunStarted":
            return Effect.flatMap(
              agents.get(event.id),
              Option.match({ onNone: () => show(event), onSome: (agent) => follow(agent, event) })
            )
          case "RunEnded":
            return Effect.andThen(unfollow(event.id), show(event))
          case "Dropped":
            return show(event)
          default:
            return Effect.void
        }
      }
    ).pipe(Effect.forkScoped({ startImmediately: true }))

    yield* Effect.addFinalizer(() =>
      Effect.gen(function*() {
        yield* Effect.ignore(Effect.provideService(markEnd, Subagent.Subagents, subagents))
        yield* awaitWithin(events, "2 seconds")
        for (const id of Array.from(watchers.keys())) yield* unfollow(id)
        if (last !== undefined) yield* show(last)
      })
    )

    return {
      root: (agent, began) =>
        Effect.gen(function*() {
          const at = yield* Clock.currentTimeMillis
          yield* follow(agent, { _tag: "Began", at, session: agent.id, ...began })
        }),
      ended: (agent, outcome) =>
        Effect.map(Clock.currentTimeMillis, (at) => {
          last = { _tag: "Ended", at, session: agent.id, outcome }
        }),
      broken: Effect.raceFirst(Deferred.await(broken), view.broken)
    }
  })

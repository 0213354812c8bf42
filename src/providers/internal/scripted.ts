/**
 * Plays one child after a script: what the children of `Scripted` are made of.
 *
 * A child lets everybody who is ready go first, once, before it does anything: whoever started it can subscribe to its
 * progress before there is any.
 */
import * as Prompt from "effect/ai/Prompt"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Scope from "effect/Scope"
import { boundText } from "../../internal/session/bounded.ts"
import { Broadcast } from "../../internal/session/broadcast.ts"
import * as Session from "../../Session.ts"
import * as Subagent from "../../Subagent.ts"
import type { Act, Ending, Message, Play, Release, Request, Script, Steering } from "./scriptedPlay.ts"

/** @internal Everything that was recorded. */
export interface Journal {
  readonly starts: Array<Request>
  readonly steers: Array<Steering>
  readonly releases: Array<Release>
}

type Staged = Exclude<Play, ReadonlyArray<Act>>

interface Child {
  readonly request: Request
  readonly play: Staged
  readonly journal: Journal
  readonly progress: Broadcast<Subagent.Progress>
  readonly settled: Deferred.Deferred<Subagent.Result<unknown>, Subagent.RunFailed>
  readonly heard: Array<Message>
  /** Messages that were taken and that no act has waited for yet. */
  unheeded: number
  heed: (() => void) | undefined
  fiber: Fiber.Fiber<void> | undefined
  ending: Ending["_tag"] | "Died" | undefined
  released: boolean
  /** What it says now, and what it said before that. */
  saying: string
  said: string
  usage: Session.Usage
}

const settleWith = (
  child: Child,
  tag: NonNullable<Child["ending"]>,
  exit: Exit.Exit<Subagent.Result<unknown>, Subagent.RunFailed>
): void => {
  if (child.ending !== undefined) return
  child.ending = tag
  child.progress.end()
  Deferred.doneUnsafe(child.settled, exit)
}

const outputOf = (text: string): ReadonlyArray<Prompt.TextPart> =>
  text === "" ? [] : [Prompt.makePart("text", { text })]

const settle = (child: Child, ending: Ending): void => {
  if (ending._tag === "RunFailed") {
    const { diagnostic, reason } = ending
    const { provider } = child.request
    return settleWith(child, ending._tag, Exit.fail(new Subagent.RunFailed({ provider, reason, diagnostic })))
  }
  const text = child.saying === "" ? child.said : child.saying
  settleWith(child, ending._tag, Exit.succeed({ ...ending, text, output: outputOf(text), usage: child.usage }))
}

const nextSteering = (child: Child): Effect.Effect<void> =>
  Effect.suspend(() => {
    if (child.unheeded > 0) {
      child.unheeded--
      return Effect.void
    }
    return Effect.andThen(
      Effect.callback<void>((resume) => {
        child.heed = () => resume(Effect.void)
        return Effect.sync(() => {
          child.heed = undefined
        })
      }),
      nextSteering(child)
    )
  })

const perform = (child: Child, acts: ReadonlyArray<Act>): Effect.Effect<void> =>
  Effect.gen(function*() {
    for (const act of acts) {
      yield* performOne(child, act)
      // it has settled; or it was cancelled, and this ignored it
      if (child.ending !== undefined) return
    }
  })

const performOne = Effect.fnUntraced(function*(child: Child, act: Act) {
  const { progress } = child
  switch (act._tag) {
    case "Say": {
      if (child.saying !== "") child.said = child.saying
      child.saying = ""
      for (const delta of act.deltas) {
        child.saying += delta
        progress.publish({ _tag: "Text", delta })
      }
      return
    }
    case "Show":
      return progress.publish(act.progress)
    case "Tool": {
      const { during, id, isFailure, name, params } = act
      progress.publish({ _tag: "ToolStarted", id, name, params })
      yield* perform(child, during)
      if (child.ending === undefined) progress.publish({ _tag: "ToolEnded", id, name, isFailure })
      return
    }
    case "Spend": {
      child.usage = Session.addUsage(child.usage, { ...Session.noUsage, ...act.usage })
      return progress.publish({ _tag: "StepEnded", usage: child.usage })
    }
    case "Wait":
      return void (yield* act.effect)
    case "Steered":
      return yield* nextSteering(child)
    case "Decide":
      return yield* perform(child, act.acts(child.heard.slice()))
    case "Settle":
      return settle(child, act.ending)
  }
})

const run = (child: Child): Effect.Effect<void> =>
  Effect.onExit(Effect.andThen(Effect.yieldNowWith(1), perform(child, child.play.run)), (exit) =>
    Effect.sync(() => {
      if (Exit.isFailure(exit)) settleWith(child, "Died", Exit.failCause(exit.cause))
      else settle(child, { _tag: "Completed", structured: undefined })
    }))

const resultOf = (child: Child): Subagent.ProviderRun<Subagent.Unchecked>["result"] =>
  Effect.suspend(() => {
    // the play begins when the run is published, which is when somebody first waits for its result
    if (child.fiber !== undefined || child.ending !== undefined) return Deferred.await(child.settled)
    return Effect.flatMap(Effect.forkDetach(run(child), { startImmediately: true }), (fiber) => {
      child.fiber = fiber
      return Deferred.await(child.settled)
    })
  })

const release = (child: Child, abortCause: Effect.Effect<Option.Option<Session.AbortCause>>): Effect.Effect<void> =>
  Effect.gen(function*() {
    const aborted = Option.getOrUndefined(yield* abortCause)
    const { fiber, journal, play, request: { provider, runId } } = child
    // first of all, so that a child which ignores its interruption has its partial output as well
    settle(child, { _tag: "Aborted", cause: aborted ?? "disposed" })
    if (fiber !== undefined) yield* Fiber.interrupt(fiber)
    if (play.release !== undefined) yield* play.release
    child.released = true
    journal.releases.push({ provider, runId, aborted })
  })

const rejectionOf = (child: Child, aborting: boolean): Subagent.SteerRejected["reason"] | undefined => {
  if (child.released) return "disposed"
  if (child.ending === "Aborted") return "cancelled"
  if (child.ending !== undefined) return "settled"
  return aborting ? "cancelled" : undefined
}

const react = (child: Child, message: Message): Effect.Effect<Subagent.SteerRejected["reason"] | undefined> =>
  Effect.suspend(() => {
    const { steer } = child.play
    if (typeof steer !== "function") return Effect.succeed(steer === "unsupported" ? undefined : steer)
    const reaction = steer(message)
    return Effect.isEffect(reaction) ? reaction : Effect.succeed(reaction)
  })

const steerInto = (
  child: Child,
  abortCause: Effect.Effect<Option.Option<Session.AbortCause>>
): Subagent.Steer =>
(content, source) =>
  Effect.gen(function*() {
    const message: Message = { content, source }
    const ended = Effect.map(abortCause, (cause) => rejectionOf(child, Option.isSome(cause)))
    let rejected = yield* ended
    if (rejected === undefined) {
      const answer = yield* Effect.raceFirst(
        react(child, message),
        Effect.as(Effect.exit(Deferred.await(child.settled)), undefined)
      )
      // a message that was taken while the child settled was not
      rejected = answer ?? (yield* ended)
    }
    const { journal, request: { provider, runId } } = child
    journal.steers.push({ ...message, provider, runId, rejected })
    if (rejected !== undefined) return yield* new Subagent.SteerRejected({ reason: rejected })
    child.heard.push(message)
    child.unheeded++
    child.heed?.()
  })

const toRequest = (
  provider: string,
  index: number,
  resolved: Subagent.ResolvedStart<Subagent.Unchecked>
): Request => {
  const { depth, label, limits, maxTokens, model, output, parent, persona, prompt, runId, toolFilter } = resolved
  const { lifetime: _, ...identity } = parent
  return {
    provider,
    index,
    runId,
    parent: identity,
    depth,
    limits,
    prompt,
    label,
    toolFilter,
    persona,
    model,
    maxTokens,
    jsonSchema: Option.getOrUndefined(Option.map(output, ({ jsonSchema }) => jsonSchema))
  }
}

const playOf = (script: Script, request: Request): Effect.Effect<Play | undefined> =>
  Effect.suspend(() => {
    if (typeof script !== "function") return Effect.succeed(script[request.index])
    const play = script(request)
    return Effect.isEffect(play) ? play : Effect.succeed(play)
  })

const attribute = (provider: string, error: Subagent.StartFailed | Subagent.UnsupportedCapability) => {
  if (error._tag === "StartFailed") {
    return new Subagent.StartFailed({ provider, reason: error.reason, diagnostic: boundText(error.diagnostic) })
  }
  const { agent, capability, version } = error
  return new Subagent.UnsupportedCapability({
    provider,
    capability,
    ...(agent === undefined ? undefined : { agent }),
    ...(version === undefined ? undefined : { version })
  })
}

/** @internal Starts children of a provider after a script, which is played from its beginning. */
export const implement = <C extends Subagent.Capabilities>(
  provider: Subagent.Provider.Named<C>,
  journal: Journal,
  script: Script
): Subagent.Implementation<C> => {
  const { capabilities: { steer: steers }, providerName } = provider
  let count = 0
  const start = Effect.fnUntraced(function*(resolved: Subagent.ResolvedStart<Subagent.Unchecked>) {
    const { abortCause } = resolved
    const request = toRequest(providerName, count++, resolved)
    journal.starts.push(request)
    const given = yield* playOf(script, request)
    if (given === undefined) {
      return yield* new Subagent.StartFailed({
        provider: providerName,
        reason: "ProviderFault",
        diagnostic: `the script has no play for start ${request.index}`
      })
    }
    const play: Staged = "run" in given ? given : { run: given }
    if (play.start !== undefined) yield* Effect.mapError(play.start, (error) => attribute(providerName, error))
    const child: Child = {
      request,
      play,
      journal,
      progress: new Broadcast<Subagent.Progress>((missed) => ({ _tag: "Dropped", count: missed })),
      settled: Deferred.makeUnsafe(),
      heard: [],
      unheeded: 0,
      heed: undefined,
      fiber: undefined,
      ending: undefined,
      released: false,
      saying: "",
      said: "",
      usage: Session.noUsage
    }
    yield* Scope.addFinalizer(yield* Effect.scope, release(child, abortCause))
    const steer = steerInto(child, abortCause)
    return {
      id: play.id ?? `${providerName}-${request.runId}`,
      localAgent: Option.none(),
      result: resultOf(child),
      progress: child.progress.stream({ capacity: 1024 }),
      survivors: Effect.succeed(play.survivors ?? []),
      ...(steers === false ? undefined : {
        steer: steers === true ? steer : play.steer === "unsupported" ? Option.none() : Option.some(steer)
      })
    }
  })
  // sound: the run has its `steer` exactly as the provider's flag says, and the rest does not depend on the flags
  return { start } as unknown as Subagent.Implementation<C>
}

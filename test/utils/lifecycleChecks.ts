/**
 * What has to be true after any life of agents that delegate, however it went. Each check gives a line for everything
 * that is wrong.
 */
import { Effect, Exit, Option, Result, Stream } from "effect"
import { existsSync, readdirSync } from "node:fs"
import { join } from "node:path"
import * as Session from "../../src/Session.ts"
import type { SessionStore } from "../../src/SessionStore.ts"
import type * as Subagent from "../../src/Subagent.ts"
import { leaksSince, type Snapshot } from "./leaks.ts"
import { type History, startedRun } from "./lifecycle.ts"

type Issues = ReadonlyArray<string>

// ----- events

/** Each run starts once and ends once, in this order and under one name. */
export const unpaired = (events: ReadonlyArray<Subagent.SubagentEvent>): Issues => {
  const issues: Array<string> = []
  const open = new Map<string, string>()
  const seen = new Set<string>()
  for (const event of events) {
    if (event._tag === "Dropped") issues.push("events were dropped")
    if (event._tag !== "RunStarted" && event._tag !== "RunEnded") continue
    const { id, label, local, parent, provider, runId } = event
    const name = JSON.stringify([id, label, local, parent, provider])
    if (event._tag === "RunStarted") {
      if (seen.has(runId)) issues.push(`run ${runId} started twice`)
      seen.add(runId)
      open.set(runId, name)
      continue
    }
    if (open.get(runId) !== name) issues.push(`run ${runId} ended as ${name}, and was open as ${open.get(runId)}`)
    open.delete(runId)
  }
  for (const [runId, name] of open) issues.push(`run ${runId} never ended: ${name}`)
  return issues
}

// ----- results

// a delegation may fail, and is over then
const endless = new Set(["hangs", "hangs in a tool", "ignores its end", "leaves a survivor"])
const failing = new Map([["fails", "Failed"], ["breaks", "RunFailed"]])
const unclean = new Set(["is released badly", "leaves a survivor"])
const careless = new Set(["ignores its end", ...unclean])

/** Every run has one result, the one its end was told with, and none that it cannot have. */
export const wrongResults = (history: History): Effect.Effect<Issues> =>
  Effect.gen(function*() {
    const issues: Array<string> = []
    for (const started of history.starts) {
      const { causes, does, kind } = started
      const what = `${kind} that ${does}`
      const run = startedRun(started)
      if (run === undefined) continue
      const ended = history.events.find((event) => event._tag === "RunEnded" && event.runId === run.runId)
      if (ended?._tag !== "RunEnded") continue
      const exit = yield* Effect.exit(run.result)
      const again = yield* Effect.exit(run.interrupt)
      if (JSON.stringify(exit) !== JSON.stringify(again)) issues.push(`${what}: two results`)
      const outcome = Exit.isSuccess(exit) ? exit.value._tag : "RunFailed"
      if (outcome !== ended.outcome) issues.push(`${what}: result ${outcome}, told ${ended.outcome}`)
      if (Exit.isSuccess(exit) && exit.value.text !== ended.text) issues.push(`${what}: another text was told`)
      const released = yield* Effect.exit(run.released)
      if (Exit.isSuccess(released) !== ended.released) issues.push(`${what}: another release was told`)
      if (!ended.released && !careless.has(does)) issues.push(`${what}: not released: ${JSON.stringify(released)}`)
      if (ended.released && unclean.has(does)) issues.push(`${what}: released, was told`)
      if (does === "gives a value" && Exit.isSuccess(exit) && exit.value._tag === "Completed") {
        const value = JSON.stringify(exit.value.structured)
        if (value !== `{"n":1}`) issues.push(`${what}: gave ${value}`)
      }
      if (outcome === "Completed" && endless.has(does)) {
        issues.push(`${what}: completed`)
      }
      if (Exit.isSuccess(exit) && exit.value._tag === "Aborted") {
        if (!causes.has(exit.value.cause)) {
          issues.push(`${what}: aborted by ${exit.value.cause}, of ${[...causes].join()}`)
        }
        continue
      }
      // nobody stopped it: it did what it does
      const natural = failing.get(does) ?? "Completed"
      if (outcome !== natural) issues.push(`${what}: ${outcome} ${JSON.stringify(exit)}`)
    }
    return issues
  })

// ----- logs

const texts = (event: Session.Event): ReadonlyArray<string> =>
  event._tag === "MessageAppended" || event._tag === "SteeringAdmitted"
    ? typeof event.message.content === "string"
      ? [event.message.content]
      : event.message.content.flatMap((part) => part.type === "text" ? [part.text] : [])
    : []

/** A log breaks no rule, is closed, says the same as JSON, and holds no step of anybody else. */
export const unsound = (header: Session.Header, events: ReadonlyArray<Session.Event>): Issues => {
  const issues = Session.validate(header, events).map(({ issue, seq }) => `${header.id} at ${seq}: ${issue}`)
  if (Session.fold(events).openTurn !== undefined) issues.push(`${header.id}: a turn is open`)
  const written = JSON.parse(JSON.stringify(events.map(Session.encodeEvent))) as ReadonlyArray<unknown>
  const read = written.map((json) => Result.getOrThrow(Session.decodeEvent(json)))
  if (JSON.stringify(read.map(Session.encodeEvent)) !== JSON.stringify(written)) issues.push(`${header.id}: lossy`)
  for (const event of events) {
    const copied = event.seq < (header.seedLength ?? 0)
    // nobody but its parent can stop a grandchild here
    if (event._tag === "TurnEnded" && event.cause._tag === "Aborted" && header.depth > 1 && !copied) {
      if (event.cause.cause !== "parent") issues.push(`${header.id}: stopped by ${event.cause.cause}`)
    }
    if (event._tag !== "MessageAppended" || event.message.role !== "assistant") continue
    const author = copied ? header.parent : header.id
    for (const text of texts(event)) {
      if (!text.startsWith(`${author}:`)) issues.push(`${header.id} at ${event.seq}: a step of ${text}`)
    }
  }
  return issues
}

/** Every stored session is free, and sound. */
export const wrongSessions = (store: SessionStore["Service"]): Effect.Effect<Issues> =>
  Effect.gen(function*() {
    const issues: Array<string> = []
    for (const entry of yield* Stream.runCollect(store.list)) {
      if (entry._tag === "Damaged") {
        issues.push(`${entry.id} is damaged: ${entry.what}`)
        continue
      }
      const { header } = entry
      const opened = yield* Effect.exit(Effect.scoped(store.open(header.id)))
      if (Exit.isFailure(opened)) issues.push(`${header.id} cannot be opened: ${JSON.stringify(opened.cause)}`)
      issues.push(...unsound(header, yield* Stream.runCollect(store.read(header.id))))
    }
    return issues
  }).pipe(Effect.orDie)

/** A message that was taken is in the child's log exactly once, one that was not is nowhere (S89). */
export const wrongSteering = (history: History, store: SessionStore["Service"]): Effect.Effect<Issues> =>
  Effect.gen(function*() {
    const issues: Array<string> = []
    for (const { fiber, text, to } of history.sent) {
      const run = startedRun(to)
      const exit = fiber.pollUnsafe()
      if (run === undefined || exit === undefined || Option.isNone(run.localAgent)) continue
      const events = yield* Stream.runCollect(store.read(run.id))
      const times = events.flatMap(texts).filter((one) => one === text).length
      const due = Exit.isSuccess(exit) ? 1 : 0
      if (times !== due) issues.push(`${to.kind} that ${to.does}: ${text} is there ${times} times, and not ${due}`)
    }
    return issues
  }).pipe(Effect.orDie)

// ----- what is left

const millis = 1_500

/**
 * Fibers, and whatever else keeps a process alive, after a moment for what is on its way out. The runner has timers of
 * its own: ours are looked for when the test file ends.
 */
export const leftovers = (start: Snapshot): Effect.Effect<Issues> =>
  Effect.gen(function*() {
    const leaks = () => leaksSince(start).filter((leak) => !leak.endsWith(" active Timeout"))
    for (let waited = 0; waited < millis && leaks().length > 0; waited += 5) yield* Effect.sleep("5 millis")
    return leaks()
  })

/** Files that say that somebody holds a session. */
export const locks = (directory: string): Issues =>
  readdirSync(directory).flatMap((id) =>
    id.startsWith(".")
      ? []
      : readdirSync(join(directory, id)).filter((name) => name.endsWith(".lock")).map((name) => `${id}/${name}`)
  )

/** Files that say that a store is open. */
export const holders = (directory: string): Issues => {
  const path = join(directory, ".holders")
  return existsSync(path) ? readdirSync(path).map((name) => `.holders/${name}`) : []
}

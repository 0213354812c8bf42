/**
 * Weighs children that are alive: each of them waits for a model that never answers.
 */
import { Effect, Fiber, ManagedRuntime } from "effect"
import { setImmediate } from "node:timers/promises"
import { Agents } from "../../src/Agent.ts"
import * as SessionStore from "../../src/SessionStore.ts"
import { makeBare } from "./floors.ts"
import * as model from "./model.ts"
import * as Ours from "./ours.ts"

/** Starts one agent that delegates to so many at once. Returns what stops them all. */
export type Family = (prompt: string) => Promise<() => Promise<void>>

const running = async <R, E>(
  runtime: ManagedRuntime.ManagedRuntime<R, E>,
  effect: Effect.Effect<unknown, unknown, R>
): Promise<() => Promise<void>> => {
  const fiber = runtime.runFork(effect)
  return async () => {
    await Effect.runPromise(Fiber.interrupt(fiber))
    await runtime.dispose()
  }
}

export const ours: Family = async (prompt) => {
  const runtime = ManagedRuntime.make(Ours.layer(SessionStore.layerMemory))
  const agents = await runtime.runPromise(Agents)
  return running(
    runtime,
    Effect.scoped(Effect.flatMap(Ours.parent(agents, Ours.unlimited), (parent) => parent.prompt(prompt)))
  )
}

export const bare: Family = async (prompt) => {
  const runtime = ManagedRuntime.make(model.layer)
  const bare = await runtime.runPromise(makeBare())
  return running(runtime, Effect.suspend(() => bare([], prompt)))
}

const heap = async (): Promise<number> => {
  if (globalThis.gc === undefined) throw new Error("this needs --expose-gc")
  // what a collection finalizes is only free after the next one
  for (let i = 0; i < 3; i++) {
    await setImmediate()
    globalThis.gc()
  }
  return process.memoryUsage().heapUsed
}

/** The bytes of heap that each of so many living children takes. */
export const weigh = async (family: Family, children: number): Promise<number> => {
  // the runtime and the first agent are no child's weight
  const stopOne = await family("fan 1 hang")
  while (model.hanging.count < 1) await setImmediate()
  const before = await heap()
  const stop = await family(`fan ${children} hang`)
  while (model.hanging.count < children + 1) await setImmediate()
  const after = await heap()
  await stop()
  await stopOne()
  if (model.hanging.count > 0) throw new Error(`${model.hanging.count} children are still alive`)
  return (after - before) / children
}

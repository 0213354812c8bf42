/**
 * Weighs children that are alive: each of them waits for a model that never answers.
 */
import { Effect, Fiber, ManagedRuntime } from "effect"
import { type HeapProfiler, Session } from "node:inspector/promises"
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

const alive = async (count: number): Promise<void> => {
  while (model.hanging.count !== count) await setImmediate()
}

/** Starts so many children and tells `between` when all of them are there. */
const withChildren = async <A>(family: Family, children: number, between: () => Promise<A>): Promise<A> => {
  const stop = await family(`fan ${children} hang`)
  await alive(children + 1)
  const result = await between()
  await stop()
  return result
}

/** With one agent that lives from before: the runtime and what is made at the first use are no child's weight. */
const besideAnother = async <A>(family: Family, body: () => Promise<A>): Promise<A> => {
  const stop = await family("fan 1 hang")
  await alive(1)
  const result = await body()
  await stop()
  await alive(0)
  return result
}

/** The bytes of heap that each of so many living children takes. */
export const weigh = (family: Family, children: number): Promise<number> =>
  besideAnother(family, async () => {
    const before = await heap()
    const after = await withChildren(family, children, heap)
    return (after - before) / children
  })

/** What is alive with so many children, by the functions that allocated it. */
export const sample = (family: Family, children: number): Promise<HeapProfiler.SamplingHeapProfile> =>
  besideAnother(family, async () => {
    const session = new Session()
    session.connect()
    await session.post("HeapProfiler.startSampling", { samplingInterval: 512 })
    const profile = await withChildren(family, children, async () => {
      await heap()
      return (await session.post("HeapProfiler.stopSampling")).profile
    })
    session.disconnect()
    return profile
  })

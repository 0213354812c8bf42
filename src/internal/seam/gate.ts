/**
 * Counts the children that run, by parent and by tree, and makes starts wait their turn.
 *
 * Only the cap of one parent has a queue, and it is fair: nobody starts before somebody who came earlier. The cap of a
 * tree never queues: parents hold places while their children wait, so a queue there would deadlock.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type { Limits } from "../../CurrentAgent.ts"
import { LimitExceeded } from "./errors.ts"

interface Waiter {
  readonly max: number
  readonly admit: () => void
}

interface Lane {
  running: number
  readonly waiters: Array<Waiter>
}

/** @internal */
export class Gate {
  readonly #lanes = new Map<string, Lane>()
  readonly #trees = new Map<string, number>()
  /** The tree that a running child belongs to. */
  readonly #treeOf = new Map<string, string>()

  /**
   * Takes a place for a child of `parent`, waiting for one where the parent has too many running. Fails when the wait
   * was too long or the tree is full. Interruption while it waits takes nothing.
   */
  enter(parent: string, limits: Limits): Effect.Effect<void, LimitExceeded> {
    return Effect.suspend(() => {
      const lane = this.#lane(parent)
      if (lane.waiters.length === 0 && lane.running < limits.maxChildren) {
        const refused = this.#take(parent, lane, limits)
        if (refused === undefined) return Effect.void
        this.#advance(parent, lane)
        return Effect.fail(refused)
      }
      if (limits.maxChildren <= 0 || limits.maxWait <= 0) {
        return Effect.fail(
          new LimitExceeded({ limit: "maxChildren", value: lane.running + 1, max: limits.maxChildren })
        )
      }
      return Effect.flatMap(
        Clock.currentTimeMillis,
        (since) =>
          Effect.timeoutOrElse(this.#wait(parent, lane, limits), {
            duration: limits.maxWait,
            orElse: () =>
              Effect.flatMap(
                Clock.currentTimeMillis,
                (now) => Effect.fail(new LimitExceeded({ limit: "maxWait", value: now - since, max: limits.maxWait }))
              )
          })
      )
    })
  }

  /** Gives a place back. */
  leave(parent: string): void {
    const tree = this.#treeOf.get(parent) ?? parent
    const running = (this.#trees.get(tree) ?? 1) - 1
    if (running === 0) this.#trees.delete(tree)
    else this.#trees.set(tree, running)
    const lane = this.#lanes.get(parent)
    if (lane === undefined) return
    lane.running--
    this.#advance(parent, lane)
  }

  /** Says that a child of `parent` has this id, so that its own children count to the same tree. */
  joins(parent: string, child: string): void {
    this.#treeOf.set(child, this.#treeOf.get(parent) ?? parent)
  }

  /** Forgets a child that is gone. */
  parts(child: string): void {
    this.#treeOf.delete(child)
  }

  /** How many places are taken; for tests and gauges. */
  get running(): number {
    let running = 0
    for (const lane of this.#lanes.values()) running += lane.running
    return running
  }

  #lane(parent: string): Lane {
    let lane = this.#lanes.get(parent)
    if (lane === undefined) {
      lane = { running: 0, waiters: [] }
      this.#lanes.set(parent, lane)
    }
    return lane
  }

  /** Takes a place, unless the tree is full. */
  #take(parent: string, lane: Lane, limits: Limits): LimitExceeded | undefined {
    const tree = this.#treeOf.get(parent) ?? parent
    const running = (this.#trees.get(tree) ?? 0) + 1
    if (running > limits.maxRunning) {
      return new LimitExceeded({ limit: "maxRunning", value: running, max: limits.maxRunning })
    }
    this.#trees.set(tree, running)
    lane.running++
    return undefined
  }

  #advance(parent: string, lane: Lane): void {
    // one that its tree refuses takes no place and leaves it to the next
    while (lane.waiters.length > 0 && lane.running < lane.waiters[0].max) lane.waiters.shift()!.admit()
    if (lane.running === 0 && lane.waiters.length === 0) this.#lanes.delete(parent)
  }

  #wait(parent: string, lane: Lane, limits: Limits): Effect.Effect<void, LimitExceeded> {
    return Effect.suspend(() => {
      let admitted = false
      let claimed = false
      return Effect.callback<void, LimitExceeded>((resume) => {
        const waiter: Waiter = {
          max: limits.maxChildren,
          admit: () => {
            const refused = this.#take(parent, lane, limits)
            if (refused !== undefined) return resume(Effect.fail(refused))
            admitted = true
            resume(Effect.sync(() => {
              claimed = true
            }))
          }
        }
        lane.waiters.push(waiter)
        return Effect.sync(() => {
          const index = lane.waiters.indexOf(waiter)
          if (index >= 0) lane.waiters.splice(index, 1)
          this.#advance(parent, lane)
        })
      }).pipe(
        // admitted in the very moment it was given up
        Effect.onExit((exit) =>
          Effect.sync(() => {
            if (exit._tag === "Failure" && admitted && !claimed) this.leave(parent)
          })
        )
      )
    })
  }
}

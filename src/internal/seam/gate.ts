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

/** The children of one parent. */
interface Lane {
  readonly parent: string
  running: number
  /** Those of the running that were let in, and have not gone on yet. */
  entering: number
  readonly waiters: Array<Waiter>
}

interface Waiter {
  readonly max: number
  readonly admit: () => void
}

/** All children below one root. */
interface Tree {
  readonly root: string
  running: number
}

/** A child that runs; runs of remote children may share an id. */
interface Member {
  readonly tree: Tree
  runs: number
}

/** @internal */
export class Gate {
  /** @internal */
  readonly lanes = new Map<string, Lane>()
  /** @internal */
  readonly trees = new Map<string, Tree>()
  /** @internal */
  readonly members = new Map<string, Member>()

  /** A place for a child of `parent`. Nothing is counted before it is entered. */
  place(parent: string, limits: Limits): Place {
    return new Place(this, parent, limits)
  }

  /** How many places are held; for tests and gauges. */
  get running(): number {
    let running = 0
    for (const tree of this.trees.values()) running += tree.running
    return running
  }

  /** How many starts wait; for tests and gauges. */
  get waiting(): number {
    let waiting = 0
    for (const lane of this.lanes.values()) waiting += lane.waiters.length
    return waiting
  }
}

/**
 * @internal A place for one child. Whoever asked for one leaves it, whatever became of the start: before it was entered,
 * while it waits, while it is held, and again.
 */
export class Place {
  readonly #gate: Gate
  readonly #parent: string
  readonly #limits: Limits
  #waiter: Waiter | undefined
  #lane: Lane | undefined
  #tree: Tree | undefined
  #child: string | undefined

  constructor(gate: Gate, parent: string, limits: Limits) {
    this.#gate = gate
    this.#parent = parent
    this.#limits = limits
  }

  /** Whether others come first. */
  get waits(): boolean {
    const lane = this.#gate.lanes.get(this.#parent)
    if (lane === undefined) return !(this.#limits.maxChildren > 0)
    return lane.waiters.length > 0 || !(lane.running < this.#limits.maxChildren)
  }

  /** Takes the place, waiting where the parent has too many running. Fails when that takes too long or the tree is full. */
  get enter(): Effect.Effect<void, LimitExceeded> {
    return Effect.suspend(() => this.enterNow())
  }

  /** As `enter`, and takes a place that is free by the call itself. */
  enterNow(): Effect.Effect<void, LimitExceeded> {
    if (!this.waits) {
      const taken = this.#take()
      // behind those who were let in and have not gone on yet
      return this.#lane !== undefined && this.#lane.entering > 0 ? Effect.andThen(taken, this.#goOn) : taken
    }
    const { maxChildren, maxWait } = this.#limits
    if (maxChildren > 0 && maxWait > 0) return this.#wait(maxWait)
    const value = (this.#gate.lanes.get(this.#parent)?.running ?? 0) + 1
    return Effect.fail(new LimitExceeded({ limit: "maxChildren", value, max: maxChildren }))
  }

  /** Says which child has the place, so that its own children count to the same tree. */
  joins(child: string): void {
    if (this.#tree === undefined) return
    const { members } = this.#gate
    const member = members.get(child) ?? { tree: this.#tree, runs: 0 }
    member.runs++
    members.set(child, member)
    this.#child = child
  }

  /** Gives the place back, or the claim to it. */
  leave(): void {
    const { lanes, members, trees } = this.#gate
    const lane = this.#lane
    const tree = this.#tree
    const member = this.#child === undefined ? undefined : members.get(this.#child)
    if (member !== undefined && --member.runs === 0) members.delete(this.#child!)
    if (tree !== undefined && --tree.running === 0) trees.delete(tree.root)
    if (lane !== undefined) {
      if (tree !== undefined) lane.running--
      const index = this.#waiter === undefined ? -1 : lane.waiters.indexOf(this.#waiter)
      if (index >= 0) lane.waiters.splice(index, 1)
    }
    this.#waiter = undefined
    this.#lane = undefined
    this.#tree = undefined
    this.#child = undefined
    if (lane === undefined) return
    // one that its tree refuses takes no place and leaves it to the next
    while (lane.waiters.length > 0 && lane.running < lane.waiters[0].max) lane.waiters.shift()!.admit()
    if (lane.running === 0 && lane.waiters.length === 0) lanes.delete(lane.parent)
  }

  /** Goes on from the top of the stack. */
  get #goOn(): Effect.Effect<void> {
    return Effect.suspend(() => {
      const lane = this.#lane
      if (lane === undefined) return Effect.void
      lane.entering++
      return Effect.ensuring(Effect.yieldNow, Effect.sync(() => lane.entering--))
    })
  }

  #claim(): Lane {
    const { lanes } = this.#gate
    const lane = lanes.get(this.#parent) ?? { parent: this.#parent, running: 0, entering: 0, waiters: [] }
    lanes.set(this.#parent, lane)
    this.#lane = lane
    return lane
  }

  /** Takes the place unless the tree is full. */
  #take(): Effect.Effect<void, LimitExceeded> {
    const { members, trees } = this.#gate
    const { maxRunning } = this.#limits
    const root = this.#parent
    const tree = members.get(root)?.tree ?? trees.get(root) ?? { root, running: 0 }
    if (!(tree.running < maxRunning)) {
      this.#lane = undefined
      return Effect.fail(new LimitExceeded({ limit: "maxRunning", value: tree.running + 1, max: maxRunning }))
    }
    trees.set(tree.root, tree)
    tree.running++
    this.#tree = tree
    this.#claim().running++
    return Effect.void
  }

  #wait(maxWait: number): Effect.Effect<void, LimitExceeded> {
    return Effect.flatMap(Clock.currentTimeMillis, (since) =>
      Effect.timeoutOrElse(
        Effect.callback<void, LimitExceeded>((resume) => {
          this.#waiter = {
            max: this.#limits.maxChildren,
            admit: () => {
              this.#waiter = undefined
              // the place is taken at once, by whoever leaves it
              resume(Effect.andThen(this.#take(), this.#goOn))
            }
          }
          this.#claim().waiters.push(this.#waiter)
        }),
        {
          duration: maxWait,
          orElse: () =>
            Effect.flatMap(Clock.currentTimeMillis, (now) =>
              Effect.fail(new LimitExceeded({ limit: "maxWait", value: now - since, max: maxWait })))
        }
      ))
  }
}

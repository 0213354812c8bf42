/**
 * Publishes values to any number of subscribers, none of which can slow the publisher or each other.
 *
 * Each subscriber has a buffer of its own; when it is full the oldest values are dropped and counted, and the subscriber
 * is told how many it missed before it gets the next one. No subscriber runs inside `publish`.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"

interface Subscriber<A> {
  buffer: Array<A>
  dropped: number
  wake: (() => void) | undefined
  readonly capacity: number
}

/** @internal */
export class Broadcast<A> {
  private subscribers: Set<Subscriber<A>> | undefined
  private ended = false
  private readonly dropped: (count: number) => A

  constructor(dropped: (count: number) => A) {
    this.dropped = dropped
  }

  /** Whether anybody would see a value that is published now. */
  get observed(): boolean {
    return this.subscribers !== undefined && this.subscribers.size > 0
  }

  publish(value: A): void {
    if (this.subscribers === undefined) return
    for (const subscriber of this.subscribers) {
      if (subscriber.buffer.length >= subscriber.capacity) {
        // dropping half at once keeps a stalled subscriber from costing a shift for every value
        const excess = Math.max(1, subscriber.capacity >> 1)
        subscriber.buffer = subscriber.buffer.slice(excess)
        subscriber.dropped += excess
      }
      subscriber.buffer.push(value)
      subscriber.wake?.()
    }
  }

  /** Ends every subscription, present and later, once it has read what was published. */
  end(): void {
    this.ended = true
    if (this.subscribers === undefined) return
    for (const subscriber of this.subscribers) subscriber.wake?.()
  }

  /** A stream of `initial()` and then whatever is published after it was pulled for the first time. */
  stream(options: {
    readonly capacity: number
    readonly initial?: (() => ReadonlyArray<A>) | undefined
  }): Stream.Stream<A> {
    return Stream.scoped(Stream.fromPull(Effect.map(
      Effect.acquireRelease(
        Effect.sync(() => {
          const subscriber: Subscriber<A> = {
            buffer: [...options.initial?.() ?? []],
            dropped: 0,
            wake: undefined,
            capacity: options.capacity
          }
          this.subscribers ??= new Set()
          this.subscribers.add(subscriber)
          return subscriber
        }),
        (subscriber) => Effect.sync(() => this.subscribers?.delete(subscriber))
      ),
      (subscriber) => this.pull(subscriber)
    )))
  }

  private pull(subscriber: Subscriber<A>): Effect.Effect<readonly [A, ...Array<A>], Cause.Done> {
    return Effect.suspend(() => {
      if (subscriber.buffer.length > 0) {
        const [first, ...rest] = subscriber.buffer
        const { dropped } = subscriber
        subscriber.buffer = []
        subscriber.dropped = 0
        return Effect.succeed(
          dropped > 0 ? [this.dropped(dropped), first, ...rest] as const : [first, ...rest] as const
        )
      }
      if (this.ended) return Cause.done()
      return Effect.flatMap(
        Effect.callback<void>((resume) => {
          subscriber.wake = () => {
            subscriber.wake = undefined
            // the subscriber goes on from the top of the stack: what it does next cannot get between this value and others
            resume(Effect.yieldNow)
          }
          return Effect.sync(() => {
            subscriber.wake = undefined
          })
        }),
        () => this.pull(subscriber)
      )
    })
  }
}

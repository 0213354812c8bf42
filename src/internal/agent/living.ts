/**
 * Binds a live agent to the scope of whoever asked for it: the agent closes with it, and then what it holds is given back.
 */
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Scope from "effect/Scope"
import { attempt, exitOf } from "../session/now.ts"

/** @internal An agent that lives, and how it ends. */
export interface Enlivened<out Agent> {
  readonly agent: Agent
  readonly close: (exit: Exit.Exit<unknown, unknown>) => Effect.Effect<void>
}

/**
 * @internal An agent over what `acquire` gives, which has a scope of its own: a failed start gives it back before the
 * failure is seen. `otherwise` may know another way to the agent.
 */
export const guarded = <A, E, Agent>(
  acquire: Effect.Effect<A, E, Scope.Scope>,
  use: (a: A) => Enlivened<Agent>,
  otherwise?: (error: E) => Effect.Effect<Agent, E, Scope.Scope> | undefined
): Effect.Effect<Agent, E, Scope.Scope> =>
  Effect.uninterruptibleMask((restore) =>
    Effect.withFiber((fiber) => {
      const scope = Scope.makeUnsafe()
      return Effect.matchCauseEffect(restore(Effect.provideService(acquire, Scope.Scope, scope)), {
        onFailure: (cause) => {
          const error = Option.getOrUndefined(Cause.findErrorOption(cause))
          const other = error === undefined ? undefined : otherwise?.(error)
          return Effect.andThen(
            Scope.close(scope, Exit.failCause(cause)),
            other === undefined ? Effect.failCause(cause) : restore(other)
          )
        },
        onSuccess: (a) => living(fiber, use(a), (exit) => Scope.closeUnsafe(scope, exit) ?? Effect.void)
      })
    })
  )

/** @internal An agent that closes, and then gives back what it holds, with the scope of `fiber`. */
export const living = <Agent>(
  { context }: Fiber.Fiber<unknown, unknown>,
  { agent, close }: Enlivened<Agent>,
  release: (exit: Exit.Exit<unknown, unknown>) => Effect.Effect<void>
): Effect.Effect<Agent, never, Scope.Scope> =>
  Effect.as(
    Scope.addFinalizerExit(
      // sound: the scope is in the context by the effect's type
      Context.getUnsafe(context, Scope.Scope),
      (exit) => {
        const closed = attempt(() => close(exit))
        return exitOf(closed)?._tag === "Success"
          ? release(exit)
          : Effect.ensuring(closed, Effect.suspend(() => release(exit)))
      }
    ),
    agent
  )

/** Calls tools as an agent would that works in a directory. */
import { Effect, Stream } from "effect"
import type { Tool, Toolkit } from "effect/ai"
import { CurrentAgent, defaultLimits, Lifetime } from "../../../src/CurrentAgent.ts"
import type { SessionId } from "../../../src/Session.ts"

export const agentIn = (cwd: string): CurrentAgent["Service"] => ({
  sessionId: "test" as SessionId,
  depth: 0,
  cwd,
  model: undefined,
  maxTokens: undefined,
  restrictions: [],
  limits: defaultLimits,
  lifetime: new Lifetime()
})

/** What the model sees of one call: whether it failed, and the encoded result. */
export const callTool = (
  kit: Toolkit.WithHandler<any>,
  cwd: string,
  name: string,
  params: unknown
): Effect.Effect<{ readonly isFailure: boolean; readonly result: any }> =>
  Effect.flatMap(kit.handle(name, params as never, "call"), Stream.runCollect).pipe(
    Effect.map((results: ReadonlyArray<Tool.HandlerResult<any>>) => {
      const last = results.at(-1)!
      return { isFailure: last.isFailure, result: last.encodedResult }
    }),
    Effect.provideService(CurrentAgent, agentIn(cwd)),
    Effect.orDie
  ) as Effect.Effect<{ readonly isFailure: boolean; readonly result: any }>

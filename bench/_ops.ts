import { Clock, Context, Deferred, Effect, Exit, Layer, Scope, Stream } from "effect"
import { LanguageModel, Prompt, Tool, Toolkit } from "effect/ai"
import { ask, defaultRetry } from "../src/internal/agent/ask.ts"
import { sessionId } from "../src/internal/session/ids.ts"
const usage = {
  inputTokens: { total: 1, uncached: 1, cacheRead: undefined, cacheWrite: undefined },
  outputTokens: { total: 1, text: 1, reasoning: undefined }
}
const textParts = (
  t: string
) => [{ type: "text-start", id: "t" }, { type: "text-delta", id: "t", delta: t }, { type: "text-end", id: "t" }, {
  type: "finish",
  reason: "stop",
  usage,
  response: undefined
}]
const model: any = Effect.runSync(
  LanguageModel.make({
    generateText: () => Effect.die("x"),
    streamText: () => Stream.suspend(() => Stream.fromArray(textParts("x") as any))
  })
)
const kit: any = { tools: { a: Tool.make("a"), b: Tool.make("b") }, handle: () => Effect.die("x") }
const N = 3000
const min = (name: string, eff: any) =>
  Effect.gen(function*() {
    let best = Infinity
    for (let k = 0; k < 12; k++) {
      const c = process.cpuUsage()
      for (let i = 0; i < N; i++) yield* eff
      const d = process.cpuUsage(c)
      best = Math.min(best, (d.user + d.system) / N)
    }
    console.log(name.padEnd(30), best.toFixed(2))
  }) as any
const gen10 = Effect.fnUntraced(function*() {
  for (let i = 0; i < 10; i++) yield* Effect.void
})
const messages = [Prompt.makeMessage("user", { content: [Prompt.makePart("text", { text: "x" })] })]
const q: any = {
  model,
  messages,
  toolkit: kit,
  hasTools: true,
  forced: undefined,
  maxTokens: undefined,
  retry: defaultRetry,
  step: 0,
  observed: () => false,
  publish: () => {},
  onText: () => {},
  onCall: () => {}
}
class S extends Context.Service<S, number>()("S") {}
const ctx0 = Context.empty()
await Effect.runPromise(Effect.gen(function*() {
  yield* min("void", Effect.void)
  yield* min("gen10", gen10())
  yield* min("scoped(void)", Effect.scoped(Effect.void))
  yield* min("scoped(addFinalizer)", Effect.scoped(Effect.addFinalizer(() => Effect.void)))
  yield* min("acquireRelease", Effect.scoped(Effect.acquireRelease(Effect.void, () => Effect.void)))
  yield* min("runForkWith", Effect.sync(() => Effect.runForkWith(ctx0)(Effect.void)))
  yield* min("forkDetach imm", Effect.forkDetach(Effect.void, { startImmediately: true }))
  yield* min(
    "deferred done+await",
    Effect.suspend(() => {
      const d = Deferred.makeUnsafe<void>()
      Deferred.doneUnsafe(d, Exit.void)
      return Deferred.await(d)
    })
  )
  yield* min(
    "fork await hop",
    Effect.suspend(() => {
      const d = Deferred.makeUnsafe<void>()
      Effect.runForkWith(ctx0)(Effect.andThen(Effect.yieldNow, Effect.sync(() => Deferred.doneUnsafe(d, Exit.void))))
      return Deferred.await(d)
    })
  )
  yield* min("yieldNow", Effect.yieldNow)
  yield* min("provideService", Effect.provideService(Effect.void, S, 1))
  yield* min("uninterruptibleMask", Effect.uninterruptibleMask((r) => r(Effect.void)))
  yield* min("exit", Effect.exit(Effect.void))
  yield* min("clock", Clock.currentTimeMillis)
  yield* min("sessionId", sessionId)
  yield* min("onError", Effect.onError(Effect.void, () => Effect.void))
  yield* min(
    "forkUnsafe scope + close",
    Effect.suspend(() => {
      const s = Scope.makeUnsafe()
      const c = Scope.forkUnsafe(s)
      Scope.closeUnsafe(c, Exit.void)
      return Effect.void
    })
  )
  yield* min("ask", ask(q))
  yield* min(
    "bare stream",
    Effect.suspend(() =>
      (model.streamText as any)({
        prompt: Prompt.fromMessages(messages),
        toolkit: kit,
        disableToolCallResolution: true,
        toolCallValidation: "deferred"
      }).pipe(Stream.runForEachArray(() => Effect.void))
    )
  )
  yield* min("fromResponseParts", Effect.sync(() => Prompt.fromResponseParts(textParts("x") as any)))
}) as any)

import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Metric } from "effect"
import { spawn } from "node:child_process"
import { once } from "node:events"
import { existsSync } from "node:fs"
import { open } from "node:fs/promises"
import { createServer } from "node:net"
import { join } from "node:path"
import { assertNoLeaks, leakCheck, leaksSince, makeTempDir, snapshot, tempDir } from "./leaks.ts"

leakCheck()

const failure = (promise: Promise<void>): Promise<string> =>
  promise.then(() => assert.fail("the check found nothing"), (error: Error) => error.message)

describe("leaks", () => {
  it("reports a planted detached fiber by the place that started it", async () => {
    const start = snapshot()
    await Effect.runPromise(Effect.forkDetach(Effect.callback<void>(() => {}), { startImmediately: true }))
    assert.match(
      await failure(assertNoLeaks(start, 500)),
      /^left behind by this file:\n- fiber #\d+ at .*leaks\.test\.ts:\d+:\d+\)?$/
    )

    const planted = Array.from(snapshot().fibers).filter((fiber) => !start.fibers.has(fiber))
    assert.strictEqual(planted.length, 1)
    await Effect.runPromise(Fiber.interruptAll(planted))
    await assertNoLeaks(start)
  })

  it("reports a planted timer", async () => {
    const start = snapshot()
    const timer = setInterval(() => {}, 60_000)
    assert.strictEqual(await failure(assertNoLeaks(start, 500)), "left behind by this file:\n- 1 active Timeout")
    clearInterval(timer)
    await assertNoLeaks(start)
  })

  it("reports a planted process", async () => {
    const start = snapshot()
    const child = spawn(process.execPath, ["-e", "setInterval(() => {}, 60_000)"], { stdio: "ignore" })
    await once(child, "spawn")
    assert.include(await failure(assertNoLeaks(start, 100)), `- process ${child.pid}: ${process.execPath}`)
    child.kill("SIGKILL")
    await assertNoLeaks(start)
  })

  it.effect("sees a fiber whose context carries a metrics service of its own", () =>
    Effect.gen(function*() {
      const start = snapshot()
      let started = 0
      const service: Metric.FiberRuntimeMetricsService = {
        recordFiberStart: () => started++,
        recordFiberEnd: () => {}
      }
      const fiber = yield* Effect.never.pipe(
        Effect.forkDetach({ startImmediately: true }),
        Effect.provideService(Metric.FiberRuntimeMetrics, service)
      )
      assert.strictEqual(started, 1)
      assert.match(leaksSince(start).join(), /fiber/)
      yield* Fiber.interrupt(fiber)
      yield* Effect.promise(() => assertNoLeaks(start))
    }))

  it("names the span that a fiber runs in", async () => {
    const start = snapshot()
    const fiber = Effect.runFork(Effect.never.pipe(Effect.withSpan("planted")))
    assert.match(leaksSince(start).join(), /fiber #\d+ in span planted/)
    await Effect.runPromise(Fiber.interrupt(fiber))
    await assertNoLeaks(start)
  })

  it("reports a server, an open file and a temporary directory", async () => {
    const start = snapshot()
    const server = createServer().listen(0, "127.0.0.1")
    await once(server, "listening")
    const directory = makeTempDir()
    const file = await open(join(directory, "log"), "w")

    const message = await failure(assertNoLeaks(start, 50))
    assert.match(message, /1 active TCPServerWrap/)
    assert.include(message, `1 open ${directory}/log`)
    assert.include(message, `temporary ${directory}`)

    await file.close()
    server.close()
    await once(server, "close")
    assert.strictEqual(
      await failure(assertNoLeaks(start, 500)),
      `left behind by this file:\n- temporary ${directory}`
    )
  })

  it.effect("removes a scoped directory with its scope", () =>
    Effect.gen(function*() {
      const path = yield* Effect.scoped(
        Effect.tap(tempDir, (made) => Effect.sync(() => assert.isTrue(existsSync(made))))
      )
      assert.isFalse(existsSync(path))
    }))
})

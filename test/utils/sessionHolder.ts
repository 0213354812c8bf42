/** Starts processes that hold sessions (`fixtures/sessionHolder.ts`), speaks to them, and ends them with the scope. */
import { Effect } from "effect"
import { type ChildProcess, spawn } from "node:child_process"
import { createInterface } from "node:readline"
import { fileURLToPath } from "node:url"
import type * as FileSessionStore from "../../src/layers/FileSessionStore.ts"

const script = fileURLToPath(new URL("../fixtures/sessionHolder.ts", import.meta.url))

export interface Holder {
  readonly pid: number
  /** Sends a command and waits for its answer. */
  readonly ask: (command: string) => Effect.Effect<string>
  readonly signal: (signal: NodeJS.Signals) => Effect.Effect<void>
  /** Kills it like a crash, and waits until it is gone. */
  readonly kill: Effect.Effect<void>
}

const gone = (child: ChildProcess): Effect.Effect<void> =>
  Effect.callback<void>((resume) => {
    if (child.exitCode !== null || child.signalCode !== null) return resume(Effect.void)
    child.once("exit", () => resume(Effect.void))
  })

export const holder = (options: FileSessionStore.Options & { readonly id: string }) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const child = spawn(process.execPath, [script, JSON.stringify(options)], { stdio: ["pipe", "pipe", "inherit"] })
      const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
      const kill = Effect.andThen(Effect.sync(() => void child.kill("SIGKILL")), gone(child))
      return {
        pid: child.pid!,
        ask: (command: string) =>
          Effect.promise(async () => {
            child.stdin.write(`${command}\n`)
            const line = await lines.next()
            return line.done === true ? "gone" : line.value
          }),
        signal: (signal: NodeJS.Signals) => Effect.sync(() => void child.kill(signal)),
        kill
      }
    }),
    (holder) => holder.kill
  ) satisfies Effect.Effect<Holder, never, unknown>

/** Runs the command: in this process with what it writes captured, or as a process of its own. */
import { NodeServices } from "@effect/platform-node"
import { Cause, Effect, Exit, Layer, Logger, Option, type Scope } from "effect"
import { type ChildProcess, spawn } from "node:child_process"
import { join } from "node:path"
import { main } from "../../../src/cli/command.ts"
import { Diagnostics, format } from "../../../src/cli/diagnostics.ts"
import { ExitWith } from "../../../src/cli/errors.ts"
import { Output } from "../../../src/cli/output.ts"

export interface Outcome {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

/** In this process, as far as its own streams and signals. */
export const runHere = (...args: ReadonlyArray<string>): Effect.Effect<Outcome> =>
  Effect.gen(function*() {
    let stdout = ""
    let stderr = ""
    const emit = (line: string) => {
      stderr += `${line}\n`
    }
    const exit = yield* Effect.exit(Effect.provide(
      main(args),
      Layer.mergeAll(
        NodeServices.layer,
        Layer.succeed(Diagnostics, { emit, redirect: () => Effect.die("nothing is drawn here") }),
        Logger.layer([Logger.make((options) => emit(format(options)))]),
        Layer.succeed(Output, {
          out: (text) => Effect.sync(() => void (stdout += text)),
          err: (text) => Effect.sync(() => void (stderr += text)),
          errIsTerminal: false,
          size: () => ({ columns: 80, rows: 24 })
        })
      )
    ))
    if (Exit.isSuccess(exit)) return { code: 0, stdout, stderr }
    const error = Option.getOrUndefined(Cause.findErrorOption(exit.cause))
    if (!(error instanceof ExitWith)) return yield* Effect.die(new Error(`${Cause.pretty(exit.cause)}\n${stderr}`))
    return { code: error.code, stdout, stderr }
  })

export const bin = join(import.meta.dirname, "../../../src/cli/main.ts")

export interface Running {
  readonly process: ChildProcess
  /** What it has written so far. */
  readonly written: () => Pick<Outcome, "stdout" | "stderr">
  /** How it ended: 128 and the number of the signal for one that killed it. */
  readonly outcome: Effect.Effect<Outcome>
}

/** A process of its own, killed when the scope closes. */
export const start = (
  args: ReadonlyArray<string>,
  options: {
    readonly env?: Readonly<Record<string, string>>
    readonly cwd?: string
    /** Arguments of node itself. */
    readonly node?: ReadonlyArray<string>
  } = {}
): Effect.Effect<Running, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const { ANTHROPIC_API_KEY: _, OPENAI_API_KEY: __, ...env } = process.env
      const child = spawn(process.execPath, [...options.node ?? [], bin, ...args], {
        env: { ...env, ...options.env },
        cwd: options.cwd,
        stdio: ["ignore", "pipe", "pipe"]
      })
      let stdout = ""
      let stderr = ""
      child.stdout.setEncoding("utf8").on("data", (text: string) => void (stdout += text))
      child.stderr.setEncoding("utf8").on("data", (text: string) => void (stderr += text))
      const outcome = Effect.promise(() =>
        new Promise<Outcome>((resolve) => {
          const done = () =>
            resolve({ code: child.exitCode ?? (child.signalCode === "SIGINT" ? 130 : 137), stdout, stderr })
          if (child.stdout.closed && child.stderr.closed && (child.exitCode ?? child.signalCode) !== null) done()
          else child.once("close", done)
        })
      )
      return { process: child, written: () => ({ stdout, stderr }), outcome }
    }),
    ({ outcome, process }) =>
      Effect.suspend(() => {
        if ((process.exitCode ?? process.signalCode) === null) process.kill("SIGKILL")
        return Effect.asVoid(outcome)
      })
  )

/** A process of its own, to its end. */
export const run = (
  args: ReadonlyArray<string>,
  options?: Parameters<typeof start>[1]
): Effect.Effect<Outcome> => Effect.scoped(Effect.flatMap(start(args, options), ({ outcome }) => outcome))

export const jsonLines = (text: string): ReadonlyArray<any> =>
  text.split("\n").slice(0, -1).map((line) => JSON.parse(line))

/**
 * Sends what the library logs to standard error, one line a message, also while something is drawn there.
 *
 * @since 0.1.0
 */
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import type * as Scope from "effect/Scope"
import * as process from "node:process"
import { printableText } from "./view/text.ts"

/** @internal Where diagnostics go: to standard error, unless somebody who draws there takes them. */
export class Diagnostics extends Context.Service<Diagnostics, {
  readonly emit: (line: string) => void
  readonly redirect: (sink: (line: string) => void) => Effect.Effect<void, never, Scope.Scope>
}>()("effect-subagent/cli/Diagnostics") {}

const make = (): Diagnostics["Service"] => {
  const direct = (line: string): void => {
    process.stderr.write(`${line}\n`)
  }
  let sink = direct
  return {
    emit: (line) => sink(line),
    redirect: (taker) =>
      Effect.acquireRelease(
        Effect.sync(() => {
          sink = taker
        }),
        () =>
          Effect.sync(() => {
            sink = direct
          })
      )
  }
}

const show = (message: unknown): string => {
  if (typeof message === "string") return message
  if (message instanceof Error) return message.message
  return JSON.stringify(message) ?? String(message)
}

/** @internal One log message as one text. */
export const format = ({ cause, logLevel, message }: Logger.Options<unknown>): string => {
  const parts = (Array.isArray(message) ? message : [message]).map(show)
  const why = cause.reasons.length === 0 ? [] : [Cause.pretty(cause)]
  return printableText(`${logLevel.toLowerCase()}: ${[...parts, ...why].join(" ")}`)
}

/** @internal The one logger of the command. */
export const layer: Layer.Layer<Diagnostics> = Layer.unwrap(Effect.sync(() => {
  const diagnostics = make()
  return Layer.merge(
    Layer.succeed(Diagnostics, diagnostics),
    Logger.layer([Logger.make((options) => diagnostics.emit(format(options)))])
  )
}))

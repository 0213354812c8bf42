/**
 * Writes to standard output and standard error.
 *
 * A write returns when the system has taken the text, and fails when nobody reads any more, so that a run whose output
 * was closed stops instead of going on unseen.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as process from "node:process"

/**
 * Nobody reads standard output or standard error any more.
 *
 * @category errors
 * @since 0.1.0
 */
export class OutputClosed extends Schema.TaggedError<OutputClosed>("effect-subagent/cli/OutputClosed")("OutputClosed", {
  stream: Schema.Literals(["stdout", "stderr"])
}) {
  override get message(): string {
    return `${this.stream} is closed`
  }
}

/**
 * @internal The two streams of the process. `columns` and `rows` are of the terminal behind standard error, where there
 * is one.
 */
export class Output extends Context.Service<Output, {
  readonly out: (text: string) => Effect.Effect<void, OutputClosed>
  readonly err: (text: string) => Effect.Effect<void, OutputClosed>
  readonly errIsTerminal: boolean
  readonly size: () => { readonly columns: number; readonly rows: number }
}>()("effect-subagent/cli/Output") {}

const writer = (name: OutputClosed["stream"], stream: NodeJS.WriteStream) => (text: string) =>
  Effect.callback<void, OutputClosed>((resume) => {
    stream.write(
      text,
      (error) =>
        resume(error === undefined || error === null ? Effect.void : Effect.fail(new OutputClosed({ stream: name })))
    )
  })

/** @internal */
export const layer: Layer.Layer<Output> = Layer.effect(
  Output,
  Effect.acquireRelease(
    Effect.sync(() => {
      // the failing write tells; without a listener the same error would end the process at once
      const ignore = () => {}
      process.stdout.on("error", ignore)
      process.stderr.on("error", ignore)
      return ignore
    }),
    (ignore) =>
      Effect.sync(() => {
        process.stdout.off("error", ignore)
        process.stderr.off("error", ignore)
      })
  ).pipe(Effect.as(Output.of({
    out: writer("stdout", process.stdout),
    err: writer("stderr", process.stderr),
    errIsTerminal: process.stderr.isTTY === true,
    size: () => ({ columns: process.stderr.columns ?? 80, rows: process.stderr.rows ?? 24 })
  })))
)

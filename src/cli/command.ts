/**
 * The `subagent` command: its subcommands, its version, and what it says when it is used wrongly.
 *
 * @since 0.1.0
 */
import * as Cause from "effect/Cause"
import * as CliConfig from "effect/cli/CliConfig"
import * as CliError from "effect/cli/CliError"
import * as CliOutput from "effect/cli/CliOutput"
import * as Command from "effect/cli/Command"
import * as GlobalFlag from "effect/cli/GlobalFlag"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Path from "effect/Path"
import * as Schema from "effect/Schema"
import { Diagnostics } from "./diagnostics.ts"
import { ExitWith } from "./errors.ts"
import * as Run from "./run.ts"
import * as List from "./sessions/list.ts"
import * as Show from "./sessions/show.ts"
import * as Tree from "./sessions/tree.ts"
import { printableText } from "./view/text.ts"

/** @internal */
export const command = Command.make("subagent").pipe(
  Command.withDescription("Lets an agent delegate work on your files to child agents, and keeps what all of them did."),
  Command.withSubcommands([Run.command, List.command, Tree.command, Show.command])
)

// the same way up from src/cli and from dist/cli
const readVersion = Effect.gen(function*() {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const text = yield* fs.readFileString(path.join(import.meta.dirname, "..", "..", "package.json"))
  const decode = Schema.decodeUnknownEffect(Schema.fromJsonString(Schema.Struct({ version: Schema.String })))
  return (yield* decode(text)).version
})

const config = CliConfig.make({
  builtIns: [GlobalFlag.Help, GlobalFlag.Version, GlobalFlag.Completions, GlobalFlag.LogLevel]
})

// standard output is for what was asked for: a wrong question is answered on standard error
const present = (diagnostics: Diagnostics["Service"]): CliOutput.Presenter => ({
  present: (event) => {
    switch (event._tag) {
      case "InvalidInvocation":
        return Effect.sync(() => {
          for (const error of event.errors) diagnostics.emit(`subagent: ${printableText(error.message)}`)
          diagnostics.emit(`Try: ${event.commandPath.join(" ")} --help`)
        })
      case "Help":
        return event.reason === "Implicit"
          ? Effect.map(CliOutput.Formatter, (formatter) => diagnostics.emit(formatter.formatHelpDoc(event.helpDoc)))
          : CliOutput.defaultPresenter.present(event)
      default:
        return CliOutput.defaultPresenter.present(event)
    }
  }
})

/**
 * @internal Runs the command with these arguments. Everything is said when it fails: what is left is the exit code.
 */
export const main = (args: ReadonlyArray<string>) =>
  Effect.gen(function*() {
    const diagnostics = yield* Diagnostics
    const version = yield* Effect.orDie(readVersion)
    yield* Command.runWith(command, { version })(args).pipe(
      Effect.provideService(CliConfig.CliConfig, config),
      Effect.provideService(CliOutput.Presenter, present(diagnostics)),
      Effect.catch((error) => {
        if (CliError.isCliError(error)) return Effect.fail(new ExitWith({ code: 2 }))
        // whoever closed the output does not read the reason either
        if (error._tag !== "OutputClosed") diagnostics.emit(`subagent: ${printableText(error.message)}`)
        return Effect.fail(new ExitWith({ code: 1 }))
      })
    )
  }).pipe(
    Effect.tapCause((cause) =>
      Cause.hasDies(cause)
        ? Effect.map(Diagnostics, ({ emit }) => emit(`subagent: ${printableText(Cause.pretty(cause))}`))
        : Effect.void
    )
  )

/**
 * Runs an agent on the files of a directory, shows it and its children while they work, and prints its report.
 *
 * @since 0.1.0
 */
import * as Argument from "effect/cli/Argument"
import * as CliError from "effect/cli/CliError"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import { Agents } from "../Agent.ts"
import { NotCompleted } from "./errors.ts"
import * as Layers from "./layers.ts"
import * as Model from "./model.ts"
import { defaultPrompt } from "./offline/survey.ts"
import { Output } from "./output.ts"
import { storeFlag } from "./sessions/store.ts"
import * as Json from "./view/json.ts"
import * as Live from "./view/live.ts"
import * as Plain from "./view/plain.ts"
import { fit, oneLine, printableText } from "./view/text.ts"
import { type Watch, watch } from "./watch.ts"

interface Task {
  readonly prompt: string
  readonly model: Model.ModelChoice
  readonly store: string
  readonly cwd: string
  readonly maxDepth: number | undefined
}

const variable = (name: string): Effect.Effect<string> =>
  Effect.match(Config.option(Config.String(name)), {
    onSuccess: Option.getOrElse(() => ""),
    onFailure: () => ""
  })

const makeView = Effect.fnUntraced(function*(json: boolean) {
  if (json) return yield* Json.make
  const { errIsTerminal } = yield* Output
  if (!errIsTerminal || (yield* variable("TERM")) === "dumb") return yield* Plain.make
  return yield* Live.make({ color: (yield* variable("NO_COLOR")) === "" })
})

// whatever stops it, the turn is over and told before the agent closes
const drive = (task: Task, watching: Watch) =>
  Effect.scoped(Effect.gen(function*() {
    const agents = yield* Agents
    const agent = yield* agents.create({
      cwd: task.cwd,
      label: fit(oneLine(task.prompt), 60),
      ...(task.maxDepth === undefined ? undefined : { limits: { maxDepth: task.maxDepth } })
    })
    yield* Effect.addFinalizer(() =>
      Effect.andThen(
        agent.interrupt("user"),
        Effect.flatMap(agent.last, (last) => Option.isNone(last) ? Effect.void : watching.ended(agent, last.value))
      )
    )
    yield* watching.root(agent, {
      model: Model.labelOf(task.model),
      cwd: task.cwd,
      store: task.store,
      prompt: task.prompt
    })
    return yield* agent.prompt(task.prompt)
  }))

const execute = Effect.fnUntraced(function*(task: Task, json: boolean) {
  const outcome = yield* Effect.scoped(Effect.gen(function*() {
    const view = yield* makeView(json)
    const watching = yield* watch(view)
    return yield* Effect.raceFirst(watching.broken, drive(task, watching))
  }))
  if (!json && outcome.text.trim() !== "") {
    const { out } = yield* Output
    yield* out(`${printableText(outcome.text).trimEnd()}\n`)
  }
  if (outcome.cause._tag !== "Completed") return yield* new NotCompleted({ cause: outcome.cause })
})

/** @internal */
export const command = Command.make("run", {
  prompt: Argument.String("prompt").pipe(
    Argument.withDescription("What the agent is to do. Without one it surveys the three largest source folders"),
    Argument.filter((text) => text.trim() !== "", () => "Expected a prompt that is not empty"),
    Argument.withDefault(defaultPrompt)
  ),
  model: Flag.String("model").pipe(
    Flag.withMetavar("provider/name"),
    Flag.withDescription(
      "The model: anthropic/NAME (key in ANTHROPIC_API_KEY), openai/NAME (OPENAI_API_KEY), or with --base-url any " +
        "PROVIDER/NAME (PROVIDER_API_KEY, if it needs one). By default \"offline\", which is no language model but a " +
        "built-in program that can do the survey and nothing else"
    ),
    Flag.withDefault(Model.offline)
  ),
  baseUrl: Flag.String("base-url").pipe(
    Flag.withMetavar("URL"),
    Flag.withDescription("An OpenAI-compatible server to ask instead, up to and including /v1; for anthropic its API"),
    Flag.optional
  ),
  store: storeFlag,
  cwd: Flag.Directory("cwd", { mustExist: true }).pipe(
    Flag.withMetavar("DIR"),
    Flag.withDescription("The directory that the agents read; they read nothing outside. By default the current one"),
    Flag.withDefault(".")
  ),
  maxDepth: Flag.Int("max-depth").pipe(
    Flag.withMetavar("N"),
    Flag.withDescription("How deep agents may delegate: 0 not at all, 1 only the first agent; 3 by default"),
    Flag.filter((n) => n >= 0, (n) => `Expected a natural number, got ${n}`),
    Flag.optional
  ),
  json: Flag.Boolean("json").pipe(
    Flag.withDescription("Print what happens as JSON, one event a line, and nothing else"),
    Flag.withDefault(false)
  )
}, (input) =>
  Effect.gen(function*() {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const model = Model.choose(input.model, Option.getOrUndefined(input.baseUrl))
    if (typeof model === "string") return yield* new CliError.ValidationError({ message: model })
    const store = path.resolve(input.store)
    const task: Task = {
      prompt: input.prompt,
      model,
      store,
      cwd: yield* fs.realPath(input.cwd),
      maxDepth: Option.getOrUndefined(input.maxDepth)
    }
    yield* Effect.provide(execute(task, input.json), Layers.layer({ model, store }))
  })).pipe(
    Command.validate((input) => {
      const model = Model.choose(input.model, Option.getOrUndefined(input.baseUrl))
      return typeof model === "string" ? Effect.fail(new CliError.ValidationError({ message: model })) : Effect.void
    }),
    Command.withDescription(
      "Runs an agent that may read the files of a directory and delegate to children, and prints its report.\n\n" +
        "In a terminal it shows the agents while they work, elsewhere one line for each thing that happens, on standard " +
        "error; the report goes to standard output. Every session is stored: see list, tree and show.\n\n" +
        "Without a prompt it surveys the directory. A source folder is a directory right below it that holds a text " +
        "file at any depth; the largest are those with the most bytes in text files. node_modules, .git, the folders " +
        "that .gitignore names by their plain name, and links are left out; a file with a NUL byte among its first " +
        "8000 bytes is not text. The offline model counts four characters as one token.\n\n" +
        "Exit codes: 0 the agent answered, 1 it did not, 2 wrong usage, 130 stopped by Ctrl-C."
    ),
    Command.withShortDescription("Run an agent on the files of a directory"),
    Command.withExamples([
      { command: "subagent run", description: "Survey the current directory, offline" },
      {
        command: "subagent run --model anthropic/claude-sonnet-4-5 \"Which functions here lack tests?\"",
        description: "Ask a language model"
      },
      {
        command: "subagent run --model local/llama3 --base-url http://127.0.0.1:11434/v1 \"Explain this code\"",
        description: "Ask a server of your own"
      }
    ])
  )

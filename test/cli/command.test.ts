import { assert, describe, it } from "@effect/vitest"
import { Effect, Stream } from "effect"
import * as Fs from "node:fs"
import { dirname, join } from "node:path"
import * as FileSessionStore from "../../src/layers/FileSessionStore.ts"
import * as Session from "../../src/Session.ts"
import { SessionStore } from "../../src/SessionStore.ts"
import * as FakeModel from "../utils/fakeModelServer.ts"
import { leakCheck, tempDir } from "../utils/leaks.ts"
import { jsonLines, run, runHere, start } from "./utils/cli.ts"

leakCheck()

const manifest = JSON.parse(Fs.readFileSync(join(import.meta.dirname, "../../package.json"), "utf8")) as {
  readonly version: string
}

const timeout = 60_000

/** A directory to work on, and one for the sessions. */
const place = Effect.gen(function*() {
  const top = Fs.realpathSync(yield* tempDir)
  const work = join(top, "work")
  const files = {
    "alpha/one.ts": "export const one = 1\nexport const uno = 1\n",
    "alpha/two.txt": "two",
    "beta/two.js": "export default 2\n",
    "loose.txt": "loose"
  }
  for (const [path, text] of Object.entries(files)) {
    Fs.mkdirSync(dirname(join(work, path)), { recursive: true })
    Fs.writeFileSync(join(work, path), text)
  }
  const store = join(top, "sessions")
  return { top, work, store, flags: ["--cwd", work, "--store", store] }
})

/** Every session of a store with its events, valid and with no turn left open. */
const sessionsIn = (directory: string) =>
  Effect.gen(function*() {
    const store = yield* SessionStore
    const found: Array<{ readonly header: Session.Header; readonly events: ReadonlyArray<Session.Event> }> = []
    for (const entry of yield* Stream.runCollect(store.list)) {
      if (entry._tag === "Damaged") return assert.fail(`${entry.id}: ${entry.what}`)
      const events = yield* Stream.runCollect(store.read(entry.header.id))
      assert.deepStrictEqual(Session.validate(entry.header, events), [])
      assert.isUndefined(Session.fold(events).openTurn)
      found.push({ header: entry.header, events })
    }
    return found
  }).pipe(Effect.provide(FileSessionStore.layerNode({ directory })))

const causes = (events: ReadonlyArray<Session.Event>) =>
  events.flatMap((event) => event._tag === "TurnEnded" ? [event.cause] : [])

/** What a writer that lives has in a store. */
const locks = (store: string): ReadonlyArray<string> =>
  Fs.readdirSync(store, { recursive: true, encoding: "utf8" }).filter((path) =>
    path.endsWith(".lock") || path.includes(".holders/")
  )

const allText = (directory: string): string =>
  Fs.readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((one) => one.isFile())
    .map((one) => Fs.readFileSync(join(one.parentPath, one.name), "utf8"))
    .join("\n")

describe("the command", () => {
  it.live("tells its version and its help", () =>
    Effect.gen(function*() {
      const version = yield* run(["--version"])
      assert.deepStrictEqual(version, { code: 0, stdout: `subagent v${manifest.version}\n`, stderr: "" })
      const help = yield* run(["run", "--help"])
      assert.deepStrictEqual([help.code, help.stderr], [0, ""])
      for (
        const word of [
          "--model",
          "--base-url",
          "--store",
          "--cwd",
          "--max-depth",
          "--json",
          "offline",
          "130",
          "node_modules"
        ]
      ) assert.include(help.stdout, word)
    }), timeout)

  it.live(
    "refuses wrong usage with exit code 2, on standard error alone, and makes nothing",
    () =>
      Effect.gen(function*() {
        const { flags, store, work } = yield* place
        const wrong: ReadonlyArray<readonly [args: ReadonlyArray<string>, says: RegExp]> = [
          [[], /USAGE/],
          [["fly"], /fly/],
          [["run", "--fly"], /--fly/],
          [["run", "one", "two", ...flags], /"two"/],
          [["run", "", ...flags], /not empty/],
          [["run", "--max-depth", "-1", ...flags], /natural number/],
          [["run", "--max-depth=1.5", ...flags], /max-depth/],
          [["run", "--max-depth", "x", ...flags], /max-depth/],
          [["run", "--cwd", join(work, "nothing"), "--store", store], /cwd/],
          [["run", "--cwd", join(work, "loose.txt"), "--store", store], /cwd/],
          [["run", "--store", "", "--cwd", work], /store/],
          [["run", "--model", "gpt", ...flags], /provider\/name/],
          [["run", "--model", "mistral/large", ...flags], /--base-url/],
          [["run", "--base-url", "http://127.0.0.1:1/v1", ...flags], /--model/],
          [["run", "--model", "x/y", "--base-url", "file:///etc", ...flags], /http/],
          [["tree"], /id/],
          [["show", "--store", store], /id/]
        ]
        for (const [args, says] of wrong) {
          const { code, stderr, stdout } = yield* runHere(...args)
          assert.strictEqual(code, 2, `${args.join(" ")}\n${stderr}`)
          assert.strictEqual(stdout, "", args.join(" "))
          assert.match(stderr, says, args.join(" "))
          assert.isFalse(Fs.existsSync(store), args.join(" "))
        }
      }),
    timeout
  )

  it.live(
    "surveys a directory: plain lines on standard error, the report on standard output",
    () =>
      Effect.gen(function*() {
        const { flags, store } = yield* place
        const { code, stderr, stdout } = yield* run(["run", ...flags])
        assert.strictEqual(code, 0, stderr)
        assert.strictEqual(
          stdout,
          [
            "The working directory has 2 source folders, largest first:",
            "",
            "1. alpha: 2 text files, 3 lines, 45 bytes",
            "   2 exported names in 1 file:",
            "   - alpha/one.ts: one, uno",
            "",
            "2. beta: 1 text file, 1 line, 17 bytes",
            "   1 exported name in 1 file:",
            "   - beta/two.js: default",
            "",
            "Written by the built-in offline model: a program that read these files, not a language model.",
            ""
          ].join("\n")
        )
        assert.match(stderr, /^model: offline, .* no language model is asked/)
        for (
          const line of [
            /^\[alpha\] started by agent/m,
            /^\[beta\] read_file beta\/two\.js$/m,
            /^\[agent\] done: 3 steps/m
          ]
        ) {
          assert.match(stderr, line)
        }
        // oxlint-disable-next-line no-control-regex -- nothing of a terminal is left in a pipe
        assert.notMatch(stderr + stdout, /\x1b/)
        const sessions = yield* sessionsIn(store)
        assert.deepStrictEqual(sessions.map(({ header }) => header.label).toSorted().slice(1), ["alpha", "beta"])
        assert.deepStrictEqual(locks(store), [])
      }),
    timeout
  )

  it.live("prints nothing but JSON with --json", () =>
    Effect.gen(function*() {
      const { flags, work } = yield* place
      const { code, stderr, stdout } = yield* run(["run", "--json", ...flags])
      assert.strictEqual(code, 0)
      assert.strictEqual(stderr, "")
      const events = jsonLines(stdout)
      assert.deepInclude(events[0], { _tag: "Began", model: "offline", cwd: work })
      const last = events.at(-1)
      assert.deepInclude(last, { _tag: "Ended", cause: { _tag: "Completed" }, session: events[0].session })
      assert.match(last.text, /2 source folders/)
      const started = events.filter((event) => event._tag === "RunStarted")
      assert.strictEqual(started.length, 2)
      for (const { id, parent, runId } of started) {
        assert.strictEqual(parent, events[0].session)
        const own = events.filter((event) => event.session === id || event.runId === runId)
        assert.strictEqual(own[0]._tag, "RunStarted")
        assert.deepInclude(own.at(-1), { _tag: "RunEnded", outcome: "Completed", released: true })
        // what the child did is all there, from its first step on
        assert.deepStrictEqual(
          own.filter((event) => event._tag === "StepStarted").map((event) => event.step),
          [0, 1, 2]
        )
        assert.deepStrictEqual(
          own.filter((event) => event._tag === "ToolStarted" && event.name !== "read_file").map((event) => event.name),
          ["list_files", "structured_output"]
        )
      }
    }), timeout)

  it.live("says what the offline model is to any other prompt", () =>
    Effect.gen(function*() {
      const { flags, store } = yield* place
      const { code, stdout } = yield* runHere("run", "Fix the bug", ...flags)
      assert.strictEqual(code, 0)
      assert.match(stdout, /not a language model/)
      assert.strictEqual((yield* sessionsIn(store)).length, 1)
    }), timeout)

  it.live("fails with exit code 1 where sessions cannot be stored", () =>
    Effect.gen(function*() {
      const { flags, work } = yield* place
      const { code, stderr, stdout } = yield* runHere("run", "--cwd", work, "--store", join(work, "loose.txt"))
      assert.strictEqual(code, 1)
      assert.strictEqual(stdout, "")
      assert.match(stderr, /^subagent: .*loose\.txt/)
      assert.isAbove(flags.length, 0)
    }), timeout)
})

describe("the command with a language model", () => {
  const local = (server: FakeModel.FakeModelServer) => ["--model", "local/test", "--base-url", server.baseURL]

  it.live("delegates with the tools that it has, as deep as it may", () =>
    Effect.gen(function*() {
      const { flags, store, work } = yield* place
      const server = yield* FakeModel.make(
        FakeModel.answer(FakeModel.call("1", "delegate", { description: "reader", prompt: "Read alpha/two.txt" })),
        FakeModel.answer(FakeModel.call("2", "read_file", { path: "alpha/two.txt" })),
        FakeModel.answer(FakeModel.text("It says two.")),
        FakeModel.answer(FakeModel.text("The child says: two.\u001b[31m"))
      )
      const { code, stderr, stdout } = yield* run(["run", "What does it say?", ...local(server), ...flags])
      assert.strictEqual(code, 0, stderr)
      // what a model writes cannot steer the terminal
      assert.strictEqual(stdout, "The child says: two.\\u{1b}[31m\n")
      assert.notMatch(stderr, /offline/)
      assert.match(stderr, /^\[reader\] read_file alpha\/two\.txt$/m)
      const requests = yield* server.requests
      for (const { body } of requests) {
        assert.strictEqual(body.model, "test")
        const tools = body.tools.map((tool: any) => tool.function.name).toSorted()
        assert.deepStrictEqual(tools, ["delegate", "list_files", "read_file", "search_text"])
        assert.include(body.messages[0].content, work)
      }
      assert.strictEqual((yield* sessionsIn(store)).length, 2)
    }), timeout)

  it.live("never shows or stores a key", () =>
    Effect.gen(function*() {
      const { flags, store } = yield* place
      const key = "sk-very-secret-0123456789abcdef"
      const server = yield* FakeModel.make(
        { status: 401, message: `Incorrect API key provided: ${key}` },
        { status: 401, message: `Incorrect API key provided: ${key}` },
        { status: 401, message: `Incorrect API key provided: ${key}` }
      )
      const args = ["run", "Hello", "--base-url", server.baseURL, ...flags]
      const attempts: ReadonlyArray<readonly [args: ReadonlyArray<string>, variable: string]> = [
        [["--model", "local/test"], "LOCAL_API_KEY"],
        [["--model", "openai/test"], "OPENAI_API_KEY"],
        [["--model", "anthropic/test", "--json"], "ANTHROPIC_API_KEY"]
      ]
      for (const [more, variable] of attempts) {
        const { code, stderr, stdout } = yield* run([...args, ...more], { env: { [variable]: key } })
        assert.strictEqual(code, 1, stderr)
        assert.match(stderr, /did not complete: failed \(AuthenticationError\)/)
        assert.notInclude(stdout + stderr, key)
      }
      const requests = yield* server.requests
      assert.deepStrictEqual(requests.map(({ protocol }) => protocol), ["chat", "chat", "anthropic"])
      for (const { headers } of requests) {
        assert.include([headers["authorization"], headers["x-api-key"]], "<present>")
      }
      assert.notInclude(allText(store), key)
      for (const { events } of yield* sessionsIn(store)) assert.strictEqual(causes(events)[0]?._tag, "Failed")
    }), timeout)

  it.live("asks for a key that is missing by the name of its variable", () =>
    Effect.gen(function*() {
      const { flags, store } = yield* place
      for (const [model, variable] of [["anthropic/x", "ANTHROPIC_API_KEY"], ["openai/x", "OPENAI_API_KEY"]] as const) {
        const { code, stderr, stdout } = yield* run(["run", "Hello", "--model", model, ...flags], {
          env: { [variable]: "" }
        })
        assert.deepStrictEqual([code, stdout], [1, ""])
        assert.include(stderr, `set ${variable}`)
      }
      assert.isFalse(Fs.existsSync(store) && Fs.readdirSync(store).length > 0)
    }), timeout)

  it.live("names the package that a model needs when it is not installed", () =>
    Effect.gen(function*() {
      const { flags } = yield* place
      const hook = `data:text/javascript,${
        encodeURIComponent(`import { registerHooks } from "node:module"
          registerHooks({ resolve: (name, context, next) => {
            if (!name.startsWith("@ai-sdk/")) return next(name, context)
            throw Object.assign(new Error("Cannot find package"), { code: "ERR_MODULE_NOT_FOUND" })
          } })`)
      }`
      const node = ["--import", hook]
      const models = [
        ["anthropic/x", "@ai-sdk/anthropic"],
        ["openai/x", "@ai-sdk/openai"],
        ["local/x", "@ai-sdk/openai-compatible"]
      ] as const
      for (const [model, name] of models) {
        const server = model === "local/x" ? ["--base-url", "http://127.0.0.1:9/v1"] : []
        const { code, stderr } = yield* run(["run", "Hello", "--model", model, ...server, ...flags], { node })
        assert.strictEqual(code, 1)
        assert.include(stderr, `npm install ${name} (it is not installed)`)
      }
      // the offline model needs none of them
      assert.strictEqual((yield* run(["run", ...flags], { node })).code, 0)
    }), timeout)

  it.live(
    "stops everything on Ctrl-C, exits 130, and leaves valid logs and nothing running",
    () =>
      Effect.gen(function*() {
        for (const signal of ["SIGINT", "SIGTERM"] as const) {
          const { flags, store } = yield* place
          const server = yield* FakeModel.make(
            FakeModel.answer(
              FakeModel.call("1", "delegate", { description: "first", prompt: "Wait" }),
              FakeModel.call("2", "delegate", { description: "second", prompt: "Wait" }),
              FakeModel.call("3", "list_files", {})
            ),
            "hang",
            { parts: [FakeModel.text("partial")], end: "hang" }
          )
          const running = yield* start(["run", "Go", "--json", ...local(server), ...flags])
          yield* server.arrived(1)
          yield* server.arrived(2)
          running.process.kill(signal)
          const { code, stderr, stdout } = yield* running.outcome
          assert.strictEqual(code, 130, stderr)
          assert.strictEqual(stderr, "")
          yield* server.hungUp(1)
          yield* server.hungUp(2)
          const events = jsonLines(stdout)
          const ended = events.filter((event) => event._tag === "RunEnded")
          assert.deepStrictEqual(ended.map(({ outcome }) => outcome), ["Aborted", "Aborted"])
          assert.deepInclude(events.at(-1), { _tag: "Ended", cause: { _tag: "Aborted", cause: "user" } })
          const sessions = yield* sessionsIn(store)
          assert.strictEqual(sessions.length, 3)
          for (const { events, header } of sessions) {
            assert.deepStrictEqual(causes(events), [{ _tag: "Aborted", cause: header.depth === 0 ? "user" : "parent" }])
          }
          assert.deepStrictEqual(locks(store), [])
        }
      }),
    timeout
  )

  it.live("stops when nobody reads its output any more", () =>
    Effect.gen(function*() {
      const { flags, store } = yield* place
      const server = yield* FakeModel.make(
        {
          parts: [FakeModel.text("a".repeat(10), "b".repeat(10), "c".repeat(10), "d".repeat(10))],
          delay: 100,
          end: "hang"
        }
      )
      const running = yield* start(["run", "Go", "--json", ...local(server), ...flags])
      yield* server.arrived(0)
      running.process.stdout?.destroy()
      const { code, stderr } = yield* running.outcome
      assert.strictEqual(code, 1)
      assert.strictEqual(stderr, "")
      yield* server.hungUp(0)
      const [session] = yield* sessionsIn(store)
      assert.deepStrictEqual(causes(session!.events), [{ _tag: "Aborted", cause: "user" }])
    }), timeout)
})

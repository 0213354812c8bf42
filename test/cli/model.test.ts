import { assert, describe, it } from "@effect/vitest"
import { Cause, type Logger } from "effect"
import { format } from "../../src/cli/diagnostics.ts"
import { choose, keyVariable, labelOf } from "../../src/cli/model.ts"
import { leakCheck } from "../utils/leaks.ts"

leakCheck()

describe("choose", () => {
  const url = "http://127.0.0.1:1/v1"

  it("takes every kind of model", () => {
    const choices = [
      choose("offline", undefined),
      choose("anthropic/claude", undefined),
      choose("anthropic/claude", url),
      choose("openai/gpt", undefined),
      choose("openai/gpt", url),
      choose("my-host/org/model:tag", url)
    ]
    assert.deepStrictEqual(choices, [
      { _tag: "Offline" },
      { _tag: "Anthropic", name: "claude", baseURL: undefined },
      { _tag: "Anthropic", name: "claude", baseURL: url },
      { _tag: "OpenAi", name: "gpt" },
      { _tag: "Compatible", provider: "openai", name: "gpt", baseURL: url },
      { _tag: "Compatible", provider: "my-host", name: "org/model:tag", baseURL: url }
    ])
    assert.deepStrictEqual(
      choices.map((choice) => typeof choice === "string" ? choice : labelOf(choice)),
      ["offline", "anthropic/claude", "anthropic/claude", "openai/gpt", "openai/gpt", "my-host/org/model:tag"]
    )
  })

  it("says what would be right", () => {
    for (const model of ["", "gpt", "/x", "x/", "a b/c", "1/x"]) {
      assert.match(String(choose(model, undefined)), /provider\/name/, model)
    }
    assert.match(String(choose("mistral/large", undefined)), /--base-url/)
    assert.match(String(choose("offline", url)), /--model/)
    for (const bad of ["", "localhost:1", "ftp://x", "http://", "http:///v1"]) {
      assert.match(String(choose("x/y", bad)), /http/, bad)
    }
  })

  it("names the variable of a key", () => {
    assert.deepStrictEqual(["anthropic", "openai", "my-host"].map(keyVariable), [
      "ANTHROPIC_API_KEY",
      "OPENAI_API_KEY",
      "MY_HOST_API_KEY"
    ])
  })
})

describe("diagnostics", () => {
  it("are one text a message, with nothing that steers a terminal", () => {
    const options = (message: unknown, cause: Cause.Cause<unknown> = Cause.empty) =>
      ({ message, cause, logLevel: "Warn" }) as Logger.Options<unknown>
    assert.strictEqual(format(options(["careful", { a: 1 }, new Error("no")])), "warn: careful {\"a\":1} no")
    assert.strictEqual(format(options("\x1b[2Jgone")), "warn: \\u{1b}[2Jgone")
    assert.match(format(options("it died", Cause.die(new Error("why")))), /^warn: it died Error: why/)
  })
})

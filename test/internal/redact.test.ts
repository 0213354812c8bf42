import { assert, describe, it } from "@effect/vitest"
import { redact, toDiagnostic } from "../../src/internal/session/redact.ts"

const key = "abcDEF-123_xyz"

describe("redaction", () => {
  it.each([
    `Authorization: Bearer ${key}`,
    `authorization=Basic ${key}`,
    `{"authorization": "${key}"}`,
    `{"x-api-key":"${key}"}`,
    `X-Goog-Api-Key: ${key}`,
    `the api key: ${key} is wrong`,
    `access_token=${key}`,
    `client_secret: '${key}'`,
    `Set-Cookie: ${key}`,
    `sent Bearer ${key}, refused`,
    `Incorrect key sk-${key}-${key}`,
    `https://x.test/v1?a=1&key=${key}`,
    `https://x.test/v1?api_key=${key}&a=1`,
    `http://me:${key}@x.test/v1`,
    `http://me:a@${key}@x.test/v1`,
    `http://${key}@x.test?mail=a@b.test`
  ])("removes the key of %s", (text) => {
    assert.notInclude(redact(text), key)
    assert.strictEqual(redact(redact(text)), redact(text))
  })

  it.each([
    "AIzaSyA1234567890abcdefghijklmnopqrstuv",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc-_def",
    "0123456789abcdef0123456789abcdef",
    "Basic dXNlcjpwYXNzd29yZA=="
  ])("recognizes %s", (text) => {
    assert.notInclude(redact(`refused ${text} today`), text.replace("Basic ", ""))
  })

  it.each([
    "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
    "The model claude-sonnet-4-5-20250929 needs the Basic plan of your organization_settings",
    "request req_011CSHoEeqs5C35K2UUqR7Fy of 550e8400-e29b-41d4-a716-446655440000 failed",
    "connect ECONNREFUSED 127.0.0.1:8080",
    "Invalid bearer token",
    "keyword_arguments are not supported by tool_choice",
    "POST https://x.test/v1/chat?alt=sse answered a@b.test"
  ])("keeps %s", (text) => {
    assert.strictEqual(redact(text), text)
  })

  it("removes what it is told of, whatever it looks like", () => {
    assert.strictEqual(redact("say friend and enter", ["friend", ""]), "say <redacted> and enter")
  })

  it("S557 bounds what it shows, and does not cut a secret in two", () => {
    for (let length = 4000; length < 4200; length++) {
      const shown = toDiagnostic(`${"x ".repeat(length / 2)}http://me:${key}@x.test ${"y ".repeat(5000)}`)
      assert.isAtMost(new TextEncoder().encode(shown).length, 4096)
      assert.notInclude(shown, key.slice(0, 4))
    }
  })

  it.each([
    ["letters", "a".repeat(1_000_000)],
    ["names", "api-".repeat(250_000)],
    ["a path", "a/".repeat(500_000)],
    ["slashes", "/".repeat(1_000_000)],
    ["a base64 text", "aB+/".repeat(250_000)],
    ["dots", "eyJ.".repeat(250_000)],
    ["blanks", `authorization${" ".repeat(1_000_000)}`]
  ])("takes no long time for a long text of %s", (_, text) => {
    const started = performance.now()
    toDiagnostic(text)
    assert.isBelow(performance.now() - started, 1000)
  })
})

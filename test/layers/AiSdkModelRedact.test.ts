import { assert, describe, it } from "@effect/vitest"
import { redact, redactUrl } from "../../src/layers/internal/aiSdkRedact.ts"

const key = "abcDEF-123_xyz"

describe("AiSdkModel redaction", () => {
  it.each([
    `Authorization: Bearer ${key}`,
    `authorization=Basic ${key}`,
    `{"authorization": "${key}"}`,
    `{"x-api-key":"${key}"}`,
    `the api key: ${key} is wrong`,
    `access_token=${key}`,
    `client_secret: '${key}'`,
    `Set-Cookie: ${key}`,
    `sent Bearer ${key}, refused`,
    `Incorrect key sk-${key}-${key}`,
    `https://x.test/v1?a=1&key=${key}`,
    `http://me:${key}@x.test/v1`
  ])("removes the key of %s", (text) => {
    assert.notInclude(redact(text, []), key)
  })

  it.each([
    "AIzaSyA1234567890abcdefghijklmnopqrstuv",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc-_def",
    "0123456789abcdef0123456789abcdef",
    "Basic dXNlcjpwYXNzd29yZA=="
  ])("recognizes %s", (text) => {
    assert.notInclude(redact(`refused ${text} today`, []), text.replace("Basic ", ""))
  })

  it.each([
    "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
    "The model claude-sonnet-4-5-20250929 needs the Basic plan of your organization_settings",
    "request req_011CSHoEeqs5C35K2UUqR7Fy of 550e8400-e29b-41d4-a716-446655440000 failed",
    "connect ECONNREFUSED 127.0.0.1:8080",
    "Invalid bearer token",
    "keyword_arguments are not supported by tool_choice"
  ])("keeps %s", (text) => {
    assert.strictEqual(redact(text, []), text)
  })

  it("removes what it is told of, whatever it looks like, and bounds the rest", () => {
    assert.strictEqual(redact("say friend and enter", ["friend", ""]), "say <redacted> and enter")
    assert.isAtMost(redact("word ".repeat(1000), []).length, 1001)
  })

  it("keeps of a URL where it leads", () => {
    assert.strictEqual(
      redactUrl(`https://me:${key}@x.test:8443/v1/messages?key=${key}#x`, []),
      "https://x.test:8443/v1/messages"
    )
    assert.notInclude(redactUrl(`nowhere?key=${key}`, []), key)
  })
})

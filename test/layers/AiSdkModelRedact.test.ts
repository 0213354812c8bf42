import { assert, describe, it } from "@effect/vitest"
import { redact, redactUrl } from "../../src/layers/internal/aiSdkRedact.ts"

const key = "abcDEF-123_xyz"

describe("AiSdkModel redaction", () => {
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

import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import { Prompt } from "effect/ai"
import * as Delegation from "../../src/internal/tool/delegation.ts"
import { noUsage } from "../../src/Session.ts"
import type { Progress } from "../../src/Subagent.ts"
import { leakCheck } from "../utils/leaks.ts"

leakCheck()

const answer = { kind: "foreground", runId: "r1", childId: "c1", text: "All is well" } as const
const file = Prompt.makePart("file", { mediaType: "image/png", data: new Uint8Array([0, 1, 2]) })

const texts = (parts: ReadonlyArray<Prompt.ToolModelOutputPart>) =>
  parts.map((part) => part.type === "text" ? part.text : part.mediaType)

describe("delegation", () => {
  describe("what a model sees (S255)", () => {
    it("is what the child said", () => {
      assert.deepStrictEqual(texts(Delegation.toModelOutput(answer)), ["All is well"])
    })

    it("is the value that was asked for, and not what was said beside it", () => {
      for (const structured of [{ risk: "high" }, [], 0, false, "", null]) {
        assert.deepStrictEqual(texts(Delegation.toModelOutput({ ...answer, structured })), [JSON.stringify(structured)])
      }
    })

    it("is never empty", () => {
      assert.match(texts(Delegation.toModelOutput({ ...answer, text: "" })).join(), /without saying anything/)
    })

    it("has the files behind the text", () => {
      assert.deepStrictEqual(texts(Delegation.toModelOutput({ ...answer, files: [file] })), [
        "All is well",
        "image/png"
      ])
    })

    it("is nothing while the child works", () => {
      const working = { kind: "progress", runId: "r1", childId: "c1", event: "text", detail: "All" } as const
      assert.deepStrictEqual(Delegation.toModelOutput(working), [])
    })
  })

  describe("what a child does", () => {
    const of = (progress: Progress) => {
      const working = Delegation.toWorking("r1", "c1", progress)
      return working?.kind === "progress" ? [working.event, working.detail] : undefined
    }

    it("is told in one line where it is worth one", () => {
      assert.deepStrictEqual(of({ _tag: "StepStarted", step: 2 }), ["step", "2"])
      assert.deepStrictEqual(of({ _tag: "Text", delta: "Hi" }), ["text", "Hi"])
      assert.deepStrictEqual(of({ _tag: "Reasoning", delta: "Hm" }), ["reasoning", "Hm"])
      assert.deepStrictEqual(of({ _tag: "ToolStarted", id: "t1", name: "read", params: {} }), ["tool-started", "read"])
      assert.deepStrictEqual(of({ _tag: "ToolEnded", id: "t1", name: "read", isFailure: true }), [
        "tool-ended",
        "read"
      ])
      assert.deepStrictEqual(of({ _tag: "StepRestarted", step: 2, reason: "overloaded" }), ["restarted", "overloaded"])
    })

    it("is left out where it is not", () => {
      assert.isUndefined(of({ _tag: "ToolProgress", id: "t1", name: "delegate", value: {} }))
      assert.isUndefined(of({ _tag: "StepEnded", usage: noUsage }))
      assert.isUndefined(of({ _tag: "Dropped", count: 3 }))
    })
  })

  it("S254 is plain JSON in the log, and reads back as it was", () => {
    const results: ReadonlyArray<Delegation.Success> = [
      answer,
      { ...answer, structured: { risk: "high", lines: [1, 2] }, files: [file] },
      { kind: "progress", runId: "r1", childId: "c1", event: "step", detail: "0" }
    ]
    for (const result of results) {
      const json: unknown = JSON.parse(JSON.stringify(Schema.encodeSync(Delegation.Success)(result)))
      assert.deepStrictEqual(Schema.decodeUnknownSync(Delegation.Success)(json), result)
    }
  })

  it("S254 is nothing else", () => {
    const decode = Schema.decodeUnknownExit(Delegation.Success)
    assert.strictEqual(decode({ ...answer, kind: "background", taskId: "subagent-1" })._tag, "Failure")
    assert.strictEqual(decode({ kind: "foreground", runId: "r1", text: "no child" })._tag, "Failure")
    assert.strictEqual(Schema.decodeUnknownExit(Delegation.Failure)({ error: "no reason" })._tag, "Failure")
  })
})

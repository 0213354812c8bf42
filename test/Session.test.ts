import { assert, describe, it } from "@effect/vitest"
import { Arbitrary, Cause, Effect, Exit, Result, Schema } from "effect"
import { Prompt } from "effect/ai"
import { readdirSync, readFileSync } from "node:fs"
import * as Session from "../src/Session.ts"
import { leakCheck } from "./utils/leaks.ts"
import { answered, called, ended, header, returned, said, seqs, started, steered } from "./utils/sessionEvents.ts"

leakCheck()

const golden = (name: string): ReadonlyArray<string> =>
  readFileSync(new URL(`golden/${name}.jsonl`, import.meta.url), "utf8").split("\n").slice(0, -1)

const decode = (json: unknown): Session.Event => Result.getOrThrow(Session.decodeEvent(json))

const throughJson = (event: Session.Event): Session.Event =>
  decode(JSON.parse(JSON.stringify(Session.encodeEvent(event))))

const turn = (seq: number, number: number): ReadonlyArray<Session.KnownEvent> => [
  started(seq, number),
  said(seq + 1),
  answered(seq + 2, `answer ${number}`),
  ended(seq + 3, number)
]

const passed = (result: { readonly _tag: string }): void =>
  assert.strictEqual(result._tag, "Passed", JSON.stringify(result))

describe("Session", () => {
  describe("ids", () => {
    const isId = Schema.is(Session.SessionId)

    it("name files that stay where they are", () => {
      for (const id of ["a", "A9", "_x", "a.b", "a-b", "s1abc", "x".repeat(128)]) assert.isTrue(isId(id), id)
      for (const id of ["", ".", "..", ".a", "-a", "a/b", "../a", "a\\b", "a b", "a\n", "a\0", "ä", "x".repeat(129)]) {
        assert.isFalse(isId(id), id)
      }
    })
  })

  describe("the log format", () => {
    const files = readdirSync(new URL("golden", import.meta.url)).filter((name) => name.endsWith(".jsonl"))
      .map((name) => name.slice(0, -".jsonl".length))

    for (const name of files.filter((name) => name !== "headers")) {
      it(`golden log ${name}: decoding and encoding give back the same line`, () => {
        const lines = golden(name)
        assert.isNotEmpty(lines)
        for (const [seq, line] of lines.entries()) {
          const event = decode(JSON.parse(line))
          assert.strictEqual(event.seq, seq)
          assert.strictEqual(JSON.stringify(Session.encodeEvent(event)), line)
          if (name !== "future") assert.notStrictEqual(event._tag, "Unknown")
        }
      })
    }

    it("golden headers: decoding and encoding give back the same line", () => {
      for (const line of golden("headers")) {
        const decoded = Result.getOrThrow(Session.decodeHeader(JSON.parse(line)))
        assert.strictEqual(JSON.stringify(Session.encodeHeader(decoded)), line)
      }
    })

    it("has a golden line for every kind of event, end of a turn, source and part", () => {
      const text = files.flatMap(golden).join("\n")
      for (const member of Session.KnownEvent.members) {
        assert.include(text, `"_tag":"${member.fields._tag.schema.literal}"`)
      }
      for (const member of Session.TurnCause.members) {
        assert.include(text, `"_tag":"${member.fields._tag.schema.literal}"`)
      }
      for (const cause of Session.AbortCause.literals) assert.include(text, `"cause":"${cause}"`)
      for (const kind of Session.Source.fields.kind.literals) assert.include(text, `"kind":"${kind}"`)
      for (
        const type of [
          "reasoning",
          "file",
          "tool-call",
          "tool-result",
          "tool-approval-request",
          "tool-approval-response"
        ]
      ) assert.include(text, `"type":"${type}"`)
    })

    it("keeps events of a newer minor version, and the fold skips them", () => {
      const events = golden("future").map((line) => decode(JSON.parse(line)))
      assert.deepStrictEqual(events.map((event) => event._tag), ["Unknown", "TurnStarted", "Unknown", "TurnEnded"])
      assert.deepStrictEqual(Session.validate(header("a"), events), [])
      const transcript = Session.fold(events)
      assert.deepInclude(transcript, { next: 4, turns: 1, openTurn: undefined, completed: 4 })
      assert.deepStrictEqual(transcript.messages, [])
    })

    it("refuses a newer major version by name", () => {
      const refused = Session.decodeHeader({ ...header("a"), version: 2, whatever: true })
      assert.isTrue(Result.isFailure(refused))
      assert.strictEqual(
        Result.getOrThrow(Result.flip(refused)),
        "session format 2 is newer than format 1, the newest that this version reads"
      )
    })

    it("S36 says what is wrong with a header", () => {
      const wrong: ReadonlyArray<readonly [unknown, RegExp]> = [
        [undefined, /./],
        [[], /./],
        [{ ...header("a"), version: 0 }, /version/],
        [{ ...header("a"), id: "../a" }, /session id/],
        [{ ...header("a"), depth: -1 }, /depth/],
        [{ ...header("a"), depth: 1.5 }, /depth/],
        [{ ...header("a"), origin: { kind: "child" } }, /origin/],
        [{ ...header("a"), createdAt: "now" }, /createdAt/],
        [{ ...header("a"), createdAt: -1 }, /createdAt/],
        [{ ...header("a"), seedLength: -1 }, /seedLength/],
        [{ ...header("a"), seedLength: 0.5 }, /seedLength/],
        [{ ...header("a"), cwd: undefined }, /cwd/],
        [{ ...header("a"), label: 7 }, /label/]
      ]
      for (const [json, pattern] of wrong) {
        assert.match(Result.getOrThrow(Result.flip(Session.decodeHeader(json))), pattern)
      }
    })

    it("says what is wrong with an event", () => {
      const wrong: ReadonlyArray<readonly [unknown, RegExp]> = [
        [null, /JSON object/],
        [[], /JSON object/],
        ["x", /JSON object/],
        [{}, /_tag/],
        [{ _tag: "TurnStarted", seq: 0, at: 0 }, /turn/],
        [{ _tag: "TurnStarted", seq: -1, at: 0, turn: 0 }, /seq/],
        [{ _tag: "New", seq: 1.5, at: 0 }, /unknown tag "New"/],
        [{ _tag: "New", seq: 1 }, /unknown tag "New"/],
        [{ _tag: "MessageAppended", seq: 0, at: 0, message: { role: "nobody", content: "x" } }, /message/]
      ]
      for (const [json, pattern] of wrong) {
        assert.match(Result.getOrThrow(Result.flip(Session.decodeEvent(json))), pattern)
      }
    })

    it.effect("any event survives encoding to text and back", () =>
      Effect.map(
        Arbitrary.checkEffect(
          Arbitrary.schema(Session.KnownEvent),
          (event) => {
            const line = JSON.stringify(Session.encodeEvent(event))
            const again = throughJson(event)
            assert.strictEqual(JSON.stringify(Session.encodeEvent(again)), line)
            assert.notInclude(line, "\n")
            return again._tag === event._tag && again.seq === event.seq && again.at === event.at
          },
          { runs: 300 }
        ),
        passed
      ))

    it.effect("any header survives encoding to text and back", () =>
      Effect.map(
        Arbitrary.checkEffect(
          Arbitrary.schema(Session.Header),
          (header) => {
            const again = Session.decodeHeader(JSON.parse(JSON.stringify(Session.encodeHeader(header))))
            assert.deepStrictEqual(Result.getOrThrow(again), header)
            return true
          },
          { runs: 200 }
        ),
        passed
      ))

    it("gives files, bytes and addresses back as what they were", () => {
      const event = golden("users").map((line) => decode(JSON.parse(line))).find((event) => event.seq === 9)
      assert.isTrue(event?._tag === "MessageAppended" && event.message.role === "user")
      if (event?._tag !== "MessageAppended" || event.message.role !== "user") return
      const data = event.message.content.map((part) => part.type === "file" ? part.data : undefined)
      assert.deepStrictEqual(data, [
        new Uint8Array([137, 80, 78, 71]),
        new URL("https://example.com/a?b=c"),
        "aGVsbG8="
      ])
    })
  })

  describe("fold", () => {
    it("of nothing is empty", () => {
      assert.deepStrictEqual(Session.fold([]), Session.emptyTranscript())
      assert.deepStrictEqual(Session.toPrompt(Session.fold([])).content, [])
    })

    it("is the conversation, without what is only for the log", () => {
      const events: ReadonlyArray<Session.Event> = [
        { _tag: "DescriptorRecorded", seq: 0, at: 0, descriptor: {} },
        { _tag: "RemoteBound", seq: 1, at: 0, remoteId: "r", agent: "a", version: "1" },
        started(2, 0),
        said(3, "question"),
        called(4, "x"),
        returned(5, "x"),
        steered(6, "more", "m1"),
        answered(7, "answer"),
        ended(8, 0)
      ]
      const transcript = Session.fold(events)
      assert.deepStrictEqual(transcript.messages.map((message) => message.role), [
        "user",
        "assistant",
        "tool",
        "user",
        "assistant"
      ])
      assert.deepStrictEqual(Session.toPrompt(transcript).content, transcript.messages)
      assert.deepInclude(transcript, { next: 9, turns: 1, openTurn: undefined, completed: 9 })
    })

    it("keeps the prompt apart from what is folded later", () => {
      const transcript = Session.fold([started(0, 0), said(1)])
      const prompt = Session.toPrompt(transcript)
      Session.advance(transcript, answered(2, "later"))
      assert.strictEqual(prompt.content.length, 1)
      assert.strictEqual(transcript.messages.length, 2)
    })

    it("knows the open turn and the calls without a result", () => {
      const transcript = Session.fold([...turn(0, 0), started(4, 1), called(5, "x", "y"), returned(6, "y")])
      assert.deepInclude(transcript, { next: 7, turns: 2, openTurn: 1, completed: 4 })
      assert.deepStrictEqual(Array.from(transcript.pending), [["x", "tool_x"]])
    })

    it("expects no result for a call that the provider ran itself", () => {
      const event: Session.KnownEvent = {
        _tag: "MessageAppended",
        seq: 1,
        at: 0,
        message: Prompt.makeMessage("assistant", {
          content: [
            Prompt.makePart("tool-call", { id: "s", name: "search", params: {}, providerExecuted: true }),
            Prompt.makePart("tool-result", {
              id: "s",
              name: "search",
              isFailure: false,
              result: [],
              providerExecuted: true
            })
          ]
        })
      }
      assert.strictEqual(Session.fold([started(0, 0), event]).pending.size, 0)
      assert.deepStrictEqual(Session.validate(header("a"), [started(0, 0), event, ended(2, 0)]), [])
    })

    it("sums what was used, the cost where one is known", () => {
      const used = (input: number, cost?: number): Session.Usage => ({
        inputTokens: input,
        outputTokens: 1,
        steps: 2,
        elapsed: 3,
        ...(cost === undefined ? undefined : { cost })
      })
      const of = (...all: ReadonlyArray<Session.Usage>) =>
        Session.fold(all.flatMap((usage, n) => [
          started(2 * n, n),
          ended(2 * n + 1, n, { _tag: "Completed" }, usage)
        ])).usage
      assert.deepStrictEqual(of(), Session.noUsage)
      assert.deepStrictEqual(of(used(1), used(2)), { inputTokens: 3, outputTokens: 2, steps: 4, elapsed: 6 })
      assert.deepStrictEqual(of(used(1), used(2, 0.5), used(3, 0.25)), {
        inputTokens: 6,
        outputTokens: 3,
        steps: 6,
        elapsed: 9,
        cost: 0.75
      })
    })

    it("one event at a time is the fold of all", () => {
      const events = [...turn(0, 0), started(4, 1), said(5), called(6, "x")]
      const transcript = Session.emptyTranscript()
      for (const [index, event] of events.entries()) {
        Session.advance(transcript, event)
        assert.deepStrictEqual(transcript, Session.fold(events.slice(0, index + 1)))
      }
    })
  })

  describe("completedPrefix", () => {
    it("S207 ends with the last turn that ended", () => {
      const events = [...turn(0, 0), ...turn(4, 1), started(8, 2), said(9)]
      assert.deepStrictEqual(seqs(Session.completedPrefix(events)), [0, 1, 2, 3, 4, 5, 6, 7])
      assert.deepStrictEqual(Session.completedPrefix(events.slice(0, 8)), events.slice(0, 8))
      assert.strictEqual(Session.fold(events).completed, 8)
    })

    it("S208 is empty when no turn has ended", () => {
      assert.deepStrictEqual(Session.completedPrefix([]), [])
      assert.deepStrictEqual(Session.completedPrefix([started(0, 0), said(1)]), [])
    })

    it("ends with a turn however it ended, and takes what lies between turns", () => {
      const events = [started(0, 0), ended(1, 0, { _tag: "Interrupted" }), said(2), started(3, 1), ended(4, 1), said(5)]
      assert.deepStrictEqual(seqs(Session.completedPrefix(events)), [0, 1, 2, 3, 4])
    })
  })

  describe("repair", () => {
    it("S203 closes calls and the turn of a process that died", () => {
      const events = [started(0, 0), said(1), called(2, "x", "y"), returned(3, "y")]
      const closers = Session.repair(Session.fold(events), 77)
      assert.deepStrictEqual(closers.map((event) => [event._tag, event.seq, event.at]), [
        ["MessageAppended", 4, 77],
        ["TurnEnded", 5, 77]
      ])
      const [message, end] = closers
      assert.isTrue(message._tag === "MessageAppended" && message.message.role === "tool")
      if (message._tag !== "MessageAppended" || message.message.role !== "tool") return
      assert.deepInclude(message.message.content[0], { type: "tool-result", id: "x", name: "tool_x", isFailure: true })
      assert.strictEqual(message.message.content.length, 1)
      assert.deepInclude(end, { turn: 0, cause: { _tag: "Interrupted" }, usage: Session.noUsage })
      assert.deepStrictEqual(Session.validate(header("a"), [...events, ...closers].map(throughJson)), [])
    })

    it("S203 closes a turn without open calls with its end alone", () => {
      const closers = Session.repair(Session.fold([...turn(0, 0), started(4, 1), said(5)]), 0)
      assert.deepStrictEqual(closers.map((event) => [event._tag, event.seq]), [["TurnEnded", 6]])
    })

    it("does nothing to a log that needs nothing", () => {
      assert.deepStrictEqual(Session.repair(Session.fold([]), 0), [])
      assert.deepStrictEqual(Session.repair(Session.fold(turn(0, 0)), 0), [])
      assert.deepStrictEqual(Session.repair(Session.fold([...turn(0, 0), said(4)]), 0), [])
    })

    it("of what was repaired is nothing", () => {
      const events = [started(0, 0), called(1, "x")]
      const repaired = [...events, ...Session.repair(Session.fold(events), 0)]
      assert.deepStrictEqual(Session.repair(Session.fold(repaired), 0), [])
    })
  })

  it("an event that is no event cannot be encoded", () => {
    const wrong = { _tag: "TurnStarted", seq: "0", at: 0, turn: 0 } as never
    const exit = Effect.runSyncExit(Effect.sync(() => Session.encodeEvent(wrong)))
    assert.isTrue(Exit.isFailure(exit) && Cause.hasDies(exit.cause))
  })
})

import { assert, describe, it } from "@effect/vitest"
import { Prompt } from "effect/ai"
import * as Session from "../src/Session.ts"
import { answered, called, ended, header, returned, said, started, steered } from "./utils/sessionEvents.ts"

const turn = (seq: number, number: number): ReadonlyArray<Session.KnownEvent> => [
  started(seq, number),
  said(seq + 1),
  answered(seq + 2, `answer ${number}`),
  ended(seq + 3, number)
]

describe("S202 Session.validate", () => {
  it("finds nothing wrong with a good log", () => {
    const events: ReadonlyArray<Session.Event> = [
      { _tag: "DescriptorRecorded", seq: 0, at: 0, descriptor: {} },
      said(1, "between turns"),
      started(2, 0),
      called(3, "x", "y"),
      returned(4, "y"),
      returned(5, "x"),
      steered(6, "more", "m1"),
      called(7, "x"),
      returned(8, "x"),
      answered(9, "done"),
      ended(10, 0),
      ...turn(11, 1)
    ]
    assert.deepStrictEqual(Session.validate(header("a"), events), [])
    assert.deepStrictEqual(Session.validate(header("a", { seedLength: 11 }), events), [])
    for (let length = 0; length < events.length; length++) {
      const open = Session.validate(header("a"), events.slice(0, length))
      assert.deepStrictEqual(open, [], "a turn may be open at the end")
    }
  })

  const breaks = (
    what: string,
    events: ReadonlyArray<Session.Event>,
    expected: ReadonlyArray<readonly [seq: number, issue: string]>,
    seedLength?: number
  ) =>
    it(`names ${what}`, () => {
      const violations = Session.validate(header("a", seedLength === undefined ? {} : { seedLength }), events)
      assert.deepStrictEqual(violations, expected.map(([seq, issue]) => ({ seq, issue })))
    })

  const system: Session.KnownEvent = {
    _tag: "MessageAppended",
    seq: 0,
    at: 0,
    message: Prompt.makeMessage("system", { content: "be good" })
  }

  breaks("a gap", [said(0), said(2)], [[2, "seq 2 where 1 was due"]])
  breaks("an event twice", [said(0), said(0)], [[0, "seq 0 where 1 was due"]])
  breaks("a log that does not start at 0", [said(1)], [[1, "seq 1 where 0 was due"]])
  breaks("a turn in a turn", [started(0, 0), started(1, 1)], [[1, "turn 1 starts inside turn 0"]])
  breaks("a turn out of order", [started(0, 1)], [[0, "turn 1 where turn 0 was due"]])
  breaks("a turn that is started again", [...turn(0, 0), started(4, 0)], [[4, "turn 0 where turn 1 was due"]])
  breaks("an end without a start", [ended(0, 0)], [[0, "turn 0 ends outside a turn"]])
  breaks("the end of another turn", [started(0, 0), ended(1, 3)], [[1, "turn 3 ends inside turn 0"]])
  breaks("a call that the end of its turn leaves open", [started(0, 0), called(1, "x"), ended(2, 0)], [
    [2, "turn 0 ends with tool call x unanswered"]
  ])
  breaks("a system message", [system], [[0, "a system message in the log"]])
  breaks("a model message outside a turn", [answered(0, "x")], [[0, "a message of role assistant outside a turn"]])
  breaks("a tool message outside a turn", [returned(0, "x")], [
    [0, "a message of role tool outside a turn"],
    [0, "a result for tool call x, which is not open"]
  ])
  breaks("a result without a call", [started(0, 0), returned(1, "x")], [
    [1, "a result for tool call x, which is not open"]
  ])
  breaks("a second result", [started(0, 0), called(1, "x"), returned(2, "x"), returned(3, "x")], [
    [3, "a result for tool call x, which is not open"]
  ])
  breaks("a model that is asked before its calls are answered", [started(0, 0), called(1, "x"), answered(2, "y")], [
    [2, "the model is asked again with tool call x unanswered"]
  ])
  breaks("a call id that is used while it is open", [started(0, 0), called(1, "x"), called(2, "x")], [
    [2, "the model is asked again with tool call x unanswered"],
    [2, "tool call id x is used twice"]
  ])
  breaks("steering outside a turn", [steered(0, "x", "m1")], [[0, "steering is admitted outside a turn"]])
  breaks("a message that is admitted twice", [
    { ...said(0), messageId: "m1" } as Session.KnownEvent,
    started(1, 0),
    steered(2, "again", "m1")
  ], [[2, "message m1 is admitted twice"]])
  breaks("a seed that ends inside a turn", turn(0, 0), [[1, "the seed does not end with a turn's end"]], 2)
  breaks("a seed that is longer than the log", turn(0, 0), [[4, "the seed is 9 events long and the log only 4"]], 9)
})

/** Short ways to say headers and events of sessions. */
import { Prompt } from "effect/ai"
import * as Session from "../../src/Session.ts"

export const header = (id: string, rest?: Partial<Omit<Session.Header, "id" | "version">>): Session.Header => ({
  version: 1,
  id: Session.SessionId.make(id),
  depth: 0,
  cwd: "/work",
  createdAt: 1_700_000_000_000,
  origin: { kind: "root" },
  ...rest
})

export const userMessage = (text: string): Prompt.UserMessage =>
  Prompt.makeMessage("user", { content: [Prompt.makePart("text", { text })] })

export const said = (seq: number, text = `message ${seq}`): Session.KnownEvent => ({
  _tag: "MessageAppended",
  seq,
  at: 1_700_000_000_000 + seq,
  message: userMessage(text),
  source: { kind: "user" }
})

export const answered = (seq: number, text: string): Session.KnownEvent => ({
  _tag: "MessageAppended",
  seq,
  at: 0,
  message: Prompt.makeMessage("assistant", { content: [Prompt.makePart("text", { text })] })
})

export const called = (seq: number, ...ids: ReadonlyArray<string>): Session.KnownEvent => ({
  _tag: "MessageAppended",
  seq,
  at: 0,
  message: Prompt.makeMessage("assistant", {
    content: ids.map((id) =>
      Prompt.makePart("tool-call", { id, name: `tool_${id}`, params: { n: 1 }, providerExecuted: false })
    )
  })
})

export const returned = (seq: number, id: string, result: unknown = "done"): Session.KnownEvent => ({
  _tag: "MessageAppended",
  seq,
  at: 0,
  message: Prompt.makeMessage("tool", {
    content: [
      Prompt.makePart("tool-result", { id, name: `tool_${id}`, isFailure: false, result, providerExecuted: false })
    ]
  })
})

export const steered = (seq: number, text: string, messageId: string): Session.KnownEvent => ({
  _tag: "SteeringAdmitted",
  seq,
  at: 0,
  message: userMessage(text),
  source: { kind: "coordinator", senderId: "parent" },
  messageId
})

export const started = (seq: number, turn: number): Session.KnownEvent => ({ _tag: "TurnStarted", seq, at: 0, turn })

export const ended = (
  seq: number,
  turn: number,
  cause: Session.TurnCause = { _tag: "Completed" },
  usage: Session.Usage = Session.noUsage
): Session.KnownEvent => ({ _tag: "TurnEnded", seq, at: 0, turn, cause, usage })

/** `count` user messages from `from` on. */
export const saidMany = (from: number, count: number): Array<Session.KnownEvent> =>
  Array.from({ length: count }, (_, index) => said(from + index))

export const seqs = (events: ReadonlyArray<Session.Event>): ReadonlyArray<number> => events.map((event) => event.seq)

export const range = (from: number, to: number): ReadonlyArray<number> =>
  Array.from({ length: to - from }, (_, index) => from + index)

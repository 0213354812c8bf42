/**
 * What random lives of agents that delegate are made of: what is done to them, and what their children do meanwhile.
 */
import { Effect, Schema } from "effect"
import { AiError, type Prompt } from "effect/ai"
import * as Scripted from "../../src/providers/Scripted.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"

// ----- programs

/** What any child does when nobody stops it: first those that end, then those that do not. */
const deeds = [
  "done",
  "slow",
  "fails",
  "uses a tool",
  "gives a value",
  "delegates",
  "hangs",
  "hangs in a tool",
  "delegates and hangs"
] as const
/** Takes longer than any grace here, so it comes seldom. */
const stubborn = ["ignores its end", "hangs", "slow", "delegates"] as const
/** What only a scripted child can do. */
const misdeeds = ["refuses to start", "starts slowly", "breaks", "is released badly", "leaves a survivor"] as const
export type Deed = typeof deeds[number] | typeof stubborn[number] | typeof misdeeds[number]

export const kinds = ["spawn", "fork", "scripted"] as const
export type Kind = typeof kinds[number]

const Nth = Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 5 }))
// what is here twice comes twice as often
const Deeds = Schema.Union([
  Schema.Literals(deeds),
  Schema.Literals(deeds),
  // what ends by itself, after a while, is where most can happen meanwhile
  Schema.Literals(["slow", "uses a tool", "delegates"]),
  Schema.Literals(["slow", "uses a tool", "delegates"]),
  Schema.Literals(stubborn)
])
const Misdeeds = Schema.Union([Deeds, Schema.Literals(misdeeds)])

const how = {
  /** In a scope of its own, or in the one that all others share. */
  apart: Schema.Boolean,
  hurried: Schema.Boolean
}
const Start = Schema.TaggedStruct("Start", { kind: Schema.Literals(["spawn", "fork"]), does: Deeds, ...how })
const StartScripted = Schema.TaggedStruct("Start", { kind: Schema.Literal("scripted"), does: Misdeeds, ...how })
const Yield = Schema.TaggedStruct("Yield", { times: Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 30 })) })

/** `nth` counts the starts so far from the last one back, around and around. */
export const Command = Schema.Union([
  Start,
  Start,
  StartScripted,
  Yield,
  Yield,
  /** Aborts the signal of a start. */
  Schema.TaggedStruct("Abort", { nth: Nth }),
  /** Interrupts whoever waits for a start. */
  Schema.TaggedStruct("GiveUp", { nth: Nth }),
  Schema.TaggedStruct("Interrupt", { nth: Nth }),
  Schema.TaggedStruct("Steer", { nth: Nth }),
  /** Gives up waiting for a message to be taken. */
  Schema.TaggedStruct("Withdraw", { nth: Nth }),
  Schema.TaggedStruct("Close", { nth: Nth }),
  /** Closes the layer of a provider, or builds it again. */
  Schema.TaggedStruct("Toggle", { kind: Schema.Literals(kinds) }),
  /** Has the root delegate through its model. */
  Schema.TaggedStruct("Turn", { does: Schema.Array(Deeds).check(Schema.isMaxLength(3)) }),
  Schema.TaggedStruct("StopTurn", {}),
  Schema.TaggedStruct("Rest", {})
])
export type Command = typeof Command.Type

export const Program = Schema.Struct({
  commands: Schema.Array(Command).check(Schema.isMaxLength(24)),
  /** Whether the root closes while its children run, or after they were closed. */
  rootFirst: Schema.Boolean
})
export type Program = typeof Program.Type

// ----- children

export const yields = (times: number) =>
  Effect.forEach(Array.from({ length: times }), () => Effect.yieldNow, { discard: true })

/** Longer than the grace, and over soon after. */
const stubbornness = Effect.uninterruptible(Effect.sleep("130 millis"))

const textOf = (message: Prompt.Message): string =>
  message.role === "user" ? message.content.flatMap((part) => part.type === "text" ? [part.text] : []).join() : ""

const orders = (does: ReadonlyArray<Deed>): ScriptedModel.Reply =>
  does.map((deed, index) =>
    ScriptedModel.call("delegate", { description: deed, prompt: `do:${deed}` }, `delegate-${index}`)
  )

export const reply = (request: ScriptedModel.Request): ScriptedModel.Reply => {
  const messages = request.prompt.content
  const at = messages.findLastIndex((message) => textOf(message).startsWith("do:"))
  const order = at < 0 ? "" : textOf(messages[at]).slice(3)
  const again = messages.slice(at + 1).some((message) => message.role === "tool")
  // every session says its own name, so that nobody can pass for another
  const say = (...texts: ReadonlyArray<string>) => ScriptedModel.text(`${request.sessionId}:`, ...texts)
  if (order.startsWith("[")) {
    // sound: written by the command that follows below
    return again ? [say("delegated")] : orders(JSON.parse(order) as ReadonlyArray<Deed>)
  }
  // sound: nothing else is ordered here
  switch (order as Deed) {
    case "slow":
      return [say("one"), ScriptedModel.wait(yields(8)), ScriptedModel.wait(Effect.sleep("1 millis"))]
    case "fails":
      return [ScriptedModel.fail(new AiError.InvalidRequestError({ description: "no" }))]
    case "uses a tool":
      return again ? [say("used")] : [say("uses"), ScriptedModel.call("work", {})]
    case "gives a value":
      return [ScriptedModel.call("structured_output", { n: 1 })]
    case "delegates":
      return again ? [say("delegated")] : orders(["slow", "fails"])
    case "delegates and hangs":
      return again ? [say("delegated")] : orders(["done", "hangs"])
    case "hangs":
      return [say("hangs"), ScriptedModel.hang]
    case "hangs in a tool":
      return [say("hangs"), ScriptedModel.call("forever", {})]
    case "ignores its end":
      return [say("stubborn"), ScriptedModel.wait(stubbornness), ScriptedModel.hang]
    default:
      return [say("done")]
  }
}

export const play = (deed: Deed): Scripted.Play => {
  switch (deed) {
    case "slow":
      return [Scripted.text("one"), Scripted.wait(yields(8)), Scripted.delay("1 millis")]
    case "fails":
      return [Scripted.fail("Exited")]
    case "uses a tool":
      return [Scripted.tool("work", { during: [Scripted.wait(Effect.yieldNow)] }), Scripted.text("used")]
    case "gives a value":
      return [Scripted.complete({ n: 1 })]
    case "hangs":
    case "hangs in a tool":
    case "delegates and hangs":
      return [Scripted.text("hangs"), Scripted.hang]
    case "ignores its end":
      return [Scripted.text("stubborn"), Scripted.wait(stubbornness), Scripted.hang]
    case "refuses to start":
      return Scripted.refuse("AuthRequired")
    case "starts slowly":
      return { start: Effect.andThen(yields(8), Effect.sleep("1 millis")), run: [Scripted.text("slow")] }
    case "breaks":
      return [Scripted.runFailed("DurabilityFailed")]
    case "is released badly":
      return { run: [Scripted.text("bad")], release: Effect.die(new Error("no such socket")) }
    case "leaves a survivor":
      return { run: [Scripted.hang], survivors: ["process 42"] }
    case "done":
    case "delegates":
      return [Scripted.text("done")]
  }
}

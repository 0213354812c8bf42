/**
 * The README's first example: `node examples/packed.ts` after `npm run build`. It needs no key and no network.
 */
import { Console, Effect, Schema } from "effect"
import { Agent, Spawn } from "effect-subagent"
import * as Memory from "effect-subagent/layers/Memory"
import * as SubagentTool from "effect-subagent/SubagentTool"
import * as ScriptedModel from "effect-subagent/testing/ScriptedModel"
import { LanguageModel, Toolkit } from "effect/ai"

const Finding = Schema.Struct({ file: Schema.String, risk: Schema.Literals(["low", "high"]), why: Schema.String })

// a program delegates: the result is typed by the schema, and so are the errors
const audit = Spawn.delegate({ prompt: "Audit src/parser.ts", outputSchema: Finding, timeout: "2 minutes" })

// a model delegates: an ordinary tool of `effect/ai`
const Delegate = SubagentTool.make("delegate", Spawn.Spawn)
const review = LanguageModel.generateText({ prompt: "Have it reviewed", toolkit: Toolkit.make(Delegate) }).pipe(
  Effect.provide(SubagentTool.layer(Delegate))
)

// plays the model, so that this runs without a key
const model = ScriptedModel.layer({
  root: [[ScriptedModel.call("delegate", { description: "review the parser", prompt: "Review src/parser.ts" })]],
  children: [
    [[ScriptedModel.call("structured_output", { file: "src/parser.ts", risk: "high", why: "it evaluates its input" })]],
    [[ScriptedModel.text("One thing to fix: it evaluates its input.")]]
  ]
})

Effect.gen(function*() {
  const result = yield* audit
  if (result._tag === "Completed") yield* Console.log(`${result.structured.risk}: ${result.structured.why}`)
  const { toolResults: [answer] } = yield* review
  yield* Console.log(answer.result)
}).pipe(
  Effect.provide(Agent.layerRoot({ cwd: "." })),
  Effect.provide(Memory.layer()),
  Effect.provide(model),
  Effect.runPromise
)

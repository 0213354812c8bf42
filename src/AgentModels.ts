/**
 * Names the language models that agents may use, so that a child can ask for another one than its parent's.
 *
 * The ambient `LanguageModel` is the default model, the one without a name.
 *
 * @since 0.1.0
 */
import * as LanguageModel from "effect/ai/LanguageModel"
import type * as Response from "effect/ai/Response"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"

/**
 * No model of this name is registered.
 *
 * @category errors
 * @since 0.1.0
 */
export class UnknownModel extends Schema.TaggedError<UnknownModel>("effect-subagent/UnknownModel")("UnknownModel", {
  model: Schema.String,
  known: Schema.Array(Schema.String)
}) {
  override get message(): string {
    return `no model ${JSON.stringify(this.model)} is registered; known models: ${
      this.known.length === 0 ? "only the default one" : this.known.join(", ")
    }`
  }
}

/**
 * The most output tokens that one model call may use; `undefined` leaves it to the model. `effect/ai` has no such
 * option, so the models that honour a ceiling read it here at each call.
 *
 * @category references
 * @since 0.1.0
 */
export const MaxOutputTokens: Context.Reference<number | undefined> = Context.Reference<number | undefined>(
  "effect-subagent/AgentModels/MaxOutputTokens",
  { defaultValue: () => undefined }
)

/**
 * What a model call cost in US dollars, by its finish part and by the name of the model that was asked (`undefined` for
 * the default model); `undefined` where it is not known.
 *
 * @category references
 * @since 0.1.0
 */
export const CostOf: Context.Reference<
  (finish: Response.FinishPart, model: string | undefined) => number | undefined
> = Context.Reference<(finish: Response.FinishPart, model: string | undefined) => number | undefined>(
  "effect-subagent/AgentModels/CostOf",
  { defaultValue: () => () => undefined }
)

/**
 * The models by name. `get(undefined)` is the default model; any other name fails `UnknownModel` unless it is one of
 * `names`.
 *
 * @category services
 * @since 0.1.0
 */
export class AgentModels extends Context.Service<AgentModels, {
  readonly names: ReadonlyArray<string>
  readonly get: (name: string | undefined) => Effect.Effect<LanguageModel.LanguageModel, UnknownModel>
}>()("effect-subagent/AgentModels") {}

/**
 * The default model and further ones by name.
 *
 * @category layers
 * @since 0.1.0
 */
export const layer = <E = never, R = never>(
  models: Readonly<Record<string, Layer.Layer<LanguageModel.LanguageModel, E, R>>> = {}
): Layer.Layer<AgentModels, E, R | LanguageModel.LanguageModel> =>
  Layer.effect(
    AgentModels,
    Effect.gen(function*() {
      const standard = Effect.succeed(yield* LanguageModel.LanguageModel)
      const named = new Map<string, Effect.Effect<LanguageModel.LanguageModel>>()
      for (const [name, model] of Object.entries(models)) {
        const built = yield* Layer.build(Layer.fresh(model))
        named.set(name, Effect.succeed(Context.get(built, LanguageModel.LanguageModel)))
      }
      const names = Array.from(named.keys())
      return AgentModels.of({
        names,
        get: (name) =>
          name === undefined
            ? standard
            : named.get(name) ?? Effect.fail(new UnknownModel({ model: name, known: names }))
      })
    })
  )

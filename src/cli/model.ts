/**
 * Turns `--model` and `--base-url` into a language model.
 *
 * The AI SDK's packages are loaded when a model of theirs is asked for, and only then: the command needs none of them.
 *
 * @since 0.1.0
 */
import type * as LanguageModel from "effect/ai/LanguageModel"
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import * as AiSdkModel from "../layers/AiSdkModel.ts"
import * as Offline from "./offline/model.ts"

// -----------------------------------------------------------------------------
// errors
// -----------------------------------------------------------------------------

/**
 * A package that the model needs is not installed, or cannot be loaded.
 *
 * @category errors
 * @since 0.1.0
 */
export class PackageMissing extends Schema.TaggedError<PackageMissing>("effect-subagent/cli/PackageMissing")(
  "PackageMissing",
  { package: Schema.String, what: Schema.String }
) {
  override get message(): string {
    return `the model needs the package ${this.package}: npm install ${this.package} (${this.what})`
  }
}

/**
 * The model needs an API key, which the environment does not have.
 *
 * @category errors
 * @since 0.1.0
 */
export class KeyMissing extends Schema.TaggedError<KeyMissing>("effect-subagent/cli/KeyMissing")("KeyMissing", {
  variable: Schema.String
}) {
  override get message(): string {
    return `the model needs an API key: set ${this.variable}`
  }
}

// -----------------------------------------------------------------------------
// choice
// -----------------------------------------------------------------------------

/**
 * Which model to use.
 *
 * @category models
 * @since 0.1.0
 */
export type ModelChoice =
  | { readonly _tag: "Offline" }
  | { readonly _tag: "Anthropic"; readonly name: string; readonly baseURL: string | undefined }
  | { readonly _tag: "OpenAi"; readonly name: string }
  | { readonly _tag: "Compatible"; readonly provider: string; readonly name: string; readonly baseURL: string }

/** @internal The model that is used when none is named. */
export const offline = "offline"

/** @internal How a model is named where a run is shown. */
export const labelOf = (choice: ModelChoice): string => {
  switch (choice._tag) {
    case "Offline":
      return offline
    case "Anthropic":
      return `anthropic/${choice.name}`
    case "OpenAi":
      return `openai/${choice.name}`
    case "Compatible":
      return `${choice.provider}/${choice.name}`
  }
}

const providerName = /^[A-Za-z][A-Za-z0-9_-]*$/

/** @internal The choice, or a sentence that says what would be right. */
export const choose = (model: string, baseURL: string | undefined): ModelChoice | string => {
  if (baseURL !== undefined && !/^https?:\/\/[^/]/.test(baseURL)) return "--base-url needs an http or https address"
  if (model === offline) {
    return baseURL === undefined ? { _tag: "Offline" } : "--base-url needs a --model provider/name that is asked there"
  }
  const slash = model.indexOf("/")
  const provider = model.slice(0, slash)
  const name = model.slice(slash + 1)
  if (slash === -1 || !providerName.test(provider) || name === "") {
    return `--model needs "offline" or provider/name, such as anthropic/claude-sonnet-4-5`
  }
  if (provider === "anthropic") return { _tag: "Anthropic", name, baseURL }
  if (baseURL !== undefined) return { _tag: "Compatible", provider, name, baseURL }
  if (provider === "openai") return { _tag: "OpenAi", name }
  return `the provider ${provider} is not known: use anthropic or openai, or name an OpenAI-compatible server by --base-url`
}

/** @internal The variable that holds the key of a provider. */
export const keyVariable = (provider: string): string => `${provider.toUpperCase().replaceAll("-", "_")}_API_KEY`

// -----------------------------------------------------------------------------
// layers
// -----------------------------------------------------------------------------

type Key = Redacted.Redacted<string>

const optionalKey = (provider: string): Effect.Effect<Key | undefined> =>
  Effect.match(Config.option(Config.Redacted(keyVariable(provider))), {
    onSuccess: (key) => Option.getOrUndefined(Option.filter(key, (one) => Redacted.value(one) !== "")),
    // what cannot be read as a text is no key
    onFailure: () => undefined
  })

const requiredKey = (provider: string): Effect.Effect<Key, KeyMissing> =>
  Effect.filterOrFail(
    optionalKey(provider),
    (key) => key !== undefined,
    () => new KeyMissing({ variable: keyVariable(provider) })
  )

const load = <A>(name: string, module: () => Promise<A>): Effect.Effect<A, PackageMissing> =>
  Effect.tryPromise({
    try: module,
    catch: (cause) =>
      new PackageMissing({
        package: name,
        what: typeof cause === "object" && cause !== null && "code" in cause && cause.code === "ERR_MODULE_NOT_FOUND"
          ? "it is not installed"
          : `it cannot be loaded: ${String(cause)}`
      })
  })

const secretsOf = (key: Key | undefined): { readonly secrets: ReadonlyArray<Key> } => ({
  secrets: key === undefined ? [] : [key]
})

const remote = (
  model: Parameters<typeof AiSdkModel.layer>[0],
  key: Key | undefined,
  options: AiSdkModel.Options = {}
): Layer.Layer<LanguageModel.LanguageModel> => AiSdkModel.layer(model, { ...options, ...secretsOf(key) })

/**
 * The language model of a choice. Keys are read from the configuration: `ANTHROPIC_API_KEY`, `OPENAI_API_KEY`, and for a
 * server by `--base-url` the provider's name in capitals with `_API_KEY`, which may be absent there.
 *
 * @category layers
 * @since 0.1.0
 */
export const layer = (
  choice: ModelChoice
): Layer.Layer<LanguageModel.LanguageModel, PackageMissing | KeyMissing> => {
  switch (choice._tag) {
    case "Offline":
      return Offline.layer
    case "Anthropic":
      return Layer.unwrap(Effect.gen(function*() {
        const { createAnthropic } = yield* load("@ai-sdk/anthropic", () => import("@ai-sdk/anthropic"))
        const key = yield* requiredKey("anthropic")
        const provider = createAnthropic({
          apiKey: Redacted.value(key),
          ...(choice.baseURL === undefined ? undefined : { baseURL: choice.baseURL })
        })
        return remote(provider(choice.name), key)
      }))
    case "OpenAi":
      return Layer.unwrap(Effect.gen(function*() {
        const { createOpenAI } = yield* load("@ai-sdk/openai", () => import("@ai-sdk/openai"))
        const key = yield* requiredKey("openai")
        // a stored session has to outlive what the server would remember of it
        return remote(createOpenAI({ apiKey: Redacted.value(key) })(choice.name), key, {
          providerOptions: { openai: { store: false } }
        })
      }))
    case "Compatible":
      return Layer.unwrap(Effect.gen(function*() {
        const { createOpenAICompatible } = yield* load(
          "@ai-sdk/openai-compatible",
          () => import("@ai-sdk/openai-compatible")
        )
        const key = yield* optionalKey(choice.provider)
        const provider = createOpenAICompatible({
          name: choice.provider,
          baseURL: choice.baseURL,
          includeUsage: true,
          ...(key === undefined ? undefined : { apiKey: Redacted.value(key) })
        })
        return remote(provider(choice.name), key)
      }))
  }
}

import { assert, describe, it } from "@effect/vitest"
import { Cause, Duration, Effect, Exit, Redacted, Schema, Stream } from "effect"
import { AiError, type LanguageModel } from "effect/ai"
import { inspect } from "node:util"
import * as AiSdkModel from "../../src/layers/AiSdkModel.ts"
import { apiKey, makeModel, modelId, protocols } from "../utils/fakeModel/models.ts"
import * as Fake from "../utils/fakeModelServer.ts"

type Mode = "generate" | "stream"

const modes: ReadonlyArray<Mode> = ["generate", "stream"]

const run = (model: LanguageModel.LanguageModel, mode: Mode): Effect.Effect<unknown, AiError.AiError> =>
  mode === "generate"
    ? model.generateText({ prompt: "my private question" })
    : Stream.runDrain(model.streamText({ prompt: "my private question" }))

const failure = (protocol: Fake.Protocol, mode: Mode, reply: Fake.Reply, options?: AiSdkModel.Options, key?: string) =>
  Effect.gen(function*() {
    const server = yield* Fake.make(reply)
    const model = yield* AiSdkModel.make(makeModel(protocol, server.baseURL, key), options)
    return yield* Effect.flip(run(model, mode))
  })

interface Row {
  readonly name: string
  readonly reply: Fake.Reply | ((protocol: Fake.Protocol) => Fake.Reply)
  readonly tag: AiError.AiErrorReason["_tag"]
  readonly retryable: boolean
  readonly contextTooLong?: boolean
}

const httpRows: ReadonlyArray<Row> = [
  { name: "429", reply: { status: 429, message: "Slow down" }, tag: "RateLimitError", retryable: true },
  {
    name: "429 for a spent quota",
    reply: (protocol) =>
      protocol === "anthropic"
        ? { status: 400, type: "invalid_request_error", message: "Your credit balance is too low to access the API." }
        : { status: 429, code: "insufficient_quota", type: "insufficient_quota", message: "You exceeded your quota" },
    tag: "QuotaExhaustedError",
    retryable: false
  },
  { name: "402", reply: { status: 402, message: "Pay" }, tag: "QuotaExhaustedError", retryable: false },
  {
    name: "401",
    reply: { status: 401, type: "authentication_error", message: "invalid x-api-key" },
    tag: "AuthenticationError",
    retryable: false
  },
  { name: "403", reply: { status: 403, message: "Not yours" }, tag: "AuthenticationError", retryable: false },
  {
    name: "400 for a forbidden content",
    reply: (protocol) =>
      protocol === "anthropic"
        ? { status: 400, type: "invalid_request_error", message: "Output blocked by content filtering policy" }
        : { status: 400, code: "content_policy_violation", message: "Rejected" },
    tag: "ContentPolicyError",
    retryable: false
  },
  { name: "400", reply: { status: 400, message: "Bad field" }, tag: "InvalidRequestError", retryable: false },
  { name: "404", reply: { status: 404, message: "No such model" }, tag: "InvalidRequestError", retryable: false },
  { name: "422", reply: { status: 422, message: "Bad field" }, tag: "InvalidRequestError", retryable: false },
  {
    name: "400 for a prompt that is too long",
    reply: (protocol) =>
      protocol === "anthropic"
        ? { status: 400, type: "invalid_request_error", message: "prompt is too long: 208310 tokens > 200000 maximum" }
        : { status: 400, code: "context_length_exceeded", message: "Too many tokens" },
    tag: "InvalidRequestError",
    retryable: false,
    contextTooLong: true
  },
  {
    name: "413",
    reply: { status: 413, type: "request_too_large", message: "Request exceeds the maximum size" },
    tag: "InvalidRequestError",
    retryable: false,
    contextTooLong: true
  },
  { name: "408", reply: { status: 408, message: "Timeout" }, tag: "InternalProviderError", retryable: true },
  { name: "500", reply: { status: 500, message: "Oops" }, tag: "InternalProviderError", retryable: true },
  {
    name: "502 of a proxy",
    reply: { status: 502, message: "", body: "<html><body>Bad gateway</body></html>" },
    tag: "InternalProviderError",
    retryable: true
  },
  {
    name: "503 without a body",
    reply: { status: 503, message: "", body: "" },
    tag: "InternalProviderError",
    retryable: true
  },
  { name: "529", reply: { status: 529, message: "Overloaded" }, tag: "InternalProviderError", retryable: true },
  { name: "a socket that closes at once", reply: "drop", tag: "NetworkError", retryable: true }
]

const cutRows: ReadonlyArray<Row> = [
  { name: "a dropped socket", reply: cut("drop"), tag: "NetworkError", retryable: true },
  { name: "a connection closed in good order", reply: cut("close"), tag: "NetworkError", retryable: true }
]

const faultRows: ReadonlyArray<Row> = [
  {
    name: "an overload",
    reply: cut({ type: "overloaded_error", message: "Overloaded" }),
    tag: "InternalProviderError",
    retryable: true
  },
  {
    name: "a fault of no particular kind",
    reply: cut({ message: "Something broke" }),
    tag: "InternalProviderError",
    retryable: true
  },
  {
    name: "a rate limit",
    reply: cut({ type: "rate_limit_error", message: "Slow down" }),
    tag: "RateLimitError",
    retryable: true
  },
  {
    name: "a request found invalid",
    reply: cut({ type: "invalid_request_error", message: "Bad field" }),
    tag: "InvalidRequestError",
    retryable: false
  }
]

function cut(end: Fake.Answer["end"]): Fake.Answer {
  return { ...Fake.answer(Fake.text("some ", "text")), end }
}

const check = (error: AiError.AiError, row: Row) => {
  assert.strictEqual(error.reason._tag, row.tag)
  assert.strictEqual(error.isRetryable, row.retryable)
  assert.strictEqual(AiSdkModel.isContextTooLong(error), row.contextTooLong === true)
  assert.strictEqual(error.module, "AiSdkModel")
}

describe("AiSdkModel errors", () => {
  describe.each(protocols)("%s", (protocol) => {
    const replyOf = (row: Row) => typeof row.reply === "function" ? row.reply(protocol) : row.reply

    for (const mode of modes) {
      for (const row of httpRows) {
        it.live(`${mode}: ${row.name} is ${row.tag}`, () =>
          Effect.map(failure(protocol, mode, replyOf(row)), (error) => check(error, row)))
      }

      for (const row of cutRows) {
        it.live(`${mode}: ${row.name} in the middle of an answer is ${row.tag}`, () =>
          Effect.map(failure(protocol, mode, replyOf(row)), (error) => check(error, row)))
      }

      it.live(`${mode}: takes the time to wait from the headers`, () =>
        Effect.gen(function*() {
          const wait = (headers: Record<string, string>) =>
            Effect.map(failure(protocol, mode, { status: 429, message: "Slow down", headers }), (error) =>
              error.retryAfter)
          assert.deepStrictEqual(yield* wait({ "retry-after": "7" }), Duration.seconds(7))
          assert.deepStrictEqual(yield* wait({ "retry-after": "0.5" }), Duration.millis(500))
          assert.deepStrictEqual(yield* wait({ "retry-after-ms": "1500", "retry-after": "2" }), Duration.millis(1500))
          assert.strictEqual(yield* wait({}), undefined)
          assert.strictEqual(yield* wait({ "retry-after": "soon" }), undefined)
          const date = yield* wait({ "retry-after": new Date(Date.now() + 20_000).toUTCString() })
          assert.isAbove(Duration.toMillis(date!), 15_000)
          assert.isAtMost(Duration.toMillis(date!), 20_000)
          const past = yield* wait({ "retry-after": new Date(0).toUTCString() })
          assert.deepStrictEqual(past, Duration.millis(0))
        }))

      it.live(`${mode}: a refused connection is a NetworkError`, () =>
        Effect.gen(function*() {
          const { baseURL } = yield* Effect.scoped(Fake.make())
          const model = yield* AiSdkModel.make(makeModel(protocol, baseURL))
          const error = yield* Effect.flip(run(model, mode))
          check(error, { name: "", reply: "drop", tag: "NetworkError", retryable: true })
          assert.include(error.message, "ECONNREFUSED")
        }))

      it.live(`${mode}: says what happened and nothing that is secret`, () =>
        Effect.gen(function*() {
          const echo = `Incorrect API key provided: ${apiKey} (via swordfish). ` +
            `Headers: {"Authorization": "Bearer ${apiKey}", "x-api-key": "${apiKey}"}`
          const options = { secrets: [Redacted.make(apiKey)], settings: { headers: { "x-proxy-token": "swordfish" } } }
          for (const status of [401, 400, 429, 500]) {
            const error = yield* failure(protocol, mode, {
              status,
              message: echo,
              headers: { "x-request-id": "req_7" }
            }, options)
            const shown = everything(error)
            assert.notInclude(shown, apiKey)
            assert.notInclude(shown, "swordfish")
            assert.notInclude(shown, "my private question")
            assert.include(shown, "Incorrect API key provided")
            assert.include(shown, "req_7")
            assert.include(shown, modelId)
          }
        }))

      it.live(`${mode}: recognizes a key by its looks`, () =>
        Effect.gen(function*() {
          for (const key of ["sk-ant-api03-AbCd_efGh-1234567890", "0123456789abcdef0123456789abcdef"]) {
            const reply = { status: 401, message: `Key ${key} is not known to ${modelId}` }
            const shown = everything(yield* failure(protocol, mode, reply, undefined, key))
            assert.notInclude(shown, key)
            assert.include(shown, modelId)
          }
        }))
    }

    for (const row of faultRows) {
      it.live(`stream: ${row.name} in the middle of an answer is ${row.tag}`, () =>
        Effect.map(failure(protocol, "stream", replyOf(row)), (error) => check(error, row)))
    }

    it.live("delivers what came before the failure", () =>
      Effect.gen(function*() {
        for (const end of ["drop", "close", { message: "broken" }] as const) {
          const server = yield* Fake.make({ ...cut(end), delay: 5 })
          const model = yield* AiSdkModel.make(makeModel(protocol, server.baseURL))
          const seen: Array<string> = []
          const exit = yield* model.streamText({ prompt: "go" }).pipe(
            Stream.runForEach((part) =>
              Effect.sync(() => {
                seen.push(part.type === "text-delta" ? part.delta : part.type)
              })
            ),
            Effect.exit
          )
          assert.isTrue(Exit.isFailure(exit))
          assert.includeMembers(seen, ["some ", "text"])
          assert.notInclude(seen, "finish")
        }
      }))
  })

  it.live("an overload as the first event of a stream is an InternalProviderError", () =>
    Effect.gen(function*() {
      const error = yield* failure("anthropic", "stream", {
        status: 200,
        message: "",
        headers: { "content-type": "text/event-stream" },
        body: `event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}\n\n`
      })
      check(error, { name: "", reply: "drop", tag: "InternalProviderError", retryable: true })
      assert.include(error.message, "Overloaded (HTTP 529)")
    }))

  it.live.each(
    [
      [`{"error":{"message":"Limit","code":"rate_limit_exceeded","type":"x"}}`, "RateLimitError", true],
      [`{"error":{"message":"Broke","code":"server_error","type":"x"}}`, "InternalProviderError", true],
      [`{"error":{"message":"Bad","code":"invalid_prompt","type":"x"}}`, "InvalidRequestError", false]
    ] as const
  )("a run that failed inside a successful response: %s", ([body, tag, retryable]) =>
    Effect.gen(function*() {
      const error = yield* failure("responses", "generate", { status: 200, message: "", body })
      check(error, { name: "", reply: "drop", tag, retryable })
    }))

  it.live("a successful response that is not JSON is an InvalidResponseError", () =>
    Effect.gen(function*() {
      for (const protocol of protocols) {
        const error = yield* failure(protocol, "generate", { status: 200, message: "", body: "welcome to our portal" })
        check(error, { name: "", reply: "drop", tag: "InvalidResponseError", retryable: false })
      }
    }))

  it.live.each([
    "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens.",
    "the request exceeds the available context size, try increasing it",
    "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000",
    "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
    "This model's maximum prompt length is 131072 but the request contains 140000 tokens.",
    "Prompt contains 40000 tokens, too large for model with 32768 maximum context length",
    "Input is too long for requested model.",
    "Please reduce the length of the messages or completion."
  ])("context too long: %s", (message) =>
    Effect.gen(function*() {
      const error = yield* failure("chat", "generate", { status: 400, message })
      assert.isTrue(AiSdkModel.isContextTooLong(error))
      assert.include(error.message, AiSdkModel.ContextTooLong)
    }))

  it.live("a missing key is an AuthenticationError", () =>
    Effect.gen(function*() {
      const model = yield* AiSdkModel.make({
        ...bare,
        doGenerate: () => Promise.reject(Object.assign(new Error("API key is missing"), { name: "AI_LoadAPIKeyError" }))
      })
      const error = yield* Effect.flip(run(model, "generate"))
      assert.strictEqual(error.reason._tag, "AuthenticationError")
      assert.strictEqual(error.reason._tag === "AuthenticationError" && error.reason.kind, "MissingKey")
    }))

  it.live("a model that throws on the spot fails the request", () =>
    Effect.gen(function*() {
      const boom = () => {
        throw new RangeError("out of range")
      }
      const model = yield* AiSdkModel.make({ ...bare, doGenerate: boom, doStream: boom })
      for (const mode of modes) {
        const error = yield* Effect.flip(run(model, mode))
        check(error, { name: "", reply: "drop", tag: "UnknownError", retryable: false })
      }
    }))

  it.live("a part that the provider does not take is an InvalidRequestError", () =>
    Effect.gen(function*() {
      const server = yield* Fake.make()
      const model = yield* AiSdkModel.make(makeModel("responses", server.baseURL))
      const error = yield* Effect.flip(model.generateText({
        prompt: [{ role: "user", content: [{ type: "file", mediaType: "audio/wav", data: "AAAA" }] }]
      }))
      check(error, { name: "", reply: "drop", tag: "InvalidRequestError", retryable: false })
    }))

  it.live("a file whose URL is none is an InvalidUserInputError", () =>
    Effect.gen(function*() {
      const server = yield* Fake.make()
      const model = yield* AiSdkModel.make(makeModel("chat", server.baseURL))
      const error = yield* Effect.flip(model.generateText({
        prompt: [{ role: "user", content: [{ type: "file", mediaType: "image/png", data: "https://" }] }]
      }))
      check(error, { name: "", reply: "drop", tag: "InvalidUserInputError", retryable: false })
    }))

  it.live("a schema that the provider cannot express is an UnsupportedSchemaError", () =>
    Effect.gen(function*() {
      const server = yield* Fake.make()
      const model = yield* AiSdkModel.make(makeModel("responses", server.baseURL))
      const error = yield* Effect.flip(model.generateObject({
        prompt: "go",
        schema: Schema.Union([Schema.Struct({ a: Schema.String }), Schema.Struct({ b: Schema.String })])
      }))
      assert.strictEqual(error.reason._tag, "UnsupportedSchemaError")
    }))

  it.live("an address with a password in it is not shown", () =>
    Effect.gen(function*() {
      const model = yield* AiSdkModel.make(makeModel("chat", "http://me:hunter2@127.0.0.1:9/v1?key=hunter3"))
      for (const mode of modes) {
        const error = yield* Effect.flip(run(model, mode))
        check(error, { name: "", reply: "drop", tag: "NetworkError", retryable: false })
        assert.notMatch(everything(error), /hunter/)
      }
    }))

  it("isContextTooLong knows its own", () => {
    assert.isFalse(AiSdkModel.isContextTooLong(undefined))
    assert.isFalse(AiSdkModel.isContextTooLong(new Error(AiSdkModel.ContextTooLong)))
  })
})

const bare = {
  specificationVersion: "v4" as const,
  provider: "bare",
  modelId: "bare-1",
  supportedUrls: {},
  doGenerate: () => Promise.reject(new Error("not used")),
  doStream: () => Promise.reject(new Error("not used"))
}

// Every way in which an error ends up in front of somebody.
const everything = (error: AiError.AiError): string =>
  [
    error.message,
    String(error.stack),
    JSON.stringify(error),
    inspect(error, { depth: 20, showHidden: true }),
    Cause.pretty(Cause.fail(error)),
    JSON.stringify(Schema.encodeSync(AiError.AiError)(error))
  ].join("\n")

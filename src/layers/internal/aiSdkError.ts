/**
 * Decides which `AiError` a failure of an AI SDK model is, and with that whether it may be retried. The SDK's own
 * opinion is not taken: a spent quota arrives with the status of a rate limit, and an overload as the first event of a
 * successful response.
 *
 * @since 0.1.0
 */
import * as AiError from "effect/ai/AiError"
import * as Duration from "effect/Duration"
import * as Predicate from "effect/Predicate"
import { causes, type Facts, toFacts } from "./aiSdkFacts.ts"
import { markerKey } from "./aiSdkJson.ts"
import { redact } from "./aiSdkRedact.ts"

/** @internal */
export const contextTooLong = "exceeds the context window of the model"

/**
 * What an error is made from besides the failure itself.
 *
 * @internal
 */
export interface ErrorContext {
  readonly provider: string
  readonly modelId: string
  readonly secrets: ReadonlyArray<string>
}

/**
 * The reason for a failure: what the SDK threw, or the payload of an error part of its stream. `now` is in milliseconds
 * since the epoch, for a `retry-after` that names a date.
 *
 * @internal
 */
export const toReason = (error: unknown, context: ErrorContext, now: number): AiError.AiErrorReason => {
  if (AiError.isAiError(error)) return error.reason
  const names = causes(error).map((cause) => cause.name)
  const facts = toFacts(error, context.secrets, now)
  const details = toDetails(facts, context)
  if (names.length > 0) {
    const own = fromName(names[0], facts, details, context)
    if (own !== undefined) return own
  }
  if (facts.status !== undefined && facts.status >= 400) return fromStatus(facts, facts.status, details)
  if (
    facts.status !== undefined &&
    (names.some((name) => invalidResponses.has(name)) || /invalid json/i.test(facts.message))
  ) {
    return new AiError.InvalidResponseError(details)
  }
  if (facts.status !== undefined || names[0] === "AI_APICallError" || isNetworkFailure(error)) {
    return network(error, facts, context)
  }
  // What goes wrong after the first byte is reported as a payload of the provider's own, which is no `Error`.
  return error instanceof Error
    ? new AiError.UnknownError(details)
    : fromStatus(facts, inferStatus(facts), details)
}

/**
 * The reason for an answer that stopped before it was complete.
 *
 * @internal
 */
export const truncated = (context: ErrorContext): AiError.AiErrorReason =>
  networkError(context, undefined, "The response ended before it was complete")

const invalidRequests = new Set([
  "AI_InvalidArgumentError",
  "AI_InvalidPromptError",
  "AI_LoadSettingError",
  "AI_NoSuchProviderReferenceError",
  "AI_UnsupportedFunctionalityError"
])

const invalidResponses = new Set([
  "AI_EmptyResponseBodyError",
  "AI_InvalidResponseDataError",
  "AI_JSONParseError",
  "AI_NoContentGeneratedError",
  "AI_TypeValidationError"
])

const fromName = (
  name: string,
  facts: Facts,
  details: Details,
  context: ErrorContext
): AiError.AiErrorReason | undefined => {
  if (name === "AI_LoadAPIKeyError") return new AiError.AuthenticationError({ kind: "MissingKey", ...details })
  if (name === "AI_NoSuchModelError") return new AiError.InvalidRequestError({ parameter: "model", ...details })
  if (invalidRequests.has(name)) return new AiError.InvalidRequestError(details)
  if (!invalidResponses.has(name)) return undefined
  // How chat completion models say that the connection was closed in the middle of an answer.
  return /without a finish reason/i.test(facts.message) ? truncated(context) : new AiError.InvalidResponseError(details)
}

const fromStatus = (facts: Facts, reported: number, details: Details): AiError.AiErrorReason => {
  const labels = labelsOf(facts)
  const { message, parameter, retryAfter } = facts
  // A run that failed inside a successful response is reported as a bad request, whatever went wrong. Its code tells.
  const status = reported === 400 && /^(?:server_error|rate_limit)/.test(facts.code ?? "")
    ? inferStatus(facts)
    : reported
  if (status === 402 || quotaLabels.test(labels) || quotaMessages.test(message)) {
    return new AiError.QuotaExhaustedError({ metadata: details.metadata })
  }
  if (policyLabels.test(labels) || (status < 500 && status !== 429 && policyMessages.test(message))) {
    return new AiError.ContentPolicyError(details)
  }
  const mayBeTooLong = status !== 401 && status !== 403 && status !== 429
  if (status === 413 || contextLabels.test(labels) || (mayBeTooLong && contextMessages.test(message))) {
    return new AiError.InvalidRequestError({ parameter: "prompt", constraint: contextTooLong, ...details })
  }
  if (status === 401) {
    return new AiError.AuthenticationError({ kind: /expired/i.test(message) ? "ExpiredKey" : "InvalidKey", ...details })
  }
  if (status === 403) return new AiError.AuthenticationError({ kind: "InsufficientPermissions", ...details })
  if (status === 429) {
    return new AiError.RateLimitError({
      metadata: details.metadata,
      ...(retryAfter === undefined ? undefined : { retryAfter: Duration.millis(retryAfter) })
    })
  }
  // Of the statuses that blame the client, these ask for the same request again.
  if (status >= 500 || status === 408 || status === 409 || status === 425) {
    return new AiError.InternalProviderError(details)
  }
  return new AiError.InvalidRequestError({ ...(parameter === undefined ? undefined : { parameter }), ...details })
}

const quotaLabels =
  /insufficient_quota|billing_hard_limit_reached|billing_not_active|billing_error|credits?_exhausted|payment_required/
const quotaMessages = /credit balance is too low|insufficient (?:credits|balance|funds)|billing hard limit/i
const policyLabels = /content_policy|content_filter|responsibleaipolicy|safety_violation|moderation/
const policyMessages = /content (?:filter|management|policy)|usage polic|safety polic|\bflagged\b/i
const contextLabels = /context_length|context_size|context_window|request_too_large|prompt_too_long/
const contextMessages = new RegExp(
  [
    "(?:prompt|input) is too long",
    "(?:maximum|available) context (?:length|size|window)",
    "exceeds? (?:the |this model's )?(?:context|maximum (?:number of )?(?:input )?tokens)",
    "maximum prompt length",
    "with \\d+ maximum context",
    "reduce the length of the (?:messages|prompt|input)"
  ].join("|"),
  "i"
)

const labelsOf = (facts: Facts): string => `${facts.code ?? ""} ${facts.type ?? ""}`.toLowerCase()

const inferStatus = (facts: Facts): number => {
  const labels = labelsOf(facts)
  if (/rate_limit|too_many_requests|resource_exhausted/.test(labels)) return 429
  if (/authentication|invalid_api_key|unauthenticated/.test(labels)) return 401
  if (/permission/.test(labels)) return 403
  if (/server_error/.test(labels)) return 500
  if (/invalid|not_found|bad_request/.test(labels)) return 400
  return 500
}

interface Details {
  readonly description: string
  readonly metadata: AiError.ProviderMetadata
}

const toDetails = (facts: Facts, context: ErrorContext): Details => ({
  description: facts.status === undefined ? facts.message : `${facts.message} (HTTP ${facts.status})`,
  metadata: {
    [markerKey]: {
      provider: context.provider,
      modelId: context.modelId,
      message: facts.message,
      ...definedOnly({
        status: facts.status,
        code: facts.code,
        type: facts.type,
        requestId: facts.requestId,
        retryAfterMs: facts.retryAfter
      })
    }
  }
})

const definedOnly = (record: Record<string, string | number | undefined>): Record<string, string | number> =>
  Object.fromEntries(
    Object.entries(record).filter((entry): entry is [string, string | number] => entry[1] !== undefined)
  )

const isNetworkFailure = (error: unknown): boolean =>
  causes(error).some((cause) =>
    cause.name === "AbortError" || cause.name === "TimeoutError" || cause.name === "ResponseAborted" ||
    (Predicate.hasProperty(cause, "code") && typeof cause.code === "string" && networkCodes.test(cause.code)) ||
    (cause instanceof TypeError &&
      /fetch failed|failed to fetch|terminated|network|parse url|url that includes/i.test(cause.message))
  )

const networkCodes =
  /^(?:E[A-Z]{3,}|UND_ERR_\w+|ERR_INVALID_URL|ERR_(?:SSL|TLS|SOCKET|STREAM)\w*|Connection\w+|FailedToOpenSocket)$/

const network = (error: unknown, facts: Facts, context: ErrorContext): AiError.AiErrorReason => {
  const innermost = redact(causes(error).at(-1)?.message ?? "", context.secrets)
  return networkError(
    context,
    facts.url,
    innermost === "" || facts.message.includes(innermost) ? facts.message : `${facts.message}: ${innermost}`,
    /invalid url|parse url|url that includes/i.test(`${facts.message} ${innermost}`)
      ? "InvalidUrlError"
      : "TransportError"
  )
}

const networkError = (
  context: ErrorContext,
  url: string | undefined,
  description: string,
  reason: AiError.NetworkError["reason"] = "TransportError"
): AiError.AiErrorReason =>
  new AiError.NetworkError({
    reason,
    method: "POST",
    url: url ?? `${context.provider}/${context.modelId}`,
    description
  })

/**
 * Reads out of a failure what can be known of it, whichever way it was reported: thrown by the SDK, as the body of a
 * response, or as an event in the middle of a stream. Every text it returns is free of credentials.
 *
 * @since 0.1.0
 */
import * as Predicate from "effect/Predicate"
import * as Result from "effect/Result"
import { isPlainObject } from "./aiSdkJson.ts"
import { redact, redactUrl } from "./aiSdkRedact.ts"

/**
 * What a failure says about itself.
 *
 * @internal
 */
export interface Facts {
  readonly message: string
  /** The HTTP status, also of an event that only names it; `undefined` when no response arrived or none was named. */
  readonly status: number | undefined
  readonly code: string | undefined
  readonly type: string | undefined
  readonly parameter: string | undefined
  readonly requestId: string | undefined
  /** Milliseconds to wait, by the response's headers. */
  readonly retryAfter: number | undefined
  readonly url: string | undefined
}

type Layer = Readonly<Record<string, unknown>>

/** @internal */
export const toFacts = (error: unknown, secrets: ReadonlyArray<string>, now: number): Facts => {
  const outer: Layer = isPlainObject(error) ? error : {}
  const body = outer.data ?? parseBody(outer.responseBody)
  // In the order in which they are believed: the provider's own words first, then what the SDK made of them.
  const layers = [innerError(body), body, innerError(outer), outer].filter(isPlainObject)
  const first = <A>(read: (layer: Layer) => A | undefined): A | undefined =>
    layers.map(read).find(Predicate.isNotUndefined)
  const clean = (text: string | undefined) => text === undefined ? undefined : redact(text, secrets)
  const headers = lowerCased(outer.responseHeaders)
  const status = statusOf(outer.statusCode, 400) ??
    first((layer) =>
      [layer.statusCode, layer.status_code, layer.status, layer.code].map((value) => statusOf(value, 400)).find(
        Predicate.isNotUndefined
      )
    ) ??
    statusOf(outer.statusCode, 100)
  const message = first(messageOf) ?? (typeof body === "string" ? body : undefined) ??
    (typeof error === "string" ? error : undefined) ?? (status === undefined ? "No reason was given" : `HTTP ${status}`)
  return {
    message: redact(message, secrets),
    status,
    code: clean(first((layer) => labelOf(layer.code))),
    type: clean(
      first((layer) => layer.type === "error" ? undefined : labelOf(layer.type)) ??
        first((layer) => labelOf(layer.status))
    ),
    parameter: clean(first((layer) => labelOf(layer.param))),
    requestId: clean(headers["x-request-id"] ?? headers["request-id"] ?? first((layer) => labelOf(layer.request_id))),
    retryAfter: retryAfter(headers, now),
    url: typeof outer.url === "string" ? redactUrl(outer.url, secrets) : undefined
  }
}

/**
 * The failure and what caused it, outermost first.
 *
 * @internal
 */
export const causes = (error: unknown): ReadonlyArray<Error> => {
  const out: Array<Error> = []
  for (let cause = error; cause instanceof Error && !out.includes(cause); cause = cause.cause) out.push(cause)
  return out
}

const innerError = (value: unknown): unknown => {
  if (!isPlainObject(value)) return undefined
  return value.error ?? (isPlainObject(value.response) ? value.response.error : undefined)
}

const messageOf = (layer: Layer): string | undefined => {
  for (const candidate of [layer.message, layer.detail, layer.error]) {
    if (typeof candidate === "string" && candidate.trim() !== "") return candidate
    // A list of what is wrong with which field. The values are left out: they are the caller's prompt.
    if (Array.isArray(candidate)) {
      return candidate.map((item) => Predicate.hasProperty(item, "msg") ? String(item.msg) : "").filter(Boolean).join(
        "; "
      )
    }
  }
  return undefined
}

const labelOf = (value: unknown): string | undefined =>
  typeof value === "string" && value !== "" ? value : typeof value === "number" ? String(value) : undefined

const statusOf = (value: unknown, least: number): number | undefined => {
  const status = typeof value === "string" && /^\d{3}$/.test(value) ? Number(value) : value
  return typeof status === "number" && Number.isInteger(status) && status >= least && status <= 599 ? status : undefined
}

// An HTML page is a proxy's, and says nothing that its status does not.
const parseBody = (body: unknown): unknown => {
  if (typeof body !== "string") return body
  return Result.getOrElse(
    Result.try((): unknown => JSON.parse(body)),
    () => body.trim() === "" || body.trimStart().startsWith("<") ? undefined : body.slice(0, 300)
  )
}

const lowerCased = (headers: unknown): Readonly<Record<string, string | undefined>> =>
  isPlainObject(headers)
    ? Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), String(value)]))
    : {}

const retryAfter = (headers: Readonly<Record<string, string | undefined>>, now: number): number | undefined => {
  const millis = wait(headers["retry-after-ms"], 1)
  if (millis !== undefined) return millis
  const value = headers["retry-after"]
  const seconds = wait(value, 1000)
  if (seconds !== undefined) return seconds
  const date = value === undefined ? Number.NaN : Date.parse(value)
  return Number.isNaN(date) ? undefined : Math.max(0, date - now)
}

const wait = (value: string | undefined, unit: number): number | undefined => {
  const amount = value === undefined || value.trim() === "" ? Number.NaN : Number(value)
  return Number.isFinite(amount) && amount >= 0 ? Math.ceil(amount * unit) : undefined
}

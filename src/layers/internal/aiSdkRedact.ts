/**
 * Takes credentials out of what an AI SDK model's provider wrote, and keeps it short.
 *
 * @since 0.1.0
 */
import * as Redact from "../../internal/session/redact.ts"

const maxLength = 1000

/**
 * The text without anything that looks like a credential, and without the given secrets; at most 1000 characters.
 *
 * @internal
 */
export const redact = (text: string, secrets: ReadonlyArray<string>): string => {
  const out = Redact.redact(text, secrets)
  return out.length > maxLength ? `${out.slice(0, maxLength)}…` : out
}

/**
 * The origin and path of a URL: keys are sent in queries by some providers, and in user info by some proxies.
 *
 * @internal
 */
export const redactUrl = (url: string, secrets: ReadonlyArray<string>): string => {
  if (!URL.canParse(url)) return redact(url, secrets)
  const { origin, pathname } = new URL(url)
  return redact(`${origin}${pathname}`, secrets)
}

/**
 * Takes credentials out of text that a server or the network wrote, so that it can be shown, logged and stored. A
 * server may repeat the key that it refuses: what is known to be secret is removed by value, the rest by its looks.
 *
 * @since 0.1.0
 */

const maxLength = 1000

const mask = "<redacted>"

const secretName = String
  .raw`[\w-]*api[-_ ]?key|[\w-]*access[-_]?token|[\w-]*secret(?:[-_]?key)?|password|(?:set-)?cookie`

const assignment = String.raw`["']?\s*[:=]\s*["']?`

// Each pattern keeps what its group captures. They are narrow enough to leave words, model names, request ids and
// UUIDs alone: a message is of no use without them, and it decides what kind of error it is. The last one takes any
// run of 32 letters and digits, which none of those is.
const patterns: ReadonlyArray<readonly [pattern: RegExp, replacement: string]> = [
  [new RegExp(`(authorization${assignment}(?:(?:Bearer|Basic|Token)\\s+)?)[^\\s"',;}]+`, "gi"), `$1${mask}`],
  [new RegExp(`((?:${secretName})${assignment})[^\\s"',;}]+`, "gi"), `$1${mask}`],
  [/\b(Bearer\s+)[^\s"',;}]{8,}/gi, `$1${mask}`],
  [/\b(Basic\s+)(?=[A-Za-z0-9+/]*[\d=])[A-Za-z0-9+/]{8,}={0,2}/g, `$1${mask}`],
  [/([?&](?:key|token|sig|signature|code)=)[^&\s"']+/gi, `$1${mask}`],
  [/(\/\/)[^/@\s]+@/g, `$1${mask}@`],
  [/\b(?:(?:sk|pk|rk|gsk|xai|hf|key|ghp|github_pat|glpat)[-_]|AKIA|AIza|ya29)[\w*.-]{12,}/g, mask],
  [/\beyJ[\w-]+\.[\w-]+\.[\w-]*/g, mask],
  [/(?<![\w-])(?=[\w+/]*\d)(?=[\w+/]*[A-Za-z])[A-Za-z0-9+/]{32,}={0,2}/g, mask]
]

/**
 * The text without anything that looks like a credential, and without the given secrets; at most 1000 characters.
 *
 * @internal
 */
export const redact = (text: string, secrets: ReadonlyArray<string>): string => {
  let out = text
  for (const secret of secrets) {
    if (secret.length > 0) out = out.replaceAll(secret, mask)
  }
  for (const [pattern, replacement] of patterns) out = out.replace(pattern, replacement)
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

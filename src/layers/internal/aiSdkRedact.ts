/**
 * Takes credentials out of text that a server or the network wrote, so that it can be shown, logged and stored. A
 * server may repeat the key that it refuses: what is known to be secret is removed by value, the rest by its looks.
 *
 * @since 0.1.0
 */

const maxLength = 1000

const mask = "<redacted>"

// Each pattern keeps what its groups capture. The last one takes any long unbroken run of letters and digits: wide
// enough to spare model names, request ids and UUIDs, all of which are useful and none of which is 32 characters
// without a separator.
const patterns: ReadonlyArray<readonly [pattern: RegExp, replacement: string]> = [
  [/\b(Bearer|Basic|Token)\s+[^\s"',;}]+/gi, `$1 ${mask}`],
  [
    /((?:authorization|cookie|[\w-]*api[-_ ]?key|[\w-]*access[-_]?token|[\w-]*secret(?:[-_]?key)?|password)["']?\s*[:=]\s*["']?)(?!<redacted>|(?:Bearer|Basic|Token)\b)[^\s"',;}]+/gi,
    `$1${mask}`
  ],
  [/([?&](?:key|token|sig|signature|code)=)[^&\s"']+/gi, `$1${mask}`],
  [/(\/\/)[^/@\s]+@/g, `$1${mask}@`],
  [/\b(?:sk|pk|rk|gsk|xai|hf|key|org|ghp|github_pat|glpat|AKIA|AIza|ya29)[-_.]?[\w*.-]{12,}/g, mask],
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

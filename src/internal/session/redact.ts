/**
 * Takes credentials out of text that a server or the network wrote, so that it can be shown, logged and stored. A
 * server may repeat the key that it refuses: what is known to be secret is removed by value, the rest by its looks.
 */
import { boundText, maxDiagnosticBytes } from "./bounded.ts"

const mask = "<redacted>"

const secretName = String.raw`api[-_ ]?key|access[-_]?token|secret(?:[-_]?key)?|password|cookie`

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
  [/(\/\/)[^/?#\s]+@/g, `$1${mask}@`],
  [/\b(?:(?:sk|pk|rk|gsk|xai|hf|key|ghp|github_pat|glpat)[-_]|AKIA|AIza|ya29)[\w*.-]{12,}/g, mask],
  [/\beyJ[\w-]+\.[\w-]+\.[\w-]*/g, mask],
  [/(?<![\w-])(?=[\w+/]*\d)(?=[\w+/]*[A-Za-z])[A-Za-z0-9+/]{32,}={0,2}/g, mask]
]

// Looking for secrets takes its time. Longer than whatever is shown: half of a secret, which is not known for one any
// more, is cut off again.
const maxLength = 2 * maxDiagnosticBytes

/**
 * @internal The text without anything that looks like a credential, and without the given secrets; at most 8192
 * characters of it are looked at, and the rest is left out.
 */
export const redact = (text: string, secrets: ReadonlyArray<string> = []): string => {
  let out = text.slice(0, maxLength)
  for (const secret of secrets) {
    if (secret.length > 0) out = out.replaceAll(secret, mask)
  }
  for (const [pattern, replacement] of patterns) out = out.replace(pattern, replacement)
  return out
}

/** @internal What may be shown of a text that somebody else wrote: bounded, and without anything that looks secret. */
export const toDiagnostic = (text: string): string => boundText(redact(text))

/**
 * Checks limits that somebody wrote, wherever they may be written: for an agent, for a request, or for a part of a
 * program.
 */
import { defaultLimits, type Limits } from "../../CurrentAgent.ts"
import { isNatural } from "./numbers.ts"

/** @internal What is malformed, and what would be right. */
export interface Issue {
  readonly field: string
  readonly issue: string
}

/** @internal A value as an issue names it: what was asked for may be anything, and even refuse to be shown. */
export const shown = (value: unknown): string =>
  value === null || (typeof value !== "object" && typeof value !== "function") ? String(value) : `a ${typeof value}`

/** @internal What is malformed in limits. */
export const limitsIssue = (limits: unknown): Issue | undefined => {
  if (typeof limits !== "object" || limits === null || Array.isArray(limits)) {
    return { field: "limits", issue: "a record of limits is needed" }
  }
  for (const [name, value] of Object.entries(limits)) {
    if (!Object.hasOwn(defaultLimits, name)) return { field: `limits.${name}`, issue: "there is no such limit" }
    if (value !== undefined && !isNatural(value)) {
      return { field: `limits.${name}`, issue: `a natural number is needed, not ${shown(value)}` }
    }
  }
  return undefined
}

/** @internal The limits that hold where somebody set some of them. */
export const limitsOf = (limits: Partial<Limits>): Limits => ({
  maxDepth: limits.maxDepth ?? defaultLimits.maxDepth,
  maxChildren: limits.maxChildren ?? defaultLimits.maxChildren,
  maxWait: limits.maxWait ?? defaultLimits.maxWait,
  maxRunning: limits.maxRunning ?? defaultLimits.maxRunning
})

/**
 * What the offline model says next.
 *
 * @since 0.1.0
 */

/** @internal A text, calls of tools that run at the same time, or both. */
export interface Plan {
  readonly text?: string
  readonly calls: ReadonlyArray<{ readonly name: string; readonly params: unknown }>
}

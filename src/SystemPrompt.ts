/**
 * Assembles the system prompt of an agent from named, ordered sections with strict `{{variable}}` references.
 *
 * A section of an agent's own shadows the shared section of the same name for that agent alone; a reference to a
 * variable that nobody registered fails the assembly instead of reaching the model.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"

/**
 * A piece of a system prompt. Sections are joined by a blank line in ascending `order`, ties by name. `text` may refer
 * to variables as `{{name}}`; substituted values are not scanned again (S156).
 *
 * @category models
 * @since 0.1.0
 */
export interface Section {
  readonly name: string
  readonly order: number
  readonly text: string
}

/**
 * The name of the section that says who the agent is; a child's `persona` shadows it.
 *
 * @category constants
 * @since 0.1.0
 */
export const personaSection = "persona"

/**
 * A section refers to a variable that has no value here, or is not a well-formed reference at all. `reference` is what
 * stands between the braces; `known` are the variables that would be right.
 *
 * @category errors
 * @since 0.1.0
 */
export class UnknownVariable extends Schema.TaggedError<UnknownVariable>("effect-subagent/UnknownVariable")(
  "UnknownVariable",
  { section: Schema.String, reference: Schema.String, known: Schema.Array(Schema.String) }
) {
  override get message(): string {
    return `section ${JSON.stringify(this.section)} refers to {{${this.reference}}}, which has no value; ` +
      `known variables: ${this.known.length === 0 ? "none" : this.known.join(", ")}`
  }
}

/**
 * Another section of this name, or another variable, is registered already.
 *
 * @category errors
 * @since 0.1.0
 */
export class DuplicateSection extends Schema.TaggedError<DuplicateSection>("effect-subagent/DuplicateSection")(
  "DuplicateSection",
  { name: Schema.String }
) {
  override get message(): string {
    return `the system prompt has a section or variable ${JSON.stringify(this.name)} already`
  }
}

/**
 * The values of variables; a variable whose value is `undefined` counts as unknown.
 *
 * @category models
 * @since 0.1.0
 */
export type Variables = Readonly<Record<string, string | undefined>>

/**
 * The shared sections and variables of all agents of a program.
 *
 * - `register`, `variable`: add one for as long as the scope lives; fail `DuplicateSection` for a taken name
 * - `assemble`: the whole prompt for one agent, `undefined` when there is nothing to say. `sections` are the agent's
 *   own, `variables` its `cwd`, `model` and the like, which win over shared variables of the same name
 *
 * @category services
 * @since 0.1.0
 */
export class SystemPrompt extends Context.Service<SystemPrompt, {
  readonly register: (section: Section) => Effect.Effect<void, DuplicateSection, Scope.Scope>
  readonly variable: (name: string, value: string) => Effect.Effect<void, DuplicateSection, Scope.Scope>
  readonly assemble: (options: {
    readonly sections?: ReadonlyArray<Section> | undefined
    readonly variables: Variables
  }) => Effect.Effect<string | undefined, UnknownVariable>
}>()("effect-subagent/SystemPrompt") {}

const reference = /\{\{([^{}]*)\}\}/g
const name = /^[A-Za-z_][A-Za-z0-9_.-]*$/

/**
 * Substitutes the `{{variable}}` references of one section. Fails `UnknownVariable` for the first reference that is
 * unknown, has no value or is malformed.
 *
 * @category combinators
 * @since 0.1.0
 */
export const interpolate = (section: Section, variables: Variables): Effect.Effect<string, UnknownVariable> =>
  Effect.suspend(() => {
    if (!section.text.includes("{{") && !section.text.includes("}}")) return Effect.succeed(section.text)
    let bad: string | undefined
    const leftover = section.text.replace(reference, " ")
    if (leftover.includes("{{") || leftover.includes("}}")) {
      bad = leftover.slice(leftover.search(/\{\{|\}\}/)).slice(0, 40)
    }
    const text = section.text.replace(reference, (whole, inner: string) => {
      const key = inner.trim()
      const value = name.test(key) && Object.hasOwn(variables, key) ? variables[key] : undefined
      if (value === undefined) bad ??= inner
      return value ?? whole
    })
    return bad === undefined ? Effect.succeed(text) : Effect.fail(
      new UnknownVariable({
        section: section.name,
        reference: bad,
        known: Object.keys(variables).filter((key) => variables[key] !== undefined).toSorted()
      })
    )
  })

const make = Effect.sync(() => {
  const sections = new Map<string, Section>()
  const variables = new Map<string, string>()

  const put = <A>(map: Map<string, A>, key: string, value: A): Effect.Effect<void, DuplicateSection, Scope.Scope> =>
    Effect.acquireRelease(
      Effect.suspend(() => {
        if (map.has(key)) return Effect.fail(new DuplicateSection({ name: key }))
        map.set(key, value)
        return Effect.void
      }),
      () => Effect.sync(() => map.delete(key))
    )

  return SystemPrompt.of({
    register: (section) => put(sections, section.name, section),
    variable: (key, value) => put(variables, key, value),
    assemble: (options) =>
      Effect.suspend(() => {
        const own = options.sections ?? []
        if (own.length === 0 && sections.size === 0) return Effect.undefined
        const all = new Map(sections)
        for (const section of own) all.set(section.name, section)
        const known = { ...Object.fromEntries(variables), ...options.variables }
        const ordered = Array.from(all.values()).toSorted((a, b) =>
          a.order - b.order || (a.name < b.name ? -1 : a.name > b.name ? 1 : 0)
        )
        return Effect.map(
          Effect.forEach(ordered, (section) => interpolate(section, known)),
          (texts) => {
            const text = texts.filter((one) => one !== "").join("\n\n")
            return text === "" ? undefined : text
          }
        )
      })
  })
})

/**
 * An empty system prompt; other layers contribute sections and variables to it.
 *
 * @category layers
 * @since 0.1.0
 */
export const layer: Layer.Layer<SystemPrompt> = Layer.effect(SystemPrompt, make)

/**
 * Contributes one section for as long as the layer lives. Fails `DuplicateSection` for a taken name.
 *
 * @category layers
 * @since 0.1.0
 */
export const layerSection = (section: Section): Layer.Layer<never, DuplicateSection, SystemPrompt> =>
  Layer.effectDiscard(SystemPrompt.use((prompt) => prompt.register(section)))

/**
 * Contributes one variable for as long as the layer lives. Fails `DuplicateSection` for a taken name.
 *
 * @category layers
 * @since 0.1.0
 */
export const layerVariable = (key: string, value: string): Layer.Layer<never, DuplicateSection, SystemPrompt> =>
  Layer.effectDiscard(SystemPrompt.use((prompt) => prompt.variable(key, value)))

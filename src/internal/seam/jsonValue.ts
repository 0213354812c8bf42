/**
 * Copies an unknown value as JSON, reading every property of it exactly once.
 *
 * What JSON cannot hold becomes a `Fault` in its place, so nothing that reads the copy can throw, meet a cycle or see
 * the value change. Shared references stay shared: the work is linear in what is really there, however deep.
 */
import * as JsonPointer from "effect/JsonPointer"
import * as Result from "effect/Result"

/**
 * Where something is, as a list from the inside out: a step costs the same at any depth. `undefined` is the root.
 *
 * @internal
 */
export type Path = { readonly parent: Path; readonly key: string | number } | undefined

/** @internal */
export interface Finding {
  readonly path: Path
  readonly issue: string
}

/** @internal */
export const at = (parent: Path, key: string | number): Path => ({ parent, key })

/** @internal */
export const toKeys = (path: Path): Array<string | number> => {
  const keys: Array<string | number> = []
  for (let step = path; step !== undefined; step = step.parent) keys.push(step.key)
  return keys.toReversed()
}

/** @internal */
export const toPointer = (path: Path): string =>
  toKeys(path).map((key) => `/${JsonPointer.escapeToken(String(key))}`).join("")

/**
 * Stands in a copy for something JSON cannot hold. `what` names it, without any of its content.
 *
 * @internal
 */
export class Fault {
  readonly #what: string
  constructor(what: string) {
    this.#what = what
  }
  get what(): string {
    return this.#what
  }
  /** Of a foreign value, which `instanceof` would ask for its prototype: a proxy may throw at that. */
  static is(value: unknown): value is Fault {
    return typeof value === "object" && value !== null && #what in value
  }
}

/** @internal */
export const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof Fault)

/**
 * The kind of a copied value. Never its content: what a model answered does not belong in an error.
 *
 * @internal
 */
export const describe = (value: unknown): string => {
  if (value instanceof Fault) return value.what
  if (value === null) return "null"
  if (Array.isArray(value)) return "an array"
  return typeof value === "object" ? "an object" : `a ${typeof value}`
}

/** @internal */
export const notJson = (fault: Fault): string =>
  fault.what === "undefined"
    ? "is undefined, which counts as missing: JSON has only null, booleans, finite numbers, strings, arrays and objects"
    : `is ${fault.what}: JSON has only null, booleans, finite numbers, strings, arrays and plain objects`

/**
 * A JSON copy, frozen all the way down. Where `faulty` is false, `value` is lossless JSON.
 *
 * @internal
 */
export interface Copy {
  readonly value: unknown
  readonly faulty: boolean
}

/** @internal */
export const copyJson = (input: unknown): Copy => {
  const known = new Map<object, Frame>()
  const open: Array<Frame> = []
  let faulty = false

  const fault = (found: Fault): Fault => {
    faulty = true
    return found
  }
  const enter = (value: unknown): unknown => {
    if (Fault.is(value)) return fault(value)
    if (typeof value !== "object" || value === null) {
      const leaf = copyLeaf(value)
      return leaf instanceof Fault ? fault(leaf) : leaf
    }
    const seen = known.get(value)
    if (seen !== undefined) return seen.closed ? seen.copy : fault(new Fault("a reference back to what contains it"))
    const members = readMembers(value)
    if (members instanceof Fault) return fault(members)
    const frame: Frame = { members, copy: members.keys === undefined ? [] : {}, next: 0, closed: false }
    known.set(value, frame)
    open.push(frame)
    return frame.copy
  }

  const value = enter(input)
  for (let frame = open.at(-1); frame !== undefined; frame = open.at(-1)) {
    const { copy, members } = frame
    if (frame.next === members.values.length) {
      frame.closed = true
      Object.freeze(copy)
      open.pop()
      continue
    }
    const index = frame.next++
    const member = enter(members.values[index])
    if (Array.isArray(copy)) copy.push(member)
    else setOwn(copy, members.keys![index], member)
  }
  return { value, faulty }
}

/**
 * Every `Fault` of a copy in document order, a shared one at the first path that leads to it.
 *
 * @internal
 */
export const reportFaults = (value: unknown, path: Path, report: (path: Path, issue: string) => void): void => {
  const seen = new Set<object>()
  const todo: Array<readonly [value: unknown, path: Path]> = [[value, path]]
  for (let next = todo.pop(); next !== undefined; next = todo.pop()) {
    const [value, path] = next
    if (value instanceof Fault) report(path, notJson(value))
    else if (typeof value === "object" && value !== null && !seen.has(value)) {
      seen.add(value)
      const entries: Array<readonly [string | number, unknown]> = Array.isArray(value)
        ? value.map((item, index) => [index, item])
        : Object.entries(value)
      for (const [key, member] of entries.toReversed()) todo.push([member, at(path, key)])
    }
  }
}

/** The members of an array have no keys: their place is their name. */
interface Members {
  readonly keys: ReadonlyArray<string> | undefined
  readonly values: ReadonlyArray<unknown>
}

interface Frame {
  readonly members: Members
  readonly copy: Array<unknown> | Record<string, unknown>
  next: number
  closed: boolean
}

const copyLeaf = (value: unknown): unknown => {
  switch (typeof value) {
    case "string":
    case "boolean":
      return value
    case "number":
      if (Object.is(value, -0)) return new Fault("-0")
      return Number.isFinite(value) ? value : new Fault(String(value))
    case "undefined":
      return new Fault("undefined")
    default:
      return value === null ? value : new Fault(`a ${typeof value}`)
  }
}

// A plain assignment to `__proto__` would set the prototype instead of a key.
const setOwn = (target: Record<string, unknown>, key: string, value: unknown): void => {
  if (key === "__proto__") {
    Object.defineProperty(target, key, { value, configurable: true, enumerable: true, writable: true })
  } else target[key] = value
}

const readMembers = (value: object): Members | Fault =>
  Result.getOrElse(
    Result.try(() => Array.isArray(value) ? readArray(value) : readObject(value)),
    () => new Fault("an object that throws when it is read")
  )

const readArray = (value: ReadonlyArray<unknown>): Members | Fault => {
  if (!isIntrinsic(Object.getPrototypeOf(value), "Array")) return new Fault("an array with a prototype of its own")
  const { length } = value
  const keys = Reflect.ownKeys(value)
  // Own keys list the indices first. Their number is the bound: a sparse array may claim four billion items.
  for (let index = 0; index < length; index++) {
    if (keys[index] !== String(index)) return new Fault("an array with holes")
  }
  if (keys.length > length + 1) return new Fault("an array with keys besides its items")
  const values: Array<unknown> = []
  for (let index = 0; index < length; index++) {
    values.push(readMember(value, String(index)))
  }
  return { keys: undefined, values }
}

const readObject = (value: object): Members | Fault => {
  const prototype = Object.getPrototypeOf(value)
  if (prototype !== null && !isIntrinsic(prototype, "Object")) return new Fault(describeInstance(prototype))
  // The tag comes from an internal slot: a Date stays one, whatever prototype it was given.
  const tag = Object.prototype.toString.call(value)
  if (tag !== "[object Object]") return new Fault(`an object of the kind ${tag.slice(8, -1)}`)
  const keys: Array<string> = []
  const values: Array<unknown> = []
  for (const key of Reflect.ownKeys(value)) {
    if (typeof key === "symbol") return new Fault("an object with a symbol for a key")
    const member = readMember(value, key)
    if (member === hidden) return new Fault("an object with a hidden (not enumerable) key")
    keys.push(key)
    values.push(member)
  }
  return { keys, values }
}

const hidden = new Fault("hidden")

// Only a getter is read on its own: whatever else throws here is a proxy, and then the whole object is no JSON.
const readMember = (owner: object, key: string): unknown => {
  const descriptor = Object.getOwnPropertyDescriptor(owner, key)
  if (descriptor === undefined || !descriptor.enumerable) return hidden
  return descriptor.get === undefined
    ? Reflect.get(owner, key)
    : Result.getOrElse(
      Result.try(() => Reflect.get(owner, key)),
      () => new Fault("a property that throws when it is read")
    )
}

const describeInstance = (prototype: object): string => {
  const constructor: unknown = Reflect.get(prototype, "constructor")
  return typeof constructor === "function" && typeof constructor.name === "string" && constructor.name !== "" &&
      constructor.name !== "Object"
    ? `an instance of ${constructor.name}`
    : "an object with a prototype of its own"
}

// Another realm (a `vm` context, a worker's structured clone) has its own Object.prototype. It is recognised by its
// constructor, which a forged prototype cannot have: that one is native, and its `prototype` cannot be reassigned.
const isIntrinsic = (prototype: unknown, name: "Array" | "Object"): boolean => {
  if (prototype === (name === "Array" ? Array.prototype : Object.prototype)) return true
  if (typeof prototype !== "object" || prototype === null) return false
  const constructor: unknown = Object.getOwnPropertyDescriptor(prototype, "constructor")?.value
  if (typeof constructor !== "function") return false
  const back = Object.getOwnPropertyDescriptor(constructor, "prototype")
  return back?.value === prototype && back.writable === false &&
    native[name].test(Function.prototype.toString.call(constructor))
}

const native = {
  Array: /^function Array\(\) \{\s*\[native code\]\s*\}$/,
  Object: /^function Object\(\) \{\s*\[native code\]\s*\}$/
}

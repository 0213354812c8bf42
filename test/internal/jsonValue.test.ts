import { assert, describe, it } from "@effect/vitest"
import * as vm from "node:vm"
import { copyJson, reportFaults, toPointer } from "../../src/internal/seam/jsonValue.ts"

const faults = (input: unknown): Array<string> => {
  const found: Array<string> = []
  reportFaults(
    copyJson(input).value,
    undefined,
    (path, issue) => found.push(`${toPointer(path)} ${issue.split(":")[0]}`)
  )
  return found
}

const deep = (levels: number): unknown => {
  let value: unknown = 1
  for (let level = 0; level < levels; level++) value = level % 2 === 0 ? [value] : { a: value }
  return value
}

describe("jsonValue", () => {
  it("copies plain JSON, detached and frozen", () => {
    const input = { a: [1, "two", { three: null }], b: true }
    const { faulty, value } = copyJson(input)
    assert.isFalse(faulty)
    assert.deepStrictEqual(value, input)
    input.a.push("later")
    assert.deepStrictEqual(value, { a: [1, "two", { three: null }], b: true })
    assert.isFrozen(value)
    assert.isFrozen(Reflect.get(value as object, "a"))
  })

  it("S178 keeps __proto__ a key and accepts objects without a prototype", () => {
    const parsed: unknown = JSON.parse(`{"__proto__": {"a": 1}, "constructor": 2}`)
    const { faulty, value } = copyJson(parsed)
    assert.isFalse(faulty)
    assert.deepStrictEqual(Object.keys(value as object), ["__proto__", "constructor"])
    assert.strictEqual(Object.getPrototypeOf(value), Object.prototype)
    assert.strictEqual(JSON.stringify(value), JSON.stringify(parsed))
    assert.deepStrictEqual(copyJson(Object.assign(Object.create(null), { a: 1 })).value, { a: 1 })
  })

  it("S178 accepts plain objects and arrays of another realm", () => {
    const { faulty, value } = copyJson(vm.runInNewContext("({ a: [{ b: 1 }] })"))
    assert.isFalse(faulty)
    assert.deepStrictEqual(value, { a: [{ b: 1 }] })
    assert.deepStrictEqual(faults(vm.runInNewContext("new Map()")), [" is an instance of Map"])
    assert.deepStrictEqual(faults(vm.runInNewContext("new (class extends Array {})()")), [
      " is an array with a prototype of its own"
    ])
  })

  it("S178 rejects forged prototypes", () => {
    const own = "is an object with a prototype of its own"
    const bare = Object.create(null)
    assert.deepStrictEqual(faults(Object.create(bare)), [` ${own}`])
    assert.deepStrictEqual(faults(Object.create({ a: 1 })), [` ${own}`])
    assert.deepStrictEqual(faults(Object.create({ constructor: Object })), [` ${own}`])
    const named = {
      Object: class Object {
        a = 1
      }
    }
    assert.deepStrictEqual(faults(new named.Object()), [` ${own}`])
    assert.deepStrictEqual(faults(Object.setPrototypeOf([], Object.prototype)), [
      " is an array with a prototype of its own"
    ])
    assert.deepStrictEqual(faults(Object.setPrototypeOf([], null)), [" is an array with a prototype of its own"])
    assert.deepStrictEqual(faults(Object.setPrototypeOf(new Date(), Object.prototype)), [
      " is an object of the kind Date"
    ])
  })

  it("S180 names everything that is not JSON where it stands, in document order", () => {
    class Point {
      x = 1
    }
    const withSymbol = { a: 1, [Symbol("hidden")]: 1 }
    const withHidden = Object.defineProperty({ a: 1 }, "b", { value: 1, enumerable: false })
    assert.deepStrictEqual(
      faults({
        undefined: undefined,
        zero: [0, -0],
        nan: NaN,
        infinity: -Infinity,
        big: 1n,
        function: () => 1,
        symbol: Symbol.iterator,
        map: new Map(),
        date: new Date(0),
        point: new Point(),
        boxed: Object(1),
        "a/b~c": { withSymbol, withHidden }
      }),
      [
        "/undefined is undefined, which counts as missing",
        "/zero/1 is -0",
        "/nan is NaN",
        "/infinity is -Infinity",
        "/big is a bigint",
        "/function is a function",
        "/symbol is a symbol",
        "/map is an instance of Map",
        "/date is an instance of Date",
        "/point is an instance of Point",
        "/boxed is an instance of Number",
        "/a~1b~0c/withSymbol is an object with a symbol for a key",
        "/a~1b~0c/withHidden is an object with a hidden (not enumerable) key"
      ]
    )
  })

  it("S180 rejects arrays that JSON would change", () => {
    const sparse: Array<unknown> = [1]
    sparse[3] = 1
    // oxlint-disable-next-line unicorn/no-new-array
    const huge = new Array<unknown>(4_294_967_295)
    const extra = Object.assign([1], { extra: 1 })
    // As many own keys as a dense array of its length has.
    const both = Object.assign([1, 2], { extra: 1 })
    delete both[0]
    const symbol = Object.assign([1], { [Symbol("a")]: 1 })
    class Sub extends Array<unknown> {}
    assert.deepStrictEqual(faults([sparse, huge, extra, both, symbol, new Sub()]), [
      "/0 is an array with holes",
      "/1 is an array with holes",
      "/2 is an array with keys besides its items",
      "/3 is an array with holes",
      "/4 is an array with keys besides its items",
      "/5 is an array with a prototype of its own"
    ])
  })

  it("S446 turns what throws into a fault, and reads every property once", () => {
    const boom = () => {
      throw new Error("boom")
    }
    let reads = 0
    const counting = {
      get a() {
        return ++reads
      }
    }
    const { proxy: revoked, revoke } = Proxy.revocable({}, {})
    revoke()
    const threw = "is an object that throws when it is read"
    assert.deepStrictEqual(
      faults({
        getter: {
          get a() {
            return boom()
          },
          b: NaN
        },
        get: new Proxy({ a: 1 }, { get: boom }),
        keys: new Proxy({ a: 1 }, { ownKeys: boom }),
        prototype: new Proxy({ a: 1 }, { getPrototypeOf: boom }),
        descriptor: new Proxy({ a: 1 }, { getOwnPropertyDescriptor: boom }),
        array: new Proxy([1], { get: boom }),
        revoked
      }),
      [
        "/getter/a is a property that throws when it is read",
        "/getter/b is NaN",
        `/get ${threw}`,
        `/keys ${threw}`,
        `/prototype ${threw}`,
        `/descriptor ${threw}`,
        `/array ${threw}`,
        `/revoked ${threw}`
      ]
    )
    assert.deepStrictEqual(copyJson(counting).value, { a: 1 })
    assert.strictEqual(reads, 1)
  })

  it("S443 names a cycle where it closes and keeps shared parts shared", () => {
    const loop: Record<string, unknown> = { a: { b: [] } }
    const inner = (loop["a"] as { readonly b: Array<unknown> }).b
    inner.push(1, loop, inner)
    assert.deepStrictEqual(faults(loop), [
      "/a/b/1 is a reference back to what contains it",
      "/a/b/2 is a reference back to what contains it"
    ])
    let shared: unknown = { leaf: NaN }
    for (let level = 0; level < 60; level++) shared = { a: shared, b: shared }
    assert.strictEqual(faults(shared).length, 1)
  })

  it("S179 takes any depth", () => {
    assert.isFalse(copyJson(deep(100_000)).faulty)
  })
})

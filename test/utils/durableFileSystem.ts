/**
 * The file system of Node with a memory of what would be there after a crash: of a file what was written until its last
 * `fsync`, of a directory the names it had at its last `fsync`. Knows the calls that stores make, and files that only grow.
 */
import { NodeFileSystem, NodePath } from "@effect/platform-node"
import { Effect, FileSystem, Layer } from "effect"
import { mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"

interface File {
  readonly kind: "file"
  content: Buffer
  durable: Buffer
}

interface Directory {
  readonly kind: "directory"
  readonly entries: Map<string, Node>
  durable: Map<string, Node>
}

type Node = File | Directory

/**
 * - `killed`: the process died, the system did not: everything is there
 * - `power`: only what was synced is there
 * - `torn`: every name is there, but of the content only what was synced and three quarters of the rest
 */
export type Crash = "killed" | "power" | "torn"

export const crashes: ReadonlyArray<Crash> = ["killed", "power", "torn"]

const makeDirectory = (): Directory => ({ kind: "directory", entries: new Map(), durable: new Map() })

export const make = (root: string) => {
  const top = makeDirectory()
  const namesOf = (path: string) => path.slice(root.length).split("/").filter((name) => name !== "")
  const find = (path: string): Node | undefined =>
    namesOf(path).reduce<Node | undefined>(
      (node, name) => node?.kind === "directory" ? node.entries.get(name) : undefined,
      top
    )
  const parentOf = (path: string): Map<string, Node> => {
    const parent = find(path.slice(0, path.lastIndexOf("/")))
    if (parent?.kind !== "directory") throw new Error(`no directory for ${path}`)
    return parent.entries
  }
  const nameOf = (path: string): string => namesOf(path).at(-1)!
  const isOurs = (path: string) => path === root || path.startsWith(root + "/")

  const note = (change: () => void) => Effect.sync(change)
  let hook: () => void = () => {}
  const before = Effect.sync(() => hook())

  const watch = (file: FileSystem.File, node: Node): FileSystem.File => ({
    [FileSystem.FileTypeId]: FileSystem.FileTypeId,
    stat: file.stat,
    seek: (offset, from) => file.seek(offset, from),
    read: (buffer, options) => file.read(buffer, options),
    readAlloc: (size, options) => file.readAlloc(size, options),
    truncate: (length) => file.truncate(length),
    write: (buffer) => file.write(buffer),
    writeAll: (buffer) =>
      before.pipe(
        Effect.andThen(file.writeAll(buffer)),
        Effect.andThen(note(() => {
          if (node.kind === "file") node.content = Buffer.concat([node.content, buffer])
        }))
      ),
    sync: before.pipe(
      Effect.andThen(file.sync),
      Effect.andThen(note(() => {
        if (node.kind === "file") node.durable = node.content
        else node.durable = new Map(node.entries)
      }))
    )
  })

  const layer = Layer.effect(
    FileSystem.FileSystem,
    Effect.map(FileSystem.FileSystem, (fs): FileSystem.FileSystem => {
      const after = <A, E, R>(path: string, call: Effect.Effect<A, E, R>, change: () => void) =>
        isOurs(path) ? before.pipe(Effect.andThen(call), Effect.tap(() => note(change))) : call
      return {
        ...fs,
        open: (path, options) =>
          Effect.map(
            after(path, fs.open(path, options), () => {
              if (find(path) === undefined) {
                parentOf(path).set(nameOf(path), { kind: "file", content: Buffer.alloc(0), durable: Buffer.alloc(0) })
              }
            }),
            (file) => watch(file, find(path)!)
          ),
        link: (from, to) =>
          after(to, fs.link(from, to), () => {
            parentOf(to).set(nameOf(to), find(from)!)
          }),
        makeDirectory: (path, options) =>
          after(path, fs.makeDirectory(path, options), () => {
            parentOf(path).set(nameOf(path), makeDirectory())
          }),
        rename: (from, to) =>
          after(to, fs.rename(from, to), () => {
            parentOf(to).set(nameOf(to), find(from)!)
            parentOf(from).delete(nameOf(from))
          }),
        remove: (path, options) =>
          after(path, fs.remove(path, options), () => {
            parentOf(path).delete(nameOf(path))
          })
      }
    })
  ).pipe(Layer.provide(NodeFileSystem.layer), Layer.merge(NodePath.layer))

  const remains = (node: Node, path: string, crash: Crash, found: Map<string, string | undefined>): void => {
    if (node.kind === "directory") {
      found.set(path, undefined)
      const entries = crash === "power" ? node.durable : node.entries
      for (const [name, entry] of entries) remains(entry, join(path, name), crash, found)
      return
    }
    const lost = node.content.length - node.durable.length
    const content = crash === "killed"
      ? node.content
      : crash === "power"
      ? node.durable
      : node.content.subarray(0, node.durable.length + Math.floor(lost * 3 / 4))
    // nobody who wrote before the crash is alive after it
    found.set(path, content.toString("latin1").replace(/"boot":"[^"]*"/, "\"boot\":\"before\""))
  }

  return {
    layer,
    /** Calls `before` before each call that changes anything. */
    onCall: (before: () => void) => {
      hook = before
    },
    /** What would be there after a crash now: directories, and files with what is in them, by their paths. */
    remains: (crash: Crash): ReadonlyMap<string, string | undefined> => {
      const found = new Map<string, string | undefined>()
      remains(top, "/", crash, found)
      return found
    }
  }
}

/** Writes what remained of a crash. */
export const write = (remains: ReadonlyMap<string, string | undefined>, path: string): void => {
  for (const [name, content] of remains) {
    if (content === undefined) mkdirSync(join(path, name), { recursive: true })
    else writeFileSync(join(path, name), content, "latin1")
  }
}

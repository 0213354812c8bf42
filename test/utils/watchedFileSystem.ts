/**
 * The file system of Node with somebody looking on: each call is told to a hook first, which may count it, hold it up
 * or let it fail.
 */
import { NodeFileSystem, NodePath } from "@effect/platform-node"
import { Effect, FileSystem, Layer, PlatformError } from "effect"

/** What is called, and for which path; calls on an open file have the path that it was opened with. */
export interface Call {
  readonly name: string
  readonly path: string
}

export type Hook = (call: Call) => Effect.Effect<void, PlatformError.PlatformError>

const watchFile = (file: FileSystem.File, path: string, hook: Hook): FileSystem.File => {
  const before = <A>(name: string, effect: Effect.Effect<A, PlatformError.PlatformError>) =>
    Effect.andThen(Effect.suspend(() => hook({ name, path })), effect)
  return {
    [FileSystem.FileTypeId]: FileSystem.FileTypeId,
    stat: before("file.stat", file.stat),
    sync: before("file.sync", file.sync),
    seek: (offset, from) => file.seek(offset, from),
    read: (buffer, options) => before("file.read", file.read(buffer, options)),
    readAlloc: (size, options) => before("file.read", file.readAlloc(size, options)),
    truncate: (length) => before("file.truncate", file.truncate(length)),
    write: (buffer) => before("file.write", file.write(buffer)),
    writeAll: (buffer) => before("file.write", file.writeAll(buffer))
  }
}

/** Watches the files of Node; `Path` comes with them. */
export const layer = (hook: Hook) =>
  Layer.effect(
    FileSystem.FileSystem,
    Effect.map(FileSystem.FileSystem, (fs): FileSystem.FileSystem => {
      const before = (name: string, path: string) => Effect.suspend(() => hook({ name, path }))
      return {
        ...fs,
        open: (path, options) =>
          Effect.map(
            Effect.andThen(before("open", path), fs.open(path, options)),
            (file) => watchFile(file, path, hook)
          ),
        link: (from, to) => Effect.andThen(before("link", to), fs.link(from, to)),
        makeDirectory: (path, options) =>
          Effect.andThen(before("makeDirectory", path), fs.makeDirectory(path, options)),
        readDirectory: (path, options) =>
          Effect.andThen(before("readDirectory", path), fs.readDirectory(path, options)),
        readFile: (path) => Effect.andThen(before("readFile", path), fs.readFile(path)),
        readFileString: (path, encoding) => Effect.andThen(before("readFile", path), fs.readFileString(path, encoding)),
        remove: (path, options) => Effect.andThen(before("remove", path), fs.remove(path, options)),
        rename: (from, to) => Effect.andThen(before("rename", to), fs.rename(from, to)),
        utimes: (path, atime, mtime) => Effect.andThen(before("utimes", path), fs.utimes(path, atime, mtime))
      }
    })
  ).pipe(Layer.provide(NodeFileSystem.layer), Layer.merge(NodePath.layer))

/** A failure as the system reports it. */
export const systemFailure = (code: string, call: Call): PlatformError.PlatformError =>
  PlatformError.systemError({
    _tag: "Unknown",
    module: "FileSystem",
    method: call.name,
    pathOrDescriptor: 42,
    cause: Object.assign(new Error(`${code}: it does not work, ${call.name}`), { code })
  })

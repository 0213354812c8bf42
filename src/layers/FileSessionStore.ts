/**
 * Stores sessions in the files of one directory, which any number of processes may share.
 *
 * Nobody waits for a lock of another: a session that is held is refused by name, one whose holder died is taken over,
 * and a holder that was only believed dead has written nothing that anyone reads.
 *
 * ```text
 * <directory>/<id>/header.json      the header
 * <directory>/<id>/<epoch>.jsonl    what one lease wrote, from epoch 0 on
 * <directory>/<id>/<epoch>.lock     the lease that is held: who holds it; its modification time is the last sign of life
 * <directory>/<id>/<epoch>.torn     what a writer that died left half written at the end of that segment
 * <directory>/.holders/<token>/     the lease of one live store, and the sessions that it is about to create
 * ```
 *
 * A segment has one JSON value a line. The first is `{"segment":{"version":1,"epoch":3,"previous":{"epoch":1,
 * "bytes":180,"events":5}}}`: how far the segment before it counts, in bytes of that file and in events of the whole
 * log. `{"append":{"events":2,"bytes":196}}` precedes events that were appended together and count only if all those
 * bytes are there. Every other line is an event as `Session.encodeEvent` writes it. Everything else in the directory is
 * left alone.
 *
 * What `fsync` is called for, where nothing else is said once:
 *
 * - the first session that a store creates or opens: 2 (its lease, its directory)
 * - `create`: 3 (header, the session's directory, the store's directory, which several that run at once share), and 1
 *   more with a seed
 * - `open`: 2 (the last segment of the writer before, if it wrote anything, and the session's directory)
 * - `flush`, and closing the scope: 1 for all who wait for it, and none if nothing was appended since the last
 * - `append`, `read`, `header`, `list` and `children`: none
 *
 * @since 0.1.0
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import type * as Path from "effect/Path"
import { SessionStore, StoreFailed } from "../SessionStore.ts"
import { make } from "./internal/fileStore.ts"

/**
 * - `directory`: where the sessions are; it is made if it is not there. A relative path starts from the working
 *   directory at the time the layer is built. The file system under it has to know hard links, and one store holds at
 *   most as many sessions at a time as a file may have of them (65,000 on ext4)
 * - `lease`: how long a holder that is not on this host is respected after its last sign of life: 10 seconds by
 *   default, at least a tenth of a second. Holders give one every third of it. The clocks of hosts that share a
 *   directory have to agree to well within half of it
 * - `host`: the name of this host, by which others tell whether they can look for its processes. By default the
 *   system's, which {@link layer} knows on Linux alone: elsewhere, hosts that share a directory have to be named.
 *   Containers are hosts of their own even under one name
 *
 * @category options
 * @since 0.1.0
 */
export interface Options {
  readonly directory: string
  readonly lease?: Duration.Input | undefined
  readonly host?: string | undefined
}

const leaseMillis = (lease: Duration.Input | undefined): number =>
  Math.max(100, Math.ceil(Duration.toMillis(lease ?? "10 seconds")))

/**
 * Stores sessions in the files of a directory, through the ambient file system.
 *
 * - A session is created whole, and safe from a power cut when `create` returns; a `create` that fails leaves nothing.
 * - `append` only takes the events. They reach the file with the next `flush`, or within some 10 milliseconds; more
 *   than a thousand that wait make `append` wait too. Reading through the same store shows them at once.
 * - `flush` returns when they are on the disk and the lease was still held after that. A failed write or `fsync` ends
 *   the log: every later `append` and `flush` fails `StoreFailed`.
 * - `open` goes through the log once, a bounded part at a time, and sees that every line is an event in its place. An
 *   append that its writer did not finish is copied to `<epoch>.torn`, logged as a warning, and does not count; any
 *   other damage is refused as `Corrupt` with file, line and byte. `read` does the same as it gets there, and decodes.
 * - A session whose holder is a live process on this host, this one included, fails `HeldElsewhere` without `until`;
 *   one that is held on another host fails with `until`, and is taken over after that. A holder that was killed, or
 *   whose host was started anew, is replaced at once. The replaced writer, should it still live, fails `LeaseLost`.
 * - Closing the layer writes and releases what is still open.
 * - Ids that are no session ids are `SessionNotFound`, as are symbolic links in the place of a session.
 * - `list` and `children` read headers only. `Damaged` entries come last; `children` shows one whose header does not
 *   say whose child it is to every parent.
 *
 * Fails `StoreFailed` when the directory cannot be made, or is a file. A directory that cannot be written to can be
 * read; creating and opening fail.
 *
 * @category layers
 * @since 0.1.0
 */
export const layer = (
  options: Options
): Layer.Layer<SessionStore, StoreFailed, FileSystem.FileSystem | Path.Path> =>
  Layer.effect(
    SessionStore,
    make({ directory: options.directory, host: options.host, lease: leaseMillis(options.lease) })
  )

/**
 * {@link layer} over the files of Node.js. Needs the package `@effect/platform-node`, and fails `StoreFailed` without.
 *
 * @category layers
 * @since 0.1.0
 */
export const layerNode = (options: Options): Layer.Layer<SessionStore, StoreFailed> =>
  Layer.unwrap(Effect.map(
    Effect.tryPromise({
      // on demand, so that whoever brings another file system does not have to install this one
      try: () =>
        Promise.all([
          import("@effect/platform-node/NodeFileSystem"),
          import("@effect/platform-node/NodePath"),
          import("node:os")
        ]),
      catch: (cause) => new StoreFailed({ operation: "load @effect/platform-node", what: String(cause) })
    }),
    ([fileSystem, path, os]) =>
      Layer.provide(layer({ ...options, host: options.host ?? os.hostname() }), [fileSystem.layer, path.layer])
  ))

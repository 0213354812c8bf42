/**
 * Floor (c): the file operations that the file store makes for a session, in plain node, around the bare loop.
 *
 * A session is put together in a draft directory, locked by a hard link to the lease of its store, and renamed into
 * place; what was said is written and synced once, when the turn ends. Nothing here can be taken over, read back or
 * trusted after a failed write.
 */
import type { Prompt } from "effect/ai"
import * as fs from "node:fs"
import { join } from "node:path"
import { promisify } from "node:util"

// the promises of node:fs cost more than its callbacks
const close = promisify(fs.close)
const fsync = promisify(fs.fsync)
const link = promisify(fs.link)
const mkdir = promisify(fs.mkdir)
const open = promisify<string, string, number>(fs.open)
const rename = promisify(fs.rename)
const unlink = promisify(fs.unlink)
const write = promisify<number, string, number>(fs.write)

const syncDirectory = async (path: string): Promise<void> => {
  const directory = await open(path, "r")
  await fsync(directory)
  await close(directory)
}

/** An open session. */
export interface PlainSession {
  readonly end: (messages: ReadonlyArray<Prompt.Message>) => Promise<void>
  readonly close: () => Promise<void>
}

/** A store in an empty directory. */
export const plainStore = async (directory: string) => {
  const holder = join(directory, ".holder")
  const lease = join(holder, "lease.json")
  await mkdir(holder)
  const record = await open(lease, "wx")
  await write(record, JSON.stringify({ pid: process.pid, host: "here" }))
  await fsync(record)
  await close(record)
  const root = await open(directory, "r")
  await fsync(root)
  let ids = 0

  return {
    create: async (): Promise<PlainSession> => {
      const id = `session-${ids++}`
      const draft = join(holder, id)
      const place = join(directory, id)
      await mkdir(draft)
      const header = await open(join(draft, "header.json"), "wx")
      await write(header, JSON.stringify({ version: 1, id, cwd: "/", depth: 0, createdAt: Date.now() }) + "\n")
      await fsync(header)
      await close(header)
      const log = await open(join(draft, "0.jsonl"), "wx")
      await syncDirectory(draft)
      await link(lease, join(draft, "0.lock"))
      await rename(draft, place)
      await fsync(root)
      let seq = 0
      return {
        end: async (messages) => {
          let lines = ""
          for (; seq < messages.length; seq++) {
            lines += JSON.stringify({ seq, at: Date.now(), message: messages[seq] }) + "\n"
          }
          await write(log, lines)
          await fsync(log)
        },
        close: async () => {
          await unlink(join(place, "0.lock"))
          await close(log)
        }
      }
    },
    close: async (): Promise<void> => {
      await close(root)
    }
  }
}

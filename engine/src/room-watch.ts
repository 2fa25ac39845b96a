import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { SluiceError } from '@sluice/sdk'

/** What the files of a job may take. Rows may have no end: a disk has one, and so has what a tenant may store. */
export interface StorageRoom {
  readonly bytes: number
  /** What is said of a job that needs more. */
  exceeded(): SluiceError
}

export interface RoomFolders {
  /** What the job is to leave. What lies there before it begins does not count. */
  readonly written: readonly string[]
  /** For its spill files; null: it may not spill. */
  readonly spill: string | null
}

const POLL_MS = 200
/** Looking takes at most one part in so many of the time: a table of many partitions has many files. */
const LOOKING_SHARE = 20
/** Spill files hold rows as they are, so that of rows that fit when they are written, several times the room may lie there. */
const SPILL_FACTOR = 8
/** The same of text that is read: it may be held in memory for long before any of it is written. */
const TEXT_FACTOR = 100

/** Looks at the files of a job while it runs. */
export class RoomWatch {
  readonly #room: StorageRoom
  readonly #folders: RoomFolders
  readonly #before: number

  private constructor(room: StorageRoom, folders: RoomFolders, before: number) {
    this.#room = room
    this.#folders = folders
    this.#before = before
  }

  /** To be opened before the job writes anything. */
  static async open(room: StorageRoom, folders: RoomFolders): Promise<RoomWatch> {
    return new RoomWatch(room, folders, await bytesIn(folders.written))
  }

  /** Calls `exceeded` with the room's error once the files need more than it, until it is stopped. */
  async watch(stop: AbortSignal, exceeded: (error: SluiceError) => void): Promise<void> {
    while (!stop.aborted) {
      const startedMs = performance.now()
      const error = await this.check()
      if (error !== null && !stop.aborted) return exceeded(error)
      await pause(Math.max(POLL_MS, (performance.now() - startedMs) * LOOKING_SHARE), stop)
    }
  }

  /** The room's error where no files that rows of so much text make can fit. */
  checkInput(textBytes: number): SluiceError | null {
    return textBytes > this.#room.bytes * TEXT_FACTOR ? this.#room.exceeded() : null
  }

  /** The room's error where the files need more than it. */
  async check(): Promise<SluiceError | null> {
    const { written, spill } = this.#folders
    const bytes = (await bytesIn(written)) - this.#before
    const spilled = spill === null ? 0 : await bytesIn([spill])
    return bytes + spilled / SPILL_FACTOR > this.#room.bytes ? this.#room.exceeded() : null
  }
}

async function bytesIn(folders: readonly string[]): Promise<number> {
  let bytes = 0
  for (const folder of folders) {
    const entries = await readdir(folder, { recursive: true, withFileTypes: true }).catch(() => [])
    for (const entry of entries) {
      // Files come and go meanwhile.
      if (entry.isFile()) bytes += (await stat(join(entry.parentPath, entry.name)).catch(() => null))?.size ?? 0
    }
  }
  return bytes
}

function pause(ms: number, stop: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (stop.aborted) return resolve()
    const end = () => {
      clearTimeout(timer)
      stop.removeEventListener('abort', end)
      resolve()
    }
    const timer = setTimeout(end, ms).unref()
    stop.addEventListener('abort', end)
  })
}

/**
 * One runtime per data folder.
 *
 * The lock is the kernel's (`flock`), not the presence of a file: it ends with its process, whichever way that dies, so
 * there is no stale lock to judge and no race in judging it. The file's text says who holds it, for the message only;
 * it names the start time beside the process id, because ids are used again.
 */
import { closeSync, ftruncateSync, openSync, readFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { processStartTime } from '@sluice/engine/process-table'
import { isSluiceError, SluiceError } from '@sluice/sdk'
import koffi from 'koffi'

/** The numbers are the same on Linux and macOS. */
const LOCK_EXCLUSIVE = 2
const LOCK_NON_BLOCKING = 4

export interface FolderLock {
  readonly path: string
  /** Gives the folder up. May be called again. */
  release(): void
}

export interface FolderLockHolder {
  readonly pid: number
  /** As the system tells it: equal for the same process, different for a later one with its id. */
  readonly processStart: string | null
  readonly since: string
}

let flock: ((fd: number, operation: number) => number) | undefined

/**
 * Takes the folder for this process, or throws a CONFIG error that names the process which has it. The lock file stays
 * after release: removing it would let two processes hold locks on two files of one name.
 */
export function lockFolder(folder: string, fileName = 'runtime.lock'): FolderLock {
  const path = join(folder, fileName)
  // Close-on-exec is Node's default: no child inherits the lock and outlives us with it.
  const fd = openSync(path, 'a+', 0o600)
  if (systemFlock(fd, LOCK_EXCLUSIVE | LOCK_NON_BLOCKING) !== 0) {
    closeSync(fd)
    throw heldByAnother(readHolder(path))
  }
  const holder: FolderLockHolder = {
    pid: process.pid,
    processStart: processStartTime(process.pid),
    since: new Date().toISOString(),
  }
  ftruncateSync(fd)
  writeSync(fd, `${JSON.stringify(holder)}\n`)
  let held = true
  return {
    path,
    release() {
      if (held) closeSync(fd)
      held = false
    },
  }
}

const LOOK_MS = 20
const WAIT_MS = 10_000

/**
 * Runs `work` while no other process, and nobody else in this one, has that lock of the folder. Whoever has it is waited for,
 * for as long as changing a small file could ever take; then throws as `lockFolder` does.
 */
export async function whileLocked<T>(folder: string, fileName: string, work: () => Promise<T>): Promise<T> {
  const lock = await lockWithin(folder, fileName, performance.now() + WAIT_MS)
  try {
    return await work()
  } finally {
    lock.release()
  }
}

async function lockWithin(folder: string, fileName: string, untilMs: number): Promise<FolderLock> {
  for (;;) {
    try {
      return lockFolder(folder, fileName)
    } catch (error) {
      if (!isSluiceError(error) || performance.now() > untilMs) throw error
    }
    await sleep(LOOK_MS)
  }
}

/** Who wrote the lock file last, or null where it cannot be told. */
export function readHolder(path: string): FolderLockHolder | null {
  try {
    const holder = JSON.parse(readFileSync(path, 'utf8')) as Partial<FolderLockHolder>
    if (typeof holder.pid !== 'number') return null
    return { pid: holder.pid, processStart: holder.processStart ?? null, since: String(holder.since) }
  } catch {
    return null
  }
}

function heldByAnother(holder: FolderLockHolder | null): SluiceError {
  const who = describeHolder(holder)
  return new SluiceError('CONFIG', `the data folder is in use by ${who}`, {
    code: 'data_folder_in_use',
    remedy: 'Stop that process, or start this one with another data folder.',
    details: holder === null ? {} : { pid: holder.pid },
  })
}

/** The file may still name the holder before the present one for the moment between its lock and its line. */
function describeHolder(holder: FolderLockHolder | null): string {
  if (holder === null) return 'another process'
  const same = holder.processStart === null || processStartTime(holder.pid) === holder.processStart
  if (holder.pid === process.pid && same) return `this very process (pid ${holder.pid})`
  return same ? `another process (pid ${holder.pid}, since ${holder.since})` : 'another process'
}

function systemFlock(fd: number, operation: number): number {
  // Bound at first use, so that merely importing this module loads no native code.
  flock ??= koffi.load(null).func('int flock(int fd, int operation)') as (fd: number, operation: number) => number
  return flock(fd, operation)
}

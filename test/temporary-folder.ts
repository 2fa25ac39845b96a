/**
 * Where tests keep what ends with them. In memory, where there is room: they make databases by the hundred, and a disk's
 * file system takes a tenth of all their processor time to make and remove the files.
 */
import { chmodSync, mkdtempSync, rmSync, statfsSync } from 'node:fs'

const IN_MEMORY = '/dev/shm'
const NEEDED_BYTES = 4 * 2 ** 30

export interface TemporaryFolder extends Disposable {
  /** Null: the machine's own. */
  readonly path: string | null
}

/** For this process's children: `TMPDIR` names it, unless that is set already. */
export function useTemporaryFolder(): TemporaryFolder {
  if (process.env['TMPDIR'] !== undefined || !hasRoom()) return { path: null, [Symbol.dispose]() {} }
  // Short, since paths of sockets may be no longer than 107 characters, and open to the users that servers run as.
  const path = mkdtempSync(`${IN_MEMORY}/s-`)
  chmodSync(path, 0o1777)
  process.env['TMPDIR'] = path
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }) }
}

function hasRoom(): boolean {
  try {
    const { bavail, bsize } = statfsSync(IN_MEMORY)
    return bavail * bsize >= NEEDED_BYTES
  } catch {
    return false
  }
}

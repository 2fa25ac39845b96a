/** What the system refused, as whoever is at the terminal would say it. */
import { mkdir } from 'node:fs/promises'
import { dirname } from 'node:path'

const WHY_NOT: Readonly<Record<string, string>> = {
  EACCES: 'this account may not do that there',
  EPERM: 'this account may not do that there',
  EROFS: 'nothing can be written there',
  ENOSPC: 'the disk is full',
  EDQUOT: 'this account has used up its part of the disk',
  EFBIG: 'no file may become so large there',
  EIO: 'the disk or what it stands for failed',
  EISDIR: 'it is a folder',
  ENOTDIR: 'it, or what it should lie in, is no folder',
  EEXIST: 'something else is there',
  ENOENT: 'it does not exist, and cannot be made',
  ENAMETOOLONG: 'the name is too long',
  ELOOP: 'its links lead in a circle',
  EBUSY: 'something else uses it',
  EMFILE: 'too many files are open',
  ENFILE: 'too many files are open',
}

/** Why, in words; undefined of what is no refusal of the system. */
export function reasonOf(error: unknown): string | undefined {
  const { code = '', path, syscall } = error as NodeJS.ErrnoException
  if (syscall === undefined) return undefined
  return WHY_NOT[code] ?? (path === undefined ? undefined : 'the system refuses it')
}

export function inWords(error: unknown): string {
  const { message, path } = error as NodeJS.ErrnoException
  const reason = reasonOf(error)
  if (reason === undefined) return message
  return `${path ?? 'a file'}: ${reason}`
}

/** The error with the folder that it is about: what a file that is open already refuses comes without a name. */
export function refusedIn(folder: string, error: unknown): unknown {
  const { path } = error as NodeJS.ErrnoException
  return path !== undefined || reasonOf(error) === undefined ? error : Object.assign(error as Error, { path: folder })
}

/**
 * Makes a folder for this account alone, with those above it. Where that fails, Node often says no more than that it is not
 * there: why, the system says of the first one that cannot be made.
 */
export async function makeFolder(folder: string): Promise<void> {
  try {
    await mkdir(folder, { recursive: true, mode: 0o700 })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    const above = dirname(folder)
    if (above !== folder) await makeFolder(above)
    await mkdir(folder, { mode: 0o700 })
  }
}

/** Whether who reads what is printed has gone, as `head` does when it has enough. */
export function hasLeft(error: unknown): boolean {
  const { code, cause } = error as NodeJS.ErrnoException & { readonly cause?: unknown }
  return code === 'EPIPE' || (cause !== undefined && cause !== null && hasLeft(cause))
}

/** What the system refused, as whoever is at the terminal would say it. */
import { mkdir, stat } from 'node:fs/promises'
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
  // Of a path that no system takes Node asks none.
  if (code === 'ERR_INVALID_ARG_VALUE' && /null bytes/.test((error as Error).message)) return 'no file can be called so'
  if (syscall === undefined) return undefined
  return WHY_NOT[code] ?? (path === undefined ? undefined : 'the system refuses it')
}

/** The same of what was to be read, and so is not made where it lacks. */
export function reasonUnread(error: unknown): string | undefined {
  return (error as NodeJS.ErrnoException).code === 'ENOENT' ? 'it does not exist' : reasonOf(error)
}

/** The same of a file that was to be written: no folder is made for it. */
export function reasonUnwritten(error: unknown): string | undefined {
  return (error as NodeJS.ErrnoException).code === 'ENOENT' ? 'there is no such folder' : reasonOf(error)
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
 * Makes a folder for this account alone, with those above it. Step by step: where a file system says of everything in it
 * that it is not there, as /proc does, Node's own way to make all of them never ends.
 */
export async function makeFolder(folder: string): Promise<void> {
  try {
    return await makeOne(folder)
  } catch (error) {
    const above = dirname(folder)
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT' || above === folder) throw error
    await makeFolder(above)
  }
  await makeOne(folder)
}

/** Nothing is done where it is there; a link that leads nowhere is not. */
async function makeOne(folder: string): Promise<void> {
  try {
    await mkdir(folder, { mode: 0o700 })
  } catch (error) {
    const found = (error as NodeJS.ErrnoException).code === 'EEXIST' ? await stat(folder).catch(() => null) : null
    if (found?.isDirectory() !== true) throw error
  }
}

/** Whether who reads what is printed has gone, as `head` does when it has enough. */
export function hasLeft(error: unknown): boolean {
  const { code, cause } = error as NodeJS.ErrnoException & { readonly cause?: unknown }
  return code === 'EPIPE' || (cause !== undefined && cause !== null && hasLeft(cause))
}

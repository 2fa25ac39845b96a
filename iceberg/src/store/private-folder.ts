import { chmod, mkdir, stat } from 'node:fs/promises'
import { SluiceError } from '@sluice/sdk'

const OTHERS = 0o077

/**
 * Makes the folder where it is missing, and the process's user the only one who can enter it: other accounts of the
 * machine, such as the embedded database's, may pass through the data folder above it. Throws CONFIG
 * `folder_not_private` where others still can.
 */
export async function keepPrivate(folder: string): Promise<void> {
  await mkdir(folder, { recursive: true, mode: 0o700 })
  // A file system without modes shows below whether it keeps others out by itself.
  await chmod(folder, 0o700).catch(() => undefined)
  if (((await stat(folder)).mode & OTHERS) === 0) return
  throw new SluiceError('CONFIG', `other accounts of the machine can enter ${folder}`, {
    code: 'folder_not_private',
    remedy: 'Make the folder the runtime’s own with mode 0700, on a file system that keeps modes.',
  })
}

import { constants, fchmodSync, fchownSync, fstatSync, openSync } from 'node:fs'
import type { EngineTable } from '../job.ts'
import type { ChildJob } from '../protocol.ts'

/**
 * A tenant's job names its files by descriptors that are opened before the walls go up: `/proc/self/fd/20`. So the
 * folders on the way need not be open to the child's user, no path can show in a message, and a name with wild cards
 * in it stays one file.
 */
export function lendFiles(job: ChildJob): ChildJob {
  const tables = job.tables.map(({ also, ...table }) => ({
    ...table,
    ...lent(table, job.userId),
    ...(also === undefined ? {} : { also: { ...also, ...lent(also, job.userId) } }),
  }))
  if (job.output?.kind !== 'parquet-files') return { ...job, tables }
  return { ...job, tables, output: { ...job.output, dir: lendFolder(job.output.dir, job.userId) } }
}

type Lists = Pick<EngineTable, 'files' | 'deletes' | 'only' | 'deletedFrom'>

function lent({ files, deletes, only, deletedFrom = files }: Lists, userId: number | null): Lists {
  const all = (paths: readonly string[]) => paths.map((path) => lendFile(path, userId))
  return {
    files: all(files),
    ...(deletes === undefined ? {} : { deletes: all(deletes) }),
    ...(only === undefined ? {} : { only: all(only) }),
    deletedFrom,
  }
}

const READ_BY_OTHERS = 0o004

function lendFile(path: string, userId: number | null): string {
  const descriptor = openSync(path, constants.O_RDONLY)
  const { mode } = fstatSync(descriptor)
  // The name in /proc is opened anew, under the file's own mode; the folders around it keep others out.
  if (userId !== null && (mode & READ_BY_OTHERS) === 0) {
    ifPermitted(() => fchmodSync(descriptor, (mode & 0o777) | READ_BY_OTHERS))
  }
  return `/proc/self/fd/${descriptor}`
}

function lendFolder(path: string, userId: number | null): string {
  const descriptor = openSync(path, constants.O_RDONLY | constants.O_DIRECTORY)
  if (userId !== null) ifPermitted(() => fchownSync(descriptor, userId, userId))
  return `/proc/self/fd/${descriptor}`
}

/** A root without these rights cannot become another user either, and then keeps reaching the file as itself. */
function ifPermitted(change: () => void): void {
  try {
    change()
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code !== 'EPERM' && code !== 'EINVAL' && code !== 'EROFS') throw error
  }
}

/**
 * Where tables of a sandbox lie: in folders whose names end in random digits, so that a table may be renamed, and another
 * may take its name, without either coming near the other's files.
 */
import { randomBytes } from 'node:crypto'
import { locationRefused, type ObjectStore, TableFiles, type TableRef, tablePath } from '@sluice/iceberg'
import { SluiceError } from '@sluice/sdk'
import { SANDBOX, TENANT_LAYOUT } from '../lake/tenant-layout.ts'

const NAME = /^[A-Za-z0-9_][A-Za-z0-9_-]{0,99}$/
const FOLDER = /^[A-Za-z0-9_][A-Za-z0-9_-]{0,99}-[0-9a-f]{32}$/

/** Throws INVALID_DATA `lake_name_invalid`. */
export function checkTableName(name: string): void {
  // A table of a folder's name could be taken for it.
  if (NAME.test(name) && !FOLDER.test(name)) return
  throw new SluiceError('INVALID_DATA', 'the table name cannot be used in the sandbox', {
    code: 'lake_name_invalid',
    remedy: 'Use 1 to 100 letters, digits, "_" and "-".',
  })
}

/** A folder that no table has. */
export function newFolder(store: ObjectStore, ref: TableRef): TableFiles {
  return filesIn(store, ref, `${ref.table}-${randomBytes(16).toString('hex')}`)
}

/** What a staged creation holds until its table is made: the lease of its folder. */
export interface StagedLease {
  /** Names the folder in place of the table, because neither the name nor the folder is the table's yet. */
  readonly ref: TableRef
  readonly writeId: string
}

/** Of a folder that `newFolder` gave. */
export function stagedLease(files: TableFiles): StagedLease {
  const folder = files.root.slice(files.root.lastIndexOf('/') + 1)
  const digits = folder.slice(-RANDOM_DIGITS)
  const writeId = digits.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')
  return { ref: { ...files.ref, table: folder }, writeId }
}

/** The folder that the path lies in, where a staged creation of the table could have been given it. */
export function folderForTable(store: ObjectStore, ref: TableRef, path: string): TableFiles | null {
  const parent = parentOf(store, ref)
  const folder = path.startsWith(parent) ? (path.slice(parent.length).split('/')[0] ?? '') : ''
  const isOfTable = FOLDER.test(folder) && folder.slice(0, -RANDOM_DIGITS - 1) === ref.table
  return isOfTable ? filesIn(store, ref, folder) : null
}

const RANDOM_DIGITS = 32

const parentOf = (store: ObjectStore, ref: TableRef): string =>
  filesIn(store, ref, SANDBOX).root.slice(0, -SANDBOX.length)

/** The files of a table that lie in the folder of that name. */
export function filesIn(store: ObjectStore, ref: TableRef, folder: string): TableFiles {
  return new TableFiles(store, ref, tablePath(TENANT_LAYOUT, { ...ref, table: folder }))
}

/** The folder that a staged creation was given. Throws INVALID_DATA `catalog_location_refused` for any other place. */
export function stagedFolder(store: ObjectStore, ref: TableRef, location: string): TableFiles {
  const parent = parentOf(store, ref)
  const path = store.pathOf(location.replace(/\/$/, ''))
  const folder = path?.startsWith(parent) ? path.slice(parent.length) : ''
  if (!FOLDER.test(folder)) throw locationRefused()
  return filesIn(store, ref, folder)
}

import { SluiceError } from '@sluice/sdk'
import { lakeNameRefusal } from './names.ts'

/** Names one table: of a warehouse, whose tables lie together and apart from all others', and a namespace in it. */
export interface TableRef {
  readonly warehouse: string
  readonly namespace: string
  readonly table: string
}

/** Where a catalog has its tables in the object store. Does no I/O. */
export interface Layout {
  /** Holds the warehouse and nothing else. */
  bucketOf(warehouse: string): string
  /** The warehouse's folder as a path: its bucket, and what may follow. Namespaces, and tables in them, are folders below. */
  folderOf(warehouse: string): string
  /** True where tables of the namespace can be renamed: their folders then have names that only the pointers tell. */
  canRename(namespace: string): boolean
}

/** Throws INVALID_DATA `lake_name_invalid` where a part could leave its place or not be stored. */
export function checkTableRef(ref: TableRef): void {
  checkPart(ref.warehouse, 'warehouse')
  checkPart(ref.namespace, 'namespace')
  checkPart(ref.table, 'table')
}

export function checkPart(text: string, what: string): void {
  const refusal = lakeNameRefusal(text)
  if (refusal === null) return
  throw new SluiceError('INVALID_DATA', `the ${what} name cannot be used in the lake: it ${refusal}`, {
    code: 'lake_name_invalid',
    remedy: 'Use letters, digits, "_" and "-", at most 240 bytes.',
  })
}

/** The table's own folder as a path in the object store. */
export function tablePath(layout: Layout, ref: TableRef): string {
  checkTableRef(ref)
  return `${layout.folderOf(ref.warehouse)}/${ref.namespace}/${ref.table}`
}

/** For messages: the words of those whose table it is. */
export const describeTable = (ref: TableRef): string => `${ref.namespace}.${ref.table}`

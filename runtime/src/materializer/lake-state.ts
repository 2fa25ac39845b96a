import type { EngineTable } from '@sluice/engine'
import { engineTable, type Scan, toTableSchema } from '@sluice/iceberg'
import type { Column, TableSchema } from '@sluice/sdk'

/** A column of a lake table as it is found in data files. */
export interface LakeColumn extends Column {
  readonly id: number
}

/** One committed (or staged) state of one variant's table, as much as reading it takes. */
export interface LakeState {
  readonly snapshotId: string
  /** Absolute paths of the data files on this machine. */
  readonly files: readonly string[]
  /** Position deletes, and what they call each of `files`. */
  readonly deletes?: Pick<EngineTable, 'deletes' | 'deletedFrom'>
  readonly columns: readonly LakeColumn[]
  readonly primaryKey: readonly string[]
  readonly rowCount: number
}

/** No file has a column of such an id: it reads as null. Ids of columns that a state lacks count down from it. */
export const UNKNOWN_FIELD = 2_000_000_000

const MAX_COLUMNS = 1_000_000

/**
 * Whether a column under the name of one of `before` is that one still. By the ids of `after` another one's values of
 * before could not be read; where `before` has none, they are null in any case.
 */
export function sameFields(before: LakeState, after: LakeState): boolean {
  return after.columns.every(({ name, id }) => {
    const former = before.columns.find((column) => column.name === name)?.id ?? UNKNOWN_FIELD
    return former === id || former > UNKNOWN_FIELD - MAX_COLUMNS
  })
}

export function stateSchema(state: LakeState): TableSchema {
  return {
    columns: state.columns.map(({ name, type, nullable }) => ({ name, type, nullable })),
    primaryKey: state.primaryKey,
  }
}

/** The state as a relation of an engine job, in the columns of `as` (its own, unless another state's are wanted). */
export function stateTable(name: string, state: LakeState, as: readonly LakeColumn[] = state.columns): EngineTable {
  return {
    name: [name],
    files: state.files,
    ...state.deletes,
    columns: as.map((column) => ({ name: column.name, type: column.type, fieldId: column.id })),
  }
}

/** A lake scan as a state. Null where the table has no snapshot. */
export function stateOfScan(scan: Scan): LakeState | null {
  if (scan.snapshotId === null) return null
  const { files, deletes, deletedFrom } = engineTable(scan, ['scan'])
  return {
    snapshotId: scan.snapshotId,
    files,
    ...(deletes === undefined || deletedFrom === undefined ? {} : { deletes: { deletes, deletedFrom } }),
    columns: scan.schema.fields.map(({ id, name, type, nullable }) => ({ id, name, type, nullable })),
    primaryKey: toTableSchema(scan.schema).primaryKey,
    rowCount: scan.rows,
  }
}

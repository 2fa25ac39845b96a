import type { EngineTable } from '@sluice/engine'
import type { LakeColumn, LakeState } from './lake-state.ts'

/** Rows that lie in files, and in no table yet. */
export interface StagedRows {
  /** In the scratch folder, or of the lake where the rows are an input's as they lie there. */
  readonly files: readonly string[]
  /** Of an input as it lies there: its rows that are gone, or that the product is made without. */
  readonly deletes?: NonNullable<LakeState['deletes']>
  readonly columns: readonly LakeColumn[]
  readonly primaryKey: readonly string[]
  readonly rowCount: number
  /** Values that lost something by the cast to their column's type, by column. */
  readonly lost: Readonly<Record<string, number>>
}

export function stagedTable(name: string, rows: Pick<StagedRows, 'files' | 'deletes' | 'columns'>): EngineTable {
  return {
    name: [name],
    files: rows.files,
    ...rows.deletes,
    columns: rows.columns.map((column) => ({ name: column.name, type: column.type, fieldId: column.id })),
  }
}

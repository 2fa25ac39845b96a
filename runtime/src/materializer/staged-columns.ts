import type { Column } from '@sluice/sdk'
import type { LakeColumn } from './lake-state.ts'

/** The output's columns, numbered for the scratch files only; the lake gives them ids of its own. */
export function stagedColumns(columns: readonly Column[]): readonly LakeColumn[] {
  return columns.map(({ name, type }, index) => ({ name, type, nullable: true, id: index + 1 }))
}

import type { LakeField } from './table-schema.ts'

/**
 * What is wrong with a row: a JSON array of the names of columns that hold null in place of a value, or null. It lies in data
 * files beside the columns of the table, under a field id of its own that no schema names: who reads the table by its schema
 * does not see it, and files of before have none.
 */
export const MARKS: LakeField = { id: 2_147_000_000, name: '__sluice_marks', type: 'string', nullable: true }

/** Of a snapshot whose files may have marks: the columns that they name, a JSON array. */
export const MARKED_COLUMNS = 'sluice.columns-marked'

/** Whether rows of that snapshot are to keep their marks when they are written anew. */
export function hasMarks(summary: Readonly<Record<string, string>>): boolean {
  return summary[MARKED_COLUMNS] !== undefined
}

/** The fields that files of the table have. */
export function fileFields(fields: readonly LakeField[], marks: boolean | undefined): readonly LakeField[] {
  return marks === true ? [...fields, MARKS] : fields
}

/** Columns of a version whose source was given a class after they had been made: they are hidden by that class, too. */
import { type ClassifiedColumn, isSensitive, type MaskingRules } from './masking.ts'

/**
 * Each column with the classes that hide it: once for each of them, or once as it is where none does.
 * @param raised those of the same version
 */
export function withRaised<Raisable extends ClassifiedColumn>(
  columns: readonly Raisable[],
  raised: readonly { readonly column: string; readonly classification: string }[] = [],
  rules: MaskingRules,
): readonly Raisable[] {
  if (raised.length === 0) return columns
  return columns.flatMap((column) => {
    const more = raised.filter((one) => one.column === column.name && one.classification !== column.classification)
    const hiding = more.map(({ classification }) => ({ ...column, classification }))
    return hiding.length === 0 || isSensitive(column.classification, rules) ? [column, ...hiding] : hiding
  })
}

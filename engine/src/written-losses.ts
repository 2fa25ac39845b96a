/** How many values lost something when files were written, as the engine tells it with the files. */
import type { EngineColumn, WrittenFile } from './job.ts'

/** Beside the column of that field id. No column of a table begins so. */
export function lossColumn(fieldId: number): string {
  return `__lost_${fieldId}`
}

/** By column: rows whose value lost something in the cast of a `parquet-files` output with `countsLosses`. */
export function lostValues(
  files: readonly WrittenFile[],
  columns: readonly EngineColumn[],
): Readonly<Record<string, number>> {
  const counted = columns.map(({ name, fieldId }): [string, number] => {
    const nulls = files.map((file) => Number(file.columnStatistics[`"${lossColumn(fieldId)}"`]?.['null_count'] ?? 0))
    return [name, nulls.reduce((sum, count) => sum + count, 0)]
  })
  return Object.fromEntries(counted.filter(([, count]) => count > 0))
}

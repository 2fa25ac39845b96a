/** Real Parquet files for stores that read the lake, and the engine that the runtime would give them. */
import type { LakeEngine, LakeSnapshot, Row, Target } from '@sluice/sdk'

/** Made only where a plugin's commit class is `lake`: it needs the optional package @duckdb/node-api. */
export interface LakeWorkshop {
  readonly engine: LakeEngine
  /** Writes the whole content of a dataset as one snapshot. */
  write(target: Target, rows: readonly Row[]): Promise<LakeSnapshot>
  close(): Promise<void>
}

/**
 * Throws a plain Error where the package is not installed.
 *
 * @param listsDeletes for a store that says `lakeDeletes`: each file has rows that are gone, too, and a list of them
 */
export async function openLakeWorkshop(listsDeletes = false): Promise<LakeWorkshop> {
  const { DuckDbWorkshop } = await import('./lake-duckdb.ts')
  return DuckDbWorkshop.open(listsDeletes)
}

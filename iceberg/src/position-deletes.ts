import { randomUUID } from 'node:crypto'
import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { type EngineStep, quoteText, type StepResult } from '@sluice/engine'
import type { DataFile } from './format/data-file.ts'
import type { LakeSchema } from './format/table-schema.ts'
import type { Scan, ScanFile } from './scan.ts'
import type { TableFiles } from './table-files.ts'

/** The columns of a file of position deletes, by the ids that Iceberg reserves for them. */
export const POSITIONS: LakeSchema = {
  schemaId: 0,
  fields: [
    { id: 2_147_483_546, name: 'file_path', type: 'string', nullable: false },
    { id: 2_147_483_545, name: 'pos', type: 'long', nullable: false },
  ],
  identifierFieldIds: [],
}
const FILE_PATH_ID = 2_147_483_546

/** A data file of which some rows go, and the file that is to say so: all that went before, too. */
export interface MarkedFile {
  readonly file: ScanFile
  readonly localFile: string
}

/**
 * The file of position deletes of each data file that has one, by the data file's address. Null where it cannot be told, or a
 * data file has several: other engines write such.
 */
export function deletesByFile({ files, deletes }: Scan): ReadonlyMap<string, ScanFile> | null {
  const known = new Set(files.map(({ uri }) => uri))
  const found = new Map<string, ScanFile>()
  for (const one of deletes) {
    const uri = soleFile(one.file)
    if (uri === null || !known.has(uri) || found.has(uri)) return null
    found.set(uri, one)
  }
  return found
}

/** The delete files that concern those data files, as far as that can be told; else all. */
export function deletesOf(scan: Scan, files: readonly ScanFile[]): readonly ScanFile[] {
  const known = deletesByFile(scan)
  return known === null ? scan.deletes : files.flatMap(({ uri }) => known.get(uri) ?? [])
}

/** Bounds that are no more than the beginning of an address differ, because the upper one is stepped up. */
function soleFile({ lowerBounds, upperBounds }: DataFile): string | null {
  const [lower, upper] = [lowerBounds.get(FILE_PATH_ID), upperBounds.get(FILE_PATH_ID)]
  if (lower === undefined || upper === undefined || Buffer.compare(lower, upper) !== 0) return null
  return Buffer.from(lower).toString('utf8')
}

/** Writes the positions of one data file in the order that Iceberg asks for, and collects how many they are. */
export function positionsStep({ file, localFile }: MarkedFile, sources: readonly string[]): EngineStep {
  const rows = `SELECT DISTINCT file_path, pos FROM read_parquet([${sources.map(quoteText).join(', ')}])
    WHERE file_path = ${quoteText(file.uri)} ORDER BY pos`
  const ids = POSITIONS.fields.map(({ id, name }) => `${name}: ${id}`).join(', ')
  const sql = `COPY (${rows}) TO ${quoteText(localFile)} (FORMAT parquet, COMPRESSION zstd, FIELD_IDS {${ids}})`
  return { sql, rows: 'collect' }
}

export const newMarkedFile = (file: ScanFile, dir: string): MarkedFile => ({
  file,
  localFile: join(dir, `${randomUUID()}-deletes.parquet`),
})

/** Takes the written files into the object store. @param results of their steps */
export async function adoptPositions(
  files: TableFiles,
  marked: readonly MarkedFile[],
  results: readonly StepResult[],
): Promise<readonly DataFile[]> {
  const adopted: DataFile[] = []
  for (const [at, { file, localFile }] of marked.entries()) {
    const uri = files.dataUri(`${randomUUID()}-deletes.parquet`)
    const sizeBytes = (await stat(localFile)).size
    await files.store.adopt(localFile, files.pathOf(uri), { sizeBytes })
    const bounds = new Map([[FILE_PATH_ID, Buffer.from(file.uri, 'utf8')]])
    const rows = Number(results[at]?.rows[0]?.[0])
    if (!(rows > 0)) throw new Error('the engine wrote no positions')
    adopted.push({
      content: 'deletes',
      uri,
      rows,
      sizeBytes,
      specId: file.file.specId,
      partition: file.file.partition,
      columnSizes: new Map(),
      valueCounts: new Map(),
      nullCounts: new Map(),
      nanCounts: new Map(),
      lowerBounds: bounds,
      upperBounds: bounds,
      sortOrderId: null,
    })
  }
  return adopted
}

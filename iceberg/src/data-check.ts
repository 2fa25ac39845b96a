import { type EngineLimits, quoteName } from '@sluice/engine'
import { isSluiceError } from '@sluice/sdk'
import { POSITIONS } from './position-deletes.ts'
import { engineTable, type Scan, type ScanFile } from './scan.ts'
import type { JobRunner } from './write.ts'

const FILES_AT_ONCE = 50
const LIMITS: EngineLimits = { memoryBytes: 512 * 1024 * 1024, timeoutMs: 120_000, threads: 2 }

/**
 * The addresses of files, of rows and of deletes, that cannot be decoded, or hold another number of rows than their manifest says. Throws
 * TRANSIENT where the engine has no time for it.
 */
export async function unreadableFiles(engine: JobRunner, scan: Scan, signal: AbortSignal): Promise<readonly string[]> {
  const bad: string[] = []
  const files = [...scan.files, ...scan.deletes]
  for (let start = 0; start < files.length; start += FILES_AT_ONCE) {
    const some = files.slice(start, start + FILES_AT_ONCE)
    if (await areReadable(engine, scan, some, signal)) continue
    for (const file of some) if (!(await areReadable(engine, scan, [file], signal))) bad.push(file.uri)
  }
  return bad
}

async function areReadable(
  engine: JobRunner,
  scan: Scan,
  files: readonly ScanFile[],
  signal: AbortSignal,
): Promise<boolean> {
  const schemaOf = ({ file }: ScanFile) => (file.content === 'data' ? scan.schema : POSITIONS)
  const tables = files.map((file, at) =>
    engineTable({ ...scan, files: [file], deletes: [] }, [`f${at}`], schemaOf(file)),
  )
  // A hash of the whole row makes the engine decode every column, which counting alone would not.
  const counts = files.map((file, at) => {
    const columns = schemaOf(file).fields.map(({ name }) => quoteName(name))
    return `SELECT count(*), CAST(bit_xor(hash(${columns.join(', ')})) AS VARCHAR) FROM f${at}`
  })
  const steps = counts.map((sql) => ({ sql, rows: 'collect' as const }))
  try {
    const { results } = await engine.run({ trust: 'own', tables, steps, limits: LIMITS }, signal)
    return results.every((result, at) => Number(result.rows[0]?.[0]) === files[at]?.rows)
  } catch (error) {
    if (!isSluiceError(error) || error.code === 'query_cancelled' || error.code === 'engine_busy') throw error
    return false
  }
}

/** What inspections have told of texts, and shapes of statements: it hangs on the text and on the names and types of columns, and on no row. */
import { createHash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { EngineJob, EngineRun } from './job.ts'
import { isInspection, noBytes } from './job-run.ts'
import { toWire } from './protocol.ts'

/** Of all that is kept, as JSON. */
const MAX_CHARS = 16 * 1024 * 1024
/** Of one; wide tables through deep texts tell much, and are rare. */
const MAX_ENTRY_CHARS = 1024 * 1024

type Told = Pick<EngineRun, 'columns' | 'lineage' | 'textColumns' | 'isRowWise' | 'parts' | 'parameterTypes'>

export class Inspections {
  readonly #known = new LRUCache<string, string>({
    maxSize: MAX_CHARS,
    maxEntrySize: MAX_ENTRY_CHARS,
    sizeCalculation: (told, key) => told.length + key.length,
  })

  get(key: string): EngineRun | null {
    const told = this.#known.get(key)
    return told === undefined ? null : runOf(JSON.parse(told) as Told)
  }

  keep(key: string, { columns, lineage, textColumns, isRowWise, parts, parameterTypes }: EngineRun): void {
    this.#known.set(key, JSON.stringify({ columns, lineage, textColumns, isRowWise, parts, parameterTypes }))
  }
}

/** Inspections for which it is equal tell the same; null of a job that does anything else. */
export function inspectionKey({ tenant, trust, tables = [], steps, csvInput, output }: EngineJob): string | null {
  if (trust !== 'tenant' || steps !== undefined || csvInput !== undefined) return null
  if (output === undefined || !(isInspection(output) || output.kind === 'shape')) return null
  const shapes = tables.map(({ name, columns }) => [name, columns])
  const { parameters = [], ...asked } = output
  return createHash('sha256')
    .update(JSON.stringify([tenant ?? null, shapes, asked, parameters.map(toWire)]))
    .digest('base64')
}

function runOf(told: Told): EngineRun {
  const finished = Promise.resolve({ rows: 0, bytes: 0, truncated: false })
  return { ...told, results: [], files: [], output: noBytes(), finished }
}

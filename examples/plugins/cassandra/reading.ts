import { createHash } from 'node:crypto'
import {
  answerFromRows,
  batchFromRows,
  checkPosition,
  checkReadPlan,
  type Digest,
  notMaterialized,
  projectRow,
  type ReadBatch,
  type ReadPlan,
  type Row,
  SluiceError,
  type Target,
  totalOrder,
  typeName,
  type Value,
} from '@sluice/sdk'
import { capabilities } from './capabilities.ts'
import { keyText, rowFrom } from './cells.ts'
import type { Cluster, Found } from './cluster.ts'
import { type Dataset, datasetOf, PARTS } from './datasets.ts'
import type { Config } from './index.ts'
import { partOf } from './parts.ts'

const ATTEMPTS = 5

/** The page at one epoch. A write that came by may have cleaned up under the read, which then begins again. */
export async function readPage(cluster: Cluster, target: Target<Config>, plan: ReadPlan): Promise<ReadBatch> {
  checkReadPlan(plan, capabilities)
  checkAborted(plan.signal)
  // The driver would take 0 for no end at all.
  if (plan.timeoutMs <= 0)
    throw new SluiceError('TRANSIENT', 'the read has no time left', { code: 'deadline_exceeded' })
  for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
    const dataset = await datasetOf(cluster, target)
    if (dataset.applied === null) throw notMaterialized()
    const order = totalOrder(plan, dataset.schema)
    if (plan.after) checkPosition(plan.after, order)
    const { rows, next } = await bestRows(cluster, dataset, plan)
    const later = await datasetOf(cluster, target)
    if (String(later.generation) !== String(dataset.generation)) continue
    const page = rows.map((row) => projectRow(row, dataset.schema, plan.columns))
    const { epoch } = dataset.applied
    return { ...batchFromRows(page, plan.columns.length), epoch, ...(next ? { next } : {}) }
  }
  throw new SluiceError('TRANSIENT', 'the dataset keeps being written anew', {
    code: 'store_busy',
    remedy: 'Try again.',
  })
}

/** Holds no more than the page and one page of candidates at a time. */
async function bestRows(cluster: Cluster, dataset: Dataset, plan: ReadPlan) {
  const { schema } = dataset
  let best: readonly Row[] = []
  // Without a policy there are no rows, whatever was written.
  if (dataset.policy !== null) {
    for await (const rows of candidates(cluster, dataset, plan)) {
      checkAborted(plan.signal)
      best = answerFromRows({ ...plan, limit: plan.limit + 1 }, schema, [...best, ...rows]).rows
    }
  }
  return answerFromRows(plan, schema, best)
}

/** One row where the filters name the whole key, else all of them. */
function candidates(cluster: Cluster, dataset: Dataset, plan: ReadPlan): AsyncGenerator<readonly Row[]> {
  const key = keyOf(dataset, plan)
  return key === null ? everyRow(cluster, dataset, plan) : oneRow(cluster, dataset, key, plan.timeoutMs)
}

function keyOf({ schema }: Dataset, { filters }: ReadPlan): readonly Value[] | null {
  const named = schema.primaryKey.map((name) => filters.find((one) => one.column === name && one.operator === 'eq'))
  if (named.length === 0 || named.includes(undefined)) return null
  // Numbers that are equal may be written differently: 9.5 and 9.50, 0 and −0.
  const types = schema.primaryKey.map((name) => schema.columns.find((column) => column.name === name)?.type ?? 'string')
  if (types.some((type) => ['decimal', 'float', 'double'].includes(typeName(type)))) return null
  return named.map((filter) => filter?.values[0] ?? null)
}

const VERSIONS = 'SELECT key, epoch, attempt, cells FROM rows WHERE dataset = ? AND generation = ? AND part = ?'

async function* oneRow(
  cluster: Cluster,
  dataset: Dataset,
  key: readonly Value[],
  timeoutMs: number,
): AsyncGenerator<readonly Row[]> {
  const text = keyText(key)
  const place = [dataset.id, dataset.generation, partOf(text, PARTS), text]
  yield visible(dataset, await cluster.all(`${VERSIONS} AND key = ?`, place, timeoutMs), new Set())
}

interface Bounds {
  readonly timeoutMs: number
  readonly signal: AbortSignal
}

async function* everyRow(
  cluster: Cluster,
  dataset: Dataset,
  { timeoutMs, signal }: Bounds,
): AsyncGenerator<readonly Row[]> {
  for (let part = 0; part < PARTS; part += 1) {
    // Versions of a key follow one another, but a page may end between them.
    let seen = new Set<string>()
    for await (const page of cluster.pages(VERSIONS, [dataset.id, dataset.generation, part], timeoutMs)) {
      checkAborted(signal)
      yield visible(dataset, page, seen)
      const last = String(page.at(-1)?.['key'])
      seen = new Set(seen.has(last) ? [last] : [])
    }
  }
}

/** The newest version of each key that a committed attempt has written; versions come newest first. */
function visible({ schema, attempts }: Dataset, versions: readonly Found[], seen: Set<string>): readonly Row[] {
  const rows: Row[] = []
  for (const { key, epoch, attempt, cells } of versions) {
    if (seen.has(String(key)) || attempts.get(epoch as bigint) !== String(attempt)) continue
    seen.add(String(key))
    if (cells !== null) rows.push(rowFrom(String(cells), schema))
  }
  return rows
}

/** The sum of the rows' hashes: equal for equal content, in whatever order it is met, in bounded memory. */
export async function digestOf(cluster: Cluster, target: Target<Config>, signal: AbortSignal): Promise<Digest> {
  checkAborted(signal)
  const dataset = await datasetOf(cluster, target)
  if (dataset.applied === null) throw notMaterialized()
  let rowCount = 0
  let sum = 0n
  for await (const rows of everyRow(cluster, dataset, { timeoutMs: 60_000, signal })) {
    for (const row of rows) {
      sum = BigInt.asUintN(256, sum + BigInt(`0x${createHash('sha256').update(keyText(row)).digest('hex')}`))
      rowCount += 1
    }
  }
  return { rowCount, sha256: sum.toString(16).padStart(64, '0') }
}

export function checkAborted(signal: AbortSignal): void {
  if (signal.aborted) throw new SluiceError('TRANSIENT', 'the call was ended by its caller', { code: 'aborted' })
}

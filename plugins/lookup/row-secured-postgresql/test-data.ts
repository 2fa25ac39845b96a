/** Hosts, change sets and plans for tests of the stores on row-secured tables. */
import { randomBytes } from 'node:crypto'
import {
  type ChangeSet,
  type Commit,
  type Host,
  isJsonBatch,
  type ReadBatch,
  type ReadPlan,
  type Row,
  type ServingStore,
  type TableSchema,
  type Target,
  type Value,
} from '@sluice/sdk'

/** `onFault` is called at each fault point and may throw or never return. */
export function testHost(onFault: (name: string) => void | Promise<void> = () => {}): Host {
  const quiet = () => {}
  return {
    clock: {
      nowMs: () => performance.now(),
      every: (everyMs, run) => {
        const timer = setInterval(run, everyMs)
        return () => clearInterval(timer)
      },
    },
    logger: { debug: quiet, info: quiet, warn: quiet, error: quiet },
    metrics: { count: quiet, observe: quiet },
    randomBytes: (count) => randomBytes(count),
    faultPoint: async (name) => await onFault(name),
    stateDirectory: '',
  }
}

export function changeSet(
  schema: TableSchema,
  mode: 'full' | 'delta',
  upserts: readonly Row[],
  deletes: readonly Row[] = [],
): ChangeSet {
  const csv = async function* (rows: readonly Row[], picked: readonly number[]): AsyncGenerator<Uint8Array> {
    for (let at = 0; at < rows.length; at += 1000) {
      const lines = rows.slice(at, at + 1000).map((row) => picked.map((index) => csvCell(row[index] ?? null)).join(','))
      yield Buffer.from(`${lines.join('\n')}\n`)
    }
  }
  const none = async function* () {}
  return {
    mode,
    schema,
    upsertCount: upserts.length,
    deleteCount: deletes.length,
    upserts: none,
    deletes: none,
    upsertsCsv: (columns) =>
      csv(
        upserts,
        columns.map((name) => schema.columns.findIndex((column) => column.name === name)),
      ),
    deletesCsv: () =>
      csv(
        deletes,
        schema.primaryKey.map((_, index) => index),
      ),
    upsertsKeyed: none,
    lake: { snapshotId: '1', files: [], fieldIds: {} },
  }
}

function csvCell(value: Value): string {
  if (value === null) return ''
  const text =
    value instanceof Uint8Array
      ? `\\x${Buffer.from(value).toString('hex')}`
      : typeof value === 'boolean'
        ? value
          ? 't'
          : 'f'
        : String(value)
  return `"${text.replaceAll('"', '""')}"`
}

export function commitOf(epoch: number, previousEpoch: number | null, more: Partial<Commit> = {}): Commit {
  const committedAt = `2026-03-01T00:00:${String(epoch % 60).padStart(2, '0')}.000000Z`
  return { epoch, previousEpoch, fence: 1n, committedAt, signal: new AbortController().signal, ...more }
}

/** Provisions the target and installs its policy: without one it shows no rows. */
export async function provide<Config>(store: ServingStore<Config>, target: Target<Config>): Promise<void> {
  await store.provision(target, 'apply')
  await store.rls.install(target, { version: '1', tenantIsolation: 'forced' })
}

/** A plan of every column for a reader who sees everything. */
export function planOf<Config>(target: Target<Config>, more: Partial<ReadPlan> = {}): ReadPlan {
  const columns = target.schema.columns.map((column) => column.name)
  return {
    operation: 'get',
    columns,
    filters: [],
    orderBy: [],
    limit: 100,
    policy: { version: '1', rows: { op: 'all' }, claims: {}, visibleColumns: columns, maskedColumns: [] },
    timeoutMs: 10_000,
    signal: new AbortController().signal,
    encoding: 'json',
    ...more,
  }
}

export async function readAll<Config>(
  store: ServingStore<Config>,
  target: Target<Config>,
  plan: ReadPlan,
): Promise<ReadBatch> {
  const batches = await Array.fromAsync(store.read(target, plan))
  const [batch] = batches
  if (!batch || batches.length !== 1) throw new Error(`expected one batch, got ${batches.length}`)
  return batch
}

/** The rows of a JSON answer. */
export async function rowsRead<Config>(
  store: ServingStore<Config>,
  target: Target<Config>,
  plan: ReadPlan,
): Promise<readonly Record<string, unknown>[]> {
  const batch = await readAll(store, target, plan)
  if (!isJsonBatch(batch)) throw new Error('expected JSON')
  return JSON.parse(batch.json)
}

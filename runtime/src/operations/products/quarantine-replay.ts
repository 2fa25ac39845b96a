/** Rows of a connection that were put aside: tried again by a run, or given up. */
import { SluiceError } from '@sluice/sdk'
import { inTransaction } from '../../database/pools.ts'
import type { TenantCall } from '../../flow.ts'
import { PUSH_TYPE } from '../../ingestion/push/settings.ts'
import type { ReplayInput } from '../../ingestion/replay/replay-input.ts'
import { replayUnsupported } from '../../ingestion/replay/unsupported.ts'
import { isReadByLog, type SourceTable, tablesOf } from '../../ingestion/source-tables.ts'
import { actorOf } from '../../registry/actor.ts'
import type { Connection } from '../../registry/connections.ts'
import { type RowChoice, removeQuarantined, tablesOfRows } from '../../registry/quarantine-replay.ts'
import { enqueueRun, queuedRunLike, type Run } from '../../registry/runs.ts'
import { audited } from '../audit.ts'
import { connectionOf } from '../connections/connections.ts'
import { rawTableForbidden } from '../connections/quarantine.ts'
import type { Keep } from '../keep.ts'
import { requireDeveloper } from '../permissions.ts'
import { mayReadRaw, rawReader } from '../rights/raw-rights.ts'
import type { ProductsDeps } from './deps.ts'
import { ingestedTables } from './ingested-tables.ts'
import { readersOf } from './input-reads.ts'

export interface WantedReplay extends RowChoice {
  /** `schema.table`; null: every table that has rows to try again. */
  readonly table: string | null
}

/**
 * Queues a run that tries them again; one that waits for the same is answered again. Rows are named by who may read their table.
 *
 * Throws INVALID_DATA `replay_unsupported` of a named table, or one of named rows, that cannot be replayed, `table_not_ingested` of a
 * table that no product reads, or none that the caller knows of, and `quarantined_row_not_found`.
 */
export async function replayQuarantine(
  platform: ProductsDeps,
  call: TenantCall,
  reference: string,
  { table, ids, limit }: WantedReplay,
  keep: Keep<Run>,
): Promise<Run> {
  requireDeveloper(call.principal)
  const connection = await connectionOf(platform, call.tenant, reference)
  if (connection.connectorType === PUSH_TYPE) throw nothingPutAside(connection)
  if (table !== null && !(await ingestedTables(platform, call, connection)).known.has(table)) throw notIngested(table)
  const ofRows = ids === null ? null : await tablesNamed(platform, call, connection, { ids, table })
  const tables = table === null ? ofRows : [table]
  if (tables !== null) await requireReplayable(platform, connection, tables)
  const input: ReplayInput & Readonly<Record<string, unknown>> = { replay: { tables, ids, limit } }
  return inTransaction(platform.pool, async (tx) => {
    const target = { tenant: call.tenant, kind: 'ingestion', connectionId: connection.id, input } as const
    const run =
      (await queuedRunLike(tx, target)) ??
      (await enqueueRun(tx, { ...target, trigger: 'manual', createdBy: actorOf(call.principal) }))
    const about = { run: run.id, ...(tables === null ? {} : { tables }) }
    await audited(tx, call, call.tenant, 'connection.replay', { type: 'connection', id: connection.id }, about)
    await keep(tx, run)
    return run
  })
}

/**
 * Rows and values of a table that its source is not expected to mend. How many there were; null: all of the table. Throws
 * PERMISSION `raw_table_forbidden` and INVALID_DATA `quarantined_row_not_found`.
 */
export async function discardQuarantine(
  platform: ProductsDeps,
  call: TenantCall,
  reference: string,
  { table, ids }: { readonly table: string; readonly ids: readonly string[] | null },
): Promise<number> {
  requireDeveloper(call.principal)
  const connection = await connectionOf(platform, call.tenant, reference)
  if (!(await mayReadRaw(platform, call, connection, table))) throw rawTableForbidden(table)
  if (ids !== null) await tablesNamed(platform, call, connection, { ids, table })
  return inTransaction(platform.pool, async (tx) => {
    const place = { tenant: call.tenant, connectionId: connection.id, table }
    const rows = await removeQuarantined(tx, place, ids)
    const about = { table, rows }
    await audited(
      tx,
      call,
      call.tenant,
      'connection.quarantine.discard',
      { type: 'connection', id: connection.id },
      about,
    )
    return rows
  })
}

/** A row that the caller may not read is as one that is not there. */
async function tablesNamed(
  platform: ProductsDeps,
  { principal, tenant }: TenantCall,
  { id }: Connection,
  { ids, table }: { readonly ids: readonly string[]; readonly table: string | null },
): Promise<readonly string[]> {
  const { tables, unknown } = await tablesOfRows(platform.pool, id, ids)
  const mayRead = rawReader(platform, principal, tenant)
  const rights = await Promise.all(tables.map((name) => mayRead(id, name)))
  const isOther = table !== null && tables.some((name) => name !== table)
  if (unknown.length > 0 || isOther || rights.includes(false)) throw noSuchRow()
  return tables
}

async function requireReplayable(
  platform: ProductsDeps,
  connection: Connection,
  tables: readonly string[],
): Promise<void> {
  const products = await readersOf(platform.pool, connection)
  const inputs = products.flatMap(({ manifests }) => manifests.inputs)
  const read = tablesOf(inputs.filter((input) => input.connection === connection.name))
  for (const name of tables) {
    const table = read.find((one) => one.name === name)
    if (table === undefined) throw notIngested(name)
    if (isReadByLog(table)) throw replayUnsupported(name, 'log')
    const whole = wholeBy(table)
    if (whole !== undefined) throw replayUnsupported(name, 'whole', `the input "${whole}" asks for it`)
  }
}

const wholeBy = ({ inputs }: SourceTable): string | undefined => inputs.find(({ mode }) => mode === 'full')?.name

function nothingPutAside({ name }: Connection): SluiceError {
  return new SluiceError(
    'INVALID_DATA',
    `rows are pushed to ${name}: they are taken or refused, and none is put aside`,
    {
      code: 'replay_unsupported',
      remedy: 'Push the rows once more, corrected.',
    },
  )
}

function notIngested(table: string): SluiceError {
  return new SluiceError('INVALID_DATA', `no deployed product reads ${table}`, {
    code: 'table_not_ingested',
    remedy: 'Name a table, as schema.table, that a deployed product reads from the connection.',
  })
}

function noSuchRow(): SluiceError {
  return new SluiceError('INVALID_DATA', 'the quarantine has no such row, or no more', {
    code: 'quarantined_row_not_found',
    remedy: 'List the quarantine again: rows leave it when they are read again, tried again, discarded or too old.',
  })
}

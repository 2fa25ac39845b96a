/**
 * Rows of one table that were put aside, tried again: judged by the columns of today, merged where none is newer, and gone from
 * the quarantine in the transaction that moves the table's pointer. So whatever dies, a row is in one of the two, and in one alone.
 */
import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { engineTable, hasMarks, MARKS, type Scan, type StagedCommit, type TableState } from '@sluice/iceberg'
import type { Column, Connector, DiscoveredTable, TableSchema } from '@sluice/sdk'
import { inTransaction } from '../../database/pools.ts'
import { registryCatalog } from '../../lake/registry-catalog.ts'
import { newTenantScratch } from '../../lake/tenant-layout.ts'
import { rawTable } from '../../materializer/inputs.ts'
import { faultsSummary, ROWS_REJECTED } from '../../materializer/raw-summary.ts'
import { checkSource, isOfSource } from '../../registry/connections.ts'
import { fenced } from '../../registry/fences.ts'
import {
  type RowChoice,
  removeQuarantined,
  replayableRows,
  type StillRefused,
  saveReasons,
} from '../../registry/quarantine-replay.ts'
import { checkRun } from '../../registry/run-claims.ts'
import { saveTableProgress } from '../../registry/run-progress.ts'
import type { IngestionDeps, IngestionRun } from '../ingestion-run.ts'
import { readKeys } from '../load-source.ts'
import { asRaw, keepsTypes, takesIncrements, unlikeKeys } from '../load-table.ts'
import type { TableRead } from '../read-table.ts'
import { type ReadMode, readMode, type SourceTable } from '../source-tables.ts'
import { chosen } from '../table-progress.ts'
import { type JudgedRows, judgeRows } from './judged-rows.ts'
import { replayUnsupported } from './unsupported.ts'
import { appliedSql, BASE, KEYS, VERDICTS, type Verdict, type VerdictRequest, verdictSteps } from './verdicts.ts'

export interface ReplayRequest {
  readonly run: IngestionRun
  readonly table: SourceTable
  readonly description: DiscoveredTable
  readonly connector: Connector
  readonly choice: RowChoice
}

/** `read` is the sum of the others. */
export interface Replayed {
  readonly read: number
  readonly applied: number
  /** Taken from the quarantine and not applied: the table has a newer row of the key, or the source none. */
  readonly superseded: number
  readonly refused: number
}

/**
 * Throws INVALID_DATA `replay_unsupported` of a table of which nobody could say which row is newer, and as `Lake.merge` does.
 * FENCED where somebody has given up some of the rows meanwhile: nothing has changed then.
 */
export async function replayTable(request: ReplayRequest, deps: IngestionDeps): Promise<Replayed> {
  const { run, table, choice } = request
  const { connection, signal } = run
  const target = await targetOf(request, deps)
  const place = { tenant: connection.tenant, connectionId: connection.id, table: table.name }
  const rows = await replayableRows(deps.pool, deps.masters, place, choice)
  const judged = await judgeRows(rows, target.schema, signal)
  await deps.faultPoint('replay.judged')
  const isOpen = judged.rows.some(({ isChosen }) => isChosen)
  const merged = isOpen ? await merge(request, target, judged, deps) : NOTHING
  await deps.faultPoint('replay.applied')
  const refused = [...judged.refused, ...merged.refused]
  const gone = [...merged.applied, ...merged.superseded]
  const read = rows.filter(({ isChosen }) => isChosen).length
  if (gone.length + refused.length !== read) throw new Error('a row of a quarantine has got lost')
  const replayed = {
    read,
    applied: merged.applied.length,
    superseded: merged.superseded.length,
    refused: refused.length,
  }
  await inTransaction(
    deps.pool,
    async (tx) => {
      await checkRun(tx, run.lease)
      await checkSource(tx, connection)
      await deps.lake.publish(registryCatalog(tx), merged.commit === null ? [] : [merged.commit])
      if ((await removeQuarantined(tx, place, gone)) !== gone.length) throw fenced()
      if ((await saveReasons(tx, place, refused)) !== refused.length) throw fenced()
      await saveTableProgress(tx, run.lease, {
        ...chosen(table, target.mode),
        state: 'succeeded',
        rowsRead: replayed.read,
        rowsWritten: replayed.applied,
        rowsRejected: replayed.refused,
        rowsRemoved: null,
        rowsSuperseded: replayed.superseded,
        bytes: 0,
        error: null,
      })
      await deps.faultPoint('replay.before-commit')
    },
    { signal },
  )
  await deps.faultPoint('replay.committed')
  return replayed
}

interface Target {
  readonly mode: ReadMode & { readonly cursorColumn: string }
  readonly base: TableState
  readonly scan: Scan
  /** The columns of the source today. */
  readonly schema: TableSchema
}

async function targetOf({ run, table, description }: ReplayRequest, deps: IngestionDeps): Promise<Target> {
  const { connection, signal } = run
  const mode = readMode(table, description)
  const { cursorColumn, primaryKey } = mode
  if (mode.mode !== 'incremental' || cursorColumn === null) throw replayUnsupported(table.name, 'whole', mode.reason)
  const ref = rawTable(connection.tenant, connection.name, table.name)
  const base = await deps.lake.load(ref, { signal })
  if (base === null || !takesIncrements(base, primaryKey)) throw replayUnsupported(table.name, 'unread')
  const scan = await deps.lake.scan(base, {}, signal)
  if (!isOfSource(scan.summary, connection)) throw replayUnsupported(table.name, 'unread')
  const schema = { columns: description.columns.map(asRaw(primaryKey)), primaryKey }
  // What is compared is to be of one type in both.
  const compared = [...primaryKey, cursorColumn]
  const isComparable = (name: string) =>
    schema.columns.some((column) => column.name === name && isAsBefore(base)(column))
  if (!compared.every(isComparable)) throw replayUnsupported(table.name, 'retyped')
  return { mode: { ...mode, cursorColumn }, base, scan, schema }
}

const isAsBefore =
  ({ schema }: TableState) =>
  ({ name, type }: Column): boolean =>
    schema.fields.some((field) => field.name === name && field.type === type)

interface Merged {
  readonly commit: StagedCommit | null
  readonly applied: readonly string[]
  readonly superseded: readonly string[]
  readonly refused: readonly StillRefused[]
}

const NOTHING: Merged = { commit: null, applied: [], superseded: [], refused: [] }

async function merge(
  { run, table, connector }: ReplayRequest,
  target: Target,
  judged: JudgedRows,
  deps: IngestionDeps,
): Promise<Merged> {
  const { signal } = run
  const { mode, base, scan, schema } = target
  const dir = await newTenantScratch(deps.scratchDirectory, run.connection.tenant, 'replay-')
  const keys = mode.deletes === 'key_sweep' ? await keysOf(connector, table, mode, schema, signal) : null
  try {
    const file = join(dir, 'rows.csv')
    await writeFile(file, judged.csv)
    const limits = { ...deps.limits, room: await deps.checkStorage(run.connection.tenant) }
    const marks = hasMarks(scan.summary)
    const request: VerdictRequest = {
      ...{ file, schema, marks, cursorColumn: mode.cursorColumn, rows: judged.rows.length, sweeps: keys !== null },
      unchanged: new Set(schema.columns.filter(isAsBefore(base)).map(({ name }) => name)),
    }
    const fields = marks ? [...base.schema.fields, MARKS] : base.schema.fields
    const { written, removed, removedFrom, results } = await deps.lake.merge(
      {
        base,
        scan,
        schema,
        rows: keepsTypes(scan, schema) ? 'keep' : 'rewrite',
        key: schema.primaryKey,
        job: {
          tables: [engineTable(scan, [BASE], { ...base.schema, fields })],
          ...(keys === null ? {} : { csvInput: { name: KEYS, columns: keys.schema.columns, source: keys.rows } }),
          steps: verdictSteps(request),
          readPaths: [file],
          limits,
        },
        changed: appliedSql(request),
        sortBy: schema.primaryKey,
        ...(marks ? { marks } : {}),
      },
      signal,
    )
    const verdicts = (results[0]?.rows ?? []).flatMap(([place, verdict]) => verdictOf(judged, place, verdict))
    const told = settle(verdicts, keys?.outcome().rejected ?? 0)
    if (told.applied.length === 0) return { ...told, commit: null }
    const commit = await deps.lake.stage(
      base.ref,
      {
        base,
        plan: written.plan,
        operation: 'overwrite',
        removed,
        removedFrom,
        files: written.files,
        writeId: written.writeId,
        summary: summaryOf(run, scan.summary, told, leftOut(judged, told)),
      },
      signal,
    )
    return { ...told, commit }
  } finally {
    await keys?.abandon()
    await rm(dir, { recursive: true, force: true })
  }
}

async function keysOf(
  connector: Connector,
  table: SourceTable,
  mode: ReadMode,
  schema: TableSchema,
  signal: AbortSignal,
): Promise<TableRead> {
  const keys = await readKeys(connector, table, mode, signal)
  const held = unlikeKeys(keys.schema, schema)
  if (held === null) return keys
  await keys.abandon()
  throw replayUnsupported(table.name, 'retyped')
}

interface Judged {
  readonly id: string
  readonly verdict: Verdict
}

function verdictOf({ rows }: JudgedRows, place: unknown, verdict: unknown): readonly Judged[] {
  const row = rows[Number(place)]
  const known = VERDICTS.find((one) => one === verdict)
  if (row === undefined || known === undefined) throw new Error('the engine judged what it was not given')
  return row.isChosen ? [{ id: row.id, verdict: known }] : []
}

/** Where the source could not tell all its keys, one that is missing may be among those. */
function settle(verdicts: readonly Judged[], untold: number): Omit<Merged, 'commit'> {
  const of = (...wanted: readonly Verdict[]) =>
    verdicts.flatMap(({ id, verdict }) => (wanted.includes(verdict) ? [id] : []))
  const stays = (reason: string) => (id: string) => ({ id, column: null, reason })
  const unknown = untold > 0 ? of('gone').map(stays(UNTOLD)) : []
  return {
    applied: of('apply'),
    superseded: untold > 0 ? of('older') : of('older', 'gone'),
    refused: [...of('same').map(stays(SAME_CURSOR)), ...unknown],
  }
}

const SAME_CURSOR =
  'the table has a row of its key with the same cursor, and which of both is newer cannot be told: discard this one, or read the table whole again'
const UNTOLD = 'whether the source still has the row is not known: it could not tell the keys of all its rows'

/** How many rows the table lacks no more: those that came without a value were never counted as lacking. */
function leftOut({ rows }: JudgedRows, { applied, superseded }: Pick<Merged, 'applied' | 'superseded'>): number {
  const gone = new Set([...applied, ...superseded])
  return rows.filter(({ id, carried }) => !carried && gone.has(id)).length
}

/** What the snapshot before says of the source is true of this one: nothing was read of it. */
function summaryOf(
  { lease }: IngestionRun,
  before: Scan['summary'],
  { applied }: Pick<Merged, 'applied'>,
  arrived: number,
): Scan['summary'] {
  const own = Object.entries(before).filter(([name]) => name.startsWith('sluice.'))
  const lacking = Number(before[ROWS_REJECTED] ?? 0) - arrived
  return {
    ...Object.fromEntries(own),
    ...faultsSummary({ withoutValue: [], rejectedFor: [] }, before),
    'sluice.run': lease.runId,
    'sluice.rows-replayed': String(applied.length),
    [ROWS_REJECTED]: String(Math.max(0, lacking)),
  }
}

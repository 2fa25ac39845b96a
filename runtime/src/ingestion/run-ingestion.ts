/** An ingestion run: every table that deployed products read from the connection, then those products. */

import type { EngineLimits, StorageRoom } from '@sluice/engine'
import type { Lake, StagedCommit, TableState } from '@sluice/iceberg'
import type { Connector, ConnectorState, DiscoveredTable, Logger } from '@sluice/sdk'
import { isSluiceError, SluiceError } from '@sluice/sdk'
import type pg from 'pg'
import { inTransaction } from '../database/pools.ts'
import type { FaultPoint } from '../fault-points.ts'
import { registryCatalog } from '../lake/registry-catalog.ts'
import type { ManifestSet, RejectedLimit } from '../manifest/manifest-set.ts'
import { contractOf } from '../manifest/schema-contract.ts'
import { unusedColumns } from '../manifest/used-columns.ts'
import { rawTable } from '../materializer/inputs.ts'
import { type Dispensable, heedsMarks, isReadAsUsed, lacksMarkedRows } from '../materializer/raw-summary.ts'
import { type Backfill, backfillsOf, endBackfill } from '../registry/backfills.ts'
import { forgetStreams } from '../registry/captures.ts'
import { databaseNow } from '../registry/clock.ts'
import { type Connection, checkSource, sourceMark } from '../registry/connections.ts'
import { connectorState, forgetConnectorState, saveConnectorState } from '../registry/connector-states.ts'
import { recordedError } from '../registry/deployments.ts'
import type { MasterKeys } from '../registry/master-keys.ts'
import { type RefusedRow, saveQuarantine } from '../registry/quarantine.ts'
import { checkRun, type RunLease } from '../registry/run-claims.ts'
import {
  appendRunLog,
  saveRunResult,
  saveTableProgress,
  type TableProgress,
  tableProgress,
} from '../registry/run-progress.ts'
import { type HeldParts, heldParts, NOTHING_HELD, ofPart, settleParts } from './held-parts.ts'
import { ingestLog, type LogHooks } from './ingest-log.ts'
import { type LoadedTable, loadTable, SweepHeld, takesIncrements } from './load-table.ts'
import { about, makeWave, type Wave, type WaveDeps } from './make-wave.ts'
import type { ProductOutcome } from './product-outcome.ts'
import { ingestPushed } from './push/ingest-pushed.ts'
import { PUSH_TYPE } from './push/settings.ts'
import { type ReadOutcome, readTable, type TableRead } from './read-table.ts'
import { checkRejected, rejectedLimits, TooManyRejected } from './rejected-rows.ts'
import {
  discoverTables,
  groupsOf,
  isReadByLog,
  type ReadMode,
  readMode,
  type SourceTable,
  tableNotFound,
  tablesOf,
} from './source-tables.ts'
import type { DeployedProduct } from './wave.ts'

export interface IngestionDeps extends WaveDeps {
  readonly masters: MasterKeys
  readonly lake: Lake
  readonly logger: Logger
  readonly faultPoint: FaultPoint
  readonly limits: EngineLimits
  /** `oneMoment`: all its reads are to see one instant of the source. */
  openConnector(connection: Connection, options: { readonly oneMoment: boolean }): Promise<Connector>
  /** Whether connectors of its type can do that. */
  readsAtOneMoment(connection: Connection): boolean
  /** The products in service that read from the connection. */
  productsOf(connection: Connection): Promise<readonly DeployedProduct[]>
  checkStorage(tenant: string): Promise<StorageRoom>
  /** For what need not outlive the run; emptied when the runtime starts. */
  readonly scratchDirectory: string
  /** That the log of a source was lost, in the transaction that begins it anew. */
  tellLogLost(
    tx: pg.PoolClient,
    connection: Connection,
    about: { readonly reason: string; readonly runId: string },
  ): Promise<void>
}

export interface IngestionRun {
  readonly connection: Connection
  readonly lease: RunLease
  readonly signal: AbortSignal
  /** Waits for a place among transforms, and gives that for ingestions back. */
  toTransforms(): Promise<void>
  /** It reads the log alone, and what has failed in it by itself holds nothing else up. */
  readonly isFollowing?: boolean
}

export interface IngestionResult extends Readonly<Record<string, unknown>> {
  readonly products: readonly ProductOutcome[]
}

/** Throws the first table's or product's error after everything else was done. Repeatable with the same run. */
export async function runIngestion(run: IngestionRun, deps: IngestionDeps): Promise<IngestionResult> {
  await deps.faultPoint('ingestion.claimed')
  const products = await deps.productsOf(run.connection)
  const inputs = products.flatMap(({ manifests }) => manifests.inputs)
  const all = tablesOf(inputs.filter((input) => input.connection === run.connection.name))
  if (all.length === 0) await log(run, deps, 'warn', 'no deployed product reads from this connection')
  const held = await heldParts(run, deps.pool)
  const tables =
    run.isFollowing === true ? followed(run.connection, all).filter(({ name }) => !held.isTable(name)) : all
  const failures = await ingestTables(run, tables, products, deps)
  const wave = await makeFollowers(run, products, failures, deps, held)
  await deps.faultPoint('ingestion.before-finish')
  const borne = new Set(tables.filter((table) => isBorne(table, failures)).map(({ name }) => name))
  for (const name of borne) {
    await log(run, deps, 'warn', `${name}: it is gone; by their contracts its products go on with the rows read last`)
  }
  const failed = [...failures].flatMap(([name, failure]) => (borne.has(name) ? [] : [failure]))
  const [error] = [...failed, ...wave.errors]
  const parts = await settleParts(run, { tables, failures, wave, held }, deps.pool)
  if (error === undefined) return { products: wave.outcomes, ...parts }
  if (run.isFollowing !== true || (tables.length > 0 && failures.size === tables.length)) throw error
  await saveRunResult(deps.pool, run.lease, { products: wave.outcomes, partial: true, ...parts })
  throw ofPart(error)
}

/** Whether products go on with the rows that were read last: the table is gone, and the contract of each says so. */
function isBorne({ name, inputs }: SourceTable, failures: ReadonlyMap<string, unknown>): boolean {
  const failure = failures.get(name)
  const isGone = isSluiceError(failure) && failure.code === 'source_table_not_found'
  return isGone && inputs.every((input) => contractOf(input).tables === 'freeze')
}

/** Those whose changes come by themselves. */
export function followed({ connectorType }: Pick<Connection, 'connectorType'>, tables: readonly SourceTable[]) {
  return connectorType === PUSH_TYPE ? tables : tables.filter(isReadByLog)
}

/** Those that follow what was done to their tables. `failures`: tables that are as they were, since they could not be read. */
export async function makeFollowers(
  run: IngestionRun,
  products: readonly DeployedProduct[],
  failures: ReadonlyMap<string, unknown>,
  deps: IngestionDeps,
  held: HeldParts = NOTHING_HELD,
): Promise<Wave> {
  const followers = products.filter(({ manifests }) => manifests.compute.trigger === 'on_ingestion')
  // The source is closed by now: whoever reads next has its place.
  if (followers.length > 0) await run.toTransforms()
  const isLeft = (table: SourceTable) =>
    (failures.has(table.name) && !isBorne(table, failures)) || held.isTable(table.name)
  const unread = ({ manifests }: DeployedProduct) => inputTables(run, manifests).find(isLeft)?.name ?? null
  return makeWave(run, followers, { unread, isHeld: ({ product }) => held.isProduct(product.id), done: [] }, deps)
}

/** How often the tables of a run are begun at another instant before each is read as of its own. */
const MOMENTS = 2

/** Tables that failed, with why; the others are committed. */
async function ingestTables(
  run: IngestionRun,
  tables: readonly SourceTable[],
  products: readonly DeployedProduct[],
  deps: IngestionDeps,
): Promise<ReadonlyMap<string, unknown>> {
  const failures = new Map<string, unknown>()
  if (run.connection.connectorType === PUSH_TYPE) return ingestPushed(run, tables, hooksOf(run, products, deps), deps)
  const finished = await tableProgress(deps.pool, run.lease.runId)
  const asked = new Set((await backfillsOf(deps.pool, run.connection.id)).map(({ tableName }) => tableName))
  const isFinished = ({ name }: SourceTable) =>
    finished.some((one) => one.name === name && one.state === 'succeeded') && !asked.has(name)
  const readers = products.map(({ manifests }) => inputTables(run, manifests))
  // A group is of one moment or is read again: what an earlier attempt has of it is of another.
  const whole = tables.filter((table) => !isReadByLog(table))
  const told = tables.filter(isReadByLog)
  const open = groupsOf(
    whole,
    readers.map((own) => own.filter((table) => whole.some(({ name }) => name === table.name))),
  ).filter((group) => !group.every(isFinished))
  for (const [name, error] of await ingestLog(run, told, hooksOf(run, products, deps), deps)) {
    failures.set(name, about(name, error))
  }
  if (open.length === 0) return failures
  let moments = deps.readsAtOneMoment(run.connection) ? MOMENTS : 0
  let openedAt = await databaseNow(deps.pool)
  let connector = await deps.openConnector(run.connection, { oneMoment: moments > 0 })
  try {
    const names = open.flat().map((table) => table.name)
    const found = await discoverTables(connector, names, run.signal)
    for (const group of open) {
      for (;;) {
        const moment = moments > 0 ? { name: `${run.lease.runId}-${moments}`, at: openedAt } : null
        const read = await loadGroup(run, group, { found, products }, connector, moment, deps)
        if (moment === null || ![...read.failures.values()].some(isOfAnotherMoment)) {
          await settleGroup(run, read, connector, deps)
          for (const [name, error] of read.failures) failures.set(name, about(name, error))
          break
        }
        moments -= 1
        await connector.close()
        openedAt = await databaseNow(deps.pool)
        connector = await deps.openConnector(run.connection, { oneMoment: moments > 0 })
        if (moments === 0) await log(run, deps, 'warn', 'the source shows no common moment: each table is of its own')
      }
    }
  } finally {
    await connector.close()
  }
  return failures
}

export function inputTables(run: IngestionRun, manifests: ManifestSet): readonly SourceTable[] {
  return tablesOf(manifests.inputs.filter((input) => input.connection === run.connection.name))
}

/** That all reads of a connector are as of. */
interface Moment {
  readonly name: string
  /** Not after it. */
  readonly at: Date
}

/** The source could not show it, or has no room for the session that keeps the moment. */
function isOfAnotherMoment(error: unknown): boolean {
  return error instanceof SluiceError && (error.code === 'source_moment_lost' || error.code === 'source_busy')
}

export interface LoadedSource extends LoadedTable {
  readonly table: SourceTable
  readonly mode: ReadMode
  readonly readAt: Date
  /** That this read is the answer to. */
  readonly backfill: Backfill | null
}

interface LoadedGroup {
  readonly loaded: readonly LoadedSource[]
  readonly failures: ReadonlyMap<string, unknown>
}

async function loadGroup(
  run: IngestionRun,
  group: readonly SourceTable[],
  {
    found,
    products,
  }: { readonly found: ReadonlyMap<string, DiscoveredTable>; readonly products: readonly DeployedProduct[] },
  connector: Connector,
  moment: Moment | null,
  deps: IngestionDeps,
): Promise<LoadedGroup> {
  const loaded: LoadedSource[] = []
  const failures = new Map<string, unknown>()
  for (const table of group) {
    try {
      const description = found.get(table.name)
      if (!description) throw tableNotFound(table.name)
      const mode = readMode(table, description)
      const asked = askedOf(run, table, description, products)
      loaded.push(await loadSource(run, table, mode, asked, connector, moment, deps))
      for (const { commit } of loaded) await keepStaged(commit, deps)
    } catch (error) {
      run.signal.throwIfAborted()
      if (isLost(error)) throw error
      failures.set(table.name, error)
    }
  }
  return { loaded, failures }
}

/** Of a table, what its products bear with and do without. */
function askedOf(
  run: IngestionRun,
  { name }: SourceTable,
  { columns }: DiscoveredTable,
  products: readonly DeployedProduct[],
) {
  const names = columns.map((column) => column.name)
  const strict = products.filter(({ manifests }) => !heedsMarks(manifests))
  return {
    limits: rejectedLimits(run.connection.name, name, products),
    optional: unusedColumns(run.connection.name, name, names, products),
    marked: unusedColumns(run.connection.name, name, names, strict),
  }
}

/** Whether any value of the table may be missing in a row that says so: a log asks for all columns or none. */
function isMarked({ primaryKey }: ReadMode, { columns }: DiscoveredTable, { marked }: Dispensable): boolean {
  return columns.every(({ name }) => primaryKey.includes(name) || marked.includes(name))
}

/** What becomes of tables of a log is what becomes of any. */
function hooksOf(run: IngestionRun, products: readonly DeployedProduct[], deps: IngestionDeps): LogHooks {
  return {
    marks: (table, mode, description) => isMarked(mode, description, askedOf(run, table, description, products)),
    load(table, mode, description, connector, moment) {
      const asked = askedOf(run, table, description, products)
      // The log tells of every column, so that each row has to have each, or to say so.
      const { marked } = isMarked(mode, description, asked) ? asked : { marked: [] }
      return loadSource(run, table, mode, { ...asked, optional: [], marked }, connector, moment, deps)
    },
    commit: (loaded, connector, also) => commitTables(run, [loaded], connector, deps, also),
    fail: (name, error) => reportFailure(run, name, error, deps),
    say: (level, message) => log(run, deps, level, message),
  }
}

/** Those that were read become visible at once. */
async function settleGroup(
  run: IngestionRun,
  { loaded, failures }: LoadedGroup,
  connector: Connector,
  deps: IngestionDeps,
): Promise<void> {
  for (const [name, error] of failures) await reportFailure(run, name, error, deps)
  if (loaded.length > 0) await commitTables(run, loaded, connector, deps)
}

const STAGED_MS = 60 * 60 * 1000

/** What has been read waits for the others of its group. */
async function keepStaged({ ref, writeId }: StagedCommit, { lake, limits }: IngestionDeps): Promise<void> {
  if (writeId !== null) await lake.leaseWrite(ref, writeId, limits.timeoutMs + STAGED_MS)
}

/** Nothing more may be written by this worker. */
function isLost(error: unknown): boolean {
  return error instanceof SluiceError && error.kind === 'FENCED'
}

async function loadSource(
  run: IngestionRun,
  table: SourceTable,
  mode: ReadMode,
  asked: Dispensable & { readonly limits: readonly RejectedLimit[] },
  connector: Connector,
  moment: Moment | null,
  deps: IngestionDeps,
): Promise<LoadedSource> {
  const { connection, lease, signal } = run
  const room = await deps.checkStorage(connection.tenant)
  const ref = rawTable(connection.tenant, connection.name, table.name)
  const base = await deps.lake.load(ref, { signal })
  const isOthers = (column: string) => !mode.primaryKey.includes(column) && column !== mode.cursorColumn
  const [optional, marked] = [asked.optional.filter(isOthers), asked.marked.filter(isOthers)]
  const summary = summaryOf(base)
  const isAsUsed = isReadAsUsed(summary, { optional, marked })
  const backfill =
    (await backfillsOf(deps.pool, connection.id)).find(({ tableName }) => tableName === table.name) ?? null
  const goesOn = backfill === null && mode.mode === 'incremental' && takesIncrements(base, mode.primaryKey) && isAsUsed
  const known = goesOn ? await connectorState(deps.pool, connection.id, table.name) : null
  const previousState = (known?.state ?? null) as ConnectorState | null
  const report = progressReporter(run, table, mode, deps)
  const readAt = moment?.at ?? (await databaseNow(deps.pool))
  const loadFrom = async (state: ConnectorState | null, sweeps: boolean): Promise<LoadedTable> => {
    await report.now('running', 0, 0, 0)
    const { mode: how, primaryKey, cursorColumn } = mode
    const way = how === 'cdc' ? 'full' : how
    const { schema, table: name } = table
    const needs = { optional, ...(marked.length === 0 ? {} : { marked }) }
    const request = { schema, table: name, mode: way, columns: [], primaryKey, cursorColumn, state, ...needs, signal }
    const read = await readTable(connector, request, report.soon)
    if (read.marks && !read.whole && state !== null && lacksMarkedRows(summary, marked)) {
      await read.abandon()
      return loadFrom(null, sweeps)
    }
    return loadTable(
      {
        ref,
        base,
        read,
        mode: how,
        primaryKey,
        cursorColumn,
        previousState: state,
        readKeys: sweeps ? () => readKeys(connector, table, mode, signal) : null,
        runId: lease.runId,
        moment: moment?.name ?? null,
        readAt,
        source: sourceMark(connection),
        limits: { ...deps.limits, room },
        signal,
      },
      deps,
    )
  }
  const load = async (state: ConnectorState | null): Promise<LoadedTable> => {
    try {
      return await loadFrom(state, mode.deletes === 'key_sweep')
    } catch (error) {
      if (!(error instanceof SweepHeld)) throw error
      await log(run, deps, 'warn', `${table.name}: no row was removed as gone: ${error.message}`)
      await report.settle()
      return loadFrom(state, false)
    }
  }
  let loaded = await load(previousState)
  if (!loaded.goesOn) {
    const text = 'rows of the source are not as they had been read, so that all are read again'
    await log(run, deps, 'warn', `${table.name}: ${text}`)
    await report.settle()
    loaded = await load(null)
  }
  checkRejected(table.name, loaded.outcome, asked.limits)
  await report.settle()
  // What the source had before somebody asked does not answer him.
  const isAnswered = backfill !== null && backfill.askedAt <= readAt
  return { ...loaded, table, mode, readAt, backfill: isAnswered ? backfill : null }
}

function summaryOf(base: TableState | null): Readonly<Record<string, string>> {
  const current = base?.metadata.snapshots.find((snapshot) => String(snapshot['snapshot-id']) === base.snapshotId)
  return current?.summary ?? {}
}

async function commitTables(
  run: IngestionRun,
  loaded: readonly LoadedSource[],
  connector: Connector,
  deps: IngestionDeps,
  also: (tx: pg.PoolClient) => Promise<void> = async () => undefined,
): Promise<void> {
  const { connection, lease, signal } = run
  await deps.faultPoint('ingestion.before-commit')
  await inTransaction(
    deps.pool,
    async (tx) => {
      await checkRun(tx, lease)
      await checkSource(tx, connection)
      await deps.lake.publish(
        registryCatalog(tx),
        loaded.map(({ commit }) => commit),
      )
      for (const { table, mode, outcome, keepsOthers, sweep, readAt, backfill } of loaded) {
        const key = { connectionId: connection.id, tableName: table.name, runId: lease.runId }
        await keepRefused(tx, run, table.name, { whole: !keepsOthers, rows: outcome.refused }, deps)
        if (mode.mode === 'incremental') await saveConnectorState(tx, key, outcome.state)
        else await forgetConnectorState(tx, connection.id, table.name)
        if (backfill !== null) await endBackfill(tx, connection.id, backfill)
        await saveTableProgress(tx, lease, {
          ...chosen(table, mode),
          state: 'succeeded',
          rowsRead: outcome.rowCount + outcome.rejected,
          rowsWritten: outcome.rowCount,
          rowsRejected: outcome.rejected,
          rowsRemoved: sweep?.removed ?? null,
          bytes: outcome.bytes + (sweep?.bytes ?? 0),
          error: null,
          readAt,
        })
      }
      const untold = loaded.filter(({ mode }) => mode.mode !== 'cdc').map(({ table }) => table.name)
      await forgetStreams(tx, connection.id, untold)
      await also(tx)
    },
    { signal },
  )
  await deps.faultPoint('ingestion.after-commit')
  for (const one of loaded) {
    await connector.ack({ schema: one.table.schema, table: one.table.table }, one.outcome.state)
    await tellLoaded(run, one, deps)
  }
}

async function tellLoaded(
  run: IngestionRun,
  { table, mode, outcome, keepsOthers, sweep, changes, backfill }: LoadedSource,
  deps: IngestionDeps,
): Promise<void> {
  const whole = backfill === null ? '' : ', read whole as was asked for'
  await log(run, deps, 'info', `${table.name}: ${outcome.rowCount} rows (${mode.mode}${whole})`)
  if (changes) await log(run, deps, 'warn', `${table.name}: its columns have changed in the source: ${changes}`)
  if (sweep !== null) {
    await log(run, deps, 'info', `${table.name}: ${sweep.removed} rows were gone, by a read of ${sweep.keys} keys`)
  }
  if (mode.deletes === 'unseen') {
    await log(run, deps, 'warn', `${table.name}: rows that are gone are not looked for: ${mode.deletesReason}`)
  }
  if (outcome.rejected > 0) {
    const former = keepsOthers ? '; of those that were carried before, the former values stay' : ''
    await log(run, deps, 'warn', `${table.name}: ${outcome.rejected} rows could not be carried${former}`)
  }
  for (const reason of outcome.rejectReasons) await log(run, deps, 'warn', `${table.name}: rejected ${reason}`)
  for (const [column, values] of outcome.withoutValue) {
    await log(run, deps, 'warn', `${table.name}: ${values} rows came without ${column}, ${whoLacksIt(outcome)}`)
  }
}

const whoLacksIt = ({ marks }: ReadOutcome): string =>
  marks ? 'and are left out of products that use it' : 'which no product uses'

/**
 * The key of every row, in the source's words, and its cursor: what an incremental read does not bring, and a row that is
 * gone cannot. A cursor that cannot be carried is left out.
 */
export function readKeys(
  connector: Connector,
  table: SourceTable,
  mode: ReadMode,
  signal: AbortSignal,
): Promise<TableRead> {
  const { primaryKey, cursorColumn } = mode
  const cursor = cursorColumn === null || primaryKey.includes(cursorColumn) ? [] : [cursorColumn]
  return readTable(
    connector,
    {
      schema: table.schema,
      table: table.table,
      mode: 'full',
      columns: [...primaryKey, ...cursor],
      primaryKey,
      cursorColumn: null,
      state: null,
      optional: cursor,
      signal,
    },
    () => undefined,
  )
}

/** How a table is read, and why. */
export function chosen(table: SourceTable, { mode, reason, cursorColumn, deletes, deletesReason }: ReadMode) {
  return { name: table.name, mode, modeReason: reason, cursor: cursorColumn, deletes, deletesReason }
}

const REPORT_EVERY_MS = 500

/** Progress while rows flow: at most one statement at a time, none of them waited for. */
function progressReporter(run: IngestionRun, table: SourceTable, mode: ReadMode, deps: IngestionDeps) {
  let lastAt = 0
  let pending: Promise<void> = Promise.resolve()
  const now = (state: TableProgress['state'], rowsRead: number, rowsWritten: number, bytes: number): Promise<void> =>
    saveTableProgress(deps.pool, run.lease, {
      ...chosen(table, mode),
      state,
      rowsRead,
      rowsWritten,
      rowsRejected: 0,
      rowsRemoved: null,
      bytes,
      error: null,
    })
  return {
    now,
    soon(progress: { readonly rows: number; readonly bytes: number }): void {
      if (performance.now() - lastAt < REPORT_EVERY_MS) return
      lastAt = performance.now()
      // A lost lease is found by the commit; a report that fails is no reason to stop.
      pending = pending.then(() => now('running', progress.rows, 0, progress.bytes)).catch(() => undefined)
    },
    settle: () => pending,
  }
}

export async function reportFailure(
  run: IngestionRun,
  name: string,
  error: unknown,
  deps: IngestionDeps,
): Promise<void> {
  const recorded = recordedError(error)
  await saveTableProgress(deps.pool, run.lease, {
    name,
    mode: 'full',
    modeReason: null,
    deletes: null,
    deletesReason: null,
    state: 'failed',
    rowsRead: 0,
    rowsWritten: 0,
    rowsRejected: 0,
    rowsRemoved: null,
    bytes: 0,
    cursor: null,
    error: recorded,
  })
  await log(run, deps, 'error', `${name}: ${recorded.message}`)
  if (error instanceof TooManyRejected) await reportRefused(run, name, error, deps)
}

/** Beside those that are there: the table is as it was, and its rows that are left out are, too. */
async function reportRefused(
  run: IngestionRun,
  name: string,
  { outcome }: TooManyRejected,
  deps: IngestionDeps,
): Promise<void> {
  const { rejected, rowCount, rejectReasons, refused } = outcome
  await inTransaction(deps.pool, async (tx) => {
    await checkRun(tx, run.lease)
    await keepRefused(tx, run, name, { whole: false, rows: refused }, deps)
  })
  await log(run, deps, 'error', `${name}: ${rejected} of ${rejected + rowCount} rows cannot be carried`)
  for (const reason of rejectReasons) await log(run, deps, 'error', `${name}: rejected ${reason}`)
}

function keepRefused(
  tx: pg.PoolClient,
  { connection, lease }: IngestionRun,
  table: string,
  read: { readonly whole: boolean; readonly rows: readonly RefusedRow[] },
  { masters }: IngestionDeps,
): Promise<void> {
  const place = { tenant: connection.tenant, connectionId: connection.id, table }
  return saveQuarantine(tx, masters, place, { ...read, runId: lease.runId })
}

async function log(
  run: IngestionRun,
  deps: IngestionDeps,
  level: 'info' | 'warn' | 'error',
  message: string,
): Promise<void> {
  await appendRunLog(deps.pool, run.lease, level, message)
}

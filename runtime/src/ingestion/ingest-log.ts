/**
 * The tables of a connection that are read by the log of their source. The log is one for all of them: what came of it is
 * committed for all at once, with the position, and only then acknowledged. A table that cannot take what came is read
 * whole by the next run, and holds up no other.
 */
import { rm } from 'node:fs/promises'
import type { ChangePosition, ChangeSource, Connector, DiscoveredTable, TableIncarnation } from '@sluice/sdk'
import { isSluiceError, SluiceError } from '@sluice/sdk'
import type pg from 'pg'
import { inTransaction } from '../database/pools.ts'
import { rawTable } from '../materializer/inputs.ts'
import { isLoggedAsUsed } from '../materializer/raw-summary.ts'
import { backfillsOf, beginBackfills } from '../registry/backfills.ts'
import {
  beginGeneration,
  type Capture,
  type CaptureStream,
  capture,
  captureStreams,
  ensureCapture,
  forgetStreams,
  saveHealth,
  savePosition,
  saveStream,
} from '../registry/captures.ts'
import { databaseNow } from '../registry/clock.ts'
import { checkSource, isOfSource } from '../registry/connections.ts'
import { checkRun } from '../registry/run-claims.ts'
import { commitPiece, type LogTable } from './commit-log.ts'
import type { IngestionDeps, IngestionRun } from './ingestion-run.ts'
import { atLake, LakeAway } from './lake-away.ts'
import type { LoadedSource } from './load-source.ts'
import { takesIncrements } from './load-table.ts'
import { nextPiece, streamOf } from './log-piece.ts'
import { discoverTables, type ReadMode, readMode, type SourceTable, tableNotFound } from './source-tables.ts'
import { spooledPiece, spoolLog } from './spool-log.ts'

/** What a run does with any table, for those of a log. */
export interface LogHooks {
  /** Whether its rows may lack values, and say so: see `ChangeStream`. */
  marks(table: SourceTable, mode: ReadMode, description: DiscoveredTable): boolean
  /** Reads the table whole and stages it. */
  load(
    table: SourceTable,
    mode: ReadMode,
    description: DiscoveredTable,
    connector: Connector,
    moment: { readonly name: string; readonly at: Date },
  ): Promise<LoadedSource>
  /** Makes it visible, with what `also` writes. */
  commit(loaded: LoadedSource, connector: Connector, also: (tx: pg.PoolClient) => Promise<void>): Promise<void>
  fail(table: string, error: unknown): Promise<void>
  say(level: 'info' | 'warn', message: string): Promise<void>
}

/** How often a run begins a log anew, or reads tables whole that the log could not tell of. */
const PASSES = 4

/** Tables that failed, with why. */
export async function ingestLog(
  run: IngestionRun,
  tables: readonly SourceTable[],
  hooks: LogHooks,
  deps: IngestionDeps,
): Promise<ReadonlyMap<string, unknown>> {
  const failures = new Map<string, unknown>()
  if (tables.length === 0) return failures
  try {
    const connector = await deps.openConnector(run.connection, { oneMoment: false })
    try {
      await readLog(run, tables, failures, connector, hooks, deps)
    } finally {
      await connector.close()
    }
  } catch (error) {
    run.signal.throwIfAborted()
    if (isSluiceError(error, 'FENCED')) throw error
    // The log is one for all: none of its tables is as it should be.
    for (const { name } of tables) {
      if (failures.has(name)) continue
      failures.set(name, error)
      await hooks.fail(name, error)
    }
  }
  return failures
}

interface Reading {
  readonly run: IngestionRun
  readonly connector: Connector
  readonly source: ChangeSource
  readonly wanted: readonly LogTable[]
  readonly failures: Map<string, unknown>
  readonly hooks: LogHooks
  readonly deps: IngestionDeps
  readonly startedMs: number
  /**
   * What the tables were before this run last read the log to its end: rows that come after it are of what they were then,
   * or are now. `behind`: it was left before its end. Null: it was not read yet.
   */
  before: readonly TableIncarnation[] | 'behind' | null
}

/** No source says this of a table: the next run takes it for another one. */
const UNKNOWN_INCARNATION = ''

async function readLog(
  run: IngestionRun,
  tables: readonly SourceTable[],
  failures: Map<string, unknown>,
  connector: Connector,
  hooks: LogHooks,
  deps: IngestionDeps,
): Promise<void> {
  const source = connector.changes
  if (source === undefined) throw changesNotSupported(run.connection.connectorType)
  const names = tables.map(({ name }) => name)
  const found = await discoverTables(connector, names, run.signal)
  const wanted: LogTable[] = []
  for (const table of tables) {
    try {
      const description = found.get(table.name)
      if (description === undefined) throw tableNotFound(table.name)
      const mode = readMode(table, description)
      wanted.push({ table, mode, description, marks: hooks.marks(table, mode, description) })
    } catch (error) {
      failures.set(table.name, error)
      await hooks.fail(table.name, error)
    }
  }
  if (wanted.length === 0) return
  const startedMs = performance.now()
  const reading: Reading = { run, connector, source, wanted, failures, hooks, deps, startedMs, before: null }
  for (let pass = 0; pass < PASSES; pass += 1) {
    if (await readOnce(reading)) return
  }
  throw new SluiceError('TRANSIENT', 'the log of the source was lost again and again while it was read', {
    code: 'position_lost',
    remedy: 'Look whether somebody drops what the source keeps for this connection; the next sync begins anew.',
  })
}

/**
 * False: another pass is needed, because the log was lost, or tables are to be read whole. So are those that were altered
 * or replaced since they were read, or not read as the log needs them: what it still has of them is of before, and not to be
 * applied to what is there now. It is passed first, and may say itself that they are to be read whole. So it is where a table
 * was never read: it may have been altered since.
 */
async function readOnce(reading: Reading): Promise<boolean> {
  const { source, run, deps, hooks, failures, wanted } = reading
  const { signal } = run
  const known = await currentCapture(reading)
  const streams = wanted.map(streamOf)
  const anew = known.position === null
  const prepared = await source.prepare({ capture: known.name, streams, anew, signal })
  await deps.faultPoint('log.prepared')
  if (known.position !== null && prepared.position.lineage !== known.position.lineage) {
    await begin(reading, 'the source has another history than the one that was read')
    return false
  }
  const position = known.position ?? prepared.position
  if (anew) await inOwnTransaction(reading, (tx) => savePosition(tx, run.connection.id, position))
  const told: LogTable[] = []
  for (const one of wanted) {
    const refused = prepared.refused.find(
      ({ schema, table }) => schema === one.table.schema && table === one.table.table,
    )
    if (refused === undefined) told.push(one)
    else if (!failures.has(one.table.name)) {
      const error = refusedTable(one.table.name, refused)
      failures.set(one.table.name, error)
      await hooks.fail(one.table.name, error)
    }
  }
  const moment = `log-${known.name}-${known.generation}`
  // As of a table that was never read: the log goes on for all others.
  const asked = await backfillsOf(deps.pool, run.connection.id)
  const backfilled = asked
    .map(({ tableName }) => tableName)
    .filter((name) => wanted.some(({ table }) => table.name === name))
  if (backfilled.length > 0) {
    await inOwnTransaction(reading, async (tx) => {
      await beginBackfills(tx, run.connection.id, backfilled)
      await forgetStreams(tx, run.connection.id, backfilled)
    })
  }
  const { incarnations = [] } = prepared
  const read = new Map((await captureStreams(deps.pool, run.connection.id)).map((one) => [one.tableName, one]))
  try {
    return await readTold(reading, { name: known.name, told, read, incarnations, position, moment, anew })
  } catch (error) {
    if (!isSluiceError(error) || error.code !== 'position_lost') throw error
    await begin(reading, 'the source has let go of changes that were not read yet')
    return false
  }
}

/** What there is to be read, and from where. */
interface Prepared {
  /** Of the capture. */
  readonly name: string
  readonly told: readonly LogTable[]
  /** By name. */
  readonly read: ReadonlyMap<string, CaptureStream>
  readonly incarnations: readonly TableIncarnation[]
  readonly position: ChangePosition
  readonly moment: string
  readonly anew: boolean
}

/** Where the lake cannot be written, the log is taken up all the same: the source need not keep it. */
async function readTold(reading: Reading, prepared: Prepared): Promise<boolean> {
  try {
    return await writeTold(reading, prepared)
  } catch (error) {
    if (!(error instanceof LakeAway)) throw error
    throw await takeUp(reading, prepared, error.cause)
  }
}

async function takeUp(reading: Reading, { name, told, incarnations }: Prepared, cause: unknown): Promise<unknown> {
  const { pool } = reading.deps
  const { id } = reading.run.connection
  // What came before the lake went away was committed.
  const position = (await capture(pool, id))?.position ?? null
  if (position === null) return cause
  const read = new Map((await captureStreams(pool, id)).map((one) => [one.tableName, one]))
  const goesOnFor = ({ table, mode }: LogTable) => {
    const stream = read.get(table.name)
    return stream?.incarnation === incarnationOf(table, incarnations) && isKeyOf(stream, mode)
  }
  const kept = new Set(told.filter(goesOnFor).map(({ table }) => table.name))
  const outdated = [...read.keys()].filter((one) => !kept.has(one))
  return spoolLog(reading, { name, position, told, kept, outdated }, cause)
}

async function writeTold(
  reading: Reading,
  { name, told, read, incarnations, position, moment, anew }: Prepared,
): Promise<boolean> {
  const { run, deps, hooks, failures } = reading
  const since = anew ? incarnations : reading.before
  const outdated = new Set<string>()
  const unread: LogTable[] = []
  for (const one of told) {
    const { table } = one
    const stream = read.get(table.name)
    const isSame = stream === undefined || stream.incarnation === incarnationOf(table, incarnations)
    if (stream !== undefined && isSame && (await goesOn(run, one, stream, deps))) continue
    if (isSame && since !== null) unread.push(one)
    else outdated.add(table.name)
    if (!isSame) await hooks.say('info', `${table.name}: it was altered, or is another table, so it is read whole`)
  }
  const names = new Set(told.map(({ table }) => table.name))
  const untold = [...read.keys()].filter((one) => !names.has(one))
  await forgetStreams(deps.pool, run.connection.id, untold)
  await readWhole(reading, unread, { since, position, moment })
  if (told.every(({ table }) => failures.has(table.name))) return true
  return applyAll(reading, told, { name, outdated, incarnations, position, moment })
}

function inOwnTransaction<T>(
  { run, deps }: Pick<Reading, 'run' | 'deps'>,
  work: (tx: pg.PoolClient) => Promise<T>,
): Promise<T> {
  return inTransaction(deps.pool, async (tx) => {
    await checkRun(tx, run.lease)
    await checkSource(tx, run.connection)
    return work(tx)
  })
}

/** Without its position where the source has not kept what follows it. */
async function currentCapture(reading: Reading): Promise<Capture> {
  const { run, deps, source } = reading
  const { connection, signal } = run
  const known = await inOwnTransaction(reading, (tx) => ensureCapture(tx, connection))
  if (known.position === null) return known
  const health = await source.health({ capture: known.name, saved: known.position, signal })
  await saveHealth(deps.pool, connection.id, health)
  if (health.state === 'at_risk') await reading.hooks.say('warn', `the log of the source: ${health.message}`)
  if (health.state !== 'lost') return known
  await begin(reading, health.message)
  return (await capture(deps.pool, connection.id)) as Capture
}

async function begin(reading: Reading, reason: string): Promise<void> {
  const { run, deps, hooks } = reading
  await inOwnTransaction(reading, async (tx) => {
    await beginGeneration(tx, run.connection.id, reason)
    await deps.tellLogLost(tx, run.connection, { reason, runId: run.lease.runId })
  })
  await hooks.say('warn', `the log is begun anew and all its tables are read whole: ${reason}`)
  await deps.faultPoint('log.begun-anew')
}

function incarnationOf(table: SourceTable, incarnations: readonly TableIncarnation[]): string | null {
  const found = incarnations.find((one) => one.schema === table.schema && one.table === table.table)
  return found?.incarnation ?? null
}

interface WholeRead {
  /** See `Reading.before`. */
  readonly since: Reading['before']
  readonly position: ChangePosition
  readonly moment: string
}

/** Tables that the log does not tell from where they are: never read in this generation, or not as it needs them. */
async function readWhole(
  { run, deps, hooks, connector, failures }: Reading,
  unread: readonly LogTable[],
  { since, position, moment }: WholeRead,
): Promise<void> {
  const { connection } = run
  for (const { table, mode, description } of unread) {
    if (failures.has(table.name)) continue
    const isBehind = since === null || since === 'behind'
    const incarnation = isBehind ? UNKNOWN_INCARNATION : incarnationOf(table, since)
    try {
      const at = await databaseNow(deps.pool)
      const loaded = await hooks.load(table, mode, description, connector, { name: moment, at })
      const noted = { tableName: table.name, primaryKey: mode.primaryKey, incarnation, position }
      await hooks.commit(loaded, connector, (tx) => saveStream(tx, connection.id, noted))
      await deps.faultPoint('log.table-read')
    } catch (error) {
      run.signal.throwIfAborted()
      if (isSluiceError(error, 'FENCED')) throw error
      failures.set(table.name, error)
      await hooks.fail(table.name, error)
      await forgetStreams(deps.pool, connection.id, [table.name])
    }
  }
}

/** Whether what the table was read as is what the log goes on from. */
async function goesOn(
  run: IngestionRun,
  { table, mode, marks }: LogTable,
  stream: CaptureStream,
  deps: IngestionDeps,
): Promise<boolean> {
  const { connection, signal } = run
  if (!isKeyOf(stream, mode)) return false
  return atLake(signal, async () => {
    const base = await deps.lake.load(rawTable(connection.tenant, connection.name, table.name), { signal })
    if (base === null || !takesIncrements(base, mode.primaryKey)) return false
    const { summary } = await deps.lake.scan(base, {}, signal)
    return isOfSource(summary, connection) && isLoggedAsUsed(summary, marks)
  })
}

const isKeyOf = ({ primaryKey }: CaptureStream, mode: ReadMode): boolean =>
  JSON.stringify(primaryKey) === JSON.stringify(mode.primaryKey)

/** Piece by piece, to where the log stood. False: tables are to be read whole. */
async function applyAll(
  reading: Reading,
  told: readonly LogTable[],
  {
    name,
    outdated,
    incarnations,
    position,
    moment,
  }: {
    /** Of the capture. */
    readonly name: string
    readonly outdated: ReadonlySet<string>
    readonly incarnations: readonly TableIncarnation[]
    readonly position: ChangePosition
    readonly moment: string
  },
): Promise<boolean> {
  const { run, deps, source, hooks, startedMs, failures } = reading
  const again = new Set(outdated)
  let after = position
  reading.before = 'behind'
  for (;;) {
    const piece = (await spooledPiece(reading, told)) ?? (await nextPiece(reading, told, { name, after }))
    try {
      const left = await commitPiece(run, piece, { moment, failures, again }, deps)
      for (const [table, error] of left.failed) {
        failures.set(table, error)
        await hooks.fail(table, error)
      }
      for (const line of left.notes) await hooks.say('warn', line)
      await deps.faultPoint('log.committed')
      // What was spooled before is durable up to where the source is read on.
      if (piece.spooled === null) after = piece.position
      await source.ack({ capture: name, position: after, signal: run.signal })
      await deps.faultPoint('log.acknowledged')
    } finally {
      await rm(piece.dir, { recursive: true, force: true })
    }
    if (piece.isLast) {
      reading.before = incarnations
      break
    }
    if (performance.now() - startedMs > deps.limits.timeoutMs) {
      await hooks.say('info', 'the log goes on: what is left of it comes with the next run')
      break
    }
  }
  for (const table of again)
    await hooks.say('warn', `${table}: the log cannot tell what has changed, so it is read whole`)
  return again.size === 0
}

export function changesNotSupported(type: string): SluiceError {
  return new SluiceError('INVALID_DATA', `connections of type ${type} have no log of changes that could be read`, {
    code: 'changes_not_supported',
    remedy: 'Use mode incremental or full in inputs.yaml.',
  })
}

export function refusedTable(
  name: string,
  { code, reason, remedy }: { readonly code: string; readonly reason: string; readonly remedy: string },
): SluiceError {
  return new SluiceError('INVALID_DATA', `${name}: the log of the source cannot tell its changes: ${reason}`, {
    code: 'changes_refused',
    remedy,
    details: { table: name, refused: code },
  })
}

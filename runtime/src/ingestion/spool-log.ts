/**
 * Takes up the log of a source while the lake cannot be written, so that the source need not keep it: into the registry, where the
 * next run that can write finds it before it reads on. See decision 300.
 */
import { rm } from 'node:fs/promises'
import { type ChangePosition, isSluiceError, SluiceError } from '@sluice/sdk'
import { inTransaction } from '../database/pools.ts'
import { newTenantScratch } from '../lake/tenant-layout.ts'
import { capture, forgetStreams } from '../registry/captures.ts'
import { checkSource } from '../registry/connections.ts'
import {
  LOG_SPOOLED,
  noteSpoolFull,
  oldestPiece,
  partsOfPiece,
  passSpooled,
  SpoolFull,
  spoolPiece,
  tablesOfPiece,
} from '../registry/log-spool.ts'
import { checkRun } from '../registry/run-claims.ts'
import type { SpooledTable } from './change-spool.ts'
import type { LogTable } from './commit-log.ts'
import { say } from './ingestion-run.ts'
import { nextPiece, type PieceHere, type PieceReading } from './log-piece.ts'
import { pack, packedParts, partsOf, tells, unpacked } from './spooled-piece.ts'
import { ANY_KINDS } from './told-kinds.ts'

/** Until the lake is tried again, and more is taken up. */
const AGAIN_MS = 5_000

export interface Spooling {
  /** Of the capture. */
  readonly name: string
  readonly position: ChangePosition
  readonly told: readonly LogTable[]
  /** Those of them that the log goes on for, by name. */
  readonly kept: ReadonlySet<string>
  /** Others that were read once: they are read whole when the lake can be written, as those are that never were. */
  readonly outdated: readonly string[]
}

/** As far as the log goes, or the time of the run. Returns what the run ends with. `cause`: what the lake said. */
export async function spoolLog(reading: PieceReading, spooling: Spooling, cause: unknown): Promise<unknown> {
  const { run, deps, source, startedMs } = reading
  const { name, told } = spooling
  for (let after = spooling.position; ; ) {
    const piece = await nextPiece(reading, told, { name, after })
    try {
      await spool(reading, piece, spooling)
    } catch (error) {
      if (!(error instanceof SpoolFull)) throw error
      await noteSpoolFull(deps.pool, run.connection.id)
      return spoolFull(cause)
    } finally {
      await rm(piece.dir, { recursive: true, force: true })
    }
    await deps.faultPoint('log.kept')
    await source.ack({ capture: name, position: piece.position, signal: run.signal })
    await deps.faultPoint('log.kept-acknowledged')
    after = piece.position
    if (piece.isLast || performance.now() - startedMs > deps.limits.timeoutMs) break
  }
  const { pieces = 0, bytes = 0 } = (await capture(deps.pool, run.connection.id))?.spool ?? {}
  await say(run, deps, 'warn', `the lake cannot be written: ${bytes} bytes of the log wait for it, in ${pieces} pieces`)
  return logSpooled(cause)
}

async function spool({ run, deps }: PieceReading, piece: PieceHere, { kept, outdated }: Spooling): Promise<void> {
  const { connection, lease, signal } = run
  const place = { tenant: connection.tenant, connectionId: connection.id }
  const told = piece.tables
    .map(({ table, mode, spooled }) => ({ name: table.name, primaryKey: mode.primaryKey, spooled }))
    .filter(({ name, spooled }) => kept.has(name) && tells(spooled))
  // The transaction keeps the run, whose lease is renewed, and the connection: it is begun when all is compressed.
  const packed = await pack(partsOf(told), piece.dir, signal)
  await inTransaction(
    deps.pool,
    async (tx) => {
      await checkRun(tx, lease)
      await checkSource(tx, connection)
      await forgetStreams(tx, connection.id, outdated)
      if (told.length === 0) await passSpooled(tx, connection.id, piece.position, piece.sourceTime)
      else await spoolPiece(tx, deps.masters, place, piece, packedParts(packed), deps.logSpool)
      await deps.faultPoint('log.keeping')
    },
    { signal },
  )
}

const NOTHING_TOLD: SpooledTable = {
  ...{ segments: [], rows: 0, bytes: 0, isTruncated: false, mustReread: false, rejected: 0, reasons: [], refused: [] },
  ...{ withoutValue: new Map(), rejectedFor: new Set(), kinds: ANY_KINDS },
}

/** The piece that is to be applied before the source is read on; null: none is spooled. The caller removes its folder. */
export async function spooledPiece({ run, deps }: PieceReading, told: readonly LogTable[]): Promise<PieceHere | null> {
  const { tenant, id: connectionId } = run.connection
  const spooled = await oldestPiece(deps.pool, connectionId)
  if (spooled === null) return null
  const { number, position, sourceTime, readAt } = spooled
  const names = await tablesOfPiece(deps.pool, connectionId, number)
  const room = await deps.checkStorage(tenant)
  const dir = await newTenantScratch(deps.scratchDirectory, tenant, 'log-')
  try {
    const tables: PieceHere['tables'][number][] = []
    for (const one of told) {
      run.signal.throwIfAborted()
      const { name } = one.table
      const parts = partsOfPiece(deps.pool, deps.masters, { tenant, connectionId }, number, name)
      const found = names.includes(name) ? await unpacked(parts, dir, tables.length) : null
      tables.push({ ...one, spooled: found === null ? NOTHING_TOLD : asUsed(found, one) })
    }
    await deps.faultPoint('log.unpacked')
    return { dir, tables, position, sourceTime, isLast: false, readAt, room, spooled }
  } catch (error) {
    await rm(dir, { recursive: true, force: true })
    throw error
  }
}

/**
 * Rows that were told by another key say nothing of the table as it is read now. Rows that did not come where they would come
 * now, marked, or say what they lack where nobody heeds it any more, are what `isLoggedAsUsed` asks of the table.
 */
function asUsed(
  { primaryKey, spooled }: Awaited<ReturnType<typeof unpacked>>,
  { mode, marks }: LogTable,
): SpooledTable {
  const isSame = JSON.stringify(primaryKey) === JSON.stringify(mode.primaryKey)
  const isLacking = marks ? spooled.rejectedFor.size > 0 : spooled.withoutValue.size > 0
  return isSame && !isLacking ? spooled : { ...spooled, mustReread: true }
}

const saidBy = (cause: unknown): string => (isSluiceError(cause) ? `: ${cause.message}` : '')

/** What the lake is to be brought back by is its own to say. */
const remedyOf = (cause: unknown): string =>
  (isSluiceError(cause) ? cause.remedy : undefined) ?? 'Bring the lake back, or what writes it.'

function logSpooled(cause: unknown): SluiceError {
  return new SluiceError('TRANSIENT', `the log is taken up, and the lake cannot be written${saidBy(cause)}`, {
    code: LOG_SPOOLED,
    remedy: `${remedyOf(cause)} What waits for it (log.spooled of the connection) is applied then, and nothing is lost.`,
    retryAfterMs: AGAIN_MS,
    cause,
  })
}

function spoolFull(cause: unknown): SluiceError {
  return new SluiceError(
    'TRANSIENT',
    `no more of the log is taken up, and the lake cannot be written${saidBy(cause)}`,
    {
      code: 'log_spool_full',
      remedy: `${remedyOf(cause)} Until then the source keeps its log, beyond the log_spool.bytes and log_spool.all_bytes of the configuration.`,
      cause,
    },
  )
}

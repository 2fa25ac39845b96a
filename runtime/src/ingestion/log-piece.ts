/** A piece of the log of a source: from the source, in whole transactions. */
import { rm } from 'node:fs/promises'
import type { ChangePosition, ChangeSource, ChangeStream } from '@sluice/sdk'
import { newTenantScratch } from '../lake/tenant-layout.ts'
import { databaseNow } from '../registry/clock.ts'
import { brokenLog, ChangeSpool } from './change-spool.ts'
import type { LogTable, Piece } from './commit-log.ts'
import type { IngestionDeps, IngestionRun } from './ingestion-run.ts'

/**
 * A piece of the log is applied when it has come to so much, at the next checkpoint. Four times that, of narrow rows, was more
 * than the memory that one fold has.
 */
const PIECE_BYTES = 64 * 1024 * 1024

export interface PieceReading {
  readonly run: IngestionRun
  readonly deps: IngestionDeps
  readonly source: ChangeSource
  readonly failures: ReadonlyMap<string, unknown>
  readonly startedMs: number
}

/** On this machine's disk. */
export type PieceHere = Piece & { readonly dir: string }

/** What the source tells after a place. The caller removes its folder. */
export async function nextPiece(
  { run, deps, source, failures, startedMs }: PieceReading,
  told: readonly LogTable[],
  { name, after }: { readonly name: string; readonly after: ChangePosition },
): Promise<PieceHere> {
  const streams = told.map((one) => ({ ...streamOf(one), ...(one.marks ? { marks: true } : {}) }))
  const readAt = await databaseNow(deps.pool)
  const dir = await newTenantScratch(deps.scratchDirectory, run.connection.tenant, 'log-')
  try {
    const room = await deps.checkStorage(run.connection.tenant)
    const spool = new ChangeSpool(dir, streams, room)
    let isLast = true
    for await (const event of source.changes({ capture: name, after, streams, signal: run.signal })) {
      if (event.kind !== 'checkpoint' && failures.has((told[event.stream] as LogTable | undefined)?.table.name ?? ''))
        continue
      await spool.take(event)
      const isLong = spool.bytes >= PIECE_BYTES || performance.now() - startedMs > deps.limits.timeoutMs
      if (event.kind !== 'checkpoint' || !isLong) continue
      isLast = false
      break
    }
    await spool.flush()
    const { checkpoint } = spool
    if (checkpoint === null || !spool.endsWhole) throw brokenLog('it ended without a checkpoint')
    await deps.faultPoint('log.spooled')
    const tables = told.map((one, at) => ({ ...one, spooled: spool.table(at) }))
    return { dir, tables, ...checkpoint, isLast, readAt, room, spooled: null }
  } catch (error) {
    await rm(dir, { recursive: true, force: true })
    throw error
  }
}

export function streamOf({ table: { schema, table }, mode }: LogTable): ChangeStream {
  return { schema, table, primaryKey: mode.primaryKey }
}

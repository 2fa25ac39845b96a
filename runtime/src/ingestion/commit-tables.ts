/** The transaction that makes what was read visible, and what is told of it afterwards. */

import type { Connector } from '@sluice/sdk'
import type pg from 'pg'
import { inTransaction } from '../database/pools.ts'
import { registryCatalog } from '../lake/registry-catalog.ts'
import { endBackfill } from '../registry/backfills.ts'
import { forgetStreams } from '../registry/captures.ts'
import { checkSource } from '../registry/connections.ts'
import { forgetConnectorState, saveConnectorState } from '../registry/connector-states.ts'
import { checkRun } from '../registry/run-claims.ts'
import { saveTableProgress } from '../registry/run-progress.ts'
import { type IngestionDeps, type IngestionRun, say } from './ingestion-run.ts'
import type { LoadedSource } from './load-source.ts'
import type { ReadOutcome } from './read-table.ts'
import { chosen, keepRefused } from './table-progress.ts'

/** `also`: what is to be written with it. */
export async function commitTables(
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
  await say(run, deps, 'info', `${table.name}: ${outcome.rowCount} rows (${mode.mode}${whole})`)
  if (changes) await say(run, deps, 'warn', `${table.name}: its columns have changed in the source: ${changes}`)
  if (sweep !== null) {
    await say(run, deps, 'info', `${table.name}: ${sweep.removed} rows were gone, by a read of ${sweep.keys} keys`)
  }
  if (mode.deletes === 'unseen') {
    await say(run, deps, 'warn', `${table.name}: rows that are gone are not looked for: ${mode.deletesReason}`)
  }
  if (outcome.rejected > 0) {
    const former = keepsOthers ? '; of those that were carried before, the former values stay' : ''
    await say(run, deps, 'warn', `${table.name}: ${outcome.rejected} rows could not be carried${former}`)
  }
  for (const reason of outcome.rejectReasons) await say(run, deps, 'warn', `${table.name}: rejected ${reason}`)
  for (const [column, values] of outcome.withoutValue) {
    await say(run, deps, 'warn', `${table.name}: ${values} rows came without ${column}, ${whoLacksIt(outcome)}`)
  }
}

const whoLacksIt = ({ marks }: ReadOutcome): string =>
  marks ? 'and are left out of products that use it' : 'which no product uses'

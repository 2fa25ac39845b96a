/** Products that a run need not make anew, since nothing of what they are made of has changed. */
import { inTransaction } from '../database/pools.ts'
import { rawTable } from '../materializer/inputs.ts'
import type { Connection } from '../registry/connections.ts'
import { lockFence } from '../registry/fences.ts'
import { latestEpoch, renewInputs } from '../registry/materializations.ts'
import { lastReads } from '../registry/run-progress.ts'
import type { DeployedProduct, IngestionDeps } from './run-ingestion.ts'
import { isReadByLog, tablesOf } from './source-tables.ts'

/**
 * Whether the newest epoch was made by this version of exactly these rows, all of which come by the log of the connection. If
 * so, the epoch is noted to be as old as the read that found nothing new.
 */
export async function isUpToDate(
  connection: Connection,
  { product, manifests }: DeployedProduct,
  deps: Pick<IngestionDeps, 'pool' | 'lake'>,
): Promise<boolean> {
  const tables = tablesOf(manifests.inputs)
  const isOfLog = manifests.inputs.every((input) => input.connection === connection.name) && tables.every(isReadByLog)
  if (!isOfLog) return false
  const epoch = await latestEpoch(deps.pool, product.id)
  if (epoch === null || epoch.kind !== 'materialize' || epoch.version !== product.currentVersion) return false
  const reads = await lastReads(
    deps.pool,
    connection.id,
    tables.map(({ name }) => name),
  )
  const readAts = new Map<string, Date>()
  for (const { name, inputs } of tables) {
    const base = await deps.lake.load(rawTable(connection.tenant, connection.name, name))
    const read = reads.find((one) => one.name === name && one.mode === 'cdc')
    if (base === null || base.snapshotId === null || read === undefined) return false
    for (const input of inputs) {
      const made = epoch.inputs[input.name] as { readonly snapshot_id?: string } | undefined
      if (made?.snapshot_id !== base.snapshotId) return false
      readAts.set(input.name, read.readAt)
    }
  }
  await inTransaction(deps.pool, async (tx) => {
    await lockFence(tx, product.id)
    const newest = await latestEpoch(tx, product.id)
    if (newest?.id === epoch.id) await renewInputs(tx, newest, readAts)
  })
  return true
}

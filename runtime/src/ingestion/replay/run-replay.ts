/** A run that tries rows of quarantines again, and then makes the products of their tables: an ingestion that reads no rows. */
import { isSluiceError } from '@sluice/sdk'
import { replayableTables } from '../../registry/quarantine-replay.ts'
import { appendRunLog, tableProgress } from '../../registry/run-progress.ts'
import type { IngestionDeps, IngestionRun } from '../ingestion-run.ts'
import { about } from '../make-wave.ts'
import { type IngestionResult, inputTables, makeFollowers } from '../run-ingestion.ts'
import { discoverTables, isReadByLog, type SourceTable, tableNotFound, tablesOf } from '../source-tables.ts'
import { reportFailure } from '../table-progress.ts'
import type { DeployedProduct } from '../wave.ts'
import type { ReplayInput } from './replay-input.ts'
import { type Replayed, replayTable } from './replay-table.ts'
import { replayUnsupported } from './unsupported.ts'

/** Throws the first table's or product's error after everything else was done. Repeatable with the same run. */
export async function runReplay(
  run: IngestionRun,
  replay: ReplayInput['replay'],
  deps: IngestionDeps,
): Promise<IngestionResult> {
  await deps.faultPoint('replay.claimed')
  const products = await deps.productsOf(run.connection)
  const inputs = products.flatMap(({ manifests }) => manifests.inputs)
  const read = tablesOf(inputs.filter((input) => input.connection === run.connection.name))
  // What an attempt of this run has done is its own, too, though nothing of it may be left to try.
  const begun = (await tableProgress(deps.pool, run.lease.runId)).map(({ name }) => name)
  const wanted = replay.tables ?? [...begun, ...(await replayableTables(deps.pool, run.connection.id, replay))]
  const tables = read.filter(({ name }) => wanted.includes(name))
  const failures = await replayTables(run, tables, replay, deps)
  const touched = products.filter((product) => readsOne(run, product, tables))
  const wave = await makeFollowers(run, touched, failures, deps)
  await deps.faultPoint('replay.before-finish')
  const [error] = [...failures.values(), ...wave.errors]
  if (error !== undefined) throw error
  return { products: wave.outcomes }
}

function readsOne(run: IngestionRun, { manifests }: DeployedProduct, tables: readonly SourceTable[]): boolean {
  return inputTables(run, manifests).some(({ name }) => tables.some((table) => table.name === name))
}

/** Tables that failed, with why. */
async function replayTables(
  run: IngestionRun,
  tables: readonly SourceTable[],
  replay: ReplayInput['replay'],
  deps: IngestionDeps,
): Promise<ReadonlyMap<string, unknown>> {
  const failures = new Map<string, unknown>()
  const finished = await tableProgress(deps.pool, run.lease.runId)
  // What an attempt of this run has committed is not tried once more: its numbers are those of the run.
  const isFinished = ({ name }: SourceTable) => finished.some((one) => one.name === name && one.state === 'succeeded')
  const open = tables.filter((table) => !isFinished(table))
  if (open.length === 0) return failures
  const connector = await deps.openConnector(run.connection, { oneMoment: false })
  try {
    const names = open.map(({ name }) => name)
    const found = await discoverTables(connector, names, run.signal)
    for (const table of open) {
      try {
        if (isReadByLog(table)) throw replayUnsupported(table.name, 'log')
        const description = found.get(table.name)
        if (description === undefined) throw tableNotFound(table.name)
        const replayed = await replayTable({ run, table, description, connector, choice: replay }, deps)
        await appendRunLog(deps.pool, run.lease, 'info', textOf(table, replayed))
      } catch (error) {
        run.signal.throwIfAborted()
        if (isSluiceError(error, 'FENCED')) throw error
        failures.set(table.name, about(table.name, error))
        await reportFailure(run, table.name, error, deps)
      }
    }
  } finally {
    await connector.close()
  }
  return failures
}

function textOf({ name }: SourceTable, { read, applied, superseded, refused }: Replayed): string {
  return `${name}: of ${read} rows that were put aside ${applied} are in the table now, ${superseded} were superseded, ${refused} stay`
}

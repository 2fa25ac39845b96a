/** An ingestion run: every table that deployed products read from the connection, then those products. */

import type { StagedCommit } from '@sluice/iceberg'
import { type Connector, type DiscoveredTable, isSluiceError } from '@sluice/sdk'
import type { ManifestSet } from '../manifest/manifest-set.ts'
import { contractOf } from '../manifest/schema-contract.ts'
import { backfillsOf } from '../registry/backfills.ts'
import { databaseNow } from '../registry/clock.ts'
import type { Connection } from '../registry/connections.ts'
import { LOG_SPOOLED } from '../registry/log-spool.ts'
import { saveRunResult, tableProgress } from '../registry/run-progress.ts'
import { commitTables } from './commit-tables.ts'
import { type HeldParts, heldParts, NOTHING_HELD, ofPart, settleParts } from './held-parts.ts'
import { ingestLog, type LogHooks } from './ingest-log.ts'
import { type IngestionDeps, type IngestionRun, say } from './ingestion-run.ts'
import { askedOf, isMarked, type LoadedSource, loadSource, type Moment } from './load-source.ts'
import { about, makeWave, type Wave } from './make-wave.ts'
import type { ProductOutcome } from './product-outcome.ts'
import { ingestPushed } from './push/ingest-pushed.ts'
import { PUSH_TYPE } from './push/settings.ts'
import {
  discoverTables,
  groupsOf,
  isReadByLog,
  readMode,
  type SourceTable,
  tableNotFound,
  tablesOf,
} from './source-tables.ts'
import { reportFailure } from './table-progress.ts'
import type { DeployedProduct } from './wave.ts'

export interface IngestionResult extends Readonly<Record<string, unknown>> {
  readonly products: readonly ProductOutcome[]
}

/** Throws the first table's or product's error after everything else was done. Repeatable with the same run. */
export async function runIngestion(run: IngestionRun, deps: IngestionDeps): Promise<IngestionResult> {
  await deps.faultPoint('ingestion.claimed')
  const products = await deps.productsOf(run.connection)
  const inputs = products.flatMap(({ manifests }) => manifests.inputs)
  const all = tablesOf(inputs.filter((input) => input.connection === run.connection.name))
  if (all.length === 0) await say(run, deps, 'warn', 'no deployed product reads from this connection')
  const held = await heldParts(run, deps.pool)
  const tables =
    run.isFollowing === true ? followed(run.connection, all).filter(({ name }) => !held.isTable(name)) : all
  const failures = await ingestTables(run, tables, products, deps)
  const wave = await makeFollowers(run, products, failures, deps, held)
  await deps.faultPoint('ingestion.before-finish')
  const borne = new Set(tables.filter((table) => isBorne(table, failures)).map(({ name }) => name))
  for (const name of borne) {
    await say(run, deps, 'warn', `${name}: it is gone; by their contracts its products go on with the rows read last`)
  }
  const failed = [...failures].flatMap(([name, failure]) => (borne.has(name) ? [] : [failure]))
  // Whatever else is wrong, the run is tried again for what the source must not have to keep.
  const [error] = [...failed.filter(isSpooled), ...failed, ...wave.errors]
  const parts = await settleParts(run, { tables, failures, wave, held }, deps.pool)
  if (error === undefined) return { products: wave.outcomes, ...parts }
  if (run.isFollowing !== true || (tables.length > 0 && failures.size === tables.length)) throw error
  await saveRunResult(deps.pool, run.lease, { products: wave.outcomes, partial: true, ...parts })
  throw ofPart(error)
}

const isSpooled = (error: unknown): boolean => isSluiceError(error) && error.code === LOG_SPOOLED

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
  const isHeld = ({ product }: DeployedProduct) => held.isProduct(product.id)
  // Who asks for a run by himself is told what became of each product.
  const leaving = run.isFollowing === true ? { leavesFor: run.connection.id } : {}
  return makeWave(run, followers, { unread, isHeld, ...leaving, done: [] }, deps)
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
        if (moments === 0) await say(run, deps, 'warn', 'the source shows no common moment: each table is of its own')
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

/** The source could not show it, or has no room for the session that keeps the moment. */
function isOfAnotherMoment(error: unknown): boolean {
  return isSluiceError(error) && (error.code === 'source_moment_lost' || error.code === 'source_busy')
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
    say: (level, message) => say(run, deps, level, message),
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
  return isSluiceError(error) && error.kind === 'FENCED'
}

/** How the inputs of a product lie in the lake. */
import type { Lake, Scan, TableRef, TableState } from '@sluice/iceberg'
import { SluiceError } from '@sluice/sdk'
import type pg from 'pg'
import { inTransaction } from '../database/pools.ts'
import { registryCatalog } from '../lake/registry-catalog.ts'
import { SANDBOX } from '../lake/tenant-layout.ts'
import { DEFAULT_SCHEMA, qualified, rawTableName } from '../manifest/context.ts'
import type { Input, ManifestSet } from '../manifest/manifest-set.ts'
import { usedOf } from '../manifest/used-columns.ts'
import { unsettledTables } from '../registry/captures.ts'
import { databaseNow } from '../registry/clock.ts'
import { findConnectionByName, isOfSource } from '../registry/connections.ts'
import type { Product } from '../registry/products.ts'
import { stateOfScan } from './lake-state.ts'
import { lacksValues, MOMENT, markedUsed, READ_AT, ROWS_REJECTED } from './raw-summary.ts'
import { changesSince } from './source-changes.ts'
import type { InputState } from './transform.ts'

/**
 * The raw table of a source table, in the tenant's own zone of the lake. The connection "sandbox", which nobody can
 * register, stands for the tenant's plain tables.
 */
export function rawTable(tenant: string, connection: string, table: string) {
  if (connection !== SANDBOX) return { warehouse: tenant, namespace: rawDomain(connection), table: rawTableName(table) }
  // The sandbox has no schemas: a dot is part of a name there.
  const own = table.startsWith(`${DEFAULT_SCHEMA}.`) ? table.slice(DEFAULT_SCHEMA.length + 1) : table
  return { warehouse: tenant, namespace: SANDBOX, table: own }
}

const RAW = 'raw_'

/** Where the rows of a connection lie as they came. */
export function rawDomain(connection: string): string {
  return `${RAW}${connection}`
}

/** The connection whose raw tables lie there; null of other namespaces. */
export function connectionOf(domain: string): string | null {
  return domain.startsWith(RAW) ? domain.slice(RAW.length) : null
}

export interface InputDeps {
  readonly pool: pg.Pool
  readonly lake: Lake
}

/**
 * The inputs as they lie in the lake now, all of one instant: of tables that were committed together none is seen without the
 * others. Throws CONFLICT `input_not_ingested`.
 */
export async function readInputs(
  product: Product,
  manifests: ManifestSet,
  signal: AbortSignal,
  { lake, pool }: InputDeps,
): Promise<readonly InputState[]> {
  const tables = manifests.inputs.map((input) => rawTable(product.tenant, input.connection, input.table))
  // Of what is no copy of anything: it is read now.
  const now = (await databaseNow(pool)).toISOString()
  const found = await inTransaction(
    pool,
    async (db) => {
      const catalog = registryCatalog(db)
      await refuseUnsettled(db, product.tenant, manifests.inputs)
      const states: (TableState | null)[] = []
      for (const table of tables) states.push(await lake.load(table, { signal, catalog }))
      return states
    },
    { isolation: 'repeatable read', readOnly: true, signal },
  )
  return Promise.all(
    manifests.inputs.map(async (input, index) => {
      const base = found[index] ?? null
      const scan = base && (await lake.scan(base, {}, signal))
      const connection =
        input.connection === SANDBOX ? null : await findConnectionByName(pool, product.tenant, input.connection)
      const isFormer = scan !== null && connection !== null && !isOfSource(scan.summary, connection)
      const state = scan && !isFormer && stateOfScan(scan)
      // What anybody may write says nothing of rows that a connection has brought.
      const summary: Scan['summary'] = scan === null || connection === null ? {} : scan.summary
      if (state && lacksValues(summary, manifests, input)) throw inputLacksValues(input)
      if (state) {
        return {
          input,
          state,
          table: tables[index] as TableRef,
          moment: summary[MOMENT] ?? null,
          readAt: connection === null ? now : readAtOf(summary, scan?.committedAtMs ?? null),
          changes: changesSince(base, state.columns),
          rejected: Number(summary[ROWS_REJECTED] ?? 0),
          marked: markedUsed(summary, manifests, input),
          used: usedOf(
            state.columns.map(({ name }) => name),
            manifests,
            input,
          ),
        }
      }
      throw new SluiceError('CONFLICT', `the input "${input.name}" has not been ingested yet`, {
        code: 'input_not_ingested',
        remedy:
          input.connection === SANDBOX
            ? 'Write the table through the Iceberg catalog first.'
            : `Sync the connection "${input.connection}".`,
      })
    }),
  )
}

/** Of a table whose log has not passed what its read has seen, some rows are older than others. */
async function refuseUnsettled(db: pg.PoolClient, tenant: string, inputs: readonly Input[]): Promise<void> {
  for (const name of new Set(inputs.map(({ connection }) => connection))) {
    const connection = name === SANDBOX ? null : await findConnectionByName(db, tenant, name)
    const unsettled = connection === null ? new Set<string>() : await unsettledTables(db, connection.id)
    const input = inputs.find((one) => one.connection === name && unsettled.has(qualified(one.table)))
    if (input === undefined) continue
    throw new SluiceError('CONFLICT', `the input "${input.name}" was read, and the log of its source was not yet`, {
      code: 'input_not_ingested',
      remedy: `Sync the connection "${name}".`,
    })
  }
}

/** A release before this one has not said it; the commit came after the read. */
function readAtOf(summary: Scan['summary'], committedAtMs: number | null): string | null {
  return summary[READ_AT] ?? (committedAtMs === null ? null : new Date(committedAtMs).toISOString())
}

/** Which columns these are is known to who may read the table, and to nobody else. */
function inputLacksValues({ name, connection }: Input): SluiceError {
  const message = `the input "${name}" was read when no product used all the columns that this one uses, and lacks values of them`
  return new SluiceError('CONFLICT', message, {
    code: 'input_not_ingested',
    remedy: `Sync the connection "${connection}": it reads the table whole.`,
  })
}

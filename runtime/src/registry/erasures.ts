/** Erasures of rows by their keys: asked for, done by a run, and told of afterwards without the key. */
import { createHmac } from 'node:crypto'
import type { Actor } from './actor.ts'
import { newId } from './ids.ts'
import type { MasterKeys } from './master-keys.ts'
import { type Page, type PageRequest, pageParameters, toPage } from './paging.ts'
import type { RunState } from './runs.ts'
import { seal, unseal } from './sealing.ts'
import { change, json, many, maybeOne, one, type Queryable, type Transaction } from './sql.ts'
import { rowsKey } from './tenant-keys.ts'

/** What was to be removed, as it was counted when the work began. */
export interface FoundBefore {
  /** Rows of the raw table that had the key. */
  readonly rows: number
  /** By lake table, as `namespace.table`: how many snapshots there were besides the current one. */
  readonly snapshots: Readonly<Record<string, number>>
}

export interface ErasedProduct {
  readonly name: string
  /** That it was made anew as. */
  readonly epoch: number
  /** Its rows were looked for by the key, too; else it has not the key's columns. */
  readonly by_key: boolean
  /** Types of its endpoints whose history begins anew. */
  readonly histories: readonly string[]
}

/** What was searched at the end, and found to have nothing. */
export interface ErasureProof {
  /** Lake tables: each has one snapshot, and no file or entry of a manifest besides. */
  readonly tables: readonly string[]
  readonly products: readonly ErasedProduct[]
  /** Rows that were removed from the quarantine of the table: those of the key, and those whose key was not known. */
  readonly quarantined: number
  readonly exports: number
  /** Rows with the key, in every place that was searched. */
  readonly rows: 0
}

export interface Erasure {
  readonly id: string
  readonly tenant: string
  readonly connectionId: string
  readonly table: string
  readonly keyColumns: readonly string[]
  readonly keyDigest: string
  readonly runId: string
  readonly state: RunState
  readonly found: FoundBefore | null
  readonly proof: ErasureProof | null
  readonly createdBy: Actor
  readonly createdAt: Date
  readonly finishedAt: Date | null
}

const COLUMNS = `e.id, e.tenant, e.connection_id as "connectionId", e.table_name as "table", e.key_columns as "keyColumns",
  encode(e.key_digest, 'hex') as "keyDigest", e.run_id as "runId", e.found, e.proof, e.created_by as "createdBy", e.created_at as "createdAt",
  e.finished_at as "finishedAt",
  case when e.state <> 'open' then e.state else coalesce((select r.state from runs r where r.id = e.run_id), 'failed') end as state`

export interface NewErasure {
  readonly tenant: string
  readonly connectionId: string
  readonly table: string
  readonly key: Readonly<Record<string, string>>
  readonly createdBy: Actor
}

/** @param run queues the run of the erasure with that id, and gives the run's */
export async function createErasure(
  tx: Transaction,
  masters: MasterKeys,
  { tenant, connectionId, table, key, createdBy }: NewErasure,
  run: (id: string) => Promise<string>,
): Promise<Erasure> {
  const id = newId('era')
  const secret = await rowsKey(tx, masters, tenant)
  const sorted = Object.entries(key).toSorted(([a], [b]) => (a < b ? -1 : 1))
  const digest = createHmac('sha256', secret)
    .update(JSON.stringify(['erasure', connectionId, table, sorted]))
    .digest()
  const sealed = seal(secret, Buffer.from(JSON.stringify(key)), ['erasure', tenant, id])
  return one<Erasure>(
    tx,
    'noting an erasure',
    `with e as (
       insert into erasures (id, tenant, connection_id, table_name, key_columns, key_digest, sealed, run_id, created_by)
       values ($1, $2, $3, $4, $5, $6, $7, $8, $9) returning *)
     select ${COLUMNS} from e`,
    [id, tenant, connectionId, table, sorted.map(([name]) => name), digest, sealed, await run(id), json(createdBy)],
  )
}

/** With the key in clear; null where it has ended. */
export async function openErasure(
  db: Queryable,
  masters: MasterKeys,
  tenant: string,
  id: string,
): Promise<(Erasure & { readonly key: Readonly<Record<string, string>> }) | null> {
  const row = await maybeOne<Erasure & { readonly sealed: Buffer }>(
    db,
    'reading an erasure',
    `select ${COLUMNS}, e.sealed from erasures e where e.tenant = $1 and e.id = $2 and e.state = 'open' and e.sealed is not null`,
    [tenant, id],
  )
  if (row === null) return null
  const { sealed, ...erasure } = row
  const text = unseal(await rowsKey(db, masters, tenant), sealed, ['erasure', tenant, id]).toString('utf8')
  return { ...erasure, key: JSON.parse(text) as Readonly<Record<string, string>> }
}

/** Once: another attempt finds less. */
export async function noteFound(db: Queryable, id: string, found: FoundBefore): Promise<void> {
  const statement = 'update erasures set found = $2 where id = $1 and found is null'
  await change(db, 'noting what is to be erased', statement, [id, json(found)])
}

export async function finishErasure(tx: Transaction, id: string, proof: ErasureProof): Promise<void> {
  await change(
    tx,
    'ending an erasure',
    `update erasures set state = 'succeeded', proof = $2, sealed = null, finished_at = clock_timestamp()
     where id = $1 and state = 'open'`,
    [id, json(proof)],
  )
}

/** Of runs that have ended otherwise: their keys are not kept. Repeatable. */
export async function closeErasures(db: Queryable, tenant: string): Promise<void> {
  await change(
    db,
    'ending erasures',
    `update erasures e set state = case when r.state = 'cancelled' then 'cancelled' else 'failed' end, sealed = null,
       finished_at = clock_timestamp()
     from erasures o left join runs r on r.id = o.run_id
     where e.id = o.id and e.tenant = $1 and e.state = 'open' and (r.id is null or r.state in ('succeeded', 'failed', 'cancelled'))`,
    [tenant],
  )
}

export function findErasure(db: Queryable, tenant: string, connectionId: string, id: string): Promise<Erasure | null> {
  return maybeOne<Erasure>(
    db,
    'reading an erasure',
    `select ${COLUMNS} from erasures e where e.tenant = $1 and e.connection_id = $2 and e.id = $3`,
    [tenant, connectionId, id],
  )
}

/** Newest first. */
export async function listErasures(
  db: Queryable,
  tenant: string,
  connectionId: string,
  page: PageRequest,
): Promise<Page<Erasure>> {
  const parameters = pageParameters(page)
  const rows = await many<Erasure>(
    db,
    'listing erasures',
    `select ${COLUMNS} from erasures e
     where e.tenant = $4 and e.connection_id = $5 and ($2::timestamptz is null or (e.created_at, e.id) < ($2, $3))
     order by e.created_at desc, e.id desc limit $1`,
    [...parameters, tenant, connectionId],
  )
  return toPage(rows, parameters, (row) => row)
}

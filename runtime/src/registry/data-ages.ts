/**
 * How old rows are: since when the source was read that they are of. Of an epoch that is the first read of its inputs, and
 * not when it was made: rows that were read yesterday are of yesterday, however often they are made anew.
 */
import { PRODUCTS } from './product-sources.ts'
import { maybeOne, type Queryable } from './sql.ts'

/** What of an input is kept with the epoch that was made of it. */
interface KeptInput {
  readonly read_at?: string | null
}

interface MadeOf {
  /** As of `Materialization`. */
  readonly inputs: Readonly<Record<string, unknown>>
  readonly committedAt: Date
}

/** Of an epoch that does not say it, as those before this release do not: when it was committed, which is later. */
export function readAtOf({ inputs, committedAt }: MadeOf): Date {
  const reads = Object.values(inputs).map((input) => Date.parse((input as KeptInput | null)?.read_at ?? ''))
  const first = Math.min(...reads)
  return reads.length === 0 || Number.isNaN(first) ? committedAt : new Date(Math.min(first, committedAt.getTime()))
}

/**
 * How old the rows of a product would be that is made now; null where an input was never read. Tables of the sandbox are
 * no copies of anything: they are as of now. Products as inputs are as old as their newest epochs.
 */
export async function offeredReadAt(db: Queryable, productId: string): Promise<Date | null> {
  const row = await maybeOne<{ readonly at: Date; readonly isWhole: boolean }>(
    db,
    'reading how old inputs are',
    `select least(min(case when i.connection = 'sandbox' then clock_timestamp() else coalesce(r.at, f.read_at) end), clock_timestamp()) as at,
       bool_and(i.connection = 'sandbox' or coalesce(r.at, f.read_at) is not null) as "isWhole"
     from products p join product_versions v on v.product_id = p.id and v.version = p.current_version
       cross join jsonb_to_recordset(v.normalised->'inputs') as i (connection text, "table" text)
       left join connections c on c.tenant = p.tenant and c.name = i.connection
       left join products u on i.connection = '${PRODUCTS}' and u.tenant = p.tenant and u.domain || '.' || u.name = i."table"
       left join product_freshness f on f.product_id = u.id
       left join lateral (
         select coalesce(t.read_at, t.updated_at) as at from runs r join run_tables t on t.run_id = r.id
         where r.connection_id = c.id and t.state = 'succeeded' and (c.source_since is null or t.updated_at > c.source_since)
           and t.name = case when strpos(i."table", '.') > 0 then i."table" else 'public.' || i."table" end
         order by r.created_at desc, r.id desc limit 1) r on true
     where p.id = $1`,
    [productId],
  )
  return row === null || !row.isWhole ? null : row.at
}

/** When the newest run of the connection that succeeded began to read; null: none has. */
export async function connectionReadAt(db: Queryable, connectionId: string): Promise<Date | null> {
  const row = await maybeOne<{ readonly at: Date }>(
    db,
    'reading how old a connection’s rows are',
    `select started_at as at from runs where connection_id = $1 and state = 'succeeded' and started_at is not null
     order by created_at desc, id desc limit 1`,
    [connectionId],
  )
  return row?.at ?? null
}

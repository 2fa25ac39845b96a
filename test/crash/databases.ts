/** The embedded databases of a running runtime, seen by their superuser: past every policy. */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import pg from 'pg'

export async function withDatabase<T>(
  dataFolder: string,
  database: 'sluice_registry' | 'sluice_serving',
  work: (client: pg.Client) => Promise<T>,
): Promise<T> {
  const folder = join(dataFolder, 'postgres')
  const password = (await readFile(join(folder, 'password'), 'utf8')).trim()
  const port = Number((await readFile(join(folder, 'cluster/postmaster.pid'), 'utf8')).split('\n')[3])
  const client = new pg.Client({ host: '127.0.0.1', port, user: 'postgres', password, database })
  // The server ends with a killed runtime: the statement on its way fails, and that is all there is to say of it.
  client.on('error', () => {})
  await client.connect()
  try {
    return await work(client)
  } finally {
    await client.end()
  }
}

export interface CommittedEpoch {
  readonly product: 'people' | 'visits'
  readonly epoch: number
  readonly runId: string
  readonly snapshot: string
  readonly committedAt: string
}

export interface RegistryFacts {
  /** Oldest first. */
  readonly runs: readonly { readonly id: string; readonly state: string; readonly error: unknown }[]
  readonly epochs: readonly CommittedEpoch[]
  /** Events that tell of a commit, by product's id. */
  readonly announced: number
  readonly endpoints: readonly { readonly endpoint: string; readonly variant: string; readonly epoch: number }[]
}

const INSTANT = (column: string) => `to_char(${column} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`

export function registryFacts(dataFolder: string): Promise<RegistryFacts> {
  return withDatabase(dataFolder, 'sluice_registry', async (client) => {
    const rows = async <R extends object>(sql: string) => (await client.query(sql)).rows as R[]
    return {
      runs: await rows('select id, state, error from runs order by created_at, id'),
      epochs: await rows(`select p.name as product, m.epoch::int as epoch, m.run_id as "runId",
          m.snapshots ->> 'clear' as snapshot, ${INSTANT('m.committed_at')} as "committedAt"
        from materializations m join products p on p.id = m.product_id where m.epoch is not null order by 1, 2`),
      announced: (await rows<{ n: number }>(`select count(*)::int as n from events where kind = 'materialization'`))[0]
        ?.n as number,
      endpoints: await rows(`select p.name || '/' || e.endpoint as endpoint, e.variant, e.applied_epoch::int as epoch
        from endpoint_states e join products p on p.id = e.product_id order by 1, 2`),
    }
  })
}

/** All rows of a lookup table, as text. */
export function lookupRows(
  dataFolder: string,
  product: string,
  variant: string,
  select: string,
): Promise<readonly (readonly string[])[]> {
  return withDatabase(dataFolder, 'sluice_serving', async (client) => {
    const found = await client.query<{ partition: string }>(
      `select partition from sluice_store.datasets where product = $1 and variant = $2 and endpoint = 'lookup'`,
      [product, variant],
    )
    const table = client.escapeIdentifier(found.rows[0]?.partition as string)
    return (
      await client.query({ text: `select ${select} from sluice_partitions.${table} order by 1, 2`, rowMode: 'array' })
    ).rows as string[][]
  })
}

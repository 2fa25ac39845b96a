/** Questions about what a dataset holds: its epoch, its digest. */
import { createHash } from 'node:crypto'
import type { AppliedEpoch, Digest } from '@sluice/sdk'
import { jsonExpression } from './column-types.ts'
import {
  type DatasetKey,
  loadDataset,
  notMaterialized,
  notProvisioned,
  registerExists,
  requirePlace,
} from './datasets.ts'
import { qualified } from './identifiers.ts'
import type { ServedColumn } from './predicates.ts'
import type { WantedTable } from './provisioning.ts'
import type { Sessions } from './sessions.ts'

/** What was last committed; null where nothing was, or its rows are gone with their table. */
export async function recoverEpoch(sessions: Sessions, key: DatasetKey): Promise<AppliedEpoch | null> {
  const dataset = await sessions.transaction('writer', key.tenant, 'recovering', async (client) =>
    (await registerExists(client)) ? await loadDataset(client, key) : null,
  )
  if (dataset === null || !dataset.stands || dataset.epoch === null || dataset.committedAt === null) return null
  return { epoch: dataset.epoch, fence: dataset.fence ?? 0n, committedAt: dataset.committedAt }
}

/**
 * Over the rows that meet the condition: each row's values as a JSON array (columns by name, values as in answers)
 * goes through SHA-256; the four 64-bit words of these are added up, and the sums and the count hashed once more. A
 * sum has no order, and unlike an exclusive or it counts equal rows.
 */
export async function contentDigest(
  sessions: Sessions,
  wanted: WantedTable,
  columns: readonly ServedColumn[],
  condition: string,
  signal: AbortSignal,
): Promise<Digest> {
  const { key, schema } = wanted
  const byName = [...columns].sort((left, right) => (left.name < right.name ? -1 : 1))
  const values = byName.map((column) => `coalesce(${jsonExpression(column.type, column.sql)}, 'null')`)
  const json = `'[' || ${values.join(` || ',' || `)} || ']'`
  const words = [1, 9, 17, 25].map((from) => `sum(${wordAt(from)})::text`)
  return await sessions.transaction(
    'reader',
    key.tenant,
    'computing a digest',
    async (client) => {
      const dataset = (await registerExists(client)) ? await loadDataset(client, key) : null
      if (dataset === null) throw notProvisioned(key)
      if (dataset.epoch === null) throw notMaterialized(key)
      requirePlace(dataset, key)
      const result = await client.query<string[]>({
        text: `select count(*)::text, ${words.join(', ')} from (select sha256(convert_to(${json}, 'UTF8')) as hash
          from ${qualified(schema, dataset.relation)} t where t.tenant_id = $1 and ${condition}) rows`,
        values: [key.tenant],
        rowMode: 'array',
      })
      const [count = '0', ...sums] = result.rows[0] ?? []
      return { rowCount: Number(count), sha256: digestOf(count, sums) }
    },
    signal,
  )
}

function wordAt(from: number): string {
  return `('x' || encode(substr(hash, ${from}, 8), 'hex'))::bit(64)::bigint`
}

function digestOf(count: string, sums: readonly (string | null)[]): string {
  return createHash('sha256')
    .update(JSON.stringify([count, ...sums]))
    .digest('hex')
}

/** The register: which dataset there is, in what state, and where its rows are. */
import {
  type AppliedEpoch,
  notMaterialized,
  type RowPolicy,
  type TableSchema,
  type Target,
  tenantOf,
} from '@sluice/sdk'
import type { Cluster, Found } from './cluster.ts'
import type { Config } from './index.ts'

export interface Dataset {
  readonly id: unknown
  readonly schema: TableSchema
  readonly config: Config
  readonly policy: RowPolicy | null
  readonly fence: bigint | null
  readonly applied: AppliedEpoch | null
  /** Null before the first epoch. */
  readonly generation: unknown
  /** Which attempt has written each epoch of the generation. */
  readonly attempts: ReadonlyMap<bigint, string>
}

export function addressOf({ scope, domain, product, variant }: Target<Config>): readonly string[] {
  return [tenantOf(scope), domain, product, variant]
}

export const BY_ADDRESS = 'tenant = ? AND domain = ? AND product = ? AND variant = ?'

export async function findDataset(cluster: Cluster, target: Target<Config>): Promise<Dataset | null> {
  const found = await cluster.decided(`SELECT * FROM datasets WHERE ${BY_ADDRESS}`, addressOf(target))
  return found === undefined ? null : datasetFrom(found)
}

/** Throws TRANSIENT `not_materialized` where there is none. */
export async function datasetOf(cluster: Cluster, target: Target<Config>): Promise<Dataset> {
  const dataset = await findDataset(cluster, target)
  if (dataset === null) throw notMaterialized()
  return dataset
}

function datasetFrom(found: Found): Dataset {
  const epoch = found['epoch'] as bigint | null
  const attempts = Object.entries((found['attempts'] ?? {}) as Record<string, unknown>)
  return {
    id: found['id'],
    schema: JSON.parse(String(found['shape'])) as TableSchema,
    config: JSON.parse(String(found['config'])) as Config,
    policy: found['policy'] === null ? null : (JSON.parse(String(found['policy'])) as RowPolicy),
    fence: found['fence'] as bigint | null,
    applied:
      epoch === null
        ? null
        : {
            epoch: Number(epoch),
            fence: found['epoch_fence'] as bigint,
            committedAt: String(found['committed_at']),
          },
    generation: found['generation'],
    attempts: new Map(attempts.map(([at, attempt]) => [BigInt(at), String(attempt)])),
  }
}

/** Rows of a generation are spread over so many partitions. */
export const PARTS = 16

/** Removes the rows of a dataset's generations that are not served and that no later write can serve. */
export async function dropGenerations(
  cluster: Cluster,
  { id, generation }: Pick<Dataset, 'id' | 'generation'>,
  upToEpoch: bigint | null,
): Promise<void> {
  const found = await cluster.all('SELECT generation, epoch FROM generations WHERE dataset = ?', [id])
  const stale = found.filter(
    (one) =>
      String(one['generation']) !== String(generation) && (upToEpoch === null || (one['epoch'] as bigint) <= upToEpoch),
  )
  for (const one of stale) {
    const parts = Array.from({ length: PARTS }, (_, part) => [id, one['generation'], part])
    await cluster.many('DELETE FROM rows WHERE dataset = ? AND generation = ? AND part = ?', parts)
    await cluster.many('DELETE FROM generations WHERE dataset = ? AND generation = ?', [[id, one['generation']]])
  }
}

export async function dropDataset(cluster: Cluster, address: readonly string[], id: unknown): Promise<void> {
  // The register first: what is not in it cannot be read. Rows that are left belong to a number that never comes back.
  await cluster.conditionally(`DELETE FROM datasets WHERE ${BY_ADDRESS} IF id = ?`, [...address, id])
  await dropGenerations(cluster, { id, generation: null }, null)
}

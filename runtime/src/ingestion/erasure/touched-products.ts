/** The products that may have something of a source's row: by the version in service, or by any before it. */
import type pg from 'pg'
import { qualified } from '../../manifest/context.ts'
import { keepsHistory } from '../../manifest/contract-config.ts'
import type { ManifestSet } from '../../manifest/manifest-set.ts'
import type { Connection } from '../../registry/connections.ts'
import { latestEpoch } from '../../registry/materializations.ts'
import { previewsAmong } from '../../registry/previews.ts'
import { PRODUCTS } from '../../registry/product-sources.ts'
import { deployedProducts, type Product } from '../../registry/products.ts'
import { findVersion, versionsReading } from '../../registry/versions.ts'
import { fullNameOf } from '../product-outcome.ts'
import { type DeployedProduct, waveOf } from '../wave.ts'

type Source = Pick<Connection, 'tenant' | 'name'>

/** Those that have been made, without previews, each after those that it is made of. */
export async function touchedProducts(
  pool: pg.Pool,
  source: Source,
  table: string,
): Promise<readonly DeployedProduct[]> {
  const members: DeployedProduct[] = []
  for (const product of await deployedReaders(pool, source, table)) {
    if ((await latestEpoch(pool, product.id)) === null) continue
    const version = await findVersion<ManifestSet>(pool, product.id, product.currentVersion as string)
    if (version !== null) members.push({ product, manifests: version.normalised })
  }
  return waveOf(members, [])
}

/** Made or not, without previews. */
export async function deployedReaders(pool: pg.Pool, source: Source, table: string): Promise<readonly Product[]> {
  const ids = await touchedIds(pool, source, table)
  const deployed = await deployedProducts(pool, source.tenant)
  return deployed.filter(({ id, previewOf }) => previewOf === null && ids.has(id))
}

/** Made or not, and those that are over until their rows are gone. */
export async function touchedPreviews(pool: pg.Pool, source: Source, table: string): Promise<readonly Product[]> {
  return previewsAmong(pool, source.tenant, [...(await touchedIds(pool, source, table))])
}

async function touchedIds(pool: pg.Pool, { tenant, name }: Source, table: string): Promise<ReadonlySet<string>> {
  const versions = await versionsReading<ManifestSet, unknown>(pool, tenant, [name, PRODUCTS])
  const isFirst = ({ inputs }: ManifestSet) =>
    inputs.some((input) => input.connection === name && qualified(input.table) === table)
  const touched = new Map(
    versions.filter(({ normalised }) => isFirst(normalised)).map((one) => [nameOf(one), one.productId]),
  )
  // Grows while it is gone through.
  for (const upstream of touched.keys()) {
    for (const version of versions) {
      const reads = version.normalised.inputs.some((input) => input.connection === PRODUCTS && input.table === upstream)
      if (reads) touched.set(nameOf(version), version.productId)
    }
  }
  return new Set(touched.values())
}

const nameOf = (version: { readonly namespace: string; readonly product: string }): string =>
  fullNameOf({ domain: version.namespace, name: version.product })

/** Types of endpoints that keep what rows were: their histories begin anew. */
export function historiesOf({ serving }: ManifestSet): readonly string[] {
  return serving.endpoints.filter(({ type, config }) => keepsHistory(type, config)).map(({ type }) => type)
}

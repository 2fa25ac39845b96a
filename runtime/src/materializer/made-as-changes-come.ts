/** What is written as changes come: raw tables of connections that are followed, and products that are made of these. */
import { productOfInput } from '../manifest/context.ts'
import type { ManifestSet } from '../manifest/manifest-set.ts'
import { findProductsByName, type Product } from '../registry/products.ts'
import { followedConnections } from '../registry/schedules.ts'
import type { Queryable } from '../registry/sql.ts'
import { findVersion } from '../registry/versions.ts'

/** Whether a schedule of the connection is continuous. */
export async function isFollowed(db: Queryable, tenant: string, connection: string): Promise<boolean> {
  return (await followedConnections(db, tenant)).has(connection)
}

/** Whether an input of the product, or of one that it is made of, is a table of a followed connection. */
export async function isMadeAsChangesCome(
  db: Queryable,
  { tenant, previewOf }: Pick<Product, 'tenant' | 'previewOf'>,
  manifests: ManifestSet,
): Promise<boolean> {
  if (previewOf !== null) return false
  const connections = await followedConnections(db, tenant)
  if (connections.size === 0) return false
  return isMadeOf(db, tenant, connections, manifests, new Set())
}

async function isMadeOf(
  db: Queryable,
  tenant: string,
  connections: ReadonlySet<string>,
  { inputs, compute }: ManifestSet,
  seen: Set<string>,
): Promise<boolean> {
  // What has a schedule of its own is not made by syncs.
  if (compute.trigger !== 'on_ingestion' || compute.schedule !== undefined) return false
  if (inputs.some(({ connection }) => connections.has(connection))) return true
  for (const input of inputs) {
    const of = productOfInput(input)
    if (of === null || seen.has(input.table)) continue
    seen.add(input.table)
    const [product] = await findProductsByName(db, tenant, of.name, of.domain)
    if (product === undefined || product.currentVersion === null) continue
    const version = await findVersion<ManifestSet>(db, product.id, product.currentVersion)
    if (version !== null && (await isMadeOf(db, tenant, connections, version.normalised, seen))) return true
  }
  return false
}

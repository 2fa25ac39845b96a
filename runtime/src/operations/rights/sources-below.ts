/** What versions of products are made of: tables, and products with what these are made of. */
import { SANDBOX } from '../../lake/tenant-layout.ts'
import { productOfInput, qualified } from '../../manifest/context.ts'
import type { ManifestSet } from '../../manifest/manifest-set.ts'
import type { Actor } from '../../registry/actor.ts'
import { type Connection, findConnectionByName } from '../../registry/connections.ts'
import { findProductsByName, type Product } from '../../registry/products.ts'
import type { Queryable } from '../../registry/sql.ts'
import { deployedVersions } from '../../registry/versions.ts'

/** A version with what it reads; null: it is not in service yet. */
export interface ReadingVersion {
  readonly normalised: ManifestSet
  readonly deployedAt: Date | null
}

/** A table of a connection, or a product. Null where it is gone: of its name there may be another one now. */
export type InputSource =
  | { readonly kind: 'table'; readonly name: string; readonly table: string; readonly connection: Connection | null }
  | { readonly kind: 'product'; readonly name: string; readonly table: string; readonly product: Product | null }

/** Of each input once; plain tables have no owner, and are left out. */
export async function inputSources(
  db: Queryable,
  tenant: string,
  versions: readonly ReadingVersion[],
): Promise<readonly InputSource[]> {
  const sources = new Map<string, InputSource>()
  for (const { normalised, deployedAt } of versions) {
    const isOld = ({ createdAt }: { readonly createdAt: Date }) => deployedAt === null || createdAt <= deployedAt
    for (const input of normalised.inputs.filter(({ connection }) => connection !== SANDBOX)) {
      const { connection: name, table: written } = input
      const named = productOfInput(input)
      if (named === null) {
        const found = await findConnectionByName(db, tenant, name)
        const connection = found !== null && isOld(found) ? found : null
        const table = qualified(written)
        sources.set(JSON.stringify([name, table, connection?.id ?? null]), { kind: 'table', name, table, connection })
      } else {
        const [found] = await findProductsByName(db, tenant, named.name, named.domain)
        const product = found !== undefined && isOld(found) ? found : null
        const source = { kind: 'product', name, table: written, product } as const
        sources.set(JSON.stringify([name, written, product?.id ?? null]), source)
      }
    }
  }
  return [...sources.values()]
}

/**
 * Who owns what rows of these versions came from, through all versions of the products between: the lake keeps what they made.
 * Null for what is gone. Of a product that is made of plain tables alone it is its creator; none of these versions themselves.
 */
export async function ownersBelow(
  db: Queryable,
  tenant: string,
  versions: readonly ReadingVersion[],
): Promise<readonly (Actor | null)[]> {
  const owners: (Actor | null)[] = []
  const seen = new Set<string>()
  const open = [await inputSources(db, tenant, versions)]
  for (let some = open.pop(); some !== undefined; some = open.pop()) {
    for (const source of some) {
      if (source.kind === 'table') owners.push(source.connection?.createdBy ?? null)
      else if (source.product === null) owners.push(null)
      else if (!seen.has(source.product.id)) {
        seen.add(source.product.id)
        const below = await inputSources(db, tenant, await deployedVersions<ManifestSet>(db, source.product.id))
        if (below.length === 0) owners.push(source.product.createdBy)
        open.push(below)
      }
    }
  }
  return owners
}

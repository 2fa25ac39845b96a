/** What a product's epochs have taught its anomaly checks, at the beginning of a materialization. */
import { MOST_EPOCHS } from '../manifest/files/quality.ts'
import type { ManifestSet } from '../manifest/manifest-set.ts'
import type { Profile } from '../quality/distribution.ts'
import { anomalies, basisOf, comparedWith, type Learned, lessons, madeOf } from '../quality/teaching.ts'
import type { MasterKeys } from '../registry/master-keys.ts'
import { pastEpochs, profilesOf } from '../registry/past-epochs.ts'
import type { Product } from '../registry/products.ts'
import type { Queryable } from '../registry/sql.ts'

/** Among so many are those of a window: others were made again, or taken back. */
const MOST_LOOKED_AT = 3 * MOST_EPOCHS

/**
 * One read of the registry, where there are such checks. Whoever holds the product's lock is told the same by any runtime.
 *
 * @param inputs what is kept of the inputs that the rows are made of
 */
export async function learnedBefore(
  db: Queryable,
  masters: MasterKeys,
  { id: productId, tenant }: Pick<Product, 'id' | 'tenant'>,
  manifests: ManifestSet,
  inputs: Readonly<Record<string, unknown>>,
): Promise<Learned> {
  const checks = anomalies(manifests.quality.checks)
  const basis = basisOf(manifests)
  if (checks.length === 0) return { byCheck: new Map(), basis }
  const epochs = await pastEpochs(db, productId, MOST_LOOKED_AT)
  const made = { basis, inputs: madeOf(inputs) }
  const found = checks.map(({ name, rule }) => ({ name, rule, lessons: lessons(rule, epochs, made) }))
  const wanted = found.flatMap(({ rule, lessons: some }) => comparedWith(rule, some))
  const ids = [...new Set(wanted.map(({ materializationId }) => materializationId))]
  const profiles = await profilesOf(db, masters, { tenant, productId }, ids)
  const taught = found.map(({ name, rule, lessons: some }) => {
    const values = some.flatMap(({ value }) => (value === null ? [] : [value])).reverse()
    const lay = comparedWith(rule, some).flatMap(({ materializationId }) => {
      const profile = profiles.get(materializationId)?.get(rule.column ?? '')
      return profile === undefined ? [] : [profile as Profile]
    })
    return [name, { epochs: some.length, values, profiles: lay }] as const
  })
  return { byCheck: new Map(taught), basis }
}

import type pg from 'pg'
import type { ManifestSet } from '../manifest/manifest-set.ts'
import { noteMasks, versionsWithoutMasks } from '../registry/former-masks.ts'
import { findVersion } from '../registry/versions.ts'
import { type MaskingRules, strategyFor } from './masking.ts'

/**
 * Epochs of releases before, which did not note their masks, have those of the classes of their version. Once per start, before
 * rows are shown or sent: from then on also a mask that the configuration makes stricter is missing in them. Repeatable.
 */
export async function noteFormerMasks(pool: pg.Pool, rules: MaskingRules): Promise<void> {
  for (const made of await versionsWithoutMasks(pool)) {
    const version = await findVersion<ManifestSet>(pool, made.productId, made.version)
    const columns = version?.normalised.output.columns ?? []
    await noteMasks(pool, made, new Map(columns.map((column) => [column.name, strategyFor(column, rules)])))
  }
}

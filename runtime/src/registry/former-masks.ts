/** Epochs of releases that did not note how columns are masked, and what is noted of them afterwards. */
import type { MaskStrategy } from '../config.ts'
import { change, json, many, type Queryable } from './sql.ts'

export interface VersionOfEpochs {
  readonly productId: string
  readonly version: string
}

/** Versions that have made such epochs, or attempts at one. */
export function versionsWithoutMasks(db: Queryable): Promise<VersionOfEpochs[]> {
  const statement = `select distinct m.product_id as "productId", m.version from materializations m
    where m.masks is null and exists (
      select from product_versions v where v.product_id = m.product_id and v.version = m.version)
    order by 1, 2`
  return many<VersionOfEpochs>(db, 'looking for epochs without masks', statement)
}

/**
 * Notes the masks of all of them that the version has made; of columns that are not named, that they are masked is all that is
 * known. What is noted stays.
 * @param strategies by column
 */
export async function noteMasks(
  db: Queryable,
  { productId, version }: VersionOfEpochs,
  strategies: ReadonlyMap<string, MaskStrategy>,
): Promise<void> {
  await change(
    db,
    'noting the masks of epochs',
    `update materializations set masks = (
       select coalesce(jsonb_object_agg(v.key, (
         select coalesce(jsonb_object_agg(c.name, $3::jsonb -> c.name), '{}')
         from jsonb_array_elements_text(v.value) c (name) where $3::jsonb ? c.name)), '{}')
       from jsonb_each(masked_columns) v)
     where product_id = $1 and version = $2 and masks is null`,
    [productId, version, json(Object.fromEntries(strategies))],
  )
}

/** Products as those meet them who read rows of former versions: by the stricter of the classes of then and of today. */
import type { ManifestSet } from '../../manifest/manifest-set.ts'
import { stricter } from '../../policy/classification.ts'
import { type ClassifiedColumn, isSensitive, type MaskingRules } from '../../policy/masking.ts'
import { withRaised } from '../../policy/raised.ts'
import type { RaisedByDigest } from '../../registry/raised-classes.ts'
import type { ServedProduct } from './served-product.ts'

/** The product as readers of what that version made meet it: by the stricter of its policy and today's. */
export function asMadeBy(product: ServedProduct, version: ManifestSet, rules: MaskingRules): ServedProduct {
  return {
    ...product,
    snapshotClassification: stricter(product.snapshotClassification, version.product.classification),
    columns: strictestThen(
      product.columns,
      product.formerColumns,
      columnsMadeBy(version, product.raised, rules),
      rules,
    ),
  }
}

/** With the classes that were raised since; none without a version. */
export function columnsMadeBy(version: ManifestSet | undefined, raised: RaisedByDigest, rules: MaskingRules) {
  if (version === undefined) return []
  return withRaised<ClassifiedColumn>(version.output.columns, raised.get(version.digest), rules)
}

/** `strictestOf` both, where columns that are no more count with the class that they had last. */
export function strictestThen(
  today: ServedProduct['columns'],
  former: ServedProduct['columns'],
  then: ServedProduct['columns'],
  rules: MaskingRules,
): ServedProduct['columns'] {
  const isAmong = (columns: ServedProduct['columns'], name: string) => columns.some((column) => column.name === name)
  const dropped = former.filter(({ name }) => isAmong(then, name) && !isAmong(today, name))
  return strictestOf([...today, ...dropped], then, rules)
}

/**
 * The columns of both, each with the class of today unless only those of then are masked. A column of several masked
 * classes is there once for each: whoever is cleared for one of them has not been cleared for the others.
 */
function strictestOf(
  today: ServedProduct['columns'],
  then: ServedProduct['columns'],
  rules: MaskingRules,
): readonly ServedProduct['columns'][number][] {
  const hides = ({ classification }: ClassifiedColumn) => isSensitive(classification, rules)
  const merged = [...Map.groupBy(today, ({ name }) => name)].flatMap(([name, now]) => {
    const [column] = now as [ClassifiedColumn]
    const classes = new Set(
      [...now, ...then.filter((one) => one.name === name)].filter(hides).map((one) => one.classification),
    )
    return classes.size === 0 ? [column] : [...classes].map((classification) => ({ ...column, classification }))
  })
  return [...merged, ...then.filter((column) => !today.some((now) => now.name === column.name))]
}

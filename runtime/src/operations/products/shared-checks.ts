/** Checks that other products of the tenant have in service, for those that use them. */
import type { ManifestContext } from '../../manifest/context.ts'
import { canonical } from '../../manifest/digest.ts'
import type { CheckFields } from '../../manifest/files/quality.ts'
import type { Check, ManifestSet, QualityManifest, SharedChecks, UsedChecks } from '../../manifest/manifest-set.ts'
import { sharedIn } from '../../manifest/used-checks.ts'
import { writtenCheck } from '../../manifest/written-checks.ts'
import { findProductsByName } from '../../registry/products.ts'
import type { Queryable } from '../../registry/sql.ts'
import { findVersion } from '../../registry/versions.ts'

/** Members may read the manifests of every product of their tenant, and so may use checks of each. */
export async function checksInService(
  db: Queryable,
  tenant: string,
  uses: readonly UsedChecks[],
): Promise<NonNullable<ManifestContext['sharedChecks']>> {
  const found = new Map<string, SharedChecks | null>()
  for (const { product: full } of uses) {
    const [domain = '', name = ''] = full.split('.')
    const [product] = await findProductsByName(db, tenant, name, domain)
    const version = product?.currentVersion ?? null
    const kept = product && version !== null ? await findVersion<ManifestSet>(db, product.id, version) : null
    found.set(full, kept === null ? null : { version: kept.version, checks: kept.normalised.quality.checks })
  }
  return found
}

/** A check of another product as it runs here: what nobody finds in the product's own texts. */
export interface SharedCheck {
  /** `namespace.name` */
  readonly product: string
  /** Of that product, which had it when the manifests were uploaded; null: not kept then. */
  readonly version: string | null
  /** As quality.yaml would say it. */
  readonly check: CheckFields
  /** In service of that product today; null: none. */
  readonly versionInService: string | null
  /** Whether that version has another check of this name, or none. */
  readonly differs: boolean
}

export async function sharedChecksOf(
  db: Queryable,
  tenant: string,
  quality: QualityManifest,
): Promise<readonly SharedCheck[]> {
  const { uses = [] } = quality
  const today = await checksInService(db, tenant, uses)
  return [...sharedIn(quality)].flatMap(([product, { version = null, checks }]) => {
    const inService = today.get(product) ?? null
    const versionInService = inService?.version ?? null
    return checks.map((check) => {
      const other = inService?.checks.find(({ name }) => name === check.name)
      const differs = other === undefined || meaningOf(other) !== meaningOf(check)
      return { product, version, check: writtenCheck(check), versionInService, differs }
    })
  })
}

/** Wherever that product has it from. */
const meaningOf = ({ from: _, ...check }: Check): string => canonical(check)

/** For the plan: what would be another one by now, and what is another one than in the version in service. */
export function sharedCheckNotes(shared: readonly SharedCheck[], live: QualityManifest | null): readonly string[] {
  const others = Map.groupBy(
    shared.filter(({ differs }) => differs),
    ({ product }) => product,
  )
  const outdated = [...others].map(([product, checks]) => {
    const names = checks.map(({ check }) => `"${check.name}"`).join(', ')
    const version = checks[0]?.versionInService ?? null
    if (version === null)
      return `${product} has no version in service any more: of it stay the checks ${names} as they were`
    return `${product} is in service as ${version} by now, which has others or none instead of the checks ${names}: upload the manifests again to take what it has`
  })
  const before = live === null ? [] : live.checks.filter(({ from }) => from !== undefined)
  const changed = shared.flatMap(({ product, version, check }) => {
    const former = before.find(({ from, name }) => from === product && name === check.name)
    if (former === undefined || canonical(writtenCheck(former)) === canonical(check)) return []
    const now = `by ${product}${version === null ? '' : ` ${version}`}`
    return [`the check "${check.name}" ${now} is another one than the version in service has of it`]
  })
  return [...changed, ...outdated]
}

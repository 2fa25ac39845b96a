/** Which columns of a copy in a store somebody is shown: of the one that he reads, or that a dashboard shows its audience. */
import { CLEAR } from '@sluice/sdk'
import type { Principal } from '../../flow.ts'
import type { ManifestSet } from '../../manifest/manifest-set.ts'
import type { MaskingRules } from '../../policy/masking.ts'
import { asMadeBy } from './as-made-by.ts'
import { accessTo, orClear, type ReadAccess, type ServedEndpoint, type ServedProduct } from './served-product.ts'

/** A copy that is behind the lake obeys the policy that it was made under, too: its columns are those of then. */
export function accessToCopy(
  product: ServedProduct,
  endpoint: ServedEndpoint | undefined,
  principal: Principal,
  rules: MaskingRules,
): ReadAccess {
  const seen = new Set<ManifestSet>()
  let strictest = product
  for (;;) {
    const access = accessTo(strictest, principal, rules, (variant) => endpoint?.targets.has(variant) ?? false)
    const madeBy = endpoint?.targets.get(access.variant)?.madeBy
    if (madeBy === undefined) return accessToClear(strictest, endpoint, principal, rules) ?? access
    if (seen.has(madeBy)) return access
    seen.add(madeBy)
    strictest = asMadeBy(strictest, madeBy, rules)
  }
}

/** Until the twin of the version in service has come: `orClear` of the copy in clear, by the policy that this was made under, too. */
function accessToClear(
  product: ServedProduct,
  endpoint: ServedEndpoint | undefined,
  principal: Principal,
  rules: MaskingRules,
): ReadAccess | null {
  const copy = endpoint?.targets.get(CLEAR)
  if (copy === undefined) return null
  const access = accessTo(asMadeBy(product, copy.madeBy, rules), principal, rules, () => false)
  const open = orClear(access, (variant) => (variant === CLEAR ? copy.masks : undefined))
  return open.variant === CLEAR ? open : null
}

/**
 * What results of expectations are for incidents: of the product whose rows they look at, and of each that expects something of
 * it. Whoever is told of either is told once, until it is as expected again.
 */
import { isBroken } from '../../materializer/expectations.ts'
import type { Expected } from '../../materializer/expected.ts'
import type { CheckResult } from '../../quality/check-result.ts'
import {
  closeIncidents,
  EXPECTATION_FAILED,
  hasIncident,
  INPUT_UNEXPECTED,
  openIncident,
} from '../../registry/incidents.ts'
import { newestAttempts } from '../../registry/materializations.ts'
import { findProduct, type Product } from '../../registry/products.ts'
import type { Transaction } from '../../registry/sql.ts'
import { findVersion } from '../../registry/versions.ts'

/** In the transaction that keeps the results. */
export async function noteExpectations(
  tx: Transaction,
  product: Product,
  { expecting, results }: Expected,
): Promise<void> {
  if (product.previewOf !== null) return
  const broken = new Set(
    results.filter(isBroken).flatMap(({ expected }) => (expected === undefined ? [] : [expected.productId])),
  )
  const of = { productId: product.id }
  if (broken.size > 0) await openIncident(tx, product.tenant, of, { cause: EXPECTATION_FAILED })
  else await closeIncidents(tx, of, { only: EXPECTATION_FAILED })
  // In one order, so that transactions of several inputs of one product do not wait for each other.
  for (const id of [...new Set(expecting.map(({ productId }) => productId))].sort()) {
    if (broken.has(id)) await openIncident(tx, product.tenant, { productId: id }, { cause: INPUT_UNEXPECTED })
    else await closeIfExpected(tx, product.tenant, id)
  }
  // Made anew of other inputs, or of a version that expects something else, it has nothing open that nobody looks at any more.
  await closeIfExpected(tx, product.tenant, product.id)
}

/** Closes what is open of its inputs, unless one of them is still not as it expects. */
async function closeIfExpected(tx: Transaction, tenant: string, productId: string): Promise<void> {
  if (!(await hasIncident(tx, productId, INPUT_UNEXPECTED))) return
  const version = (await findProduct(tx, tenant, productId))?.currentVersion ?? null
  const upstreams = version === null ? null : (await findVersion(tx, productId, version))?.upstreams
  const ids = [...new Set(Object.values(upstreams ?? {}).map((one) => one.productId))]
  for (const { quality } of await newestAttempts(tx, ids)) {
    const { checks = [] } = (quality ?? {}) as { readonly checks?: readonly CheckResult[] }
    if (checks.some((check) => check.expected?.productId === productId && isBroken(check))) return
  }
  await closeIncidents(tx, { productId }, { only: INPUT_UNEXPECTED })
}

/** Rights to a product: granted, listed, and taken back with what rested on them. */
import { SluiceError } from '@sluice/sdk'
import { inTransaction } from '../../database/pools.ts'
import type { TenantCall } from '../../flow.ts'
import { actorOf } from '../../registry/actor.ts'
import { type EndedGrant, keepFormerBasis, lockGrants } from '../../registry/grant-bases.ts'
import {
  grantAddedTo,
  grantProduct,
  listProductGrants,
  type ProductGrant,
  revokeProductGrant,
} from '../../registry/grants.ts'
import type { Page, PageRequest } from '../../registry/paging.ts'
import type { Product } from '../../registry/products.ts'
import { audited } from '../audit.ts'
import type { Keep } from '../keep.ts'
import { notFound } from '../not-found.ts'
import { requireDeveloper } from '../permissions.ts'
import { endWhatRested, requireHeld, restsOn } from '../rights/grant-rights.ts'
import { type SubjectRequest, subjectOf } from '../rights/grant-subject.ts'
import type { ProductsDeps } from './deps.ts'
import { productOf } from './products.ts'

export interface GrantRequest extends SubjectRequest {
  readonly may: 'read' | 'unmask'
  readonly classes: readonly string[]
  /** Whether the subject may grant it on to others. */
  readonly grantable: boolean
}

/** For developers, of what they hold: `requireHeld`. Throws INVALID_DATA `invalid_grant`. */
export async function addGrant(
  platform: ProductsDeps,
  call: TenantCall,
  reference: string,
  request: GrantRequest,
  keep: Keep<ProductGrant>,
): Promise<ProductGrant> {
  requireDeveloper(call.principal)
  const product = await productOf(platform, call, reference)
  const subject = subjectOf(platform, call, request)
  if ((request.may === 'unmask') !== request.classes.length > 0) {
    throw new SluiceError('INVALID_DATA', 'classes go with may: unmask, and only with it', {
      code: 'invalid_grant',
      remedy: 'Name the classes to unmask, or ["*"] for all.',
    })
  }
  const needs = await requireHeld(platform, call, product, subject, request)
  const { may, classes } = request
  const grantable = request.grantable ? (may === 'read' ? ['read'] : classes) : []
  const grantedBy = actorOf(call.principal)
  const grant = await inTransaction(platform.pool, async (tx) => {
    await lockGrants(tx, call.tenant)
    const given = { tenant: call.tenant, productId: product.id, ...subject, may, classes, grantable, grantedBy }
    await keepFormerBasis(tx, await grantAddedTo(tx, given))
    const created = await grantProduct(tx, given)
    await restsOn(tx, created, { classes, grantable, grantedBy, needs })
    const details = { grant: created.id, may: request.may, classes: request.classes }
    await audited(tx, call, call.tenant, 'grant.create', { type: 'product', id: product.id }, details)
    await keep(tx, created)
    return created
  })
  platform.served.drop(call.tenant)
  return grant
}

/** Gives what ended with it: what its holder had granted on by it alone, all the way. */
export async function removeGrant(
  platform: ProductsDeps,
  call: TenantCall,
  reference: string,
  id: string,
): Promise<readonly EndedGrant[]> {
  requireDeveloper(call.principal)
  const product = await productOf(platform, call, reference)
  const ended = await inTransaction(platform.pool, async (tx) => {
    await lockGrants(tx, call.tenant)
    if (!(await revokeProductGrant(tx, call.tenant, product.id, id))) throw notFound('grant')
    await audited(tx, call, call.tenant, 'grant.delete', { type: 'product', id: product.id }, { grant: id })
    return endWhatRested(tx, call, { grant: id })
  })
  platform.served.drop(call.tenant)
  return ended
}

/** Newest first; for developers. */
export function grantsOn(
  { pool }: Pick<ProductsDeps, 'pool'>,
  call: TenantCall,
  { id }: Pick<Product, 'id'>,
  page: PageRequest,
): Promise<Page<ProductGrant>> {
  requireDeveloper(call.principal)
  return listProductGrants(pool, call.tenant, id, page)
}

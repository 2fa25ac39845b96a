/** Rights to a product: granted, listed and taken back. */
import { Type } from 'typebox'
import { requireDeveloper } from '../../operations/permissions.ts'
import type { ProductsDeps } from '../../operations/products/deps.ts'
import { addGrant, grantsOn, removeGrant } from '../../operations/products/product-grants.ts'
import { productOf } from '../../operations/products/products.ts'
import type { ProductGrant } from '../../registry/grants.ts'
import type { PageRequest } from '../../registry/paging.ts'
import type { Cursors } from '../cursor.ts'
import { keptAnswer } from '../idempotency.ts'
import { defineRoute, type Route } from '../route.ts'
import { EndedGrants, Grant } from './answers/grants.ts'
import { pageOf } from './answers/parts.ts'
import { endedReply, grantJson } from './json/grants.ts'
import { listReply } from './lists.ts'
import { developer, Params, tags } from './product-route.ts'
import { GrantRequest } from './requests/grants.ts'
import { InNamespace, PageInNamespace, productReference, Reference } from './requests/paths.ts'

export function grantRoutes(deps: ProductsDeps, cursors: Cursors): readonly Route[] {
  return [
    defineRoute({
      method: 'POST',
      path: '/api/v1/products/{product_id}/grants',
      name: 'createGrant',
      summary: 'Grant reading, or the unmasking of classes, to a user or a team',
      description:
        'Reading, and the unmasking of all classes (`*`), hold at once. Some classes are shown from the product’s next epoch on, when rows are written that show just these: until then the columns are masked as before. `POST /api/v1/products/{product_id}/materialize` makes it now.',
      tags,
      auth: 'tenant',
      params: Params,
      query: InNamespace,
      body: GrantRequest,
      idempotent: true,
      authorize: developer,
      responses: { 201: { description: 'The grant.', schema: Grant } },
      errors: ['invalid_grant', 'grant_not_held', 'product_not_found', 'ambiguous_product'],
      async handler(call) {
        const { subject, issuer, may, classes = [], grantable = false } = call.body
        const answer = keptAnswer(call, (grant: ProductGrant) => ({ status: 201, body: grantJson(grant) }))
        const wanted = { subject, issuer, may, classes, grantable }
        return answer.reply(await addGrant(deps, call, productReference(call), wanted, answer.keep))
      },
    }),
    defineRoute({
      method: 'GET',
      path: '/api/v1/products/{product_id}/grants',
      name: 'listGrants',
      summary: 'Grants on a product, newest first',
      tags,
      auth: 'tenant',
      params: Params,
      query: PageInNamespace,
      responses: { 200: { description: 'A page of grants.', schema: pageOf(Grant) } },
      errors: ['product_not_found', 'ambiguous_product'],
      async handler(call) {
        requireDeveloper(call.principal)
        const product = await productOf(deps, call, productReference(call))
        const read = (page: PageRequest) => grantsOn(deps, call, product, page)
        return listReply(call, cursors, 'grants', read, grantJson)
      },
    }),
    defineRoute({
      method: 'DELETE',
      path: '/api/v1/products/{product_id}/grants/{grant_id}',
      name: 'deleteGrant',
      summary: 'Take a grant back, with what its holder has granted on by it',
      tags,
      auth: 'tenant',
      params: Type.Object({ product_id: Reference, grant_id: Reference }),
      query: InNamespace,
      responses: {
        200: { description: 'It is gone, and with it these.', schema: EndedGrants },
        204: { description: 'It is gone, and nothing rested on it.' },
      },
      errors: ['grant_not_found', 'product_not_found', 'ambiguous_product'],
      async handler(call) {
        return endedReply(await removeGrant(deps, call, productReference(call), call.params.grant_id))
      },
    }),
  ]
}

/** Products: registered, listed, changed and removed; with them, all that is done with one. */
import { Type } from 'typebox'
import type { DeployDeps } from '../../operations/deploy/deps.ts'
import { requireMember } from '../../operations/permissions.ts'
import { productDetail } from '../../operations/products/product-detail.ts'
import { listedNotices } from '../../operations/products/product-notices.ts'
import { scheduledProducts } from '../../operations/products/product-schedules.ts'
import { changeProduct, registerProduct } from '../../operations/products/products.ts'
import { removeProduct } from '../../operations/products/remove-product.ts'
import type { Product } from '../../registry/products.ts'
import type { Cursors } from '../cursor.ts'
import { keptAnswer } from '../idempotency.ts'
import { defineRoute, type Route } from '../route.ts'
import { pageOf } from './answers/parts.ts'
import { ListedProduct, ProductDetail, Product as ProductShape } from './answers/products.ts'
import { materializationJson, productJson } from './json/products.ts'
import { expectationJson, qualityJson } from './json/quality.ts'
import { listReply } from './lists.ts'
import { deploymentRoutes } from './product-deployments.ts'
import { grantRoutes } from './product-grants.ts'
import { manifestRoutes } from './product-manifests.ts'
import { developer, Params, tags } from './product-route.ts'
import { Abandon, abandonedTypes, InNamespace, Page, productReference } from './requests/paths.ts'
import { ProductChangeRequest, ProductRequest } from './requests/products.ts'
import { scheduleJson } from './schedules.ts'

export function productRoutes(deps: DeployDeps, cursors: Cursors): readonly Route[] {
  return [
    ...registration(deps, cursors),
    ...manifestRoutes(deps),
    ...deploymentRoutes(deps, cursors),
    ...grantRoutes(deps, cursors),
  ]
}

function registration(deps: DeployDeps, cursors: Cursors): readonly Route[] {
  return [
    defineRoute({
      method: 'POST',
      path: '/api/v1/products',
      name: 'createProduct',
      summary: 'Register a product',
      tags,
      auth: 'tenant',
      body: ProductRequest,
      idempotent: true,
      authorize: developer,
      responses: { 201: { description: 'The product, a draft.', schema: ProductShape } },
      errors: ['invalid_name', 'product_exists', 'tier_limit_exceeded'],
      async handler(call) {
        const { name, namespace: domain, archetype, description = '' } = call.body
        const answer = keptAnswer(call, (product: Product) => ({ status: 201, body: productJson(product) }))
        const wanted = { name, domain, archetype, description }
        return answer.reply(await registerProduct(deps, call, wanted, answer.keep))
      },
    }),
    defineRoute({
      method: 'GET',
      path: '/api/v1/products',
      name: 'listProducts',
      summary: 'The tenant’s products, newest first',
      tags,
      auth: 'tenant',
      forKeys: 'any',
      query: Type.Object(
        { ...Page.properties, namespace: Type.Optional(Type.String({ maxLength: 500 })) },
        { additionalProperties: false },
      ),
      responses: { 200: { description: 'A page of products.', schema: pageOf(ListedProduct) } },
      async handler(call) {
        requireMember(call.principal)
        const { namespace } = call.query
        const ids = call.principal.key?.products ?? null
        const filter = {
          ...(namespace === undefined ? {} : { domain: namespace }),
          ...(ids === null ? {} : { ids: [...ids] }),
        }
        const notices = await listedNotices(deps, call.tenant)
        return listReply(
          call,
          cursors,
          'products',
          (page) => scheduledProducts(deps, call.tenant, page, filter),
          ({ product, scheduled }) => ({
            ...productJson(product),
            ...scheduleJson(scheduled),
            notices: [...notices(product)],
          }),
        )
      },
    }),
    defineRoute({
      method: 'GET',
      path: '/api/v1/products/{product_id}',
      name: 'getProduct',
      summary: 'A product with owner, versions, columns, endpoints, quality scores, objectives and lineage',
      tags,
      auth: 'tenant',
      forKeys: 'any',
      params: Params,
      query: InNamespace,
      responses: { 200: { description: 'The product.', schema: ProductDetail } },
      errors: ['product_not_found', 'ambiguous_product'],
      async handler(call) {
        const detail = await productDetail(deps, call, productReference(call))
        const { product, scheduled, materialization, versions, quality, expectations, isClear, ...rest } = detail
        return {
          body: {
            ...productJson(product),
            ...scheduleJson(scheduled),
            ...rest,
            quality: quality === null ? null : { score: quality.score, ...qualityJson(quality.result, quality.rows) },
            expectations: expectations.map(expectationJson),
            versions: versions.map((one) => ({
              version: one.version,
              digest: one.digest,
              deployed_by: one.deployedBy.subject,
              deployed_at: one.deployedAt.toISOString(),
            })),
            last_materialization: materialization === null ? null : materializationJson(materialization, isClear),
          },
        }
      },
    }),
    defineRoute({
      method: 'PATCH',
      path: '/api/v1/products/{product_id}',
      name: 'updateProduct',
      summary: 'Change a product’s description or archetype, until the next deployment says otherwise',
      tags,
      auth: 'tenant',
      params: Params,
      query: InNamespace,
      body: ProductChangeRequest,
      responses: { 200: { description: 'The product as it is now.', schema: ProductShape } },
      errors: ['product_not_found', 'ambiguous_product'],
      async handler(call) {
        const { description, archetype } = call.body
        const change = {
          ...(description === undefined ? {} : { description }),
          ...(archetype === undefined ? {} : { archetype }),
        }
        return { body: productJson(await changeProduct(deps, call, productReference(call), change)) }
      },
    }),
    defineRoute({
      method: 'DELETE',
      path: '/api/v1/products/{product_id}',
      name: 'deleteProduct',
      summary: 'Remove a product with every copy of its data',
      tags,
      auth: 'tenant',
      params: Params,
      query: Type.Object(
        { ...InNamespace.properties, abandon: Type.Optional(Abandon) },
        { additionalProperties: false },
      ),
      timeoutMs: 120_000,
      responses: { 204: { description: 'It is gone.' } },
      errors: ['product_not_found', 'ambiguous_product', 'product_in_use', 'preview_exists', 'store_missing'],
      async handler(call) {
        await removeProduct(deps, call, productReference(call), abandonedTypes(call.query.abandon))
        return { empty: true }
      },
    }),
  ]
}

import { createHash } from 'node:crypto'
import { Type } from 'typebox'
import type { Principal } from '../../flow.ts'
import type { ProductsDeps } from '../../operations/products/deps.ts'
import { readableWays } from '../../operations/products/readable-ways.ts'
import { offeredOperations } from '../../operations/reads/read-operation.ts'
import { isForKey } from '../guard.ts'
import { type DeclaredRoute, productDocument } from '../product-document/product-document.ts'
import { defineRoute, type Route } from '../route.ts'
import { InNamespace, productReference, Reference } from './requests/paths.ts'

/**
 * The document of each product, made of the routes that read it.
 * @param routes all of the interface
 * @param url where clients find the server
 */
export function productDocumentRoutes(deps: ProductsDeps, routes: readonly Route[], url: string): readonly Route[] {
  const declared: readonly DeclaredRoute[] = offeredOperations(deps.plugins).flatMap((offered) => {
    const route = routes.find(({ path }) => path === `/api/v1/products/{name}/${offered.name}`)
    return route === undefined ? [] : { route, offered }
  })
  return [
    defineRoute({
      method: 'GET',
      path: '/api/v1/products/{product_id}/openapi.json',
      name: 'getProductOpenApi',
      summary: 'What you can do with a product, as an OpenAPI 3.1 document',
      description:
        'Of the ways to read it that are open to you: rows with the columns that you are shown, each as it is masked for you. Who is shown the same gets the same document.',
      tags: ['Products'],
      auth: 'tenant',
      forKeys: 'any',
      params: Type.Object({ product_id: Reference }),
      query: InNamespace,
      responses: { 200: { description: 'The document.', headers: { ETag: 'Of the document, for If-None-Match.' } } },
      errors: ['product_forbidden', 'not_deployed', 'product_not_found', 'ambiguous_product'],
      async handler(call) {
        const ways = await readableWays(deps, call, productReference(call))
        const json = productDocument(ways, { routes: openTo(call.principal, routes), declared, url })
        return { json, etag: createHash('sha256').update(json).digest('base64url').slice(0, 32) }
      },
    }),
  ]
}

/** A key is good for the operations that it was made for. */
function openTo({ key }: Principal, routes: readonly Route[]): readonly Route[] {
  return key === undefined ? routes : routes.filter((route) => isForKey(key, route))
}

import { Type } from 'typebox'
import { lineageOf } from '../../operations/lineage/lineage.ts'
import { MAX_DEPTH } from '../../operations/lineage/links.ts'
import type { Platform } from '../../operations/platform.ts'
import { defineRoute, type Route } from '../route.ts'
import { LineageQuery, LineageShape, lineageJson } from './lineage-shapes.ts'
import { productReference, Reference } from './shapes.ts'

const Params = Type.Object({ product_id: Reference })
const tags = ['Lineage']

export function lineageRoutes(platform: Platform): readonly Route[] {
  return [
    defineRoute({
      method: 'GET',
      path: '/api/v1/products/{product_id}/lineage',
      name: 'getLineage',
      summary: 'What a product is made of and what is made of it, down to the columns',
      tags,
      auth: 'tenant',
      forKeys: 'any',
      params: Params,
      query: LineageQuery,
      responses: { 200: { description: 'A graph of products and tables, the nearest first.', schema: LineageShape } },
      errors: ['product_not_found', 'ambiguous_product'],
      async handler(call) {
        const { direction = 'both', depth = MAX_DEPTH } = call.query
        return { body: lineageJson(await lineageOf(platform, call, productReference(call), { direction, depth })) }
      },
    }),
  ]
}

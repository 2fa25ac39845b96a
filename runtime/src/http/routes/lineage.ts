import { Type } from 'typebox'
import type { LineageDeps } from '../../operations/lineage/deps.ts'
import { impactOfProductColumn, impactOfSourceColumn } from '../../operations/lineage/impact.ts'
import { lineageOf } from '../../operations/lineage/lineage.ts'
import { MAX_DEPTH } from '../../operations/lineage/links.ts'
import { defineRoute, type Route } from '../route.ts'
import {
  ImpactQuery,
  ImpactShape,
  impactJson,
  LineageQuery,
  LineageShape,
  lineageJson,
  SourceImpactQuery,
} from './lineage-shapes.ts'
import { productReference, Reference } from './requests/paths.ts'

const Params = Type.Object({ product_id: Reference })
const ConnectionParams = Type.Object({ connection_id: Reference })
const tags = ['Lineage']

export function lineageRoutes(deps: LineageDeps): readonly Route[] {
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
        return { body: lineageJson(await lineageOf(deps, call, productReference(call), { direction, depth })) }
      },
    }),
    defineRoute({
      method: 'GET',
      path: '/api/v1/products/{product_id}/lineage/impact',
      name: 'getImpact',
      summary: 'What is made of a column of a product, through any number of products, and who read that',
      tags,
      auth: 'tenant',
      params: Params,
      query: ImpactQuery,
      responses: { 200: { description: 'Products and columns, the nearest first.', schema: ImpactShape } },
      errors: ['product_not_found', 'ambiguous_product', 'unknown_column'],
      async handler(call) {
        return {
          body: impactJson(await impactOfProductColumn(deps, call, productReference(call), call.query.column)),
        }
      },
    }),
    defineRoute({
      method: 'GET',
      path: '/api/v1/connections/{connection_id}/lineage/impact',
      name: 'getImpactOfSource',
      summary: 'What is made of a column of a source table, through any number of products, and who read that',
      tags,
      auth: 'tenant',
      params: ConnectionParams,
      query: SourceImpactQuery,
      responses: { 200: { description: 'Products and columns, the nearest first.', schema: ImpactShape } },
      errors: ['connection_not_found'],
      async handler(call) {
        return { body: impactJson(await impactOfSourceColumn(deps, call, call.params.connection_id, call.query)) }
      },
    }),
  ]
}

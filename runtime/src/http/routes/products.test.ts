import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { DeployDeps } from '../../operations/deploy/deps.ts'
import type { QueriesDeps } from '../../operations/queries/deps.ts'
import type { Cursors } from '../cursor.ts'
import { buildOpenApi } from '../openapi.ts'
import { productRoutes } from './products.ts'
import { readDeps, readRoutes } from './reads.ts'
import { productReference } from './requests/paths.ts'

const reference = (product_id: string, namespace?: string) =>
  productReference({ params: { product_id }, query: namespace === undefined ? {} : { namespace } })

describe('a product in a path', () => {
  it('is settled by the namespace of the query, where it is a bare name', () => {
    assert.equal(reference('people'), 'people')
    assert.equal(reference('people', 'crm'), 'crm.people')
    assert.equal(reference('sales.people', 'crm'), 'sales.people')
    assert.equal(reference('prd_0123456789abcdef01234567', 'crm'), 'prd_0123456789abcdef01234567')
    assert.equal(reference('prd_people', 'crm'), 'crm.prd_people')
  })

  it('may have a namespace beside it on every route, as the document says', () => {
    const deps = {} as QueriesDeps & DeployDeps
    const cursors = {} as Cursors
    const { paths } = buildOpenApi([...productRoutes(deps, cursors), ...readRoutes(deps, readDeps(deps, cursors))], {
      title: 'Test',
      version: '1',
    })
    const without = Object.entries(paths)
      .filter(([path]) => path.startsWith('/api/v1/products/{'))
      .flatMap(([path, methods]) => Object.entries(methods).map(([method, one]) => ({ path, method, one })))
      .filter(
        ({ one }) => !one.parameters.some((parameter) => parameter.in === 'query' && parameter.name === 'namespace'),
      )
    assert.deepEqual(
      without.map(({ path, method }) => `${method} ${path}`),
      [],
    )
  })
})

import type { OperationExamples } from '../../example.ts'
import { PRODUCT, PRODUCT_ID } from './world.ts'

const params = { product_id: PRODUCT }
const SOURCE = 'table:shop/public.customers'
const ROOT = `product:${PRODUCT}`
const column = { classification: 'public', masked: false, known: true, influenced_by: [] }
const customers = {
  id: PRODUCT_ID,
  namespace: 'crm',
  name: 'customers',
  version: '1.0.0',
  owner: { team: 'crm', email: 'crm@example.com' },
  classification: 'internal',
}

export const LINEAGE_EXAMPLES: OperationExamples = {
  getLineage: {
    params,
    query: { direction: 'upstream', depth: 5 },
    answers: {
      200: {
        root: ROOT,
        nodes: [
          {
            node: ROOT,
            kind: 'product',
            steps: 0,
            product: customers,
            columns: [
              { ...column, name: 'id', type: 'integer', from: [{ node: SOURCE, column: 'id', kind: 'copied' }] },
              {
                ...column,
                name: 'email',
                type: 'string',
                classification: 'pii.identifier',
                masked: true,
                from: [{ node: SOURCE, column: 'email', kind: 'copied' }],
              },
              { ...column, name: 'city', type: 'string', from: [{ node: SOURCE, column: 'city', kind: 'copied' }] },
            ],
          },
          { node: SOURCE, kind: 'table', steps: -1, connection: 'shop', table: 'public.customers' },
        ],
        edges: [{ from: SOURCE, to: ROOT, input: 'source' }],
        truncated: false,
      },
    },
  },
}

import type { OperationExamples } from '../../example.ts'
import { at, CONNECTION_ID, ISSUER, PRODUCT, PRODUCT_ID } from './world.ts'

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

const impact = {
  products: [
    {
      ...customers,
      steps: 1,
      columns: [{ name: 'email', classification: 'pii.identifier', masked: true, steps: 1, manner: 'copied' }],
      reads_recorded: 'administrators',
    },
  ],
  readers: {
    days: 30,
    data: [
      {
        product_id: PRODUCT_ID,
        issuer: ISSUER,
        subject: 'ada',
        reads: 2,
        last_at: at('09:12:00'),
        actions: ['read.lookup', 'read.query'],
      },
    ],
    truncated: false,
  },
  truncated: false,
}
const cities = { ...customers, id: 'prd_3a86f0c1b5d24e97a1c0de52', name: 'cities' }

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
  getImpact: {
    params,
    query: { column: 'city' },
    answers: {
      200: {
        ...impact,
        of: { node: ROOT, column: 'city' },
        products: [
          {
            ...cities,
            steps: 1,
            columns: [{ name: 'label', classification: 'public', masked: false, steps: 1, manner: 'computed' }],
            reads_recorded: 'administrators',
          },
        ],
        readers: { days: 30, data: [], truncated: false },
      },
    },
  },
  getImpactOfSource: {
    params: { connection_id: CONNECTION_ID },
    query: { table: 'public.customers', column: 'email' },
    answers: { 200: { ...impact, of: { node: SOURCE, column: 'email' } } },
  },
}

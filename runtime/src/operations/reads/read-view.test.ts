import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Principal } from '../../flow.ts'
import type { ServedProduct } from '../served/served-product.ts'
import { viewOf } from './read-view.ts'

const RULES = { sensitive: [], strategies: {} }
const column = (name: string, classification: string) => ({ name, type: 'string', nullable: true, classification })
const viewer = {
  issuer: 'urn:test',
  subject: 'vito',
  groups: ['svc-viewers'],
  isAdmin: false,
  isDeveloper: false,
  isViewer: true,
} as unknown as Principal

/** Today the column is gone; the store still has the copies of a version that had it masked. */
function behind(level: string): ServedProduct {
  const columns = [column('city', 'public')]
  const madeBy = { product: { classification: level }, output: { columns: [...columns, column('email', 'pii.name')] } }
  const copy = (maskedColumns: readonly string[]) => ({
    plugin: { type: 'lookup', name: 'test' },
    target: { schema: { columns: madeBy.output.columns, primaryKey: [] }, config: {} },
    madeBy,
    maskedColumns,
  })
  const targets = new Map([
    ['clear', copy([])],
    ['masked', copy(['email'])],
  ])
  return {
    domain: 'crm',
    name: 'people',
    classification: 'internal',
    snapshotClassification: 'internal',
    columns,
    formerColumns: [],
    raised: new Map(),
    grants: [],
    variants: new Map([['clear', {}]]),
    endpoints: new Map([['lookup', { type: 'lookup', targets }]]),
  } as unknown as ServedProduct
}

test('a copy that is behind the lake is read by the policy that it was made under', () => {
  const { access, served } = viewOf(behind('internal'), viewer, { type: 'lookup' }, RULES)
  assert.deepEqual([access.variant, served.maskedColumns], ['masked', ['email']])
  const confidential = () => viewOf(behind('confidential'), viewer, { type: 'lookup' }, RULES)
  assert.throws(confidential, { code: 'product_forbidden' })
})

import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ProductGrant } from '../../policy/classification.ts'
import type { ServedProduct } from '../served/served-product.ts'
import { audiencesOf } from './dashboards.ts'

const RULES = { sensitive: [], strategies: {} }

function unmasking(user: string, issuer: string): ProductGrant {
  return { subjectType: 'user', subject: user, issuer, may: 'unmask', classes: ['*'] }
}

function productWith(grants: readonly ProductGrant[]): ServedProduct {
  const columns = [{ name: 'email', type: 'string', nullable: true, classification: 'pii.name' }]
  const madeBy = { product: { classification: 'internal' }, output: { columns } }
  const targets = new Map([
    ['clear', { madeBy, masks: new Map() }],
    ['masked', { madeBy, masks: new Map([['email', 'redact']]) }],
  ])
  return {
    tenant: 'acme',
    classification: 'internal',
    snapshotClassification: 'internal',
    columns,
    formerColumns: [],
    raised: new Map(),
    grants,
    variants: new Map([...targets.keys()].map((variant) => [variant, {}])),
    endpoints: new Map([['lookup', { type: 'lookup', targets }]]),
  } as unknown as ServedProduct
}

test('of persons those are an audience whom the dashboard server knows, and nobody else of their name', () => {
  const product = productWith([
    unmasking('vito', 'https://own.test'),
    unmasking('vera', 'https://other.test'),
    { ...unmasking('sales', ''), subjectType: 'team', issuer: null },
  ])
  const { variants } = audiencesOf({ rules: RULES }, product, 'lookup', 'https://own.test')
  assert.deepEqual(
    variants.map(({ variant, subjects }) => [variant, ...subjects.map(({ kind, name }) => `${kind} ${name}`)]),
    [
      ['clear', 'user vito', 'team sales'],
      ['masked', 'team svc-developers', 'team svc-viewers'],
    ],
  )
})

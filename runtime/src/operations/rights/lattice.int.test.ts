import assert from 'node:assert/strict'
import { after, before, it } from 'node:test'
import { inTransaction } from '../../database/pools.ts'
import type { Principal, TenantCall } from '../../flow.ts'
import type { ManifestSet } from '../../manifest/manifest-set.ts'
import { PRODUCTS } from '../../registry/product-sources.ts'
import type { Product } from '../../registry/products.ts'
import { ANN, startTestRegistry, type TestRegistry } from '../../registry/testing.ts'
import { saveVersion } from '../../registry/versions.ts'
import type { ProductsDeps } from '../products/deps.ts'
import { mayReadInputs } from '../products/visible-quality.ts'
import { readsSources } from './grant-rights.ts'
import { OnceEach } from './once-each.ts'

/** There are so many ways down, and one more of each for every layer. */
const LAYERS = 16

let registry: TestRegistry
let tenant: string
let top: Product

before(async () => {
  registry = await startTestRegistry()
  tenant = await registry.tenant('enterprise')
  const { name: connection } = await registry.connection(tenant)
  const made = async (inputs: readonly object[]): Promise<Product> => {
    const product = await registry.product(tenant)
    const normalised = { inputs } as unknown as ManifestSet
    const about = { productId: product.id, version: '1.0.0', digest: 'd', manifests: {}, normalised, deployedBy: ANN }
    await inTransaction(registry.pool, (tx) => saveVersion(tx, about))
    return product
  }
  let below: readonly object[] = [{ connection, table: 'people' }]
  for (let layer = 0; layer < LAYERS; layer += 1) {
    const pair = [await made(below), await made(below)]
    below = pair.map(({ domain, name }) => ({ connection: PRODUCTS, table: `${domain}.${name}` }))
    top = pair[0] as Product
  }
})

after(() => registry[Symbol.asyncDispose]())

/** Whoever made the connection, and how often the registry is asked. */
function asked(subject: string) {
  const principal = { ...ANN, subject, tenant, groups: [], isAdmin: false, isDeveloper: true } as unknown as Principal
  const counted = { queries: 0 }
  const query = (...all: Parameters<TestRegistry['pool']['query']>) => {
    counted.queries += 1
    return registry.pool.query(...all)
  }
  const served = {
    find: async (_: string, id: string) => ({
      id,
      columns: [],
      formerColumns: [],
      grants: [],
      classification: 'internal',
      snapshotClassification: 'internal',
    }),
  }
  const platform = { pool: { query }, served, rules: { sensitive: [], strategies: {} } } as unknown as ProductsDeps
  return { platform, principal, call: { tenant, principal } as TenantCall, counted }
}

it('rights to what products are made of are looked at once a product, however many ways lead there', async () => {
  for (const [subject, expected] of [
    [ANN.subject, true],
    ['bob', false],
  ] as const) {
    const { platform, principal, call, counted } = asked(subject)
    assert.equal(await readsSources(platform, principal, top), expected)
    assert.equal(await mayReadInputs(platform, call, top.id), expected)
    assert.ok(counted.queries < 20 * LAYERS, String(counted.queries))
  }
})

it('an answer that leans on one which is not there yet is not kept', async () => {
  // a and b are made of each other; a alone is made of what may not be read.
  const each = new OnceEach<boolean>()
  const a = () => each.answer('a', true, async () => (await b()) && false)
  const b = (): Promise<boolean> => each.answer('b', true, a)
  assert.equal(await each.answer('top', true, async () => (await a()) || (await b())), false)
  assert.equal(await b(), false)
})

import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { inTransaction } from '../database/pools.ts'
import { deleteConnection } from './connections.ts'
import { createProduct, deleteProduct, updateProduct } from './products.ts'
import { endKeptClasses, keepLostClasses, productColumn, rawClasses, saveRawClasses } from './raw-classes.ts'
import { ANN, startTestRegistry } from './testing.ts'
import { saveVersion } from './versions.ts'

const registry = await startTestRegistry()
const { pool } = registry
const OF_CRM = { domain: 'crm', archetype: 'aggregate', createdBy: ANN } as const
after(() => registry[Symbol.asyncDispose]())

test('all classes of a raw column are kept, and guesses take none away', async () => {
  const tenant = await registry.tenant()
  await inTransaction(pool, async (tx) => {
    const of = { tenant, domain: 'crm', archetype: 'aggregate', createdBy: ANN } as const
    const [people, staff] = [
      await createProduct(tx, { ...of, name: 'people' }),
      await createProduct(tx, { ...of, name: 'staff' }),
    ]
    const known = async (column: string) => [...((await rawClasses(tx, tenant)).get(column) ?? [])].sort()
    await saveRawClasses(tx, people, new Map([['ssn', ['internal', 'pii.identifier']]]))
    await saveRawClasses(tx, staff, new Map([['ssn', ['pii.identifier', 'public']]]))
    assert.deepEqual(await known('ssn'), ['internal', 'pii.identifier'])
    await saveRawClasses(tx, staff, new Map())
    const guessed = new Map([
      ['ssn', ['internal']],
      ['email', ['pii.identifier']],
    ])
    await saveRawClasses(tx, people, guessed, { keepFormer: true })
    assert.deepEqual(await known('ssn'), ['internal', 'pii.identifier'])
    assert.deepEqual(await known('email'), ['pii.identifier'])
    await saveRawClasses(tx, people, guessed)
    assert.deepEqual(await known('ssn'), ['internal'])
  })
})

test('what a product gives no more is kept, but where the owner of the source took it away', async () => {
  const tenant = await registry.tenant()
  const { id, name } = await registry.connection(tenant)
  const raw = (column: string) => JSON.stringify([name, 'public.people', column])
  await inTransaction(pool, async (tx) => {
    const product = await createProduct(tx, {
      ...{ tenant, domain: 'crm', name: 'people', archetype: 'aggregate' },
      createdBy: ANN,
    })
    const given = new Map([
      [raw('ssn'), ['pii.identifier', 'internal']],
      [raw('email'), ['pii.identifier']],
    ])
    const gives = async () =>
      [...(await rawClasses(tx, tenant))].map(([column, names]) => [JSON.parse(column)[2], ...names.toSorted()]).sort()
    const next = new Map([[raw('ssn'), ['internal']]])
    const change = async (by: typeof ANN) => {
      await saveRawClasses(tx, product, given)
      await keepLostClasses(tx, product, next, by)
      await saveRawClasses(tx, product, next)
    }
    await change(ANN)
    assert.deepEqual(await gives(), [['ssn', 'internal']], 'Ann has made the connection')
    await change({ ...ANN, subject: 'bob' })
    const all = [
      ['email', 'pii.identifier'],
      ['ssn', 'internal', 'pii.identifier'],
    ]
    assert.deepEqual(await gives(), all)
    await keepLostClasses(tx, product, new Map(), { ...ANN, issuer: 'https://other.example' })
    await deleteProduct(tx, tenant, product.id)
    assert.deepEqual(await gives(), all, 'nobody else of her name has')
    await endKeptClasses(tx, tenant, [raw('email')])
    assert.deepEqual(await gives(), all.slice(1))
    await deleteConnection(tx, tenant, id)
    assert.deepEqual(await gives(), [])
  })
})

test('who asks about some raw columns is told of each what all of them together say', async () => {
  const tenant = await registry.tenant()
  const { name } = await registry.connection(tenant)
  await inTransaction(pool, async (tx) => {
    const columns = ['ssn', 'email', 'phone'].map((column) => JSON.stringify([name, 'public.people', column]))
    for (const product of ['people', 'staff']) {
      const { id: productId } = await createProduct(tx, { ...OF_CRM, tenant, name: product })
      const output = columns.map((_, at) => ({ name: `own_${at}`, classification: ['pii.email', 'internal'][at % 2] }))
      const normalised = { inputs: [], output: { columns: output } }
      await saveVersion(tx, { productId, version: '1.0.0', manifests: {}, normalised, digest: 'd', deployedBy: ANN })
      await updateProduct(tx, tenant, productId, { status: 'deployed', currentVersion: '1.0.0' })
      await saveRawClasses(tx, { id: productId, tenant }, new Map(columns.map((column) => [column, ['pii.email']])))
      columns.push(...output.map((column) => productColumn(`crm.${product}`, column.name)))
    }
    // Kept of one that gives it no more, by somebody who has not made the connection.
    const [kept] = columns as [string]
    const { id: former } = await createProduct(tx, { ...OF_CRM, tenant, name: 'former' })
    await saveRawClasses(tx, { id: former, tenant }, new Map([[kept, ['pii.identifier']]]))
    await keepLostClasses(tx, { id: former, tenant }, new Map(), { ...ANN, subject: 'bob' })
    await deleteProduct(tx, tenant, former)
    const all = await rawClasses(tx, tenant)
    assert.equal(all.size, columns.length)
    assert.deepEqual([...(all.get(kept) ?? [])].sort(), ['pii.email', 'pii.identifier'])
    for (let chosen = 0; chosen < 2 ** columns.length; chosen += 37) {
      const only = columns.filter((_, at) => (chosen >> at) % 2 === 1)
      const told = await rawClasses(tx, tenant, only)
      for (const column of only) assert.deepEqual(told.get(column), all.get(column))
    }
    const [first] = columns as [string]
    assert.deepEqual([...(await rawClasses(tx, tenant, [first])).keys()], [first])
  })
})

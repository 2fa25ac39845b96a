import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { inTransaction } from '../database/pools.ts'
import { createProduct } from './products.ts'
import { rawClasses, saveRawClasses } from './raw-classes.ts'
import { ANN, startTestRegistry } from './testing.ts'

const registry = await startTestRegistry()
const { pool } = registry
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

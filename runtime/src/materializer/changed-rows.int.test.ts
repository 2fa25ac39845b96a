import assert from 'node:assert/strict'
import { unlink } from 'node:fs/promises'
import { after, before, test } from 'node:test'
import { type RegistryLake, startRegistryLake } from '../lake/testing.ts'
import { CLEAR, expected, follow, ROWS, type Values } from './changed-rows.fixture.ts'
import { lakeTable } from './variants.ts'

let lake: RegistryLake

before(async () => {
  lake = await startRegistryLake()
})
after(() => lake[Symbol.asyncDispose]())

for (const [why, transform] of [
  ['its key is another one', 'SELECT CAST(id + 1 AS BIGINT) AS id, name, mail, note FROM source'],
  [
    'rows may depend on others',
    'SELECT id, max(name) AS name, any_value(mail) AS mail, any_value(note) AS note FROM source GROUP BY id',
  ],
] as const) {
  test(`a product is written whole where ${why}`, async () => {
    const product = follow(lake, { transform })
    await product.read()
    await product.epoch({ variants: [CLEAR] })
    const first = await product.files('clear')
    await product.change(new Map([[5, { name: 'x', mail: 'x', note: 'x', unused: 'x' }]]), [])
    await product.epoch({ variants: [CLEAR] })
    const second = await product.files('clear')
    assert.ok(!first.some((uri) => second.includes(uri)))
  })
}

test('what casts take from values is counted of all rows, whichever have changed', async () => {
  const transform =
    "SELECT id, name, mail, CAST(CASE WHEN note LIKE 'o%7' THEN 2.5 ELSE 1 END AS DOUBLE) AS note FROM source"
  const product = follow(lake, { transform, noteType: 'integer' })
  const world = await product.read()
  const plan = { ...CLEAR, schema: { ...CLEAR.schema, columns: product.columns } }
  const lost = async () => (await product.epoch({ variants: [plan] })).lost
  assert.deepEqual(await lost(), { note: ROWS / 10 })
  const other = (id: number, note: string) => [id, { ...(world.get(id) as Values), note }] as const
  await product.change(new Map([other(7, 'even'), other(8, 'o7'), other(9, 'o97')]), [17])
  assert.deepEqual(await lost(), { note: ROWS / 10 })
  await product.change(new Map([other(8, 'even')]), [27, 37])
  assert.deepEqual(await lost(), { note: ROWS / 10 - 3 })
})

test('a check sees all rows, and keeps an epoch back', async () => {
  const check = {
    name: 'named',
    severity: 'error',
    onError: 'block',
    dimension: 'completeness',
    weight: 1,
    description: '',
  }
  const checks = [{ ...check, threshold: { rows: 0 }, rule: { kind: 'not_null', columns: ['note'] } }]
  const product = follow(lake, { checks })
  const world = await product.read()
  await product.epoch()
  await product.change(new Map([[5, { ...(world.get(5) as Values), note: null }]]), [])
  await assert.rejects(product.epoch(), { code: 'quality_blocked' })
  assert.deepEqual(await product.rows('clear'), expected('clear', world))
})

test('what is not changed is not written: the files of the first epoch stay, with lists of what is gone', async () => {
  const product = follow(lake)
  const world = await product.read()
  await product.epoch()
  const first = await product.files('clear')
  world.set(5, { ...(world.get(5) as Values), name: 'moved' })
  await product.change(new Map([[5, world.get(5) as Values]]), [7])
  world.delete(7)
  await product.epoch()
  const second = await product.files('clear')
  assert.ok(first.every((uri) => second.includes(uri)))
  assert.equal(second.length, first.length + 2)
  assert.deepEqual(await product.rows('clear'), expected('clear', world))
})

test('a twin does not tell that a value which it hides has changed, nor one that the product has not', async () => {
  for (const column of ['note', 'unused'] as const) {
    const product = follow(lake)
    const world = await product.read()
    await product.epoch()
    const before = await product.files('masked')
    const next = { ...(world.get(5) as Values), [column]: 'other' }
    await product.change(new Map([[5, next]]), [])
    await product.epoch()
    assert.deepEqual(await product.files('masked'), before, column)
    world.set(5, next)
    assert.deepEqual(await product.rows('clear'), expected('clear', world))
  }
})

test('a changed row that breaks a rule of the product is refused, and nothing is published', async () => {
  const product = follow(lake)
  const world = await product.read()
  await product.epoch({ required: true })
  await product.change(new Map([[5, { ...(world.get(5) as Values), name: null }]]), [])
  await assert.rejects(product.epoch({ required: true }), { kind: 'INVALID_DATA', code: 'required_value_missing' })
  assert.deepEqual(await product.rows('clear'), expected('clear', world))
})

for (const [broken, what] of [
  ['input', 'list'],
  ['clear', 'list'],
  ['masked', 'list'],
] as const) {
  test(`a product whose changed rows cannot be told, since the ${what} of its ${broken} table is gone, is written whole`, async () => {
    const own = { ...lake }
    const product = follow(own)
    const world = await product.read()
    await product.epoch()
    const table = broken === 'input' ? product.table : lakeTable('acme', 'sales', product.name, broken)
    const state = await lake.lake.load(table)
    const list = state?.metadata.snapshots.at(-1)?.['manifest-list'] as string
    const files = what === 'list' ? [list] : (await lake.lake.scan(table)).files.map(({ uri }) => uri)
    world.set(5, { ...(world.get(5) as Values), name: 'moved' })
    await product.change(new Map([[5, world.get(5) as Values]]), [])
    for (const uri of files) await unlink(lake.store.localPath(state?.files.pathOf(uri) as string) as string)
    own.lake = lake.lake.fresh()
    await product.epoch()
    for (const variant of ['clear', 'masked'] as const) {
      assert.deepEqual(await product.rows(variant), expected(variant, world))
    }
  })
}

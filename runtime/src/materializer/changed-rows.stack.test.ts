/** What changed rows come to, against code that knows nothing of files: random changes, every kind of twin, a transform. */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { Row } from '@sluice/sdk'
import { type RegistryLake, startRegistryLake } from '../lake/testing.ts'
import {
  changes,
  differenceOf,
  expected,
  follow,
  randomOf,
  seed,
  VARIANTS,
  type Values,
} from './changed-rows.fixture.ts'
import type { LakeState } from './lake-state.ts'

let lake: RegistryLake

before(async () => {
  lake = await startRegistryLake()
})
after(() => lake[Symbol.asyncDispose]())

test(`whatever rows change, every variant holds what it would hold were it written whole; seed ${seed}`, async () => {
  const product = follow(lake)
  const world = await product.read()
  await product.epoch()
  const random = randomOf(seed)
  for (let round = 0; round < 3; round += 1) {
    const earlier = { states: new Map<string, LakeState>(), rows: new Map<string, readonly Row[]>() }
    for (const variant of ['clear', 'masked', 'hashed']) {
      earlier.states.set(variant, await product.state(variant))
      earlier.rows.set(variant, await product.rows(variant))
    }
    const { changed, gone } = changes(world, random, 1 + random(40))
    await product.change(changed, gone)
    await product.epoch()
    for (const { variant } of VARIANTS) assert.deepEqual(await product.rows(variant), expected(variant, world), variant)
    for (const [variant, state] of earlier.states) {
      const told = await differenceOf(lake, state, await product.state(variant))
      const known = new Set((earlier.rows.get(variant) ?? []).map((row) => JSON.stringify(row)))
      const now = await product.rows(variant)
      const isNew = now.filter((row) => !known.has(JSON.stringify(row)))
      assert.deepEqual(told.upserts, isNew, `what stores of ${variant} are sent`)
      const keys = new Set(now.map(([id]) => id))
      const left = [...known].map((row) => (JSON.parse(row) as string[])[0] as string).filter((id) => !keys.has(id))
      assert.deepEqual(told.deletes, left.sort())
    }
    if (round === 0) for (const variant of ['clear', 'masked', 'hashed']) await product.compact(variant)
  }
})

test(`a transform that makes each row of one row is given the changed rows alone; seed ${seed}`, async () => {
  // Rows come and go by the filter, and a name of four letters and more loses some.
  const transform = `SELECT s.id, CAST(upper(s.name) AS VARCHAR) AS name, s.mail, CASE WHEN s.unused = 'u' THEN s.note END AS note
    FROM source AS s WHERE s.name IS NULL OR s.name NOT LIKE '%7'`
  const check = { name: 'few', severity: 'error', onError: 'block', dimension: 'validity', weight: 1, description: '' }
  const checks = [{ ...check, threshold: { rows: 0 }, rule: { kind: 'row_count', min: 1, max: 1_000_000 } }]
  const product = follow(lake, { transform, checks })
  const world = await product.read()
  await product.epoch()
  const made = () =>
    new Map(
      [...world].flatMap(([id, { name, mail, note, unused }]) => {
        const shown = { name: name?.toUpperCase() ?? null, mail, note: unused === 'u' ? note : null, unused }
        return name?.endsWith('7') ? [] : [[id, shown] as const]
      }),
    )
  for (const { variant } of VARIANTS) assert.deepEqual(await product.rows(variant), expected(variant, made()), variant)
  const first = await product.files('clear')
  const random = randomOf(seed + 1)
  for (let round = 0; round < 2; round += 1) {
    const { changed, gone } = changes(world, random, 10 + random(30))
    await product.change(changed, gone)
    await product.epoch()
    for (const { variant } of VARIANTS)
      assert.deepEqual(await product.rows(variant), expected(variant, made()), variant)
  }
  const last = await product.files('clear')
  assert.ok(first.every((uri) => last.includes(uri)))
})

test('with another key of the pseudonyms, or other stores, all is written anew', async () => {
  const product = follow(lake)
  const world = await product.read()
  await product.epoch()
  const secret = Buffer.alloc(32, 8)
  await product.epoch({ secret })
  assert.deepEqual(await product.rows('masked'), expected('masked', world, secret))
  const unable = follow(lake, { takesDeletes: false })
  await unable.read()
  await unable.epoch()
  await unable.change(new Map([[5, { name: 'x', mail: 'x', note: 'x', unused: 'x' }]]), [6])
  await unable.epoch()
  assert.deepEqual((await unable.state('clear')).deletes, undefined)
})

test('a product that merges keeps the rows that its input has no more', async () => {
  const product = follow(lake, { writeMode: 'merge' })
  const world = await product.read()
  await product.epoch()
  await product.change(new Map([[5, { ...(world.get(5) as Values), name: 'moved' }]]), [6])
  world.set(5, { ...(world.get(5) as Values), name: 'moved' })
  await product.epoch()
  for (const { variant } of VARIANTS) assert.deepEqual(await product.rows(variant), expected(variant, world), variant)
})

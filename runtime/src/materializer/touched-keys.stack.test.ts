/** Random changes of random tables, and random products of them: by touched keys as a DuckDB of its own makes them whole. */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { RandomParts } from '../../../engine/src/guard/random-parts.fixture.ts'
import { Seeded } from '../../../test/crash/seeded.ts'
import { type RegistryLake, startRegistryLake } from '../lake/testing.ts'
import { seed } from './changed-rows.fixture.ts'
import {
  type Asked,
  openSources,
  productOf,
  SIZES,
  SOURCE,
  type SourceName,
  type Sources,
} from './touched-keys.fixture.ts'

const PRODUCTS = Number(process.env['SLUICE_TEST_PRODUCTS'] ?? 4)
const ROUNDS = 2

let lake: RegistryLake
let sources: Sources

before(async () => {
  lake = await startRegistryLake()
  sources = await openSources(lake)
})
after(async () => {
  sources.close()
  await lake[Symbol.asyncDispose]()
})

test(`products by touched keys are what they are when all is made; seed ${seed}`, async () => {
  const random = new Seeded(seed)
  const made = Array.from({ length: PRODUCTS }, () => null)
  const products: { readonly asked: Asked; readonly product: ReturnType<typeof productOf> }[] = []
  for (const _ of made) {
    const asked = await nextProduct(random)
    products.push({ asked, product: productOf(lake, sources, asked) })
  }
  let [byKeys, refused] = [0, 0]
  for (let round = 0; round <= ROUNDS; round += 1) {
    if (round > 0)
      for (const name of Object.keys(SIZES) as SourceName[]) if (random.below(3) > 0) await changeSome(random, name)
    for (const { asked, product } of products) {
      const told = `${JSON.stringify(asked)}, round ${round}, seed ${seed}`
      const fault = await faultOf(asked)
      if (fault !== null) {
        await assert.rejects(product.epoch(), { code: fault }, told)
        refused += 1
        continue
      }
      const { isByKeys } = await product.epoch()
      if (isByKeys) byKeys += 1
      for (const [variant, hashed] of Object.entries(product.hashed)) {
        assert.deepEqual(await product.rows(variant), await sources.expected(asked, hashed), `${variant}: ${told}`)
      }
    }
  }
  console.log(`${PRODUCTS} products: ${byKeys} epochs by touched keys, ${refused} refused`)
  assert.ok(byKeys >= PRODUCTS / 2, `only ${byKeys} epochs by touched keys`)
})

/** One that can be made of the rows as they are, and whose inputs lie in large files for the most part. */
async function nextProduct(random: Seeded): Promise<Asked> {
  const parts = new RandomParts(random)
  for (let at = 0; at < 1000; at += 1) {
    const { sql, keys, values, tables } = parts.product()
    const where = Object.fromEntries(tables.filter(() => random.below(3) === 0).map((name) => [name, parts.filter()]))
    const asked = { sql, keys, values, tables, where }
    if (tables.includes('people') && (await faultOf(asked).catch(() => 'not bound')) === null) return asked
  }
  throw new Error('no product can be made')
}

/** What rows of the product break, whichever way they are made. */
async function faultOf(asked: Asked): Promise<string | null> {
  const rows = await sources.expected(asked, [])
  const keys = rows.map((row) => row.slice(0, asked.keys.length))
  if (keys.some((key) => key.includes(null))) return 'required_value_missing'
  return new Set(keys.map((key) => JSON.stringify(key))).size < keys.length ? 'duplicate_key' : null
}

/** Some are changed in one column, some are gone, some are new, and some get another key. */
async function changeSome(random: Seeded, name: SourceName): Promise<void> {
  const list = SOURCE.columns.map((column) => `CAST(${column.name} AS VARCHAR) AS ${column.name}`).join(', ')
  const count = 3 + random.below(40)
  const ids = Array.from({ length: count }, () => 1 + random.below(SIZES[name] + 20))
  const known = await sources.told(`SELECT ${list} FROM raw_${name} WHERE id IN (${ids.join(', ')}) ORDER BY id`)
  const changed = new Map<string, (string | null)[]>()
  const gone: number[] = []
  const cells = (row: readonly unknown[]) => row.map((value) => (value === null ? null : String(value)))
  for (const row of known) {
    const [id, ...others] = cells(row) as [string, ...(string | null)[]]
    const way = random.below(6)
    if (way === 0) gone.push(Number(row[0]))
    if (way === 1) {
      gone.push(Number(row[0]))
      const other = String(SIZES[name] + 100 + random.below(10_000))
      changed.set(other, [other, ...others])
      continue
    }
    if (way === 0) continue
    const at = random.below(others.length)
    others[at] = someValue(random, SOURCE.columns[at + 1]?.type as string)
    changed.set(id, [id, ...others])
  }
  for (let made = 0; made < 3; made += 1) {
    const id = String(SIZES[name] + 20_000 + random.below(50_000))
    changed.set(id, [id, ...SOURCE.columns.slice(1).map(({ type }) => someValue(random, type))])
  }
  await sources.change(name, [...changed.values()], gone)
}

function someValue(random: Seeded, type: string): string | null {
  if (random.below(5) === 0) return null
  if (type === 'long') return String(random.below(400))
  if (type === 'double') return random.pick(['0.0', '-0.0', 'nan', '1e17', '-1e17', '0.1'])
  if (type === 'string') return random.pick(['oslo', 'Oslo', '', 'm1', 'M4', 'ö', ' '])
  return String(random.below(5000) / 4)
}

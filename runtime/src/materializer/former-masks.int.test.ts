/**
 * Epochs of releases that kept of masks only the names of the columns. By which mask rows were made is told by the rows, whatever the
 * configuration says by then, and whatever it says when that is looked up: who upgrades may make a mask stricter with the same start.
 */
import assert from 'node:assert/strict'
import { rm } from 'node:fs/promises'
import { after, before, it } from 'node:test'
import { fileURLToPath } from 'node:url'
import { RecordingLogger } from '@sluice/conformance'
import { commitStep, startLakeOver, type TestLake } from '@sluice/iceberg/testing'
import type pg from 'pg'
import { CATALOG_MIGRATIONS } from '../catalog/migrations.ts'
import { LAKE_MIGRATIONS } from '../lake/migrations.ts'
import { registryCatalog } from '../lake/registry-catalog.ts'
import { madeMasks, missingMasks } from '../policy/made-masks.ts'
import { type ClassifiedColumn, masksFor } from '../policy/masking.ts'
import { noteGoneMasks } from '../registry/epoch-retention.ts'
import { findEpoch, type Materialization } from '../registry/materializations.ts'
import type { Product } from '../registry/products.ts'
import { startTestRegistry, type TestRegistry } from '../registry/testing.ts'
import { type PlannedTopic, showsTooMuch } from './change-plan.ts'
import { RECIPE } from './changed-rows.ts'
import { noteFormerMasks } from './former-masks.ts'
import { hasForReader } from './inputs.ts'
import { maskKey, twinColumns, twinSelect } from './mask-sql.ts'
import { lakeTable, QUARANTINE } from './variants.ts'

let registry: TestRegistry
let pool: pg.Pool
let test: TestLake
const logger = new RecordingLogger()

before(async () => {
  registry = await startTestRegistry([LAKE_MIGRATIONS, CATALOG_MIGRATIONS])
  pool = registry.pool
  test = await startLakeOver(() => registryCatalog(pool))
})
after(async () => {
  await test?.[Symbol.asyncDispose]()
  await registry?.[Symbol.asyncDispose]()
})

const MASKS = ['hash', 'partial', 'redact', 'null', 'omit'] as const
const SHOWS_NOTHING: readonly string[] = MASKS.slice(2)
/** Of the masked columns, masked in this way. */
const masking = (strategy: string) => ({ sensitive: [], strategies: { 'pii.phone': strategy } })
const TYPES = { phone: 'string', code: 'uuid', bytes: 'binary', salary: 'long' } as const
const COLUMNS: readonly ClassifiedColumn[] = [
  { name: 'city', type: 'string', nullable: true, classification: 'public' },
  ...Object.entries(TYPES).map(([name, type]) => ({ name, type, nullable: true, classification: 'pii.phone' })),
]
const MASKED = Object.keys(TYPES)

/** Rows in clear: phone, code, bytes, salary. */
const PEOPLE = `('+420 777 123 456', '6ba7b810-9dad-11d1-80b4-00c04fd430c8', 'a', 1), ('[redacted]', NULL, NULL, NULL),
  ('short', NULL, 'b', 3), ('deadbeefdeadbeefdeadbeefdeadbeef', NULL, '', 4), ('', NULL, NULL, NULL), (NULL, NULL, NULL, NULL)`
const WITHOUT_VALUES = '(NULL, NULL, NULL, NULL), (NULL, NULL, NULL, NULL)'

interface Making {
  readonly mask: string
  /** Null: none. */
  readonly rows?: string | null
  readonly recipe?: string
  readonly quarantined?: number
}

async function deployed(): Promise<Product> {
  const product = await registry.product(await registry.tenant())
  const normalised = { product: { classification: 'internal' }, output: { columns: COLUMNS } }
  await pool.query(
    `insert into product_versions (product_id, version, manifests, normalised, digest, deployed_by)
     values ($1, '1.0.0', '{}', $2, 'd', '{}')`,
    [product.id, JSON.stringify(normalised)],
  )
  await pool.query("update products set current_version = '1.0.0', status = 'deployed' where id = $1", [product.id])
  return product
}

/** The twin of the product in the lake, or the rows of it that were put aside; answers with its snapshot. */
async function writtenTwin(
  product: Product,
  { mask, rows = PEOPLE, recipe }: Making,
  asideOf?: number,
): Promise<string> {
  const masks = masksFor(COLUMNS, new Set(), masking(mask))
  const pads = maskKey('pii.phone', Buffer.alloc(32, 7))
  const blob = (bytes: Uint8Array) =>
    `'${[...bytes].map((byte) => `\\x${byte.toString(16).padStart(2, '0')}`).join('')}'`
  const content = `SELECT 'Brno' AS city, phone, code::UUID AS code, bytes::BLOB AS bytes, salary::BIGINT AS salary
    FROM (VALUES ${rows ?? WITHOUT_VALUES}) v (phone, code, bytes, salary) ${rows === null ? 'WHERE false' : ''}`
  const keys = `SELECT ${blob(pads.innerPad)}::BLOB AS inner_pad, ${blob(pads.outerPad)}::BLOB AS outer_pad`
  const columns = twinColumns(COLUMNS, masks).map(({ name, type, nullable }) => ({ name, type, nullable }))
  const name = asideOf === undefined ? product.name : `${product.name}${QUARANTINE}`
  const { snapshotId } = await commitStep(test, lakeTable(product.tenant, product.domain, name, 'masked'), {
    select: `WITH mask_key_0 AS (${keys}), content AS (${content}) ${twinSelect('content', COLUMNS, masks, [pads])}`,
    schema: { columns, primaryKey: [] },
    operation: 'replace',
    summary: {
      ...(recipe === undefined ? {} : { [RECIPE]: recipe }),
      ...(asideOf === undefined ? {} : { 'sluice.epoch': String(asideOf) }),
    },
  })
  return snapshotId as string
}

/** As a release before left it. */
async function epochBefore({ id, tenant }: Product, epoch: number, masked: string, quarantined = 0): Promise<void> {
  await pool.query(
    `insert into materializations (id, tenant, product_id, epoch, kind, state, version, digest, snapshots, masked_columns, counts,
       committed_at)
     values ($1, $2, $3, $4::int, 'materialize', 'committed', '1.0.0', 'd', $5, $6, $7, now() + $4::int * interval '1 second')`,
    [
      `mat_${id}_${epoch}`,
      tenant,
      id,
      epoch,
      { clear: '1', masked },
      { clear: [], masked: [...MASKED, 'gone'] },
      { quarantined },
    ],
  )
}

/** A product with these epochs, the first one first. */
async function madeBefore(...epochs: readonly Making[]): Promise<Product> {
  const product = await deployed()
  for (const [at, making] of epochs.entries()) {
    await epochBefore(product, at + 1, await writtenTwin(product, making), making.quarantined)
  }
  return product
}

/** The first start of this release, where the configuration has that mask. */
const start = (mask: string) => noteFormerMasks({ pool, lake: test.lake, rules: masking(mask), logger })

const epochOf = async ({ id }: Product, epoch = 1) => (await findEpoch(pool, id, epoch)) as Materialization
const notedOf = async (product: Product, epoch = 1) => (await epochOf(product, epoch)).masks?.['masked'] ?? null
const asBefore = (product: Product) =>
  pool.query('update materializations set masks = null where product_id = $1', [product.id])

/** Which doors show the epoch to who is not cleared, where the configuration has those rules. */
async function doors(product: Product, strategy: string) {
  const epoch = await epochOf(product)
  const rules = masking(strategy)
  const masks = masksFor(COLUMNS, new Set(), rules)
  await pool.query('update catalog_masking set strategies = $1', [rules.strategies])
  const { rows } = await pool.query("select catalog_is_open($1, 'masked') as open", [product.id])
  const topic = { variant: 'masked', plan: { variant: 'masked', masks } } as unknown as PlannedTopic
  return {
    reads: missingMasks(masks, madeMasks(epoch, 'masked')).length === 0,
    inputs: hasForReader(epoch, { variant: 'masked', hidden: [...MASKED, 'gone'], masks }),
    topics: !showsTooMuch(epoch, topic),
    logins: rows[0].open as boolean,
  }
}

const everywhere = (isShown: boolean) => ({ reads: isShown, inputs: isShown, topics: isShown, logins: isShown })

/** What `made` makes of a column of that type. */
const madeOf = (made: string, type: string) => {
  const carries = { string: MASKS, uuid: ['hash', 'null', 'omit'], binary: ['hash', 'null', 'omit'] }
  const own = (carries as Readonly<Record<string, readonly string[]>>)[type] ?? ['null', 'omit']
  return own.includes(made) ? made : 'null'
}

/** Masks that show nothing are as one. */
const toldAs = (mask: string | undefined) => (SHOWS_NOTHING.includes(mask ?? '') ? 'nothing' : mask)

it('are shown by every door, or by none, as their rows show it, whatever the configuration is at the first start', async () => {
  for (const then of MASKS) {
    const product = await madeBefore({ mask: then })
    for (const first of MASKS) {
      await asBefore(product)
      await start(first)
      const noted = await notedOf(product)
      for (const [name, type] of Object.entries(TYPES)) {
        const wanted = madeOf(then, type)
        // A text that is null in every row may be a hash of nothing, unless it would be null today as well.
        const isDoubtful = type === 'string' && wanted === 'null' && first !== 'null'
        const told = isDoubtful ? 'hash' : toldAs(wanted)
        assert.equal(toldAs(noted?.[name]), told, `${name}, made by ${then}, looked at under ${first}`)
      }
      if (first !== 'null' && then === 'null') continue
      for (const now of MASKS) {
        const isShown = then === now || SHOWS_NOTHING.includes(then)
        assert.deepEqual(await doors(product, now), everywhere(isShown), `${then} then, ${first} first, ${now} now`)
      }
    }
  }
})

it('are shown by no door before it has been looked up', async () => {
  const product = await madeBefore({ mask: 'redact' })
  for (const now of MASKS) assert.deepEqual(await doors(product, now), everywhere(false), now)
})

it('without values are shown where the rows would be the same ones today', async () => {
  for (const then of MASKS) {
    const product = await madeBefore({ mask: then, rows: WITHOUT_VALUES })
    for (const now of MASKS) {
      await asBefore(product)
      await start(now)
      const { reads } = await doors(product, now)
      const isSafe = then === now || SHOWS_NOTHING.includes(then) || then === 'hash'
      assert.ok(!reads || isSafe, `${then} then, ${now} now`)
      if (then === now) assert.ok(reads, `${then} then and now`)
    }
  }
})

it('without rows are shown, unless rows were put aside', async () => {
  const shown = await madeBefore({ mask: 'partial', rows: null })
  const hidden = await madeBefore({ mask: 'partial', rows: null, quarantined: 2 })
  await start('redact')
  assert.equal((await doors(shown, 'redact')).reads, true)
  assert.equal((await doors(hidden, 'redact')).reads, false)
})

it('of one recipe are looked at once, and tell what others of it cannot', async () => {
  const product = await madeBefore(
    { mask: 'hash', recipe: 'a', rows: WITHOUT_VALUES },
    { mask: 'hash', recipe: 'a' },
    { mask: 'redact', recipe: 'b' },
    { mask: 'partial' },
  )
  await start('redact')
  const phones = await Promise.all([1, 2, 3, 4].map(async (epoch) => (await notedOf(product, epoch))?.['phone']))
  assert.deepEqual(phones, ['hash', 'hash', 'redact', 'partial'])
})

it('of one recipe are not told by rows without values', async () => {
  for (const mask of ['hash', 'partial']) {
    const product = await madeBefore(
      { mask, recipe: 'a' },
      { mask, recipe: 'a', rows: mask === 'hash' ? "('a', NULL, NULL, NULL)" : WITHOUT_VALUES },
    )
    await start('null')
    const { phone, code, bytes } = (await notedOf(product)) ?? {}
    const isHash = mask === 'hash'
    assert.deepEqual([phone, code, bytes], isHash ? ['hash', 'hash', 'hash'] : ['partial', 'null', 'null'])
    assert.deepEqual(await doors(product, 'null'), everywhere(false), mask)
  }
})

it('are judged by the rows that were put aside where the others have no values', async () => {
  for (const [at, mask] of MASKS.entries()) {
    // One that the registry has from the lake's own note has no counts.
    const product = await madeBefore({ mask, rows: at % 2 === 0 ? WITHOUT_VALUES : null, quarantined: at % 3 })
    await writtenTwin(product, { mask }, 1)
    for (const now of MASKS) {
      await asBefore(product)
      await start(now)
      const noted = await notedOf(product)
      for (const [name, type] of Object.entries(TYPES)) {
        const wanted = madeOf(mask, type)
        const isDoubtful = type === 'string' && wanted === 'null' && now !== 'null'
        assert.equal(toldAs(noted?.[name]), isDoubtful ? 'hash' : toldAs(wanted), `${name}, ${mask}, ${now}`)
      }
    }
  }
  const former = await madeBefore({ mask: 'null', rows: WITHOUT_VALUES, quarantined: 2 })
  await writtenTwin(former, { mask: 'hash' }, 7)
  const none = await madeBefore({ mask: 'null', rows: WITHOUT_VALUES })
  await writtenTwin(none, { mask: 'null', rows: null }, 1)
  await start('null')
  assert.deepEqual(await doors(former, 'null'), everywhere(true), 'rows of another epoch')
  assert.deepEqual(await doors(none, 'null'), everywhere(true), 'no rows')
})

it('whose snapshot has gone are shown by no door, and what is noted of them stays', async () => {
  const product = await madeBefore({ mask: 'redact' })
  await epochBefore(product, 2, '12345')
  const nowhere = await deployed()
  await epochBefore(nowhere, 1, '1')
  await start('redact')
  assert.deepEqual(await notedOf(product, 2), { salary: 'null' })
  assert.deepEqual(await doors(nowhere, 'redact'), everywhere(false))
  const kept = await notedOf(product)
  assert.equal(kept?.['phone'], 'redact')
  await start('partial')
  assert.deepEqual(await notedOf(product), kept)
})

it('of which the lake has nothing any more keep no login from the rows of now', async () => {
  const product = await deployed()
  for (const epoch of [1, 2, 3]) await epochBefore(product, epoch, `gone-${epoch}`)
  const now = await writtenTwin(product, { mask: 'redact' })
  await epochBefore(product, 4, now)
  await start('redact')
  const logins = async () => (await doors(product, 'redact')).logins
  const clean = (epochs: readonly number[] = []) =>
    noteGoneMasks(pool, product.id, { snapshots: [now], epochs: [4, ...epochs] })
  await pool.query('update product_fences set epoch = 4 where product_id = $1', [product.id])
  await clean()
  assert.equal(await logins(), false, 'readers of theirs may not have ended')
  await pool.query(
    "update materializations set committed_at = committed_at - interval '2 hours' where product_id = $1",
    [product.id],
  )
  await clean([2])
  assert.equal(await logins(), false, 'rows of one are put aside')
  await clean()
  assert.equal(await logins(), true)
  assert.deepEqual(await notedOf(product, 1), {
    phone: 'gone',
    code: 'gone',
    bytes: 'gone',
    salary: 'null',
    gone: 'gone',
  })
  const { reads, inputs, topics } = await doors(product, 'redact')
  assert.deepEqual([reads, inputs, topics], [false, false, false], 'of themselves')
  assert.equal((await notedOf(product, 4))?.['phone'], 'redact')
})

it('that cannot be read keep nothing from starting, and are noted when they can be', async () => {
  const broken = await madeBefore({ mask: 'redact' })
  const whole = await madeBefore({ mask: 'redact' })
  const { rows } = await pool.query<{ location: string }>(
    'select metadata_location as location from iceberg_tables where table_name = $1',
    [`${broken.name}__masked`],
  )
  const moved = rows[0]?.location as string
  await pool.query('update iceberg_tables set metadata_location = $2 where table_name = $1', [
    `${broken.name}__masked`,
    moved.replace(/[^/]+$/, 'gone.metadata.json'),
  ])
  await start('redact')
  assert.equal((await epochOf(broken)).masks, null)
  assert.deepEqual(await doors(broken, 'redact'), everywhere(false))
  assert.deepEqual(await doors(whole, 'redact'), everywhere(true))
  await pool.query('update iceberg_tables set metadata_location = $2 where table_name = $1', [
    `${broken.name}__masked`,
    moved,
  ])
  await start('partial')
  assert.deepEqual(await doors(broken, 'redact'), everywhere(true))
})

it('of which older ones cannot be read are noted as far as they can be', async () => {
  const product = await madeBefore({ mask: 'redact' }, { mask: 'redact' })
  const table = await test.lake.load(lakeTable(product.tenant, product.domain, product.name, 'masked'))
  const { snapshots } = await epochOf(product)
  const older = table?.metadata.snapshots.find((one) => String(one['snapshot-id']) === snapshots['masked'])
  await rm(fileURLToPath(older?.['manifest-list'] as string))
  await start('redact')
  assert.deepEqual([(await epochOf(product)).masks, (await notedOf(product, 2))?.['phone']], [null, 'redact'])
})

it('that mask nothing need no look', async () => {
  const { id, tenant } = await deployed()
  await pool.query(
    `insert into materializations (id, tenant, product_id, epoch, kind, state, version, digest, snapshots, masked_columns, committed_at)
     values ($1, $2, $3, 1, 'materialize', 'committed', '1.0.0', 'd', '{"clear": "1"}', '{"clear": []}', now())`,
    [`mat_${id}`, tenant, id],
  )
  await start('redact')
  assert.deepEqual((await findEpoch(pool, id, 1))?.masks, { clear: {} })
})

it('whose version is gone stay as they are', async () => {
  const product = await madeBefore({ mask: 'redact' })
  await pool.query("update materializations set version = '0.9.0' where product_id = $1", [product.id])
  await start('hash')
  assert.equal((await epochOf(product)).masks, null)
})

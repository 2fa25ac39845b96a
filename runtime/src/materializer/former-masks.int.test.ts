/** Epochs of releases that kept of masks only the names of the columns: what is stricter since then holds for them, too. */
import assert from 'node:assert/strict'
import { after, before, it } from 'node:test'
import type pg from 'pg'
import { CATALOG_MIGRATIONS } from '../catalog/migrations.ts'
import { LAKE_MIGRATIONS } from '../lake/migrations.ts'
import { noteFormerMasks } from '../policy/former-masks.ts'
import { madeMasks, missingMasks } from '../policy/made-masks.ts'
import { type ClassifiedColumn, masksFor } from '../policy/masking.ts'
import { findEpoch, type Materialization } from '../registry/materializations.ts'
import { startTestRegistry, type TestRegistry } from '../registry/testing.ts'
import { type PlannedTopic, showsTooMuch } from './change-plan.ts'
import { hasForReader } from './inputs.ts'

let registry: TestRegistry
let pool: pg.Pool

before(async () => {
  registry = await startTestRegistry([LAKE_MIGRATIONS, CATALOG_MIGRATIONS])
  pool = registry.pool
})
after(() => registry?.[Symbol.asyncDispose]())

const MASKS = ['hash', 'partial', 'redact', 'null', 'omit'] as const
const SHOWS_NOTHING: readonly string[] = MASKS.slice(2)
/** Of the column `phone`, masked in this way. */
const masking = (strategy: string) => ({ sensitive: [], strategies: { 'pii.phone': strategy } })
const COLUMNS: readonly ClassifiedColumn[] = [
  { name: 'phone', type: 'string', nullable: true, classification: 'pii.phone' },
  { name: 'city', type: 'string', nullable: true, classification: 'public' },
]

/** Its newest epoch is as a release before left it. */
async function madeBefore(): Promise<string> {
  const { id, tenant } = await registry.product(await registry.tenant())
  const normalised = { product: { classification: 'internal' }, output: { columns: COLUMNS } }
  await pool.query(
    `insert into product_versions (product_id, version, manifests, normalised, digest, deployed_by)
     values ($1, '1.0.0', '{}', $2, 'd', '{}')`,
    [id, JSON.stringify(normalised)],
  )
  await pool.query("update products set current_version = '1.0.0', status = 'deployed' where id = $1", [id])
  await pool.query(
    `insert into materializations (id, tenant, product_id, epoch, kind, state, version, digest, snapshots, masked_columns, committed_at)
     values ($1, $2, $3, 1, 'materialize', 'committed', '1.0.0', 'd', $4, $5, now())`,
    [`mat_${id}`, tenant, id, { clear: '1', masked: '2' }, { clear: [], masked: ['phone', 'gone'] }],
  )
  return id
}

/** Which doors show the epoch to who is not cleared, where the configuration has those rules. */
async function doors(id: string, strategy: string) {
  const epoch = (await findEpoch(pool, id, 1)) as Materialization
  const rules = masking(strategy)
  const masks = masksFor(COLUMNS, new Set(), rules)
  await pool.query('update catalog_masking set strategies = $1', [rules.strategies])
  const { rows } = await pool.query("select catalog_is_open($1, 'masked') as open", [id])
  const topic = { variant: 'masked', plan: { variant: 'masked', masks } } as unknown as PlannedTopic
  return {
    reads: missingMasks(masks, madeMasks(epoch, 'masked', COLUMNS, rules)).length === 0,
    inputs: hasForReader(epoch, { variant: 'masked', hidden: ['phone', 'gone'], masks }),
    topics: !showsTooMuch(epoch, topic),
    logins: rows[0].open,
  }
}

it('are shown by every door, or by none, as the mask shows no more that they were made with', async () => {
  const made = new Map<string, string>()
  for (const mask of MASKS) {
    const id = await madeBefore()
    made.set(mask, id)
    await noteFormerMasks(pool, masking(mask))
  }
  for (const [then, id] of made) {
    for (const now of MASKS) {
      const isShown = then === now || SHOWS_NOTHING.includes(then)
      const wanted = { reads: isShown, inputs: isShown, topics: isShown, logins: isShown }
      assert.deepEqual(await doors(id, now), wanted, `${then} then, ${now} now`)
    }
  }
})

it('keep what is noted of them', async () => {
  const id = await madeBefore()
  await noteFormerMasks(pool, masking('hash'))
  await noteFormerMasks(pool, masking('redact'))
  assert.deepEqual((await findEpoch(pool, id, 1))?.masks, { clear: {}, masked: { phone: 'hash' } })
})

it('whose version is gone stay as they are', async () => {
  const id = await madeBefore()
  await pool.query("update materializations set version = '0.9.0' where product_id = $1", [id])
  await noteFormerMasks(pool, masking('hash'))
  assert.equal((await findEpoch(pool, id, 1))?.masks, null)
})

import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import type { TableRef } from '@sluice/iceberg'
import { commitStep, LIMITS, publish, readScan } from '@sluice/iceberg/testing'
import type { TableSchema } from '@sluice/sdk'
import { type RegistryLake, startRegistryLake } from '../lake/testing.ts'
import type { ManifestSet } from '../manifest/manifest-set.ts'
import type { InputState } from './input-state.ts'
import { type LakeState, stateOfScan } from './lake-state.ts'
import { prepare } from './prepare.ts'
import { lakeTable } from './variants.ts'

let lake: RegistryLake

before(async () => {
  lake = await startRegistryLake()
})
after(() => lake[Symbol.asyncDispose]())

const SCHEMA: TableSchema = {
  columns: [
    { name: 'at', type: 'string', nullable: true },
    { name: 'n', type: 'integer', nullable: true },
  ],
  primaryKey: [],
}
const COLUMNS = SCHEMA.columns.map((column) => ({
  ...column,
  role: 'attribute',
  classification: 'none',
  description: '',
}))

const MANIFESTS = {
  output: { format: 'iceberg', columns: COLUMNS, primaryKey: [], partitioning: [], writeMode: 'append' },
  quality: { checks: [] },
  compute: { engine: 'embedded', transform: 'SELECT * FROM source' },
} as unknown as ManifestSet

/** One epoch of the product, made from an input of these rows. */
async function materialized(product: string, source: TableRef, rows: string, epoch: number): Promise<void> {
  await commitStep(lake, source, { operation: 'replace', schema: SCHEMA, select: rows })
  const state = stateOfScan(await lake.lake.scan(source)) as LakeState
  const input = { name: 'source', connection: 'db', table: 't', columns: null, where: null }
  const { commits } = await prepare(
    {
      tenant: 'acme',
      domain: 'sales',
      product,
      version: '1.0.0',
      manifests: { ...MANIFESTS, inputs: [input] } as unknown as ManifestSet,
      variants: [{ variant: 'clear', masks: [], schema: SCHEMA }],
      keys: [],
      inputs: [{ input, state, table: source } as unknown as InputState],
      runId: `run_${randomUUID()}`,
      epoch,
      takesDeletes: true,
      limits: LIMITS,
      ownLimits: LIMITS,
      signal: AbortSignal.timeout(600_000),
    },
    {
      engine: lake.engine,
      distributed: null,
      lake: lake.lake,
      faultPoint: async () => undefined,
      scratchDirectory: join(lake.dir, 'materializer'),
      nowMs: Date.now,
    },
  )
  await publish(lake, ...commits)
}

test('an append without a key adds what came more often than before, and takes nothing away', async () => {
  const product = `p${randomUUID().slice(0, 8)}`
  const source: TableRef = { warehouse: 'acme', namespace: 'raw_db', table: product }
  const ref = lakeTable('acme', 'sales', product, 'clear')
  const content = async () => (await readScan(lake, await lake.lake.scan(ref))).map((row) => [...row])
  await materialized(
    product,
    source,
    `SELECT * FROM (VALUES ('a', 1), ('a', 1), (NULL, NULL), ('b', NULL)) t("at", n)`,
    1,
  )
  assert.equal((await content()).length, 4)
  const next = `SELECT * FROM (VALUES ('a', 1), (NULL, NULL), (NULL, NULL), ('c', 3), ('c', 3)) t("at", n)`
  await materialized(product, source, next, 2)
  const wanted = [
    ['a', 1],
    ['a', 1],
    ['b', null],
    ['c', 3],
    ['c', 3],
    [null, null],
    [null, null],
  ]
  assert.deepEqual(await content(), wanted)
  await materialized(product, source, next, 3)
  assert.deepEqual(await content(), wanted)
})

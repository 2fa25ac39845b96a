import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import type { TableRef } from '@sluice/iceberg'
import { commitStep, LIMITS, publish, readScan } from '@sluice/iceberg/testing'
import type { TableSchema } from '@sluice/sdk'
import { type RegistryLake, startRegistryLake } from '../lake/testing.ts'
import type { ManifestSet, OutputManifest } from '../manifest/manifest-set.ts'
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
    { name: 'id', type: 'integer', nullable: false },
    { name: 'n', type: 'integer', nullable: true },
  ],
  primaryKey: ['id'],
}
const COLUMNS = SCHEMA.columns.map((column) => ({
  ...column,
  role: column.name === 'id' ? 'identity' : 'attribute',
  classification: 'none',
  description: '',
}))

const POSITIVE = { kind: 'range', column: 'n', min: 0, max: null, exclusive: false }
/** The engine refuses its pattern, and with it the job that counts for all checks. */
const REFUSED = { kind: 'matches', column: 'n', pattern: '(' }
const QUERY = { kind: 'sql', sql: 'SELECT * FROM {{this}} WHERE n < 0' }

/** A product that merges, as of a version with that choice; without one, as of a version from before there was it. */
function follow(keepMissing?: boolean, rules: readonly object[] = [POSITIVE]) {
  const product = `p${randomUUID().slice(0, 8)}`
  const table: TableRef = { warehouse: 'acme', namespace: 'raw_db', table: product }
  const chosen = keepMissing === undefined ? {} : { keepMissing }
  const output = { format: 'iceberg', columns: COLUMNS, primaryKey: ['id'], partitioning: [], writeMode: 'merge' }
  const check = { severity: 'error', onError: 'quarantine', dimension: 'validity', weight: 1, description: '' }
  const manifests = {
    output: { ...output, ...chosen } as unknown as OutputManifest,
    quality: { checks: rules.map((rule, at) => ({ ...check, name: `check_${at}`, threshold: { rows: 0 }, rule })) },
  }
  let epoch = 0
  return {
    /** What the product holds after an epoch from these rows: `id:n`. */
    async with(rows: Readonly<Record<number, number>>, transform = 'SELECT * FROM source'): Promise<string> {
      const values = Object.entries(rows).map(([id, n]) => `(${id}, ${n})`)
      const select = `SELECT CAST(id AS INTEGER) AS id, CAST(n AS INTEGER) AS n FROM (VALUES ${values.join(', ')}) t(id, n)`
      await commitStep(lake, table, { operation: 'replace', schema: SCHEMA, select })
      const state = stateOfScan(await lake.lake.scan(table)) as LakeState
      const input = { name: 'source', connection: 'db', table: 't', columns: null, where: null }
      epoch += 1
      const { commits } = await prepare(
        {
          tenant: 'acme',
          domain: 'sales',
          product,
          version: '1.0.0',
          manifests: {
            ...manifests,
            inputs: [input],
            compute: { engine: 'embedded', transform },
          } as unknown as ManifestSet,
          variants: [{ variant: 'clear', masks: [], schema: SCHEMA }],
          keys: [],
          inputs: [{ input, state, table } as unknown as InputState],
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
      const scan = await lake.lake.scan(lakeTable('acme', 'sales', product, 'clear'))
      return (await readScan(lake, scan)).map(([id, n]) => `${id}:${n}`).join(' ')
    },
  }
}

test('a merge takes the keys away that the output no longer has; a narrower transform has fewer', async () => {
  const product = follow(false)
  assert.equal(await product.with({ 1: 1, 2: 2, 3: 3 }), '1:1 2:2 3:3')
  assert.equal(await product.with({ 2: 5, 4: 4, 3: 3 }), '2:5 3:3 4:4')
  assert.equal(await product.with({ 2: 5, 4: 4, 3: 3 }, 'SELECT * FROM source WHERE n > 3'), '2:5 4:4')
})

test('a row that a check puts aside is not missing: its former one stays, as long as the key does', async () => {
  const product = follow(false)
  await product.with({ 1: 1, 2: 2, 3: 3 })
  assert.equal(await product.with({ 1: -1, 2: 7, 4: -4 }), '1:1 2:7')
  assert.equal(await product.with({ 1: -1 }), '1:1')
  assert.equal(await product.with({ 2: -2 }), '')
})

for (const [keepMissing, version] of [
  [true, 'keep_missing: true'],
  [undefined, 'a version deployed before there was keep_missing'],
] as const) {
  test(`a merge keeps what the output no longer has with ${version}`, async () => {
    const product = follow(keepMissing)
    await product.with({ 1: 1, 2: 2 })
    assert.equal(await product.with({ 2: 5, 3: 3 }), '1:1 2:5 3:3')
    assert.equal(await product.with({ 2: -5 }), '1:1 2:5 3:3')
  })
}

test('rows that break a rule of the product are refused before its checks, and where it has none', async () => {
  const twice = 'SELECT id, n FROM source UNION ALL SELECT id, -1 FROM source WHERE id = 2'
  const missing = 'SELECT CASE WHEN id = 1 THEN NULL ELSE id END AS id, n FROM source'
  for (const rules of [[], [POSITIVE], [QUERY], [REFUSED], [POSITIVE, REFUSED, QUERY]]) {
    for (const [transform, code] of [
      [twice, 'duplicate_key'],
      [missing, 'required_value_missing'],
    ] as const) {
      const refused = follow(true, rules).with({ 1: 5, 2: 6 }, transform)
      await assert.rejects(refused, { kind: 'INVALID_DATA', code }, JSON.stringify(rules))
    }
  }
})

import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { readFile } from 'node:fs/promises'
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

function manifestsOf({ columns, primaryKey }: TableSchema): ManifestSet {
  const about = { role: 'attribute', classification: 'none', description: '' }
  const output = { columns: columns.map((column) => ({ ...column, ...about })), primaryKey, partitioning: [] }
  return {
    output: { format: 'iceberg', writeMode: 'append', ...output },
    quality: { checks: [] },
    compute: { engine: 'embedded', transform: 'SELECT * FROM source' },
  } as unknown as ManifestSet
}

/** One epoch of the product, made from an input of these rows. */
async function materialized(
  product: string,
  source: TableRef,
  rows: string,
  epoch: number,
  schema = SCHEMA,
): Promise<void> {
  await commitStep(lake, source, { operation: 'replace', schema, select: rows })
  const state = stateOfScan(await lake.lake.scan(source)) as LakeState
  const input = { name: 'source', connection: 'db', table: 't', columns: null, where: null }
  const { commits } = await prepare(
    {
      tenant: 'acme',
      domain: 'sales',
      product,
      version: '1.0.0',
      manifests: { ...manifestsOf(schema), inputs: [input] } as unknown as ManifestSet,
      variants: [{ variant: 'clear', masks: [], schema }],
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

test('files of an append hold no column that its version has not, and stay where they have none', async () => {
  const product = `p${randomUUID().slice(0, 8)}`
  const source: TableRef = { warehouse: 'acme', namespace: 'raw_db', table: product }
  const ref = lakeTable('acme', 'sales', product, 'clear')
  const column = (name: string) => ({ name, type: 'string', nullable: true }) as const
  const schemaOf = (...names: readonly string[]): TableSchema => ({ columns: names.map(column), primaryKey: [] })
  const both = schemaOf('at', 'private_note')
  const files = async () => (await lake.lake.scan(ref)).files.map(({ localFile }) => localFile as string)
  const content = async () => (await readScan(lake, await lake.lake.scan(ref))).map((row) => [...row])
  const rows = (...values: readonly string[]) => `SELECT * FROM (VALUES ${values.join(', ')}) t("at", private_note)`
  await materialized(product, source, rows(`('a', 'secret')`), 1, both)
  const [first] = await files()
  await materialized(product, source, rows(`('b', 'secret')`), 2, both)
  assert.ok((await files()).includes(first as string), 'what was appended before stays as it is')

  const left = schemaOf('at')
  await materialized(product, source, `SELECT 'c' AS "at"`, 3, left)
  for (const file of await files()) assert.ok(!(await readFile(file)).includes('private_note'), 'it is in no file')
  assert.deepEqual(await content(), [['a'], ['b'], ['c']])
  const kept = await files()
  await materialized(product, source, `SELECT 'd' AS "at"`, 4, left)
  assert.ok((await files()).includes(kept[0] as string), 'only once')

  await materialized(product, source, rows(`('e', 'other')`), 5, both)
  assert.deepEqual(await content(), [
    ['a', null],
    ['b', null],
    ['c', null],
    ['d', null],
    ['e', 'other'],
  ])
})

import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { TableSchema } from '@sluice/sdk'
import type { ManifestSet } from '../manifest/manifest-set.ts'
import type { InputState } from './input-state.ts'
import type { LakeState } from './lake-state.ts'
import { transformRows } from './transform.ts'
import type { TransformDeps } from './transform-deps.ts'

const STATE: LakeState = {
  snapshotId: '1',
  files: ['/lake/raw.parquet'],
  columns: [
    { id: 4, name: 'id', type: 'integer', nullable: false },
    { id: 7, name: 'city', type: 'string', nullable: true },
    { id: 9, name: 'amount', type: 'decimal(10,2)', nullable: true },
  ],
  primaryKey: ['id'],
  rowCount: 3,
}
const INPUT = { name: 'people', connection: 'crm', table: 'public.people', where: null, columns: null }
const OUTPUT: TableSchema = {
  columns: [
    { name: 'amount', type: 'decimal(10,2)', nullable: true },
    { name: 'id', type: 'integer', nullable: false },
  ],
  primaryKey: ['id'],
}

/** The rows without a copy; null where a process of the engine was asked to make them. */
async function asTheyLie(
  changes: { readonly state?: object; readonly input?: object; readonly compute?: object; readonly type?: string } = {},
) {
  const asked = new Error('asked')
  const deps = {
    tenant: 'acme',
    engine: { run: () => Promise.reject(asked) },
    directory: '/dev/null/nowhere',
    signal: new AbortController().signal,
  } as unknown as TransformDeps
  const input = {
    input: { ...INPUT, ...changes.input },
    state: { ...STATE, ...changes.state },
  } as unknown as InputState
  const manifests = { compute: { transform: null, engine: 'embedded', ...changes.compute } } as unknown as ManifestSet
  const [amount, id] = OUTPUT.columns
  const schema = { ...OUTPUT, columns: [{ ...amount, type: changes.type ?? amount?.type }, id] } as TableSchema
  try {
    return await transformRows([input], manifests, schema, deps)
  } catch (error) {
    if (error === asked || (error as NodeJS.ErrnoException).code === 'ENOTDIR') return null
    throw error
  }
}

describe('rows of a product without a transform', () => {
  it('are those of the lake where every column is one of its input’s', async () => {
    const [id, , amount] = STATE.columns
    assert.deepEqual(await asTheyLie(), {
      files: STATE.files,
      columns: [amount, id],
      primaryKey: ['id'],
      rowCount: 3,
      lost: {},
    })
    assert.notEqual(await asTheyLie({ input: { columns: ['id', 'amount'] } }), null)
    const deletes = { deletes: ['/lake/d.parquet'], deletedFrom: ['a'] }
    assert.deepEqual((await asTheyLie({ state: { deletes } }))?.deletes, deletes)
  })

  for (const [what, changes] of Object.entries({
    'of another type': { type: 'decimal(9,2)' },
    'of a column that the input does not choose': { input: { columns: ['id', 'city'] } },
    'of a column in another case': {
      state: { columns: STATE.columns.map((one) => ({ ...one, name: one.name.toUpperCase() })) },
    },
    'that a condition chooses': { input: { where: 'id > 1' } },
    'of the tenant’s own tables': { input: { connection: 'sandbox' } },
    'with a transform': { compute: { transform: 'SELECT * FROM people' } },
  })) {
    it(`are made by a process behind a tenant’s walls: ${what}`, async () => {
      assert.equal(await asTheyLie(changes), null)
    })
  }
})

import assert from 'node:assert/strict'
import { it } from 'node:test'
import type { Input, ManifestSet, Rule } from './manifest-set.ts'
import { unusedColumns, usedOf } from './used-columns.ts'

const ALL: readonly string[] = ['id', 'A', 'b', 'c', 'at']

interface Asked {
  readonly input?: Partial<Input>
  readonly transform?: string
  readonly rules?: readonly Rule[]
}

function product({ input = {}, transform, rules = [] }: Asked) {
  const plain = { name: 'source', connection: 'db', table: 't', cursorColumn: null, primaryKey: [], columns: null }
  const manifests = {
    inputs: [{ ...plain, where: null, ...input }],
    output: { columns: [{ name: 'id' }, { name: 'a' }] },
    compute: { transform: transform ?? null },
    quality: { checks: rules.map((rule) => ({ rule })) },
  }
  return { manifests: manifests as unknown as ManifestSet }
}

const references = { kind: 'references', columns: ['id'], input: 'source', inputColumns: ['B'] } as unknown as Rule
const CASES: readonly (readonly [Asked, readonly string[]])[] = [
  [{}, ['b', 'c', 'at']],
  [{ input: { columns: ['ID', 'b'] }, transform: 'SELECT * FROM source' }, ['A', 'c', 'at']],
  [{ input: { primaryKey: ['b'], cursorColumn: 'At' } }, ['c']],
  [{ rules: [references] }, ['c', 'at']],
  [{ transform: 'SELECT id FROM source' }, []],
  [{ input: { where: 'id > 1' } }, []],
  [{ rules: [{ kind: 'sql', sql: 'SELECT 1 AS violations' }] }, []],
]

it('are those that no product names, in any of the places where it may', () => {
  for (const [asked, unused] of CASES) {
    const one = product(asked)
    assert.deepEqual(unusedColumns('db', 'public.t', ALL, [one]), unused, JSON.stringify(asked))
    const used = ALL.filter((name) => !unused.includes(name))
    assert.deepEqual(usedOf(ALL, one.manifests, one.manifests.inputs[0] as Input), used, JSON.stringify(asked))
  }
  for (const input of [{ table: 'other' }, { connection: 'else' }]) {
    assert.deepEqual(unusedColumns('db', 'public.t', ALL, [product({ input })]), ALL)
  }
  const both = [product({}), product({ input: { columns: ['c'] }, transform: 'SELECT c FROM source' })]
  assert.deepEqual(unusedColumns('db', 'public.t', ALL, both), ['b', 'at'])
})

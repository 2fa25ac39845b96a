import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { DiscoveredTable } from '@sluice/sdk'
import { type Edit, parseEdited } from '../manifest/editing.ts'
import { exampleContext } from '../manifest/examples.ts'
import type { Input } from '../manifest/manifest-set.ts'
import { groupsOf, readMode, tablesOf } from './source-tables.ts'

const INPUT = {
  name: 'orders',
  connection: 'warehouse',
  table: 'orders',
  mode: 'auto',
  cursorColumn: null,
  primaryKey: [],
  columns: null,
  where: null,
  onSchemaChange: 'evolve',
} as unknown as Input

function found(primaryKey: readonly string[], suggestedCursor: string | null): DiscoveredTable {
  return { schema: 'public', name: 'orders', columns: [], primaryKey, suggestedCursor } as unknown as DiscoveredTable
}

function mode(inputs: readonly Partial<Input>[], discovered: DiscoveredTable) {
  const [table] = tablesOf(inputs.map((input) => ({ ...INPUT, ...input })))
  assert.ok(table)
  return readMode(table, discovered)
}

describe('the tables that are read', () => {
  it('has one entry a table, in a fixed order, whoever reads it', () => {
    const inputs = ['b', 'public.a', 'a', 'other.a'].map((table) => ({ ...INPUT, table }))
    assert.deepEqual(
      tablesOf(inputs).map(({ schema, table, name, inputs: readers }) => [schema, table, name, readers.length]),
      [
        ['other', 'a', 'other.a', 1],
        ['public', 'a', 'public.a', 2],
        ['public', 'b', 'public.b', 1],
      ],
    )
  })
})

describe('tables that belong together', () => {
  it('are those of one product, and of all that share one with it', () => {
    const tables = (...names: readonly string[]) => tablesOf(names.map((table) => ({ ...INPUT, table })))
    const groups = (...readers: readonly (readonly string[])[]) =>
      groupsOf(
        tables('a', 'b', 'c', 'd', 'e'),
        readers.map((names) => tables(...names)),
      ).map((group) => group.map(({ table }) => table).join(''))
    assert.deepEqual(groups(), ['a', 'b', 'c', 'd', 'e'])
    assert.deepEqual(groups(['a', 'b'], ['c'], ['e', 'd']), ['ab', 'c', 'de'])
    assert.deepEqual(groups(['a', 'b'], ['c', 'd'], ['d', 'b']), ['abcd', 'e'])
    assert.deepEqual(groups(['a', 'e'], [], ['c', 'e']), ['ace', 'b', 'd'])
  })
})

describe('how a table is read by its log', () => {
  it('is by choice, by the key of the source, and tells what is gone', () => {
    const chosen = mode([{ mode: 'cdc' }, { name: 'other', mode: 'incremental' }], found(['id'], 'updated_at'))
    assert.deepEqual(
      [chosen.mode, chosen.primaryKey, chosen.cursorColumn, chosen.deletes],
      ['cdc', ['id'], null, 'log'],
    )
    assert.equal(mode([{ mode: 'auto' }], found(['id'], 'updated_at')).mode, 'incremental')
  })
  it('says who asks for it, to those who have written another mode as well', () => {
    const reason = (...inputs: readonly Partial<Input>[]) => mode(inputs, found(['id'], 'updated_at')).reason
    const taken = { name: 'theirs', mode: 'cdc', isChosen: true } as const
    assert.match(reason(taken, taken), /^no mode is written/)
    assert.equal(
      reason({ name: 'own', mode: 'incremental' }, taken),
      'the input "theirs" names no mode, and its version took the log of the source for it',
    )
    assert.equal(reason(taken, { name: 'asks', mode: 'cdc' }), 'the input "asks" asks for it')
  })
  it('is not where somebody wants the table whole, or it has no key', () => {
    assert.equal(mode([{ mode: 'cdc' }, { mode: 'full' }], found(['id'], null)).mode, 'full')
    assert.throws(() => mode([{ mode: 'cdc' }], found([], null)), { code: 'changes_refused' })
  })
})

describe('how a table is read', () => {
  it('is incremental with a cursor and a key, and full without either', () => {
    assert.equal(mode([{}], found(['id'], 'changed_at')).mode, 'incremental')
    assert.equal(mode([{}], found([], 'changed_at')).mode, 'full')
    assert.equal(mode([{}], found(['id'], null)).mode, 'full')
  })

  it('takes cursor and key of the manifest before those of the source', () => {
    const chosen = mode([{ cursorColumn: 'version', primaryKey: ['a', 'b'] }], found(['id'], 'changed_at'))
    assert.deepEqual([chosen.cursorColumn, chosen.primaryKey], ['version', ['a', 'b']])
  })

  it('is full for everybody where one reader needs it', () => {
    const chosen = mode([{ mode: 'incremental' }, { mode: 'full' }], found(['id'], 'changed_at'))
    assert.deepEqual([chosen.mode, chosen.cursorColumn, chosen.primaryKey], ['full', null, []])
  })

  it('says so where a reader asks for what cannot be', () => {
    assert.throws(() => mode([{ mode: 'incremental' }], found(['id'], null)), { code: 'incremental_not_possible' })
    assert.throws(() => mode([{ mode: 'incremental' }], found([], 'at')), { code: 'incremental_not_possible' })
  })

  it('can be as every manifest asks that was accepted for that source', async () => {
    const as = {
      none: '',
      full: '    mode: full\n',
      incremental: '    mode: incremental\n',
      named: '    mode: incremental\n    cursor_column: sequence\n',
      bare: '    cursor_column: sequence\n',
    }
    const key = '    primary_key: [sequence, sensor]\n'
    const accepted: string[] = []
    for (const primaryKey of [[], ['sequence']]) {
      for (const suggestedCursor of [null, 'measured_at']) {
        const columns = [
          { name: 'sequence', type: 'long', nullable: false },
          { name: 'sensor', type: 'string', nullable: false },
          { name: 'measured_at', type: 'timestamp', nullable: false },
          { name: 'value', type: 'double', nullable: true },
          { name: 'details', type: 'json', nullable: true },
        ] as const
        const source = { schema: 'public', name: 'readings', columns, primaryKey, suggestedCursor }
        const context = { ...exampleContext('readings'), connections: new Map([['historian', [source]]]) }
        for (const [name, lines] of Object.entries(as).flatMap(([name, text]) => [
          [name, text],
          [`${name} with a key`, text + key],
        ])) {
          const edits: readonly Edit[] = [
            ['inputs', `${as.named}    primary_key: [sequence]\n`, lines as string],
            ['output', 'write_mode: append', 'write_mode: replace'],
          ]
          const parsed = await parseEdited('readings', edits, context)
          if (!parsed.ok) continue
          const [table] = tablesOf(parsed.manifests.inputs)
          assert.ok(table)
          const { mode: read } = readMode(table, source as unknown as DiscoveredTable)
          accepted.push(`${name}: ${read}`)
        }
      }
    }
    const kinds = [...new Set(accepted)].toSorted()
    assert.ok(kinds.includes('bare: full') && kinds.includes('bare with a key: incremental'), kinds.join('\n'))
    assert.ok(kinds.includes('named with a key: incremental') && !kinds.includes('named: full'), kinds.join('\n'))
  })

  it('is incremental for the example that appends', async () => {
    const parsed = await parseEdited('readings', [])
    assert.ok(parsed.ok)
    const [table] = tablesOf(parsed.manifests.inputs)
    assert.ok(table)
    assert.deepEqual(readMode(table, found([], null)).mode, 'incremental')
  })
})

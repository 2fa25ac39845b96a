import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { LogicalType } from '@sluice/sdk'
import { type Compatibility, compareManifests } from './compatibility.ts'
import { sharesHistory } from './compatibility-columns.ts'
import { type Edit, inBrief, parseEdited } from './editing.ts'
import type { ManifestSet } from './manifest-set.ts'

async function manifests(edits: readonly Edit[]): Promise<ManifestSet> {
  const parsed = await parseEdited('customers', edits)
  assert.ok(parsed.ok, inBrief(parsed.problems).join('\n'))
  return parsed.manifests
}

async function compare(...edits: readonly Edit[]): Promise<Compatibility> {
  return compareManifests(await manifests([]), await manifests(edits))
}

async function reverse(...edits: readonly Edit[]): Promise<Compatibility> {
  return compareManifests(await manifests(edits), await manifests([]))
}

const NEW_COLUMN: Edit = ['output', 'partitioning:', '  - name: note\n    type: string\npartitioning:']
const STRICT_COLUMN: Edit = [
  'output',
  'partitioning:',
  '  - name: note\n    type: string\n    nullable: false\npartitioning:',
]

/** An edit, and the gravest change that it makes: verdict, subject and column. */
const CASES: readonly (readonly [string, readonly Edit[], string])[] = [
  ['a column that may be empty', [NEW_COLUMN], 'additive output.schema.note note'],
  ['a column that must not be empty', [STRICT_COLUMN], 'breaking output.schema.note note'],
  ['a wider type', [['output', 'type: integer', 'type: long']], 'additive output.schema.order_count order_count'],
  ['more digits', [['output', 'decimal(18,2)', 'decimal(20,2)']], 'additive output.schema.revenue revenue'],
  ['another scale', [['output', 'decimal(18,2)', 'decimal(20,3)']], 'breaking output.schema.revenue revenue'],
  [
    'a column that may now be empty',
    [['output', 'type: integer\n    role: measure\n    nullable: false', 'type: integer\n    role: measure']],
    'additive output.schema.order_count order_count',
  ],
  [
    'a column that must not be empty any more',
    [['output', 'decimal(18,2)\n    role: measure', 'decimal(18,2)\n    role: measure\n    nullable: false']],
    'breaking output.schema.revenue revenue',
  ],
  ['another class', [['output', 'pii.name', 'public']], 'compatible output.schema.full_name full_name'],
  [
    'another key',
    [
      ['output', 'role: dimension', 'role: identity'],
      ['serving', 'tracked_columns: [country, revenue]', 'tracked_columns: [revenue]'],
    ],
    'breaking output.primary_key ',
  ],
  ['other partitions', [['output', 'bucket[16]', 'bucket[8]']], 'compatible output.partitioning '],
  [
    'rows that stay',
    [['output', 'write_mode: merge', 'write_mode: merge\nkeep_missing: true']],
    'compatible output.keep_missing ',
  ],
  [
    'rows that are not looked for any more',
    [['inputs', 'mode: incremental', 'mode: incremental\n    deletes: unseen\n    deletes_reason: none is deleted']],
    'compatible inputs.deletes ',
  ],
  [
    'other readers',
    [['product', 'classification: confidential', 'classification: internal']],
    'compatible product.classification ',
  ],
  ['an endpoint less', [['serving', '  - type: analytics\n', '']], 'breaking serving.analytics '],
  [
    'an index less',
    [['serving', 'index_columns: [customer_id, country]', 'index_columns: [customer_id]']],
    'breaking serving.lookup.index_columns country',
  ],
  [
    'an index more',
    [['serving', 'index_columns: [customer_id, country]', 'index_columns: [customer_id, country, revenue]']],
    'additive serving.lookup.index_columns revenue',
  ],
  ['another history', [['serving', 'type_2', 'type_3']], 'breaking serving.lookup.history_mode '],
  [
    'other tracked columns',
    [['serving', 'tracked_columns: [country, revenue]', 'tracked_columns: [country]']],
    'compatible serving.lookup.tracked_columns ',
  ],
  ['other chunks', [['serving', '2 weeks', '1 day']], 'compatible serving.timeseries.chunk_interval '],
  [
    'an aggregate less',
    [['serving', 'columns: [revenue, order_count]', 'columns: [revenue]']],
    'breaking serving.timeseries.continuous_aggregates order_count per 1 week',
  ],
  [
    'other keys',
    [['serving', 'key_template: customer:', 'key_template: c:']],
    'breaking serving.realtime.key_template ',
  ],
  ['a shorter life of keys', [['serving', 'ttl: 7d', 'ttl: 1h']], 'compatible serving.realtime.ttl '],
  [
    'a column less under the key',
    [['serving', '[customer_id, order_count, revenue]', '[customer_id, revenue]']],
    'breaking serving.realtime.include_columns order_count',
  ],
  ['another transform', [['compute', 'GROUP BY ALL', 'GROUP BY 1, 2, 3']], 'compatible compute '],
]

const HISTORIES: readonly (readonly [from: LogicalType, to: LogicalType, goesOn: boolean])[] = [
  ['integer', 'integer', true],
  ['integer', 'long', true],
  ['integer', 'double', true],
  ['long', 'integer', false],
  ['long', 'double', false],
  ['float', 'double', true],
  ['integer', 'decimal(12,2)', true],
  ['integer', 'decimal(11,2)', false],
  ['long', 'decimal(19,0)', true],
  ['decimal(18,2)', 'decimal(20,4)', true],
  ['decimal(18,2)', 'decimal(20,5)', false],
  ['decimal(18,2)', 'decimal(20,1)', false],
  ['decimal(18,2)', 'long', false],
  ['date', 'timestamp', true],
  ['timestamp', 'date', false],
  ['json', 'string', true],
  ['boolean', 'string', true],
  ['binary', 'string', false],
  ['string', 'json', false],
  ['string', 'uuid', false],
]

describe('sharesHistory', () => {
  const schema = (type: LogicalType, primaryKey: readonly string[] = ['id'], more: readonly string[] = []) => ({
    columns: [
      { name: 'id', type: 'integer' as const, nullable: false },
      { name: 'value', type, nullable: true },
      ...more.map((name) => ({ name, type: 'string' as const, nullable: true })),
    ],
    primaryKey,
  })

  for (const [from, to, goesOn] of HISTORIES) {
    it(`says that a history ${goesOn ? 'goes on' : 'begins anew'} from ${from} to ${to}`, () => {
      assert.equal(sharesHistory(schema(from), schema(to)), goesOn)
    })
  }

  it('goes by the key, whatever its order, and not by columns that come or go', () => {
    const of = (...key: readonly string[]) => schema('integer', key)
    assert.equal(sharesHistory(of('id', 'value'), of('value', 'id')), true)
    assert.equal(sharesHistory(of('id'), of('id', 'value')), false)
    assert.equal(sharesHistory(of('id', 'value'), of('id')), false)
    assert.equal(sharesHistory(schema('integer', ['id'], ['gone']), schema('integer', ['id'], ['come'])), true)
  })
})

describe('compareManifests', () => {
  it('finds nothing where nothing changed', async () => {
    assert.deepEqual(await compare(), { verdict: 'compatible', changes: [] })
  })

  for (const [what, edits, expected] of CASES) {
    it(`judges ${what}`, async () => {
      const { verdict, changes } = await compare(...edits)
      const [gravest] = changes
      assert.equal(`${gravest?.verdict} ${gravest?.subject} ${gravest?.column ?? ''}`, expected)
      assert.equal(verdict, gravest?.verdict)
    })
  }

  it('finds that rows leave with the first version after those that were deployed before there was a choice', async () => {
    const next = await manifests([])
    const { keepMissing, ...output } = next.output
    const live = { ...next, output, inputs: next.inputs.map(({ deletes, ...input }) => input) }
    const reasons = (from: ManifestSet, to: ManifestSet) => compareManifests(from, to).changes.map((it) => it.subject)
    assert.deepEqual(reasons(live, next), ['inputs.deletes', 'output.keep_missing'])
    assert.deepEqual(reasons(live, live), [])
  })

  it('says of a history whether it goes on', async () => {
    const isCut = async (...edits: readonly Edit[]) =>
      (await compare(...edits)).changes.some(({ reason }) => reason.includes('begins anew'))
    assert.equal(await isCut(['output', 'decimal(18,2)', 'double']), true)
    assert.equal(await isCut(['output', 'decimal(18,2)', 'decimal(20,3)']), false)
    const current: Edit = ['serving', '      history_mode: type_2\n', '']
    assert.equal(await isCut(current, ['output', 'decimal(18,2)', 'double']), false)
  })

  it('judges the way back', async () => {
    assert.equal((await reverse(NEW_COLUMN)).verdict, 'breaking')
    assert.equal((await reverse(['serving', '  - type: analytics\n', ''])).verdict, 'additive')
    assert.equal((await reverse(['serving', '      history_mode: type_2\n', ''])).verdict, 'additive')
    assert.equal((await reverse(['output', 'type: integer', 'type: long'])).verdict, 'breaking')
  })

  it('puts the gravest first and keeps the rest', async () => {
    const { changes } = await compare(
      NEW_COLUMN,
      ['serving', 'ttl: 7d', 'ttl: 1h'],
      ['serving', '  - type: analytics\n', ''],
    )
    assert.deepEqual(
      changes.map((change) => change.verdict),
      ['breaking', 'additive', 'compatible'],
    )
  })
})

import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type Compatibility, compareManifests } from './compatibility.ts'
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

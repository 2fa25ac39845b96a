import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { LogicalType } from '@sluice/sdk'
import { type DbtNode, projectOf } from './artifacts.ts'
import { allowedOf, checkOf, keysTested } from './checks.ts'

interface Written {
  readonly name: string
  readonly namespace?: string
  readonly arguments?: object
  readonly config?: object
}

function testNode({ name, namespace, arguments: given = {}, config = {} }: Written): DbtNode {
  const test_metadata = { name, namespace: namespace ?? null, kwargs: { model: 'm', ...given } }
  const nodes = { t: { resource_type: 'test', name: 't', config, test_metadata } }
  return projectOf({ metadata: { dbt_schema_version: 'v12' }, nodes }).nodes.get('t') as DbtNode
}

const COLUMNS: Readonly<Record<string, LogicalType>> = {
  id: 'long',
  kind: 'string',
  amount: 'decimal(10,2)',
  at: 'timestamp',
}
const tested = {
  column: (name: string) => {
    const found = name.toLowerCase()
    const type = COLUMNS[found]
    return type === undefined ? undefined : { name: found, type }
  },
  compared: 'people',
}
const said = (written: Written) => checkOf(testNode(written), tested)
const of = (column_name: string, more: object = {}) => ({ column_name, ...more })

describe('tests of dbt as checks', () => {
  it('say the same in the words of manifests', () => {
    assert.deepEqual(said({ name: 'not_null', arguments: of('ID') }), { not_null: 'id' })
    assert.deepEqual(said({ name: 'unique', arguments: of('"id"') }), { unique: 'id' })
    assert.deepEqual(said({ name: 'accepted_values', arguments: of('kind', { values: ['a', 1, 'a'] }) }), {
      accepted_values: { column: 'kind', values: ['a', '1'] },
    })
    assert.deepEqual(said({ name: 'accepted_values', arguments: of('id', { arguments: { values: ['1', '2'] } }) }), {
      accepted_values: { column: 'id', values: [1, 2] },
    })
    assert.deepEqual(said({ name: 'relationships', arguments: of('id', { to: "ref('p')", field: 'pid' }) }), {
      references: { columns: 'id', input: 'people', input_columns: 'pid' },
    })
    assert.deepEqual(
      said({
        namespace: 'dbt_utils',
        name: 'accepted_range',
        arguments: of('amount', { min_value: 0, inclusive: false }),
      }),
      {
        range: { column: 'amount', min: 0, exclusive: true },
      },
    )
    assert.deepEqual(
      said({ namespace: 'dbt_utils', name: 'recency', arguments: { field: 'at', datepart: 'day', interval: 2 } }),
      {
        freshness: { column: 'at', max_age: '2d' },
      },
    )
    const expectation = (name: string, more: object) => said({ namespace: 'dbt_expectations', name, arguments: more })
    assert.deepEqual(expectation('expect_table_row_count_to_be_between', { min_value: 3 }), { row_count: { min: 3 } })
    assert.deepEqual(expectation('expect_column_values_to_be_in_set', of('kind', { value_set: ['x'] })), {
      accepted_values: { column: 'kind', values: ['x'] },
    })
    assert.deepEqual(expectation('expect_column_to_exist', of('at')), { schema: { columns: ['at'] } })
  })

  it('say nothing where they would say something else', () => {
    const none: readonly Written[] = [
      { name: 'not_null', arguments: of('gone') },
      { name: 'not_null', arguments: of('id'), config: { where: 'id > 1' } },
      { name: 'not_null', arguments: of('id'), config: { fail_calc: 'sum(n)' } },
      { name: 'unique', arguments: of('id'), config: { error_if: '>5' } },
      { name: 'accepted_values', arguments: of('id', { values: ['a'] }) },
      { name: 'accepted_values', arguments: of('kind', { values: [null] }) },
      { name: 'unique', namespace: 'somebody', arguments: of('id') },
      { name: 'constructor', arguments: of('id') },
      { namespace: 'dbt_utils', name: 'accepted_range', arguments: of('amount', { min_value: 'now()' }) },
      {
        namespace: 'dbt_utils',
        name: 'recency',
        arguments: { field: 'at', datepart: 'day', interval: 2, group_by_columns: ['kind'] },
      },
      {
        namespace: 'dbt_expectations',
        name: 'expect_column_values_to_not_be_null',
        arguments: of('id', { row_condition: 'x' }),
      },
    ]
    for (const written of none) assert.equal(said(written), null, JSON.stringify(written))
  })

  it('fail from as many failures on', () => {
    const error = (failures: number) => ({ severity: 'error', failures }) as const
    const warn = (failures: number) => ({ severity: 'warn', failures }) as const
    assert.deepEqual(allowedOf({}), [error(0)])
    assert.deepEqual(allowedOf({ severity: 'WARN', warn_if: '>= 5' }), [warn(4)])
    assert.deepEqual(allowedOf({ error_if: '>10' }), [error(10), warn(0)])
    assert.deepEqual(allowedOf({ error_if: '>10', warn_if: '>20' }), [error(10)])
    for (const condition of ['=0', '!=3', '>= 0', 'between 1 and 2', '> 1 or 1=1']) {
      assert.equal(allowedOf({ error_if: condition }), null, condition)
    }
  })

  it('find keys in columns that are tested as such, of every row and as errors', () => {
    const test = (name: string, config: object = {}) => testNode({ name, arguments: of('Id'), config })
    assert.deepEqual(keysTested([test('unique'), test('not_null')]), [['id']])
    assert.deepEqual(keysTested([test('unique')]), [])
    assert.deepEqual(keysTested([test('unique', { severity: 'warn' }), test('not_null')]), [])
    assert.deepEqual(keysTested([test('unique', { where: 'x' }), test('not_null')]), [])
  })
})

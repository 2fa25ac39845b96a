import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TableSchema } from '@sluice/sdk'
import { checkConfig, timeColumn } from './config.ts'

const schema: TableSchema = {
  columns: [
    { name: 'id', type: 'long', nullable: false },
    { name: 'day', type: 'date', nullable: false },
    { name: 'at', type: 'timestamptz', nullable: false },
  ],
  primaryKey: ['id'],
}

test('the time column is the first date or timestamp, unless one is named', () => {
  assert.equal(timeColumn({}, schema).name, 'day')
  assert.equal(timeColumn({ time_column: 'at' }, schema).name, 'at')
  assert.throws(() => timeColumn({ time_column: 'id' }, schema), { kind: 'CONFIG' })
})

test('every problem is told at once, where it stands', () => {
  assert.deepEqual(
    checkConfig(
      { chunk_interval: '2 weeks', continuous_aggregates: [{ interval: '1 week', columns: ['id'] }] },
      schema,
    ),
    [],
  )
  const problems = checkConfig(
    {
      chunk_interval: '6 hours',
      continuous_aggregates: [
        { interval: 'weekly', columns: ['id'] },
        { interval: '1 week', columns: ['nothing'] },
        { interval: '1 week', columns: ['id'] },
      ],
    },
    schema,
  )
  assert.deepEqual(
    problems.map((problem) => problem.pointer),
    [
      '/chunk_interval',
      '/continuous_aggregates/0/interval',
      '/continuous_aggregates/1/columns/0',
      '/continuous_aggregates/2/interval',
    ],
  )
  assert.deepEqual(
    checkConfig({}, { columns: [{ name: 'id', type: 'long', nullable: false }], primaryKey: [] })[0]?.pointer,
    '/time_column',
  )
  const clashing: TableSchema = {
    columns: [
      { name: 'at', type: 'date', nullable: false },
      { name: 'a', type: 'long', nullable: true },
      { name: 'a_sum', type: 'string', nullable: true },
    ],
    primaryKey: [],
  }
  const aggregate = { interval: '1 week', columns: ['a', 'a_sum'] }
  assert.deepEqual(checkConfig({ continuous_aggregates: [aggregate] }, clashing), [])
})

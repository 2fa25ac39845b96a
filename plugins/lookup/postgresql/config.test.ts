import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TableSchema } from '@sluice/sdk'
import { checkConfig, filterableColumns, readColumns } from './config.ts'

const schema: TableSchema = {
  columns: [
    { name: 'id', type: 'long', nullable: false },
    { name: 'city', type: 'string', nullable: true },
    { name: 'note', type: 'json', nullable: true },
    { name: 'valid_to', type: 'date', nullable: true },
  ],
  primaryKey: ['id'],
}

const pointers = (...of: Parameters<typeof checkConfig>) => checkConfig(...of).map((problem) => problem.pointer)

test('every problem is told at once, where it stands', () => {
  assert.deepEqual(pointers({}, schema), [])
  assert.deepEqual(pointers({ index_columns: ['city', 'nothing', 'note'] }, schema), [
    '/index_columns/1',
    '/index_columns/2',
  ])
  assert.deepEqual(pointers({ tracked_columns: ['city'] }, schema), ['/tracked_columns'])
  assert.deepEqual(pointers({ history_mode: 'type_3' }, schema), ['/tracked_columns'])
  assert.deepEqual(pointers({ history_mode: 'type_3', tracked_columns: ['city', 'id'] }, schema), [
    '/tracked_columns/1',
  ])
  assert.deepEqual(pointers({ history_mode: 'type_2', tracked_columns: ['city'] }, schema), ['/history_mode'])
  const keyless = { ...schema, primaryKey: [] }
  assert.deepEqual(pointers({ history_mode: 'type_3', tracked_columns: ['city'] }, keyless), ['/history_mode'])
  assert.deepEqual(pointers({}, { ...schema, primaryKey: ['note'] }), [''])
})

test('rows are found by the index columns and the key, and a history adds its columns', () => {
  assert.deepEqual(filterableColumns({}, schema), ['id'])
  assert.deepEqual(filterableColumns({ index_columns: ['city'] }, schema), ['city', 'id'])
  const names = readColumns({ history_mode: 'type_3', tracked_columns: ['city'] }, schema).map((column) => column.name)
  assert.deepEqual(names.slice(4), ['previous_city'])
})

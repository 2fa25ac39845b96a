import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseJsonAsWritten, SluiceError } from '@sluice/sdk'
import { pushedRows, readChanges } from './changes.ts'
import { continues, type PushTable, pushTables } from './settings.ts'

const TABLE = pushTables({
  tables: {
    t: {
      columns: [
        { name: 'id', type: 'long' },
        { name: 'a/b', type: 'string' },
        { name: 'price', type: 'decimal(30,3)' },
        { name: 'doc', type: 'json' },
      ],
      primary_key: ['id'],
    },
  },
}).get('t') as PushTable

const rows = (json: string) => pushedRows(parseJsonAsWritten(json) as unknown[], TABLE)
const faults = (json: string): unknown => {
  try {
    rows(json)
  } catch (error) {
    assert.ok(error instanceof SluiceError)
    assert.equal(error.code, 'push_rows_refused')
    return (error.details as { errors: readonly { pointer: string; message: string }[] }).errors.map(
      ({ pointer, message }) => `${pointer} ${message}`,
    )
  }
  return null
}

test('values are carried as they are written, in the columns of their day', () => {
  const { rows: count, changes } = rows(
    '[{"id":9007199254740993,"a/b":"say \\"hi\\",\\n","price":123456789012345678901234567.1,"doc":{"n":1.10}},{"_op":"delete","id":"7","price":"9"}]',
  )
  const { columns, chunk } = readChanges(Buffer.from(changes))
  assert.equal(count, 2)
  assert.deepEqual(columns, TABLE.columns)
  assert.equal(
    Buffer.from(chunk).toString(),
    '"u","0",,,"9007199254740993","say ""hi"",\n","123456789012345678901234567.100","{""n"":1.10}"\n"d","0",,,"7",,,\n',
  )
})

test('one bad row is the end of all, and each is named', () => {
  assert.deepEqual(
    faults('[{"id":1},{"id":1.5},{},{"id":null},{"id":1,"a/b":{}},{"id":1,"x":null},[],{"id":1,"_op":1}]'),
    [
      '/1/id it is no long',
      '/2/id it is missing, and of the key',
      '/3/id it is missing, and of the key',
      '/4/a~1b it is no string',
      '/5/x the table has no such column',
      '/6 it is no object',
      '/7/_op it is neither upsert nor delete',
    ],
  )
  assert.equal((faults(`[${Array(500).fill('5').join(',')}]`) as unknown[]).length, 100)
})

test('a table goes on where columns come at its end', () => {
  const more = { ...TABLE, columns: [...TABLE.columns, { name: 'n', type: 'long', nullable: true } as const] }
  assert.ok(continues(TABLE, TABLE))
  assert.ok(continues(TABLE, more))
  assert.ok(!continues(more, TABLE))
  assert.ok(!continues(TABLE, { ...TABLE, primaryKey: ['a/b'] }))
  assert.ok(!continues(TABLE, { ...more, columns: [...more.columns].reverse() }))
  assert.ok(!continues(TABLE, undefined))
})

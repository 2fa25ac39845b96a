import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type LogicalType, parseJsonAsWritten, SluiceError } from '@sluice/sdk'
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

/** Values of each type as an answer tells them, and the text that the lake reads them from. */
const TOLD: Readonly<Record<LogicalType, readonly (readonly [told: string, carried: string])[]>> = {
  string: [
    ['""', ''],
    ['"e\u0301"', 'e\u0301'],
  ],
  boolean: [
    ['true', 't'],
    ['false', 'f'],
  ],
  integer: [['-2147483648', '-2147483648']],
  long: [
    ['"9223372036854775807"', '9223372036854775807'],
    ['1', '1'],
  ],
  float: [
    ['70365620', '70365616'],
    ['"-Infinity"', '-Infinity'],
  ],
  double: [
    ['5e-324', '5e-324'],
    ['"NaN"', 'NaN'],
  ],
  'decimal(38,10)': [['"-0.0000000001"', '-0.0000000001']],
  date: [['"0001-01-01"', '0001-01-01']],
  timestamp: [['"9999-12-31T23:59:59.999999"', '9999-12-31T23:59:59.999999']],
  timestamptz: [['"0001-01-01T00:00:00.000000Z"', '0001-01-01T00:00:00.000000Z']],
  uuid: [['"6f9619ff-8b86-d011-b42d-00c04fc964ff"', '6f9619ff-8b86-d011-b42d-00c04fc964ff']],
  binary: [
    ['""', '\\x'],
    ['"AA=="', '\\x00'],
    ['"+/8="', '\\xfbff'],
    ['"AP8Q"', '\\x00ff10'],
    ['"\\\\x00FF"', '\\x00ff'],
  ],
  json: [['[1.10]', '[1.10]']],
}

test('what an answer tells can be pushed, of every type', () => {
  for (const [type, values] of Object.entries(TOLD)) {
    const columns = [
      { name: 'id', type: 'long' },
      { name: 'v', type },
    ]
    const table = pushTables({ tables: { t: { columns, primary_key: ['id'] } } }).get('t') as PushTable
    for (const [told, carried] of values) {
      const { changes } = pushedRows(parseJsonAsWritten(`[{"id":1,"v":${told}}]`) as unknown[], table)
      const line = Buffer.from(readChanges(Buffer.from(changes)).chunk).toString()
      assert.equal(line, `"u","0",,,"1","${carried}"\n`, `${type} ${told}`)
    }
  }
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

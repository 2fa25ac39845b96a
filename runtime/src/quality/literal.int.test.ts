import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { type DuckDBConnection, DuckDBInstance } from '@duckdb/node-api'
import type { LogicalType, Value } from '@sluice/sdk'
import fc from 'fast-check'
import { literal } from './literal.ts'

const HOSTILE = [
  "'",
  "''",
  '\\',
  "\\'",
  '"',
  ';',
  '--',
  '/*',
  '*/',
  '$$',
  '$1',
  '?',
  '{{this}}',
  '\n',
  '\r',
  '\u2028',
  '\ufeff',
  '😀',
  'é',
]

/** Any text SQL can hold, and often the pieces that end a literal somewhere. */
const text = fc
  .array(fc.oneof({ weight: 2, arbitrary: fc.constantFrom(...HOSTILE) }, fc.string({ unit: 'grapheme', maxLength: 8 })))
  .map((parts) => parts.join(''))
  .filter((value) => value.isWellFormed() && !value.includes('\0'))

describe('literal', () => {
  let instance: DuckDBInstance
  let connection: DuckDBConnection

  before(async () => {
    instance = await DuckDBInstance.create(':memory:', { threads: '1' })
    connection = await instance.connect()
  })
  after(() => {
    connection.closeSync()
    instance.closeSync()
  })

  /** The value as DuckDB reads it, cast to text, with its type. */
  async function read(value: Value, type: LogicalType): Promise<readonly unknown[]> {
    const sql = `SELECT CAST(v AS VARCHAR), typeof(v), v IS NULL FROM (SELECT ${literal(value, type)} AS v)`
    const statements = await connection.extractStatements(sql)
    assert.equal(statements.count, 1)
    const [row] = (await connection.runAndReadAll(sql)).getRows()
    return row ?? []
  }

  it('is the text itself, whatever it holds', async () => {
    await fc.assert(
      fc.asyncProperty(text, async (value) => {
        const [, type, isNull] = await read(value, 'string')
        assert.deepEqual([type, isNull], ['VARCHAR', false])
        // Compared by bytes: the driver takes a byte order mark off the texts that it hands over.
        const rows = (await connection.runAndReadAll(`SELECT hex(${literal(value, 'string')})`)).getRows()
        assert.deepEqual(rows, [[Buffer.from(value).toString('hex').toUpperCase()]])
      }),
      { numRuns: 300 },
    )
  })

  it('keeps the value and the type of everything else', async () => {
    const cases: readonly (readonly [Value, LogicalType, string, string])[] = [
      [true, 'boolean', 'true', 'BOOLEAN'],
      [-2147483648, 'integer', '-2147483648', 'INTEGER'],
      [9223372036854775807n, 'long', '9223372036854775807', 'BIGINT'],
      [-0, 'double', '-0.0', 'DOUBLE'],
      [1e300, 'double', '1e+300', 'DOUBLE'],
      [Number.NaN, 'float', 'nan', 'FLOAT'],
      [Number.NEGATIVE_INFINITY, 'double', '-inf', 'DOUBLE'],
      ['-12345678901234567890123456.78', 'decimal(28,2)', '-12345678901234567890123456.78', 'DECIMAL(28,2)'],
      ['2026-02-28', 'date', '2026-02-28', 'DATE'],
      ['2026-02-28T01:02:03.000004', 'timestamp', '2026-02-28 01:02:03.000004', 'TIMESTAMP'],
      ['6f9619ff-8b86-d011-b42d-00c04fc964ff', 'uuid', '6f9619ff-8b86-d011-b42d-00c04fc964ff', 'UUID'],
      [new Uint8Array([0, 39, 92, 255]), 'binary', '\\x00\\x27\\x5C\\xFF', 'BLOB'],
      ['{"a":"\'"}', 'json', '{"a":"\'"}', 'JSON'],
    ]
    for (const [value, type, shown, sqlType] of cases) {
      assert.deepEqual(await read(value, type), [shown, sqlType, false], type)
      assert.deepEqual((await read(null, type))[2], true, type)
    }
  })

  it('keeps the instant of a timestamptz in any session time zone', async () => {
    const sql = `SELECT epoch_us(${literal('2026-02-28T01:02:03.000004Z', 'timestamptz')})`
    const rows = (await connection.runAndReadAll(sql)).getRows()
    assert.deepEqual(rows, [[BigInt(Date.UTC(2026, 1, 28, 1, 2, 3)) * 1000n + 4n]])
  })

  it('refuses text that SQL cannot hold', () => {
    assert.throws(() => literal('a\0b', 'string'), /cannot hold/)
    assert.throws(() => literal('\ud800', 'string'), /cannot hold/)
  })
})

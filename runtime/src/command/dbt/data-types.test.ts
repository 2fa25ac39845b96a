import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { columnType, lakeType } from './data-types.ts'

const TYPES: readonly (readonly [adapter: string, written: string, lake: string | undefined])[] = [
  ['duckdb', 'VARCHAR', 'string'],
  ['duckdb', 'HUGEINT', 'decimal(38,0)'],
  ['duckdb', 'FLOAT', 'float'],
  ['duckdb', 'DECIMAL(18,2)', 'decimal(18,2)'],
  ['duckdb', 'TIMESTAMP WITH TIME ZONE', 'timestamptz'],
  ['duckdb', 'STRUCT(a INTEGER, b VARCHAR[])', 'json'],
  ['duckdb', 'INTEGER[]', 'json'],
  ['duckdb', "ENUM('a', 'b')", 'string'],
  ['duckdb', 'BLOB', 'binary'],
  ['postgres', 'character varying(255)', 'string'],
  ['postgres', 'timestamp without time zone', 'timestamp'],
  ['postgres', 'timestamp(3) with time zone', 'timestamptz'],
  ['postgres', 'double precision', 'double'],
  ['postgres', 'numeric', 'decimal(38,9)'],
  ['postgres', 'uuid', 'uuid'],
  ['postgres', 'jsonb', 'json'],
  ['snowflake', 'NUMBER(38,0)', 'decimal(38,0)'],
  ['snowflake', 'TIMESTAMP_NTZ(9)', 'timestamp'],
  ['snowflake', 'TIMESTAMP_LTZ', 'timestamptz'],
  ['snowflake', 'VARIANT', 'json'],
  ['snowflake', 'FLOAT', 'double'],
  ['bigquery', 'INT64', 'long'],
  ['bigquery', 'TIMESTAMP', 'timestamptz'],
  ['bigquery', 'DATETIME', 'timestamp'],
  ['bigquery', 'ARRAY<STRUCT<a INT64>>', 'json'],
  ['bigquery', 'BYTES', 'binary'],
  ['clickhouse', 'Nullable(Int8)', 'integer'],
  ['duckdb', 'decimal(99,2)', undefined],
  ['duckdb', 'constructor', undefined],
  ['duckdb', '', undefined],
]

describe('types of warehouses', () => {
  for (const [adapter, written, lake] of TYPES) {
    it(`${adapter} ${written || 'nothing'} is ${lake ?? 'none of the lake'}`, () => {
      assert.equal(lakeType(written, adapter)?.type, lake)
    })
  }

  it('hold where values lose nothing by them, else what the transform gives does', () => {
    const of = (said: string, given: string | null) => columnType(lakeType(said, 'snowflake'), given)?.type
    assert.equal(of('NUMBER(10,2)', 'hugeint'), 'decimal(10,2)')
    assert.equal(of('NUMBER(10,2)', 'double'), 'double')
    assert.equal(of('NUMBER', 'double'), 'double')
    assert.equal(of('NUMBER', 'long'), 'long')
    assert.equal(of('DATE', 'timestamp'), 'timestamp')
    assert.equal(of('VARCHAR', 'date'), 'string')
    assert.equal(of('DATE', null), 'date')
    assert.equal(of('no such type', 'interval'), 'string')
    assert.equal(of('no such type', null), undefined)
    assert.deepEqual(columnType(lakeType('ARRAY', 'snowflake'), 'list<long>'), { type: 'json', isNested: true })
  })
})

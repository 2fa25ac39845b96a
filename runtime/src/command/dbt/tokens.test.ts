import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { dialectOf, forDuckDb, SqlTextError, tokensOf } from './tokens.ts'

const ADAPTERS = ['duckdb', 'postgres', 'snowflake', 'bigquery', 'databricks', 'clickhouse', 'trino']

/** The same numbers every time. */
function numbers(seed: number): (below: number) => number {
  let state = seed
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return Math.floor((state / 2 ** 32) * below)
  }
}

const PIECES = [
  'select',
  ' ',
  '\n',
  '"a""b"',
  "'it''s'",
  '-- " \' /*\n',
  '/* x */',
  '1.5e3',
  '.',
  ',',
  '(',
  ')',
  '::',
  'größe',
  '$1',
  'x_1',
  '😀',
  "e'a\\'b'",
]

describe('tokens of SQL', () => {
  it('are the text again, whatever it is made of', () => {
    const next = numbers(7)
    for (let round = 0; round < 2_000; round += 1) {
      const sql = Array.from({ length: next(30) }, () => PIECES[next(PIECES.length)]).join('')
      const dialect = dialectOf(ADAPTERS[next(ADAPTERS.length)] as string)
      try {
        const text = tokensOf(sql, dialect).map((token) => token.text)
        assert.equal(text.join(''), sql)
      } catch (error) {
        assert.ok(error instanceof SqlTextError, `${sql}: ${error}`)
      }
    }
  })

  it('tell names from what stands in texts and comments', () => {
    const kinds = (sql: string, adapter: string) =>
      tokensOf(sql, dialectOf(adapter)).flatMap(({ kind, value }) => (kind === 'space' ? [] : [`${kind} ${value}`]))
    assert.deepEqual(kinds(`a "b" 'c' -- "d"`, 'duckdb'), ['name a', 'quoted b', 'string c', 'comment -- "d"'])
    assert.deepEqual(kinds('"b" `c.d` # "e"', 'bigquery'), ['string b', 'quoted c.d', 'comment # "e"'])
    assert.deepEqual(kinds(`'a\\'b' c`, 'snowflake'), [`string a'b`, 'name c'])
    assert.deepEqual(kinds(`'a\\' c`, 'duckdb'), ['string a\\', 'name c'])
    assert.deepEqual(kinds('$$ "a" $$ b $t$ $$ $t$', 'postgres'), ['string  "a" ', 'name b', 'string  $$ '])
    assert.deepEqual(kinds('/* a /* b */ c */ d', 'duckdb'), ['comment /* a /* b */ c */', 'name d'])
    assert.deepEqual(kinds('/* a /* b */ c', 'snowflake'), ['comment /* a /* b */', 'name c'])
    assert.deepEqual(kinds(`r'\\d' '''it's "x"''' y`, 'bigquery'), ['string \\d', `string it's "x"`, 'name y'])
  })

  it('without an end are refused', () => {
    for (const sql of [`'a`, '"a', '/* a', '$$ a', '`a']) {
      assert.throws(() => tokensOf(sql, dialectOf('bigquery')), SqlTextError, sql)
    }
  })

  it('are written as DuckDB reads them', () => {
    const written = (sql: string, adapter: string) => {
      const dialect = dialectOf(adapter)
      return tokensOf(sql, dialect)
        .map((token) => forDuckDb(token, dialect))
        .join('')
    }
    assert.equal(
      written('select `a"b`, "it\'s", \'x\\ny\' # note', 'bigquery'),
      `select "a""b", 'it''s', 'x\ny' -- note`,
    )
    assert.equal(written(`'\\d' // note`, 'snowflake'), `'d' -- note`)
    assert.equal(written('/* a /* b */ 1', 'snowflake'), '/* a / * b */ 1')
    assert.equal(written(`'a\\b' "C"`, 'postgres'), `'a\\b' "C"`)
  })
})

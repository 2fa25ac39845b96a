import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { isSluiceError } from '@sluice/sdk'
import { guardedCondition, guardedQuery } from './trino-text.ts'

function refusal(text: string): string {
  try {
    return `passed as ${guardedQuery(text)}`
  } catch (error) {
    if (isSluiceError(error)) return error.code
    throw error
  }
}

describe('the guard of Trino’s words', () => {
  test('lets one query through, and only comments go', () => {
    const texts: readonly (readonly [string, string])[] = [
      ["SELECT a.b -- ')\nFROM t", 'SELECT a.b      \nFROM t'],
      ['SELECT /* ( */ 1', 'SELECT         1'],
      ["SELECT 'it''s -- no comment', \"a.b.c\"", "SELECT 'it''s -- no comment', \"a.b.c\""],
      ["SELECT U&'\\0041', X'ff', 1.5e-3, .5", "SELECT U&'\\0041', X'ff', 1.5e-3, .5"],
      ['SELECT transform(a, x -> x + 1)[1] FROM t', 'SELECT transform(a, x -> x + 1)[1] FROM t'],
      ['(WITH t AS (SELECT 1) SELECT * FROM t)', '(WITH t AS (SELECT 1) SELECT * FROM t)'],
      ['VALUES 1, 2', 'VALUES 1, 2'],
    ]
    for (const [text, expected] of texts) assert.equal(guardedQuery(text), expected)
  })

  test('refuses what could name another catalog, however it is written', () => {
    for (const text of [
      'SELECT * FROM a.b.c',
      'SELECT * FROM "a"."b"."c"',
      'SELECT * FROM a . b\n.\tc',
      'SELECT * FROM a./* x */b.-- y\rc',
      'SELECT * FROM TABLE(a.system.query(query => 1))',
      'SELECT a.b.c(1)',
      'SELECT 1 WHERE EXISTS (TABLE a.b."c")',
    ])
      assert.equal(refusal(text), 'sql_not_allowed', text)
  })

  test('refuses what is no single query', () => {
    for (const text of [
      'DELETE FROM t',
      'TABLE t',
      'EXPLAIN ANALYZE SELECT 1',
      'SELECT 1; SELECT 2',
      'SELECT 1 FROM `t`',
      'SELECT ?',
      "SELECT 'open",
      'SELECT "open',
      'SELECT 1 /* open',
    ])
      assert.equal(refusal(text).replace('sql_syntax_error', 'sql_not_allowed'), 'sql_not_allowed', text)
    for (const text of ['', '-- nothing', 'SELECT 1) AS x, (SELECT 2', 'SELECT (1', 'SELECT 1)'])
      assert.equal(refusal(text), 'sql_syntax_error', text)
    assert.equal(refusal(`SELECT ${'1 '.repeat(60_000)}`), 'sql_too_long')
  })

  test('says where', () => {
    assert.throws(() => guardedQuery('SELECT 1\nFROM  a.b.ä€'), {
      code: 'sql_not_allowed',
      message: /line 2, column 11/,
    })
  })

  test('keeps a condition in its place', () => {
    assert.equal(guardedCondition('a > 1 -- x'), 'a > 1')
    assert.throws(() => guardedCondition('1) OR (2'), { code: 'sql_syntax_error' })
  })
})

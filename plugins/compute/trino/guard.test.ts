import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { isSluiceError } from '@sluice/sdk'
import { guardedCondition, guardedQuery } from './guard.ts'

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

  test('refuses properties of the session and functions in front of a query', () => {
    for (const [text, column] of [
      ["WITH SESSION query_max_run_time = '10d' SELECT 1", 6],
      ['with session a.b = 1 select 1', 6],
      ['WITH FUNCTION f(x bigint) RETURNS bigint RETURN x + 1 SELECT f(1)', 6],
      ['WITH/**/FUNCTION "f"() RETURNS bigint RETURN 1 SELECT 1', 9],
    ] as const)
      assert.throws(
        () => guardedQuery(text),
        { code: 'sql_not_allowed', message: new RegExp(`WITH (SESSION|FUNCTION) \\(line 1, column ${column}\\)`) },
        text,
      )
    for (const name of ['session', 'FUNCTION', '"function"']) {
      for (const columns of ['', '(a)', ' (a)']) {
        const text = `WITH ${name}${columns} AS (SELECT 1) SELECT * FROM ${name}`
        assert.equal(guardedQuery(text), text)
      }
    }
  })

  test('refuses what would tell of the platform’s own session', () => {
    for (const word of [
      ...['current_user', 'CURRENT_CATALOG', 'current_schema', 'current_path'],
      ...['"$current_user"()', '"$CURRENT_PATH" ()', 'current_groups()', '"current_groups"()'],
    ]) {
      assert.equal(refusal(`SELECT ${word}`), 'sql_not_allowed', word)
      assert.throws(() => guardedCondition(`a = ${word}`), { message: /may not use "?\$?current_.*column 5\)/i }, word)
    }
    for (const name of ['"current_user"', 't."current_user"', 'current_groups', 'current_user_id', "'current_user'"])
      assert.equal(guardedQuery(`SELECT ${name} FROM t`), `SELECT ${name} FROM t`)
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
    assert.equal(guardedCondition(`"select" = 'select $1' AND "values" > 1`), `"select" = 'select $1' AND "values" > 1`)
    for (const text of [
      'id IN (SELECT id FROM other)',
      'id IN (/**/select/**/id FROM other)',
      'EXISTS (TABLE other)',
      'id IN (VALUES 1)',
      `"$path" LIKE '%x%'`,
      `t."$file_modified_time" > now()`,
    ])
      assert.throws(() => guardedCondition(text), { code: 'sql_not_allowed' }, text)
  })
})

import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { DuckDBInstance } from '@duckdb/node-api'
import { isCommonSql, isKeyword } from './common-sql.ts'

const isCommon = (query: string, names: readonly string[] = ['email', 'id', 'note']) =>
  isCommonSql(query, ['p', 'q'], names)

describe('text that DuckDB and Trino read alike', () => {
  it('is what transforms are commonly made of', () => {
    for (const query of [
      'SELECT * FROM p',
      'SELECT p.id, lower(trim(p.note)) AS note FROM p JOIN q AS other ON p.id = other.id AND other.note IS NOT NULL',
      "WITH a AS (SELECT id, note FROM p), b (k, v) AS (SELECT id, max(note) FROM a GROUP BY id) SELECT k AS id, v AS note, a.id, a.note FROM b, a WHERE v LIKE 'x%' ORDER BY k DESC NULLS LAST LIMIT 5",
      "SELECT id, CASE WHEN note = 'it''s' THEN 1 ELSE -2.5e1 * id END AS c, count(*) AS n FROM p GROUP BY 1, 2 HAVING count(DISTINCT note) > 1",
      'SELECT id, row_number() OVER (PARTITION BY note ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS "order" FROM p',
      "SELECT CAST(id AS decimal(18, 2)) AS d, CAST(note AS timestamp(6) with time zone) AT TIME ZONE 'UTC' AS t, DATE '2026-01-01' + INTERVAL '1' DAY AS u FROM p",
      "SELECT customer, count(*) AS orders, CAST(sum(amount) AS decimal(18, 2)) AS amount, max_by(email, id) AS email, array_join(array_agg(DISTINCT status ORDER BY status), ' ') AS statuses FROM o GROUP BY customer",
      'SELECT id FROM p UNION ALL SELECT id FROM q WHERE EXISTS (SELECT 1 FROM p WHERE p.id = q.id) EXCEPT SELECT 1',
      'SELECT t.name, t.value, year(t.day) AS year, array_agg(t.note ORDER BY t.id)[1] AS first FROM (SELECT name, type, value, day, id, note FROM p) t',
      "SELECT sum(id) FILTER (WHERE note <> '') AS s, coalesce(nullif(note, ''), try_cast(id AS varchar)) AS c FROM p LEFT JOIN q ON true",
    ])
      assert.ok(isCommon(query), query)
  })

  it('has no words that one takes for a keyword and the other for a name', () => {
    for (const query of [
      'SELECT id FROM p semi JOIN q ON true',
      'SELECT id FROM p ANTI JOIN q ON true',
      'SELECT id FROM p asof JOIN q ON true',
      'SELECT id FROM p positional JOIN q ON true',
      'SELECT id FROM p JOIN q USING (id)',
      'SELECT id FROM p NATURAL JOIN q',
      'SELECT id FROM p, LATERAL (SELECT note) AS t',
      'SELECT id FROM p qualify',
      'SELECT id FROM p pivot',
      'SELECT id FROM p GROUP BY ALL',
      'SELECT id FROM p UNION corresponding SELECT id FROM q',
      'SELECT id FROM p UNION BY NAME SELECT note AS id FROM q',
      'SELECT id FROM p limit',
      'SELECT id FROM p OVER',
      'SELECT interval day FROM p',
      'SELECT columns(id) FROM p',
      'SELECT ROW(id, note) AS r FROM p',
      'SELECT id FROM p, UNNEST(p.list) AS u(v)',
    ])
      assert.ok(!isCommon(query), query)
  })

  it('has names in ASCII only, each query of WITH its own, and none inside of others', () => {
    for (const query of [
      'WITH "é" AS (SELECT id FROM p) SELECT id FROM "é"',
      'SELECT "notı" AS note FROM (SELECT id AS noti FROM p)',
      'WITH p AS (SELECT id FROM q) SELECT id FROM p',
      'WITH a AS (SELECT id FROM p), "A" AS (SELECT id FROM q) SELECT id FROM a',
      'SELECT id FROM (WITH a AS (SELECT id FROM p) SELECT id FROM a)',
      'SELECT id FROM (WITH time AS (SELECT id FROM p) SELECT id FROM time)',
      'WITH RECURSIVE a AS (SELECT id FROM p) SELECT id FROM a',
    ])
      assert.ok(!isCommon(query), query)
    assert.ok(!isCommon('SELECT * FROM p', ['ı']))
    assert.ok(!isCommonSql('SELECT 1', ['ſ'], []))
  })

  it('has no list of columns that only one of them knows, and no text or call of another kind', () => {
    for (const query of [
      'SELECT p.* FROM p',
      'SELECT id, * FROM p',
      'SELECT * EXCLUDE (id) FROM p',
      'SELECT * REPLACE (note AS id) FROM p',
      'SELECT array_agg(*) FROM p',
      "SELECT e'\\' AS a, note FROM p WHERE id <> ''",
      "SELECT p.e'\\' AS a, note FROM p WHERE id <> ''",
      "SELECT X'ff' FROM p",
      'SELECT transform(note, x -> id) FROM p',
      'SELECT note.upper() FROM p',
      'SELECT (note).id FROM p',
    ])
      assert.ok(!isCommon(query), query)
  })

  it('knows every keyword that DuckDB has', async () => {
    const connection = await (await DuckDBInstance.create()).connect()
    const rows = (await connection.runAndReadAll('SELECT lower(keyword_name) FROM duckdb_keywords()')).getRows()
    assert.ok(rows.length > 400)
    assert.deepEqual(
      rows.map(([word]) => String(word)).filter((word) => !isKeyword(word)),
      [],
    )
  })
})

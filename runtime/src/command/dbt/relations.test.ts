import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { definedNames, partsOf, rewritten } from './relations.ts'
import { dialectOf } from './tokens.ts'

const DUCKDB = dialectOf('duckdb')
const RELATIONS = [
  { parts: ['db', 'main', 'orders'], becomes: '"orders"' },
  { parts: ['db', 'raw', 'people'], becomes: '"people_2"' },
]
const sqlOf = (sql: string, adapter = 'duckdb') => rewritten(sql, RELATIONS, dialectOf(adapter)).sql

describe('names of tables in compiled SQL', () => {
  it('are replaced in every quoting, and left in texts and comments', () => {
    assert.equal(sqlOf('select * from "db"."main"."orders"'), 'select * from "orders"')
    assert.equal(sqlOf('select * from DB.Main.ORDERS o'), 'select * from "orders" o')
    assert.equal(
      sqlOf('select * from `db`.`main`.`orders` join `db.raw.people` p', 'bigquery'),
      'select * from "orders" join "people_2" p',
    )
    const rest = `select 'from "db"."main"."orders"', $$ db.main.orders $$ /* db.main.orders */ -- from db.main.orders`
    assert.equal(sqlOf(rest), rest)
  })

  it('keep the name by which their columns are called', () => {
    assert.equal(
      sqlOf('select people.id, "db"."raw"."people"."id" from "db"."raw"."people" where people.id > 1'),
      'select people.id, "people"."id" from "people_2" AS "people" where people.id > 1',
    )
    assert.equal(sqlOf('select p.id from db.raw.people as p'), 'select p.id from "people_2" as p')
    assert.equal(
      sqlOf('from db.raw.people left join db.main.orders using (id)'),
      'from "people_2" AS "people" left join "orders" using (id)',
    )
  })

  it('are seen wherever tables are read', () => {
    assert.equal(sqlOf('from db.main.orders, db.raw.people p'), 'from "orders", "people_2" p')
    assert.equal(sqlOf('from x join y on x.a = y.a, db.raw.people p'), 'from x join y on x.a = y.a, "people_2" p')
    assert.equal(sqlOf('from (db.main.orders cross join db.raw.people p)'), 'from ("orders" cross join "people_2" p)')
    assert.equal(sqlOf('where id in (select id from db.raw.people p)'), 'where id in (select id from "people_2" p)')
    assert.equal(sqlOf('from main.orders'), 'from "orders"')
  })

  it('are not seen in columns that are called alike', () => {
    for (const sql of [
      'select main.orders from main',
      'select extract(year from main.orders) from t main',
      'select a is distinct from main.orders from t main',
      'select x.db.main.orders from x',
      'select main.orders(1) from x',
    ]) {
      assert.equal(sqlOf(sql), sql)
    }
  })

  it('are told by their place, and a semicolon at the end is dropped', () => {
    const { found, sql } = rewritten('select 1 from db.raw.people p; \n-- end', RELATIONS, DUCKDB)
    assert.deepEqual([[...found], sql], [[1], 'select 1 from "people_2" p \n-- end'])
    assert.deepEqual(partsOf('"a.b"."c""d".e', DUCKDB), ['a.b', 'c"d', 'e'])
    assert.deepEqual(partsOf('a; drop table b', DUCKDB), [])
  })

  it('meet no query that the SQL defines itself', () => {
    const sql =
      'with recursive A as (select 1), "b c" (x, y) as materialized (select 2), d as not materialized (select f(x) as z) select e as (1)'
    assert.deepEqual([...definedNames(sql, DUCKDB)], ['a', 'b c', 'd'])
  })
})

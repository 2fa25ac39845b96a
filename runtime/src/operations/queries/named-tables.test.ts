import assert from 'node:assert/strict'
import { test } from 'node:test'
import { NamedTables } from './named-tables.ts'

const SQL = `SELECT 'hr.salaries', '"crm"."people@v9"' -- hr.salaries
  FROM Crm.People p /* hr.salaries, raw_db.t */ JOIN "crm" . "people@v1.0.0" USING (id) JOIN crm.Folk__quarantine q USING (id)`

test('products are found by what the statement names, and by nothing of its texts and comments', () => {
  const { products } = new NamedTables(SQL)
  assert.deepEqual([...products].sort(), ['crm.folk', 'crm.folk__quarantine', 'crm.people'])
})

test('tables are found without regard to case, and told as they are written', () => {
  const names = new NamedTables(SQL)
  assert.deepEqual(names.of('CRM'), ['People', 'people@v1.0.0', 'Folk__quarantine'])
  assert.ok(names.has('crm', 'folk__QUARANTINE') && !names.has('crm', 'folk') && !names.has('raw_db', 't'))
  // To the engine the sign of Kelvin is no k.
  assert.ok(!new NamedTables('FROM crm.fol\u212a').has('crm', 'folk'))
})

test('what describes tables is named as a schema, and not in a text', () => {
  assert.ok(new NamedTables('FROM Information_Schema.tables').describes)
  assert.ok(!new NamedTables("SELECT 'information_schema.tables', information_schema FROM crm.people").describes)
})

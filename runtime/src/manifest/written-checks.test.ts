import assert from 'node:assert/strict'
import { it } from 'node:test'
import { exampleContext, exampleFiles } from './examples.ts'
import { CHECK_KINDS } from './files/quality.ts'
import { parseManifests } from './parse-manifests.ts'
import { writtenCheck } from './written-checks.ts'

const CHECKS = `
  - { name: s, sql: "SELECT 1 FROM {{this}} WHERE false", threshold: "0.000001%", description: "why: it is" }
  - { name: n, not_null: full_name, severity: warn, threshold: 3, dimension: accuracy, weight: 0.5 }
  - { name: u, unique: [customer_id, full_name], on_error: publish }
  - { name: v, accepted_values: { column: order_count, values: [1, 2] }, on_error: quarantine }
  - { name: r, range: { column: order_count, min: 0, exclusive: true } }
  - { name: r2, range: { column: order_count, max: 9 } }
  - { name: m, matches: { column: full_name, pattern: "[a-z]+'#: x" } }
  - { name: ref, references: { columns: customer_id, input: customers, input_columns: customer_id } }
  - { name: c, row_count: { min: 1 } }
  - { name: f, freshness: { column: last_order_at, max_age: 90m } }
  - { name: f2, freshness: { column: last_order_at, max_age: 48h } }
  - { name: sch, schema: { columns: [customer_id], exact: true } }
  - { name: sch2, schema: { input: customers, columns: [id] } }
  - { name: a, anomaly: { metric: row_count } }
  - { name: a2, anomaly: { metric: drift, column: order_count, sensitivity: low, min_history: 3, window: 9, learn_from: "2026-05-01" } }
`

it('says every kind of check so that the same is read again', async () => {
  const read = async (checks: string) => {
    const text = `apiVersion: svc/v1\nkind: Quality\nchecks: ${checks}`
    const files = { ...(await exampleFiles('customers')), quality: Buffer.from(text) }
    const parsed = parseManifests(files, exampleContext('customers'))
    assert.ok(parsed.ok, JSON.stringify(parsed.problems))
    return parsed.manifests.quality.checks
  }
  const checks = await read(CHECKS)
  assert.deepEqual(new Set(checks.map(({ rule }) => rule.kind)), new Set(CHECK_KINDS))
  assert.deepEqual(await read(JSON.stringify(checks.map(writtenCheck))), checks)
})

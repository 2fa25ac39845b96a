import assert from 'node:assert/strict'
import { test } from 'node:test'
import { RefusedRows } from './refused-rows.ts'

test('a quarantine holds of a long key as much as tells it to a reader', () => {
  const refused = new RefusedRows()
  const event = { column: null, reason: 'odd', key: { id: 'k'.repeat(9000), part: null } }
  refused.add(event, { columns: [], primaryKey: ['id', 'part'] })
  assert.deepEqual(refused.rows[0]?.key, { id: 'k'.repeat(2000), part: null })
  assert.equal(refused.rejected, 1)
})

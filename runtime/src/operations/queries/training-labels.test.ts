import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { LogicalType } from '@sluice/sdk'
import { parseKeepingNumbers } from '../../parsing/kept-numbers.ts'
import { type LabelRow, labelColumns, labelTable } from './training-labels.ts'

const LABELS = '[{"event_time":"2026-01-01T00:00:00Z","price":0.10000000000000001}]'

function table(type: LogicalType | null) {
  const columns = labelColumns(parseKeepingNumbers(LABELS) as LabelRow[])
  return labelTable(columns, 'event_time', type === null ? [] : [{ label: 'price', type }])
}

test('a label with the 17 digits of a double is that double, and finds no feature by a decimal', async () => {
  assert.equal((await table(null)).rows?.[0]?.[3], '0.1')
  assert.equal((await table('double')).rows?.[0]?.[4], '0.1')
  await assert.rejects(table('decimal(38,20)'), { code: 'invalid_value' })
})

import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { LogicalType } from '@sluice/sdk'
import { judgeRows } from './judged-rows.ts'

const judged = async (texts: Record<string, string | null>, v: LogicalType, more: object = {}) => {
  const columns = [
    { name: 'id', type: 'long', nullable: false },
    { name: 'v', type: v, nullable: true },
  ] as const
  const whole = { texts, json: [], lacks: ['v'], ...more }
  const row = { id: 'qrn_1', column: 'v', carried: false, isChosen: true, whole }
  const { csv, refused } = await judgeRows([row], { columns, primaryKey: ['id'] }, AbortSignal.timeout(60_000))
  return csv === '' ? refused : csv
}

test('a row is read by the columns of today, as connectors read it', async () => {
  assert.equal(await judged({ id: '007', v: 'say "hi"' }, 'string'), '"0","true",,"7","say ""hi"""\n')
  assert.equal(await judged({ id: '7', gone: 'x' }, 'string'), '"0","true",,"7",\n')
  assert.deepEqual(await judged({ id: '7', v: 'x' }, 'decimal(3,1)'), [
    { id: 'qrn_1', column: 'v', reason: 'it is no decimal(3,1)' },
  ])
  const both = [{ id: 'qrn_1', column: 'v', reason: 'it is no long' }]
  assert.deepEqual(await judged({ id: 'x', v: 'x' }, 'long'), both, 'of two faults its own')
  assert.deepEqual(await judged({ id: null, v: '1' }, 'long'), [{ id: 'qrn_1', column: 'id', reason: 'it is missing' }])
})

test('a text that was written as JSON is no text of another type, and none is taken for JSON', async () => {
  for (const [type, json] of [
    ['json', []],
    ['string', ['v']],
  ] as const)
    assert.match(JSON.stringify(await judged({ id: '7', v: '"x"' }, type, { json })), /is not kept/)
  assert.equal(await judged({ id: '7', v: '"x"' }, 'json', { json: ['v'] }), '"0","true",,"7","""x"""\n')
})

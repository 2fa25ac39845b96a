import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isSluiceError } from '@sluice/sdk'
import { FULL_STATE, parseState, type State, toConnectorState } from './state.ts'

const STATES: readonly State[] = [
  { strategy: 'full' },
  {
    strategy: 'snapshot',
    table: '16384',
    columns: 'x',
    lineage: '',
    horizon: '18446744073709551615',
    parts: ['1', '2'],
  },
  {
    strategy: 'cursor',
    table: '16384',
    columns: 'x',
    cursor: `a"'b`,
    position: '2024-01-01 00:00:00.000001+00',
    from: '0001-01-01 00:00:00',
  },
]

test('states survive JSON', () => {
  for (const state of STATES) {
    assert.deepEqual(parseState(JSON.parse(JSON.stringify(toConnectorState(state)))), state)
  }
  assert.equal(parseState(null), null)
})

test('what this version has not written is refused, SQL in it above all', () => {
  const [, snapshot, cursor] = STATES.map((state) => toConnectorState(state))
  assert.ok(snapshot && cursor)
  const strange = [
    { ...FULL_STATE, version: 2 },
    { version: 1, value: {} },
    { version: 1, value: { ...snapshot.value, horizon: "0'::xid) OR true--" } },
    { version: 1, value: { ...snapshot.value, parts: ['1}'] } },
    { version: 1, value: { ...snapshot.value, table: 1 } },
    { version: 1, value: { ...cursor.value, from: "2024-01-01' OR '1'='1" } },
  ]
  for (const state of strange) {
    assert.throws(
      () => parseState(state),
      (error: unknown) => isSluiceError(error, 'CONFIG') && error.code === 'source_state_unknown',
    )
  }
})

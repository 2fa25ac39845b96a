import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ConnectorPlugin } from '@sluice/sdk'
import { provedCapabilities } from './proof.ts'
import reference from './reference/index.ts'
import type { RecordedCheck, RunRecord } from './run-record.ts'

const plugin = {
  ...reference,
  capabilities: { ...reference.capabilities, operations: ['get', 'scan'], filters: ['eq'], histories: [] },
} as const

const checks = [
  { name: 'general' },
  { name: 'about digest', requires: [{ name: 'digest' }] },
  { name: 'about recover', requires: [{ name: 'recover' }] },
]

function proved(statuses: Readonly<Record<string, RecordedCheck['status']>>): readonly string[] {
  const recorded = Object.entries(statuses).map(([name, status]) => ({ id: 1, name, status, elapsedMs: 0 }))
  return provedCapabilities(plugin, { checks: recorded } as unknown as RunRecord, checks)
}

test('a line is proved by the check that is about it, and lines without one by the general checks', () => {
  const names = proved({ general: 'passed', 'about digest': 'passed', 'about recover': 'passed' })
  for (const name of ['commit atomic', 'operation get', 'filter eq', 'digest', 'recover'])
    assert.ok(names.includes(name), name)
})

test('a failing or a missing check takes its own line away, a waived one too, and no other', () => {
  for (const status of ['failed', 'waived'] as const) {
    const names = proved({ general: 'passed', 'about digest': status, 'about recover': 'passed' })
    assert.deepEqual(
      [names.includes('digest'), names.includes('recover'), names.includes('operation get')],
      [false, true, true],
    )
  }
  assert.ok(!proved({ general: 'passed', 'about recover': 'passed' }).includes('digest'))
})

test('nothing is proved while a general check fails', () => {
  assert.deepEqual(proved({ general: 'failed', 'about digest': 'passed' }), [])
})

test('reading by a log is proved by its own checks alone', () => {
  const modes = ['full', 'incremental', 'cdc'] as const
  const source = { kind: 'connector', capabilities: { modes } } as unknown as ConnectorPlugin
  const ofRun = (log: RecordedCheck['status']) =>
    provedCapabilities(
      source,
      {
        checks: [
          { id: 'C1', name: 'general', status: 'passed', elapsedMs: 0 },
          { id: 'C40', name: 'by a log', status: log, elapsedMs: 0 },
        ],
      } as unknown as RunRecord,
      [{ name: 'general' }, { name: 'by a log', requires: [{ name: 'mode cdc' }] }],
    )
  assert.deepEqual(ofRun('passed'), ['mode full', 'mode incremental', 'mode cdc'])
  for (const status of ['failed', 'waived', 'not_applicable'] as const)
    assert.deepEqual(ofRun(status), ['mode full', 'mode incremental'])
})

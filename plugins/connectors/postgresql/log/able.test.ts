import assert from 'node:assert/strict'
import { test } from 'node:test'
import { missingForLog } from './able.ts'

const ABLE = {
  wal_level: 'logical',
  standby: false,
  replicates: true,
  version: 180_004,
  login: 're"ader',
  database: 'shop',
}

test('what keeps a log from being read is told with what would let it', () => {
  assert.equal(missingForLog(ABLE), null)
  const missing = (other: Partial<typeof ABLE>) => {
    const found = missingForLog({ ...ABLE, ...other })
    return [found?.code, found?.remedy]
  }
  assert.deepEqual(missing({ version: 120_020 }), [
    'changes_server_too_old',
    'Upgrade the server, or read its tables by mode incremental.',
  ])
  assert.deepEqual(missing({ standby: true }), ['changes_standby', 'Let the connection name the primary server.'])
  assert.deepEqual(missing({ wal_level: 'replica' }), [
    'changes_wal_level',
    'Run ALTER SYSTEM SET wal_level = logical; as a superuser, then restart the server.',
  ])
  assert.deepEqual(missing({ replicates: false }), [
    'changes_not_replication',
    'Run ALTER ROLE "re""ader" REPLICATION; as a superuser.',
  ])
})

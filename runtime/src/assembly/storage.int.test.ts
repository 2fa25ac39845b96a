import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { RecordingLogger } from '@sluice/conformance'
import pg from 'pg'
import { loadConfig } from '../config.ts'
import { type DatabaseAddress, parseAddress } from '../database/address.ts'
import { clientConfig } from '../database/pools.ts'
import { openDatabases } from './storage.ts'

async function login(address: DatabaseAddress): Promise<string> {
  const client = new pg.Client(clientConfig(address, { applicationName: 'test' }))
  try {
    await client.connect()
    return 'let in'
  } catch (error) {
    return (error as { readonly code?: string }).code ?? 'lost'
  } finally {
    await client.end().catch(() => undefined)
  }
}

test('logins of the embedded server get into the databases that are theirs, and no others', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-storage-'))
  const config = loadConfig({ environment: { SLUICE_DATA_DIR: folder }, flags: {} })
  const { registry, serving, embedded } = await openDatabases(config, new RecordingLogger())
  try {
    const reader = parseAddress(serving?.reader ?? '')
    assert.deepEqual([await login(registry), await login(reader)], ['let in', 'let in'])
    for (const database of ['postgres', 'template1', registry.database]) {
      assert.equal(await login({ ...reader, database }), '42501', database)
    }
  } finally {
    await embedded?.stop()
    await rm(folder, { recursive: true, force: true })
  }
})

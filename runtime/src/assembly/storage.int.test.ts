import assert from 'node:assert/strict'
import { mkdtemp, rename, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { pathToFileURL } from 'node:url'
import { RecordingLogger } from '@sluice/conformance'
import pg from 'pg'
import { loadConfig } from '../config.ts'
import { type DatabaseAddress, parseAddress } from '../database/address.ts'
import { clientConfig } from '../database/pools.ts'
import type { ServiceParts } from '../plugins/services.ts'
import { openDatabases, openObjectStore } from './storage.ts'

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

test('a folder without a lake is told from one that was moved, and becomes that when the lake comes', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-places-'))
  const opened = (name: string, addresses: readonly string[] = [pathToFileURL(join(folder, 'first/lake')).href]) => {
    const config = loadConfig({ environment: { SLUICE_DATA_DIR: join(folder, name) }, flags: {} })
    return openObjectStore(config, addresses, {} as ServiceParts)
  }
  try {
    const first = await opened('first', [])
    assert.equal(first.place, 'known')
    await first.store.put('sluice-acme/acme/rows.parquet', Buffer.from('rows'))
    await first.keepPlace()
    assert.equal((await opened('first')).place, 'known')
    for (const _ of ['once', 'again']) {
      const other = await opened('other')
      assert.equal(other.place, 'absent')
      await other.keepPlace()
    }
    await rm(join(folder, 'other/lake'), { recursive: true })
    await rename(join(folder, 'first/lake'), join(folder, 'other/lake'))
    const moved = await opened('other')
    assert.equal(moved.place, 'moved')
    await moved.keepPlace()
    assert.equal((await opened('other')).place, 'known')
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
})

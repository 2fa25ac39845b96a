import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Buckets, LentAccess } from '@sluice/sdk'
import { lentAccessOf } from '../../assembly/object-stores.ts'
import { loadConfig } from '../../config.ts'
import { fileAccessOf, requireFileAccess } from './files.ts'

const configured = (access: string) => ({
  config: loadConfig({ environment: { SLUICE_CATALOG__FILE_ACCESS: access }, flags: {} }),
})

test('a deployment may keep its files to itself', () => {
  assert.throws(() => requireFileAccess(configured('none')), { code: 'catalog_files_closed', kind: 'PERMISSION' })
  requireFileAccess(configured('direct'))
})

test('clients are told how to have requests signed where something is lent, and nothing else', () => {
  const settings = (catalog: { readonly address: string; readonly signing: string }) => ({ ...catalog })
  const lentAccess = { settings } as unknown as LentAccess
  assert.deepEqual(fileAccessOf({ lentAccess }, 'https://data.example.com/iceberg', 'v1/acme/sign'), {
    address: 'https://data.example.com/iceberg',
    signing: 'v1/acme/sign',
  })
  assert.deepEqual(fileAccessOf({ lentAccess: null }, 'x', 'y'), {})
})

test('a folder has nobody who could check signatures, and a store only lends where the configuration says so', async () => {
  const lent = { settings: () => ({}) } as unknown as LentAccess
  const buckets = { lend: async () => lent } as unknown as Buckets
  assert.equal(await lentAccessOf(configured('signed').config, null), null)
  assert.equal(await lentAccessOf(configured('direct').config, buckets), null)
  assert.equal(
    await lentAccessOf(configured('signed').config, { ...buckets, lend: undefined } as unknown as Buckets),
    null,
  )
  assert.equal(await lentAccessOf(configured('signed').config, buckets), lent)
})

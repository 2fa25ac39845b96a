import assert from 'node:assert/strict'
import { test } from 'node:test'
import { loadConfig } from '../../config.ts'
import { fileAccessOf, requireFileAccess } from './files.ts'

const S3 = {
  SLUICE_OBJECT_STORE__TYPE: 's3',
  SLUICE_OBJECT_STORE__ENDPOINT: 'https://s3.example.com',
  SLUICE_OBJECT_STORE__ACCESS_KEY_ID: 'key',
  SLUICE_OBJECT_STORE__SECRET_ACCESS_KEY: 'secret',
}
const configured = (access: string, more: Readonly<Record<string, string>> = {}) => ({
  config: loadConfig({ environment: { SLUICE_CATALOG__FILE_ACCESS: access, ...more }, flags: {} }),
})

test('a deployment may keep its files to itself', () => {
  assert.throws(() => requireFileAccess(configured('none')), { code: 'catalog_files_closed', kind: 'PERMISSION' })
  requireFileAccess(configured('direct'))
})

test('clients are told how to have requests signed, and no key', () => {
  const settings = fileAccessOf(configured('signed', S3), 'https://data.example.com/iceberg', 'v1/acme/sign')
  assert.equal(settings['s3.signer.uri'], 'https://data.example.com/iceberg')
  assert.equal(settings['s3.signer.endpoint'], 'v1/acme/sign')
  assert.ok(!JSON.stringify(settings).includes('secret'))
  assert.deepEqual(fileAccessOf(configured('direct', S3), 'x', 'y'), {})
  assert.deepEqual(fileAccessOf(configured('signed'), 'x', 'y'), {}, 'a folder has nobody who could check signatures')
})

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isSluiceError } from '@sluice/sdk'
import { loadConfig } from './config.ts'

const S3 = {
  SLUICE_OBJECT_STORE__TYPE: 's3',
  SLUICE_OBJECT_STORE__ENDPOINT: 'http://127.0.0.1:9000',
  SLUICE_OBJECT_STORE__ACCESS_KEY_ID: 'key',
  SLUICE_OBJECT_STORE__SECRET_ACCESS_KEY: 'hidden',
}

const load = (environment: Readonly<Record<string, string>>) => loadConfig({ environment, flags: {} })

test('numbers of the environment are numbers in the object store too, and what is not said has its default', () => {
  const { object_store: chosen } = load({ ...S3, SLUICE_OBJECT_STORE__ATTEMPT_MS: '3000' })
  assert.ok(chosen.type === 's3')
  assert.deepEqual([chosen.attempt_ms, chosen.deadline_ms, chosen.path_style], [3000, 120_000, true])
  assert.deepEqual(load({}).object_store, { type: 'folder' })
})

test('a mistake in the object store is said for the kind that is named', () => {
  const said = (environment: Readonly<Record<string, string>>): string => {
    try {
      load(environment)
    } catch (error) {
      if (isSluiceError(error, 'CONFIG')) return error.message
    }
    return 'nothing'
  }
  assert.match(said({ ...S3, SLUICE_OBJECT_STORE__PART_MB: 'many' }), /^[^;]*object_store\.part_mb must be integer$/)
  assert.match(said({ ...S3, SLUICE_OBJECT_STORE__DEADLINES_MS: '1' }), /did you mean object_store\.deadline_ms\?$/)
  assert.match(said({ SLUICE_OBJECT_STORE__TYPE: 'tape' }), /object_store\.type/)
  assert.doesNotMatch(said({ ...S3, SLUICE_OBJECT_STORE__PART_MB: 'many' }), /hidden/)
})

test('pages that may call are origins as browsers send them, and nothing else', () => {
  const pages = (origins: readonly string[]) => load({ SLUICE_CORS__ORIGINS: origins.join(',') }).cors.origins
  const good = ['https://app.example.com', 'http://localhost:3000', 'http://[::1]:8080', 'capacitor://localhost', '*']
  assert.deepEqual(pages(good), good)
  for (const bad of [
    'null',
    'app.example.com',
    'https://app.example.com/',
    'https://*.example.com',
    'HTTPS://A.test',
  ]) {
    assert.throws(() => pages([bad]), isSluiceError, bad)
  }
})

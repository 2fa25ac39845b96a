/** Kinds of drift that a running server comes to by itself only in days, by what it answers then. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Config } from '../config.ts'
import { exampleFiles } from '../manifest/examples.ts'
import { type Client, ServerRefused } from './client.ts'
import { driftsOf } from './drift-findings.ts'
import { manifestParser } from './lint.ts'

const config = {
  plugins: [],
  serving: {},
  masking: { sensitive: [] },
  limits: { schedule_interval_ms: 60_000 },
} as unknown as Config

test('copies that drift, stores that fail and pauses are told, to whoever may not read the product, too', async () => {
  const files = Object.entries(await exampleFiles('minimal'))
  const texts = Object.fromEntries(files.map(([name, bytes]) => [name, Buffer.from(bytes).toString()]))
  const parsed = (await manifestParser(config))(texts)
  assert.ok(parsed.ok)
  const { name, domain: namespace } = parsed.manifests.product
  const { digest } = parsed.manifests
  const listed = {
    name,
    namespace,
    status: 'degraded',
    current_version: '1.0.0',
    paused: { reason: 'registry_outdated', version: '1.1.0', since: '2026-01-01T00:00:00Z' },
    last_run: { id: 'run_1', state: 'failed' },
    notices: ['store_drifted'],
  }
  const detail = {
    versions: [{ version: '1.0.0', digest }],
    endpoints: [{ type: 'lookup', state: 'failed', error: { message: 'no answer' } }],
    notices: [
      { kind: 'store_drifted', message: 'the copy differs' },
      { kind: 'class_raised', message: 'of no matter here' },
    ],
  }
  const client = {
    list: async () => [listed],
    find: async () => ({ digest, manifests: texts }),
    request: async (_: string, path: string) => {
      if (path.includes('/quality')) throw new ServerRefused(403, { code: 'product_forbidden' }, 'no')
      return path.includes('/manifests/') ? { digest, manifests: texts } : detail
    },
  } as unknown as Client
  const product = { name: `${namespace}.${name}`, namespace, folder: '.', registration: {}, names: [], texts, parsed }
  const found = await driftsOf(client, [product], config)
  assert.deepEqual(
    found.map(({ kind, message }) => [kind, message]),
    [
      ['paused', 'registry_outdated: version 1.1.0, 2026-01-01T00:00:00Z'],
      ['copy_drifted', 'the copy differs'],
      ['failing', 'its last run failed: sluice logs run_1'],
      ['failing', 'lookup does not serve its newest content: no answer'],
    ],
  )
})

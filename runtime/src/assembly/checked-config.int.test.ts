/** What `sluice config --check` says of a configuration is what a start says of it. */
import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { networkInterfaces, tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import type { SluiceError } from '@sluice/sdk'
import { stringify } from 'yaml'
import { callOf } from '../command/command.ts'
import { CONFIG_COMMANDS } from '../command/config-command.ts'
import { loadConfig } from '../config.ts'
import { startRuntime } from '../main.ts'
import { ownUrl } from './trusted-issuers.ts'

const logger = { debug() {}, info() {}, warn() {}, error() {}, child: () => logger }
const folder = await mkdtemp(join(tmpdir(), 'sluice-checked-'))
after(() => rm(folder, { recursive: true }))
const [data, file] = [join(folder, 'data'), join(folder, 'sluice.yaml')]
await writeFile(join(folder, 'plain'), 'no certificate')

async function sourcesOf(config: object) {
  await writeFile(file, stringify({ port: 0, data_dir: data, ...config }))
  return { file, environment: {}, flags: {} }
}

type Verdict = Pick<SluiceError, 'code' | 'message'> | null

async function verdictOf(judge: () => Promise<unknown>): Promise<Verdict> {
  try {
    await judge()
    return null
  } catch (error) {
    const { code, message } = error as SluiceError
    return { code, message }
  }
}

async function checked(config: object): Promise<Verdict> {
  const call = callOf({ words: [], flags: { check: 'true' } }, [], await sourcesOf(config))
  return verdictOf(async () => CONFIG_COMMANDS['config']?.run(call))
}

async function started(config: object): Promise<Verdict> {
  const sources = await sourcesOf(config)
  return verdictOf(async () => {
    const runtime = await startRuntime(loadConfig(sources), logger as never)
    await runtime.stop()
  })
}

const POSTGRES = 'postgresql://sluice:secret@127.0.0.1:1/sluice'
const SERVING = { serving_owner_url: POSTGRES, serving_writer_url: POSTGRES, serving_reader_url: POSTGRES }
const SUPERSET = { url: 'http://127.0.0.1:1', username: 'a', password: 'b' }
const ISSUER = { issuer: 'https://login.example.com', audience: 'sluice' }
const PLAIN = join(folder, 'plain')

/** By what is wrong. */
const REFUSED: Readonly<Record<string, { readonly config: object; readonly code: string }>> = {
  'a driver that nobody has': { config: { serving: { lookup: { driver: 'mysql' } } }, code: 'unknown_driver' },
  'a plugin that is not installed': { config: { plugins: ['@acme/none'] }, code: 'plugin_not_found' },
  'a plugin at a path where none is': { config: { plugins: ['./nowhere'] }, code: 'plugin_not_found' },
  'a plugin that is a plain file': { config: { plugins: [PLAIN] }, code: 'plugin_manifest' },
  'settings that a store does not know': {
    config: { serving: { realtime: { driver: 'lmdb', settings: { sise: 1 } } } },
    code: 'invalid_settings',
  },
  'a store whose plugin is not listed': {
    config: { plugins: ['@sluice/connectors/files'], serving: { lookup: { driver: 'postgresql' } } },
    code: 'unknown_driver',
  },
  'a registry that is no database': {
    config: { database: { registry_url: 'mysql://u@h/d' } },
    code: 'database_url_invalid',
  },
  'a registry without logins of the store': {
    config: { database: { registry_url: POSTGRES } },
    code: 'invalid_settings',
  },
  'one login of the store alone': {
    config: { database: { registry_url: POSTGRES, serving_owner_url: POSTGRES } },
    code: 'invalid_config',
  },
  'a login of the store that is no address': {
    config: { database: { registry_url: POSTGRES, ...SERVING, serving_reader_url: 'postgresql://h' } },
    code: 'database_url_invalid',
  },
  'a login of catalogs that is no address': {
    config: { database: { catalog_admin_url: 'nonsense' } },
    code: 'database_url_invalid',
  },
  'an issuer in clear': {
    config: { auth: { issuers: [{ ...ISSUER, issuer: 'http://a.example' }] } },
    code: 'issuer_insecure',
  },
  'a range of addresses that is none': { config: { network: { allow: ['10.0.0.0/x'] } }, code: 'invalid_config' },
  'a folder that is no path from the root': {
    config: { folders: { allow: { acme: ['files'] } } },
    code: 'invalid_config',
  },
  'a folder that holds the keys': { config: { folders: { allow: { acme: [folder] } } }, code: 'invalid_config' },
  'a program that is no path from the root': {
    config: { programs: { airbyte: { faker: { command: ['faker'], folders: ['/srv'] } } } },
    code: 'invalid_config',
  },
  'lineage that is told in clear': {
    config: { openlineage: { url: 'http://a.example/lineage' } },
    code: 'invalid_config',
  },
  'a door for PostgreSQL without a key': { config: { wire: { port: 0, cert_file: PLAIN } }, code: 'invalid_config' },
  'a door for PostgreSQL with what is no key': {
    config: { wire: { port: 0, cert_file: PLAIN, key_file: PLAIN } },
    code: 'invalid_config',
  },
  'a door for PostgreSQL to everybody in clear': {
    config: { wire: { port: 0, host: '0.0.0.0' } },
    code: 'invalid_config',
  },
  'a policy endpoint with a part of its files': {
    config: { trino: { policy_cert_file: PLAIN } },
    code: 'invalid_config',
  },
  'a policy endpoint with what are no keys': {
    config: { trino: { policy_cert_file: PLAIN, policy_key_file: PLAIN, policy_client_ca_file: PLAIN } },
    code: 'invalid_config',
  },
  'dashboards of an issuer that is not trusted': {
    config: { dashboards: { ...SUPERSET, issuer: 'https://x.example' } },
    code: 'invalid_config',
  },
  'dashboards whose issuer is one of several': {
    config: {
      dashboards: SUPERSET,
      auth: { issuers: [ISSUER, { ...ISSUER, issuer: 'https://other.example.com' }] },
    },
    code: 'invalid_config',
  },
  'dashboards without a store in PostgreSQL': {
    config: { dashboards: SUPERSET, serving: { realtime: { driver: 'lmdb' } } },
    code: 'invalid_config',
  },
  'dashboards whose logins nobody may make': {
    config: { dashboards: SUPERSET, database: { registry_url: POSTGRES, ...SERVING } },
    code: 'invalid_config',
  },
  'a host that is none of this machine': { config: { host: '192.0.2.1' }, code: 'invalid_config' },
  'an address for people that is none': { config: { public_url: 'data.example.com' }, code: 'invalid_config' },
  'an address for people that no browser opens': {
    config: { public_url: 'ftp://data.example.com' },
    code: 'invalid_config',
  },
  'an address of dashboards that is none': {
    config: { dashboards: { ...SUPERSET, public_url: 'boards' } },
    code: 'invalid_config',
  },
  'a bus that a plugin of others does not bring': {
    config: { plugins: [PLAIN], events: { nats: { url: 'nats://h' } } },
    code: 'plugin_manifest',
  },
}

describe('what a start refuses', () => {
  for (const [what, { config, code }] of Object.entries(REFUSED)) {
    it(`is refused by the check, in the same words, and before anything is made: ${what}`, async () => {
      const verdict = await checked(config)
      assert.equal(verdict?.code, code, verdict?.message)
      assert.deepEqual(await started(config), verdict)
      assert.equal(existsSync(join(data, 'postgres')), false)
    })
  }

  const hosts = Object.values(networkInterfaces()).flatMap((found) => found?.map(({ address }) => address) ?? [])
  for (const host of ['127.0.0.1', '::1'].filter((one) => hosts.includes(one))) {
    it(`is not what names the embedded issuer by its address: ${host}`, async () => {
      const issuer = `${ownUrl({ host }, 8080)}/oidc`
      assert.equal(await checked({ host, port: 8080, dashboards: { ...SUPERSET, issuer } }), null)
      assert.equal(ownUrl({ host: '::1' }, 8080), 'http://[::1]:8080')
    })
  }

  it('is a folder that is none', async () => {
    for (const path of [PLAIN, join(PLAIN, 'below')]) {
      const verdict = await checked({ data_dir: path })
      assert.ok(['EEXIST', 'ENOTDIR'].includes(verdict?.code ?? ''), verdict?.code)
      assert.notEqual(await started({ data_dir: path }), null)
    }
  })
})

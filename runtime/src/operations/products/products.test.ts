import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { isSluiceError } from '@sluice/sdk'
import type { TenantCall } from '../../flow.ts'
import { EXAMPLES, exampleFiles } from '../../manifest/examples.ts'
import { PARSING_HERE } from '../../manifest/parsing.ts'
import type { Product } from '../../registry/products.ts'
import type { ProductsDeps } from './deps.ts'
import { parseTexts, registerProduct } from './products.ts'

async function textsOf(classification: string): Promise<Readonly<Record<string, string>>> {
  const files = Object.entries(await exampleFiles('minimal'))
  const texts = Object.fromEntries(files.map(([name, bytes]) => [name, Buffer.from(bytes).toString()]))
  const [from, to] = ['- name: title\n', `- name: title\n    classification: ${classification}\n`]
  return { ...texts, output: (texts['output'] as string).replace(from, to) }
}

function platformOf(sensitive: readonly string[]): ProductsDeps {
  const plugins = { servingTypes: () => [] }
  const config = { limits: { schedule_interval_ms: 60_000 } }
  const parts = { config, plugins, dashboards: null, distributed: null, rules: { sensitive }, parsing: PARSING_HERE }
  return parts as unknown as ProductsDeps
}

describe('manifests of an upload', () => {
  it('may use the classes that the configuration masks', async () => {
    const product = EXAMPLES.minimal as unknown as Product
    const texts = await textsOf('finance.salary')
    assert.deepEqual((await parseTexts(platformOf(['finance.salary']), product, texts)).problems, [])
    assert.equal((await parseTexts(platformOf([]), product, texts)).problems[0]?.path, 'schema[1].classification')
  })
})

describe('registering', () => {
  const call = { principal: { isDeveloper: true }, tenant: 'acme' } as unknown as TenantCall
  const reached = new Error('the registry was asked')
  const platform = { pool: { connect: () => Promise.reject(reached) } } as unknown as ProductsDeps
  const register = async (name: string, domain: string): Promise<string> => {
    try {
      await registerProduct(platform, call, { name, domain, archetype: 'aggregate', description: '' }, async () => {})
      return 'registered'
    } catch (error) {
      if (!isSluiceError(error)) throw error
      return error.code === 'invalid_name' ? `${error.message}; ${error.remedy}` : 'passed'
    }
  }

  it('refuses the names that manifests refuse', async () => {
    for (const name of ['pg_x', 'raw_x', 'timescaledb_x', 'a__b', 'A', '1a', '', 'a-b', `a${'b'.repeat(200)}`]) {
      assert.match(await register(name, 'crm'), /^the name /, name)
      assert.match(await register('people', name), /^the namespace /, name)
    }
    for (const domain of ['public', 'sys', 'default', 'sandbox', 'information_schema', 'sluice_store']) {
      assert.match(await register('people', domain), /^the namespace /, domain)
    }
    assert.match(await register('Customer-360', 'crm'), /; Write customer_360\.$/)
  })

  it('takes all others', async () => {
    for (const [name, domain] of [
      ['people', 'crm'],
      ['public', 'sluiceways'],
      ['sluice_x', 'a'],
      [`a${'b'.repeat(199)}`, 'pgx'],
    ] as const) {
      assert.equal(await register(name, domain), 'passed', `${domain}.${name}`)
    }
  })
})

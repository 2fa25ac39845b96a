import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { type ConfigSources, loadConfig } from '../config.ts'
import { callOf } from './command.ts'
import { CONFIG_COMMANDS } from './config-command.ts'
import { configKeys } from './config-reference.ts'

describe('the reference of the configuration', () => {
  it('describes every key', () => {
    const bare = configKeys().filter(({ description }) => !/^[A-Z0-9`].*\.$/s.test(description))
    assert.deepEqual(
      bare.map(({ path }) => path),
      [],
    )
  })

  it('has every key once that a configuration may have', () => {
    const paths = configKeys().map(({ path }) => path)
    assert.deepEqual(paths.length, new Set(paths).size)
    const leaves = (value: unknown, path: string): string[] =>
      typeof value === 'object' && value !== null && !Array.isArray(value) && !paths.includes(path)
        ? Object.entries(value).flatMap(([key, child]) => leaves(child, path === '' ? key : `${path}.${key}`))
        : [path]
    const all = leaves(loadConfig({ environment: {}, flags: {} }), '')
    assert.deepEqual(
      all.filter((path) => !paths.includes(path)),
      [],
    )
    for (const path of ['auth.issuers[].claims.tenant', 'serving.*.driver', 'object_store.secret_access_key']) {
      assert.ok(paths.includes(path), path)
    }
  })

  it('names variables that set what they say', () => {
    const numbers = configKeys().filter(({ type, variable }) => type.startsWith('integer') && variable !== null)
    assert.ok(numbers.length > 20)
    for (const { path, variable, type } of numbers.filter(
      ({ path }) => !/kafka|dashboards|object_store|openlineage|\*/.test(path),
    )) {
      const [, least = '1'] = /(?:at least|,) (\d+)/.exec(type) ?? []
      let value: unknown = loadConfig({ environment: { [variable as string]: least }, flags: {} })
      for (const part of path.split('.')) value = (value as Record<string, unknown>)[part]
      assert.equal(value, Number(least), path)
    }
  })
})

describe('sluice config', () => {
  let folder: string
  let file: string
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'sluice-config-'))
    file = join(folder, 'sluice.yaml')
    const lines = ['port: 9000', `metrics_token: "\${env:SCRAPE}"`, 'limits: { workers: 2, engine_processes: 2 }']
    const logins = ['registry_url', 'serving_owner_url', 'serving_writer_url', 'serving_reader_url']
    const database = logins.map((login) => `${login}: postgresql://u:hidden@h/db`).join(', ')
    await writeFile(file, `${lines.join('\n')}\ndatabase: { ${database} }\n`)
  })
  after(() => rm(folder, { recursive: true }))

  const ask = (flags: Record<string, string>, words: string[], sources: Partial<ConfigSources> = {}) =>
    CONFIG_COMMANDS['config']?.run(
      callOf({ words: [], flags }, words, { file, environment: { SCRAPE: 'hidden' }, flags: {}, ...sources }),
    )
  const explain = async (...words: string[]) => String(await ask({ explain: 'true' }, words))

  it('tells of a key what is in force, and where it comes from', async () => {
    const environment = { SCRAPE: 'hidden', SLUICE_LIMITS__ENGINE_PROCESSES: '5' }
    const flags = { port: '0' }
    const told = async (key: string) =>
      /in force +(.*)/.exec(String(await ask({ explain: 'true' }, [key], { environment, flags })))?.[1]
    assert.equal(await told('limits.workers'), `2 (from ${file})`)
    assert.equal(await told('limits.engine_processes'), '5 (from SLUICE_LIMITS__ENGINE_PROCESSES)')
    assert.equal(await told('port'), '0 (from --port)')
    assert.equal(await told('host'), '127.0.0.1 (default)')
    assert.equal(await told('public_url'), 'not set')
    assert.equal(await told('metrics_token'), `******** (from ${file}, as \${env:SCRAPE})`)
    assert.equal(await told('database.registry_url'), `******** (from ${file})`)
    assert.match(await explain('limits.workers'), /variable +SLUICE_LIMITS__WORKERS\n/)
  })

  it('tells of what is inside a key, of everything, and of no secret', async () => {
    assert.match(await explain('limits.rate'), /limits\.rate\.free\n.*limits\.rate\.burst\n/s)
    assert.match(await explain('auth.issuers'), /auth\.issuers\[\]\.claims\.tenant\n/)
    assert.match(await explain('serving.lookup'), /serving\.\*\.driver\n/)
    const all = await explain()
    assert.equal(all.split('\n\n').length, configKeys().length)
    assert.ok(!all.includes('hidden'))
    await assert.rejects(explain('limits.worker'), /no key "limits\.worker"; did you mean limits\.workers\?/)
  })

  it('says whether it is valid, and explains where it is not', async () => {
    assert.equal(await ask({ check: 'true' }, []), `The configuration is valid (${file}).`)
    const broken = { environment: { SLUICE_LIMITS__WORKERS: 'many', SCRAPE: 'x' } }
    await assert.rejects(async () => ask({ check: 'true' }, [], broken), { code: 'invalid_config' })
    const told = String(await ask({ explain: 'true' }, ['limits.workers'], broken))
    assert.match(told, /default +3\n.*Nothing is in force: .*limits\.workers must be a whole number/s)
    assert.doesNotMatch(told, /in force +\d/)
  })
})

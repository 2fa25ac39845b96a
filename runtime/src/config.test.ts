import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { isSluiceError, type JsonSchema, SERVICE_KINDS } from '@sluice/sdk'
import type { TObject } from 'typebox'
import type { ExportDestinationConfig } from './config/object-stores.ts'
import { ConfigSchema } from './config/schema.ts'
import { OWN_SERVICES } from './config/services.ts'
import { loadConfig, redactedConfig } from './config.ts'

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
  assert.match(
    said({ ...S3, SLUICE_OBJECT_STORE__PART_MB: 'many' }),
    /^[^;]*object_store\.part_mb must be a whole number$/,
  )
  assert.match(said({ ...S3, SLUICE_OBJECT_STORE__DEADLINES_MS: '1' }), /did you mean object_store\.deadline_ms\?$/)
  assert.match(said({ SLUICE_OBJECT_STORE__TYPE: 'tape' }), /object_store\.type/)
  assert.doesNotMatch(said({ ...S3, SLUICE_OBJECT_STORE__PART_MB: 'many' }), /hidden/)
})

const problemOf = (sources: Parameters<typeof loadConfig>[0]): string => {
  try {
    loadConfig(sources)
  } catch (error) {
    if (isSluiceError(error, 'CONFIG')) return error.message
  }
  return 'nothing'
}

test('a destination of exports needs its bucket, key and tenants, and may come from the environment alone', () => {
  const at = 'SLUICE_EXPORTS__DESTINATIONS__WAREHOUSE__'
  const said = { BUCKET: 'acme', ENDPOINT: 'https://s3.example.com', ACCESS_KEY_ID: 'key', SECRET_ACCESS_KEY: 'hidden' }
  const environment = { ...said, TENANTS: 'acme,other', PATH_STYLE: 'false' }
  const config = load(Object.fromEntries(Object.entries(environment).map(([name, value]) => [at + name, value])))
  const { warehouse } = config.exports.destinations
  assert.deepEqual([warehouse?.tenants, warehouse?.path_style], [['acme', 'other'], false])
  assert.ok(!JSON.stringify(redactedConfig(config)).includes('hidden'))
  for (const wrong of ['a//b', '/a', 'a/', '../a', 'a/..', '.a'])
    assert.throws(
      () =>
        load({
          ...Object.fromEntries(Object.entries(environment).map(([name, value]) => [at + name, value])),
          [`${at}PREFIX`]: wrong,
        }),
      /destinations\.warehouse\.prefix/,
      wrong,
    )
})

test('values of maps have their defaults, too', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-config-'))
  try {
    const file = join(folder, 'sluice.yaml')
    const bucket =
      '{ endpoint: "https://s3.example.com", bucket: acme, access_key_id: k, secret_access_key: s, tenants: [acme] }'
    const program = '{ command: [/opt/x/bin/source-x], folders: [/opt/x] }'
    await writeFile(file, `exports: { destinations: { w: ${bucket} } }\nprograms: { airbyte: { x: ${program} } }\n`)
    const { exports, programs } = loadConfig({ file, environment: {}, flags: {} })
    const { region, path_style } = exports.destinations['w'] as ExportDestinationConfig
    const { arguments: words, memory_mb } = programs?.['airbyte']?.['x'] ?? {}
    assert.deepEqual([region, path_style, words, memory_mb], ['us-east-1', true, [], 1024])
  } finally {
    await rm(folder, { recursive: true })
  }
})

test('a key with two letters swapped, or one left out, is told by its name', () => {
  const whole = Object.entries(ConfigSchema.properties) as unknown as readonly (readonly [string, Partial<TObject>])[]
  const keys = whole.flatMap(([name, { properties = {} }]) => [
    [name],
    ...Object.keys(properties).map((own) => [name, own]),
  ])
  assert.ok(keys.length > 80)
  for (const path of keys) {
    const [last = ''] = path.slice(-1)
    for (const wrong of [`${last[0]}${last[2]}${last[1]}${last.slice(3)}`, last.slice(0, -1)]) {
      if (wrong.length < 3 || wrong === last) continue
      const flag = [...path.slice(0, -1), wrong].join('.')
      const said = problemOf({ environment: {}, flags: { [flag]: '1' } })
      assert.ok(said.endsWith(`${flag} is not known; did you mean ${path.join('.')}?`), said)
    }
  }
})

test('a file that cannot be read is told with the reason, and with the place where it is no YAML, and never with its text', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-config-'))
  try {
    const file = join(folder, 'sluice.yaml')
    const said = () => problemOf({ file, environment: {}, flags: {} })
    assert.match(said(), /sluice\.yaml does not exist$/)
    for (const [text, reason] of [
      ['metrics_token: "hidden\nhost: [\n', 'line \\d+, column \\d+: .*quote.*'],
      [
        'metrics_token: hidden\nfolders:\n\tallow: {}\n',
        'line 3, column 1: the line is indented with a tab \\(Indent.*',
      ],
      ['metrics_token: hidden\nport: 1\nport: 2\n', 'line 3, column 1: the key is there twice'],
      ['metrics_token: &a hidden\npublic_url: *a\n', 'aliases \\(\\*name\\) are not taken here'],
      ['metrics_token: hidden\nplugins: @sluice/x\n', 'line 2, column 10: a value begins with a sign .*quote values.*'],
    ] as const) {
      await writeFile(file, text)
      assert.match(said(), new RegExp(`sluice\\.yaml cannot be read as YAML: ${reason}$`))
      assert.doesNotMatch(said(), /hidden/)
    }
    for (const encoding of ['latin1', 'utf16le'] as const) {
      await writeFile(file, 'metrics_token: schön', encoding)
      assert.match(said(), /sluice\.yaml is not UTF-8 text \(save it in the encoding UTF-8\)$/)
    }
    await writeFile(file, '\ufeffport: 9000\r\nlimits:\r\n  workers: 4\r\n')
    const { port, limits } = loadConfig({ file, environment: {}, flags: {} })
    assert.deepEqual([port, limits.workers], [9000, 4])
    assert.match(problemOf({ file: folder, environment: {}, flags: {} }), /is a folder$/)
    const reference = { environment: { SLUICE_AUTH__AUDIENCE: `\${file:${folder}}` }, flags: {} }
    assert.match(problemOf(reference), /of a reference is a folder$/)
  } finally {
    await rm(folder, { recursive: true })
  }
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

test('a lineage server is none unless it is named, whole and without a login, and its key is shown to nobody', () => {
  const load = (environment: Readonly<Record<string, string>>) => loadConfig({ environment, flags: {} })
  assert.equal(load({}).openlineage, undefined)
  const named = load({
    SLUICE_OPENLINEAGE__URL: 'https://lineage.test/api/v1/lineage',
    SLUICE_OPENLINEAGE__API_KEY: 'k3y',
    SLUICE_OPENLINEAGE__KEEP_HOURS: '24',
  })
  const { keep_hours: hours, keep_runs: runs, namespace, source_hosts: hosts } = named.openlineage ?? {}
  assert.deepEqual([hours, runs, namespace, hosts], [24, 10_000, 'sluice', false])
  assert.doesNotMatch(JSON.stringify(redactedConfig(named)), /k3y/)
  for (const url of ['https://u:p@lineage.test/x', 'https://lineage.test/x?key=1', 'file:///x', 'lineage.test']) {
    assert.throws(() => load({ SLUICE_OPENLINEAGE__URL: url }), { code: 'invalid_config' })
  }
})

test('dashboards take the settings of their driver beside keys of the runtime’s own, and of other drivers what these check', () => {
  const own = { URL: 'http://boards.example.com', USERNAME: 'sluice', PASSWORD: 'hidden' }
  const under = (values: Readonly<Record<string, string>>) =>
    Object.fromEntries(Object.entries(values).map(([name, value]) => [`SLUICE_DASHBOARDS__${name}`, value]))
  const { dashboards } = load(under({ ...own, TIMEOUT_MS: '5000', DATABASE_PORT: '5433' }))
  assert.deepEqual([dashboards?.['timeout_ms'], dashboards?.database_port], [5000, 5433])
  assert.match(problemOf({ environment: under({ URL: own.URL }), flags: {} }), /dashboards lacks username, password$/)
  assert.match(
    problemOf({ environment: under({ ...own, TIMEOUT: '1' }), flags: {} }),
    /dashboards\.timeout is not known; did you mean dashboards\.timeout_ms\?$/,
  )
  const other = { ...under({ DRIVER: 'pages', PASSPHRASE: 'hidden', DATABASE_PORT: '5433' }) }
  assert.match(problemOf({ environment: other, flags: {} }), /dashboards\.driver/)
  const config = load({ ...other, SLUICE_PLUGINS: '@sluice/lookup/postgresql,./pages' })
  assert.deepEqual(config.dashboards, { driver: 'pages', passphrase: 'hidden', database_port: 5433 })
  assert.ok(!JSON.stringify(redactedConfig(config)).includes('hidden'))
  assert.match(
    problemOf({
      environment: { ...other, SLUICE_PLUGINS: './pages', SLUICE_DASHBOARDS__DATABASE_PORT: 'no' },
      flags: {},
    }),
    /dashboards\.database_port/,
  )
})

test('settings of a bus of others are let through as they are where its plugin may be listed, and shown to nobody', () => {
  const load = (environment: Readonly<Record<string, string>>) => loadConfig({ environment, flags: {} })
  const events = { SLUICE_EVENTS__OTHERS__URL: 'redis://:s3cret@bus.test', SLUICE_EVENTS__OTHERS__COUNT: '3' }
  assert.throws(() => load(events), { code: 'invalid_config' })
  for (const plugins of ['@sluice/connectors/files', 'others-bus']) {
    assert.deepEqual(load({ SLUICE_PLUGINS: plugins }).events, {}, plugins)
  }
  const named = load({ ...events, SLUICE_PLUGINS: '@sluice/connectors/files,others-bus' })
  assert.deepEqual(named.events, { others: { url: 'redis://:s3cret@bus.test', count: '3' } })
  assert.doesNotMatch(JSON.stringify(redactedConfig(named)), /s3cret/)
  const own = { SLUICE_EVENTS__KAFKA__BROKERS: 'a:1,b:2', SLUICE_EVENTS__KAFKA__PASSWORD: 's3cret' }
  const { kafka } = load({ ...own, SLUICE_PLUGINS: 'others-bus' }).events
  assert.deepEqual([kafka?.['brokers'], kafka?.['partitions'], kafka?.['tls']], [['a:1', 'b:2'], 1, true])
  assert.match(JSON.stringify(redactedConfig(load(own))), /a:1/)
  assert.doesNotMatch(JSON.stringify(redactedConfig(load(own))), /s3cret/)
  // Of two nobody could say which one is meant.
  const both = { ...events, ...own, SLUICE_PLUGINS: 'others-bus' }
  assert.throws(() => load(both), { code: 'invalid_config' })
})

test('what a schema of a service calls secret is shown nowhere, and of services of others nothing', () => {
  const settingsOf = (schema: JsonSchema, hidden: string) =>
    Object.fromEntries(
      Object.entries(schema.properties ?? {}).map(([key, property]) => [
        key,
        property['x-secret'] ? { any: hidden } : `${key} is shown`,
      ]),
    )
  const config = load({})
  const seen: string[] = []
  for (const [kind, plugins] of Object.entries(OWN_SERVICES)) {
    for (const [name, schema] of Object.entries(plugins)) {
      for (const chosen of [name, 'others']) {
        const settings = settingsOf(schema, 's3cret')
        const places = { a: { type: chosen, bucket: 'shelf', tenants: ['acme'], ...settings } }
        const shown = {
          compute: { compute: { [chosen]: settings } },
          dashboard: { dashboards: { driver: chosen, ...settings } },
          'event-bus': { events: { [chosen]: settings } },
          'object-store': {
            object_store: { type: chosen, cache_mb: 64, ...settings },
            exports: { ...config.exports, destinations: places },
          },
        }[kind]
        const text = JSON.stringify(redactedConfig({ ...config, ...(shown as object) }))
        assert.doesNotMatch(text, /s3cret/, `${kind} ${chosen}`)
        assert.equal(/is shown/.test(text), chosen === name, `${kind} ${chosen}`)
        if (Object.values(schema.properties ?? {}).some((property) => property['x-secret'])) seen.push(kind)
      }
    }
  }
  // Each of them has a secret: a schema that forgets to say so would be found by nobody.
  assert.deepEqual([...new Set(seen)].sort(), [...SERVICE_KINDS])
})

test('whoever looks for the number of processes that serve finds it by the names that other servers give it', () => {
  assert.equal(load({}).http.processes, 1)
  assert.equal(load({ SLUICE_HTTP__PROCESSES: '4' }).http.processes, 4)
  for (const name of ['workers', 'processes', 'http.workers', 'cluster', 'http.instances']) {
    const said = problemOf({ environment: {}, flags: { [name]: '2' } })
    assert.match(said, /did you mean http\.processes\?/, name)
  }
  for (const wrong of ['0', '33', 'many', '-1']) {
    assert.match(problemOf({ environment: {}, flags: { 'http.processes': wrong } }), /http\.processes must/, wrong)
  }
})

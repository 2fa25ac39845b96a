/**
 * What is deployed fits together: the compose file its specification, its variables .env.example, its settings the
 * runtime's, and what is watched what the runtime counts.
 */
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { Registry } from 'prom-client'
import { Compile } from 'typebox/compile'
import { parse } from 'yaml'
import { engineUser } from '../runtime/src/auth/engine-user.ts'
import { loadConfig } from '../runtime/src/config.ts'
import { OPEN_FUNCTIONS } from '../runtime/src/database/open-functions.ts'
import { openPool } from '../runtime/src/database/pools.ts'
import { httpMetrics } from '../runtime/src/http/metrics.ts'
import { captureMetrics, followMetrics, logSpoolMetrics } from '../runtime/src/metrics/captures.ts'
import { spoolMetrics } from '../runtime/src/metrics/change-spools.ts'
import { changeMetrics } from '../runtime/src/metrics/changes.ts'
import { comparisonMetrics } from '../runtime/src/metrics/comparisons.ts'
import { diskMetrics } from '../runtime/src/metrics/disk.ts'
import { cpuMetrics, slotMetrics } from '../runtime/src/metrics/engine.ts'
import { jobMetrics } from '../runtime/src/metrics/jobs.ts'
import { logMetrics } from '../runtime/src/metrics/log.ts'
import { openLineageMetrics } from '../runtime/src/metrics/openlineage.ts'
import { platformMetrics } from '../runtime/src/metrics/platform.ts'
import { processMetrics } from '../runtime/src/metrics/processes.ts'
import { pushMetrics } from '../runtime/src/metrics/pushes.ts'
import { serviceMetrics } from '../runtime/src/metrics/services.ts'
import { wireMetrics } from '../runtime/src/metrics/wire.ts'
import { PluginMetrics } from '../runtime/src/plugins/plugin-metrics.ts'
import { SCHEDULE_JOB } from '../runtime/src/registry/schedule-job.ts'

interface Service {
  readonly image: string
  readonly profiles: readonly string[]
  readonly environment?: Readonly<Record<string, string>>
  readonly volumes?: readonly string[]
  readonly depends_on?: Readonly<Record<string, unknown>>
  readonly healthcheck?: unknown
  readonly restart?: string
}

const root = join(import.meta.dirname, '..')
const read = (path: string): string => readFileSync(join(root, path), 'utf8')
const text = read('docker-compose.yml')
const compose = parse(text, { merge: true }) as {
  readonly services: Readonly<Record<string, Service>>
  readonly volumes: Readonly<Record<string, unknown>>
}
const services = Object.entries(compose.services)
const example = new Map(
  read('.env.example')
    .split('\n')
    .filter((line) => /^[A-Z]/.test(line))
    .map((line) => line.split(/=(.*)/s, 2) as [string, string]),
)

/** `${NAME}`, `${NAME:?}` or `${NAME:-default}`; `$$` is a dollar sign. */
const variables = [...text.matchAll(/(?<!\$)\$\{([A-Z0-9_]+)(:\?|:-[^}]*)?\}/g)].map(([, name = '', rule = '']) => ({
  name,
  rule,
}))

test('the compose file keeps the compose specification', () => {
  const specification = Compile(JSON.parse(read('deploy/compose-spec.schema.json')))
  assert.deepEqual(specification.Errors(compose).slice(0, 3), [])
  const broken = { ...compose, services: { ...compose.services, wrong: { imag: 'x' } } }
  assert.equal(specification.Check(broken), false)
})

test('every service has a profile, a pinned image, a health check, and depends on what is there', () => {
  for (const [name, service] of services) {
    assert.equal(service.profiles.length, 1, name)
    assert.ok(['core', 'analytics', 'bi', 'monitoring'].includes(service.profiles[0] ?? ''), name)
    assert.match(service.image, /:[A-Za-z]*\.?v?\d[\w.-]*$/, `${name} names a version`)
    assert.ok(service.healthcheck !== undefined || service.restart === 'no', `${name} is watched`)
    for (const other of Object.keys(service.depends_on ?? {})) assert.ok(other in compose.services, `${name}: ${other}`)
    for (const volume of service.volumes ?? []) {
      const [from = ''] = volume.split(':')
      if (from.startsWith('.')) assert.ok(read.length > 0 && isThere(from), `${name} mounts ${from}`)
      else assert.ok(from in compose.volumes, `${name} mounts ${from}`)
    }
  }
})

function isThere(path: string): boolean {
  try {
    readFileSync(join(root, path))
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EISDIR'
  }
}

test('every variable stands in .env.example, and no secret has a value that works', () => {
  const named = new Set(variables.map(({ name }) => name))
  assert.deepEqual([...named].sort(), [...example.keys()].sort())
  const secret = /PASSWORD|SECRET|TOKEN|ACCESS_KEY|_ADMIN$|_USER$/
  for (const { name, rule } of variables) {
    if (!secret.test(name)) continue
    assert.equal(rule, ':?', `${name} has no default`)
    assert.equal(example.get(name), '', `${name} is empty in .env.example`)
  }
  assert.doesNotMatch(text, /(PASSWORD|SECRET|SECRET_KEY|TOKEN): (?!\$\{)\S/)
})

test('the runtime takes the settings that it is given', () => {
  const { environment = {} } = compose.services['sluice'] as Service
  const filled = Object.fromEntries(
    Object.entries(environment).map(([name, value]) => [
      name,
      value.replace(/\$\{([A-Z0-9_]+)[^}]*\}/g, (_, variable: string) => example.get(variable) || 'filled-in'),
    ]),
  )
  const config = loadConfig({ file: join(root, 'deploy/sluice/sluice.yaml'), environment: filled, flags: {} })
  assert.equal(config.serving['realtime']?.driver, 'redis')
  assert.equal(config.object_store.type, 's3')
  assert.equal(config.auth.issuers[0]?.issuer, 'http://localhost:8081/realms/sluice')
  assert.deepEqual(config.events['kafka']?.['brokers'], ['kafka:9092'])
  assert.match(config.database.registry_url ?? '', /^postgresql:\/\/sluice_registry:filled-in@postgres:5432\//)
})

test('the dashboard server is the one that tests run against, and the runtime has its login', () => {
  const [runtime, server, setup] = ['sluice', 'superset', 'superset-setup'].map(
    (name) => compose.services[name]?.environment,
  )
  assert.equal(runtime?.['SLUICE_DASHBOARDS__PASSWORD'], setup?.['SUPERSET_PASSWORD'])
  const login = new URL((runtime?.['SLUICE_DASHBOARDS__DATABASE_ADMIN_URL'] ?? '').replace(/\$\{[^}]*\}/g, 'secret'))
  assert.equal(login.pathname, '/sluice_serving')
  assert.match(read('deploy/postgres/10-logins.sh'), new RegExp(`alter role ${login.username} createrole`))
  const version = /^FROM apache\/superset:(\S+)$/m.exec(read('deploy/superset/Dockerfile'))?.[1] ?? 'none'
  const tested = read('stack/servers/superset-requirements.txt')
  assert.match(tested, new RegExp(`^apache_superset==${version.replaceAll('.', '\\.')}$`, 'm'))
  const asked = [...read('deploy/superset/superset_config.py').matchAll(/os\.environ(?:\.get\(|\[)"(\w+)"/g)].map(
    ([, name]) => name,
  )
  assert.deepEqual(new Set(asked), new Set(Object.keys(server ?? {})))
})

test('a deployed server takes the same functions from everybody as the runtime does from an embedded one', () => {
  const walls = read('deploy/postgres/20-walls.sh')
  const names = [...walls.matchAll(/'(lo\w+|pg_\w+|txid_\w+)'/g)].map(([, name]) => name)
  const plain = OPEN_FUNCTIONS.filter((name) => !name.endsWith('_'))
  assert.deepEqual(names.filter((name) => name !== 'pg_catalog' && name !== 'pg_proc').sort(), [...plain].sort())
  assert.deepEqual(
    OPEN_FUNCTIONS.filter((name) => name.endsWith('_')),
    ['pg_advisory_', 'pg_try_advisory_'],
  )
  assert.match(walls, /\^pg_\(try_\)\?advisory_/)
  const mounted = compose.services['postgres']?.volumes ?? []
  for (const name of readdirSync(join(root, 'deploy/postgres'))) {
    assert.ok(mounted.includes(`./deploy/postgres/${name}:/docker-entrypoint-initdb.d/${name}:ro`), name)
  }
})

test('a statement in Trino ends by itself, later than its runtime would end it, and belongs to a group that is there', () => {
  const settings = (path: string) =>
    new Map([...read(path).matchAll(/^([\w.-]+)=(.*)$/gm)].map(([, key, value]) => [key, value]))
  const hours = /^(\d+)h$/.exec(settings('deploy/trino/config.properties').get('query.max-run-time') ?? '')?.[1]
  const { transform_timeout_ms: ofTransforms } = loadConfig({ environment: {}, flags: {} }).limits
  assert.ok(Number(hours) * 3_600_000 > ofTransforms)
  const mounted = compose.services['trino']?.volumes ?? []
  for (const name of readdirSync(join(root, 'deploy/trino'))) {
    assert.ok(mounted.includes(`./deploy/trino/${name}:/etc/trino/${name}:ro`), name)
  }
  const file = settings('deploy/trino/resource-groups.properties').get('resource-groups.config-file') ?? ''
  assert.ok(mounted.some((volume) => volume.split(':')[1] === file))
  const { rootGroups, selectors } = JSON.parse(read('deploy/trino/resource-groups.json')) as ResourceGroups
  const named = rootGroups.flatMap(({ name, subGroups = [] }) => [
    name,
    ...subGroups.map((sub) => `${name}.${sub.name}`),
  ])
  for (const { group } of selectors) assert.ok(named.includes(group), group)
  // By names that the issuer writes, whatever a person is called.
  const groupOf = (user: string) => {
    const chosen = selectors.find(({ user: pattern = '.*' }) => new RegExp(`^${pattern}$`).test(user))
    const tenant = new RegExp(chosen?.user ?? '').exec(user)?.groups?.['tenant'] ?? ''
    return chosen?.group.replace(/\$\{tenant\}/, tenant)
  }
  const viewer = { tenant: 'acme', groups: ['svc-viewers'] }
  assert.equal(groupOf(engineUser({ subject: 'vito', ...viewer })), 'people.acme')
  assert.equal(groupOf(engineUser({ subject: `","tenant":"other","x":"`, ...viewer })), 'people.acme')
  assert.equal(groupOf(engineUser({ subject: 'root', admin: true })), 'runtimes')
})

interface ResourceGroups {
  readonly rootGroups: readonly { readonly name: string; readonly subGroups?: readonly { readonly name: string }[] }[]
  readonly selectors: readonly { readonly user?: string; readonly group: string }[]
}

test('rules and dashboards speak of metrics that there are', async () => {
  const registry = new Registry()
  // Each is there from the start, also before the registry has answered.
  const nowhere = { host: '127.0.0.1', port: 1, database: 'x', user: 'x', password: 'x', tls: 'disable' } as const
  const pool = openPool(nowhere, { applicationName: 'test' })
  platformMetrics(registry, pool)
  jobMetrics(registry, pool, [{ kind: SCHEDULE_JOB }])
  diskMetrics(registry, '/')
  logMetrics(registry, {})
  changeMetrics(registry, pool)
  captureMetrics(registry, pool)
  logSpoolMetrics(registry, pool)
  followMetrics(registry, pool)
  pushMetrics(registry, pool)
  processMetrics(registry, { serving: 1, restarts: 0 })
  spoolMetrics(registry, { load: () => ({ followers: 0, bytes: 0, computed: 0 }) })
  comparisonMetrics(registry)
  wireMetrics(registry)
  openLineageMetrics(registry, pool)
  cpuMetrics(registry)
  serviceMetrics(registry, { states: () => [] })
  const idle = () => ({ slots: 1, busy: 0, waiting: 0 })
  slotMetrics(registry, { engine: idle, source: idle })
  httpMetrics(registry)({ method: 'GET', route: '/', status: 200, durationMs: 1 } as never)
  const plugins = new PluginMetrics(registry).of('any')
  for (const name of ['realtime_rows_without_key', 'source_rows_read']) {
    assert.match(sourceOf(name), new RegExp(`metrics.count\\('${name}'`), `a plugin counts ${name}`)
    plugins.count(name)
  }
  const here = read('deploy/compose.test.ts')
  for (const file of readdirSync(join(import.meta.dirname, '../runtime/src/metrics'))) {
    for (const [, name] of read(`runtime/src/metrics/${file}`).matchAll(/^export function (\w+Metrics)\b/gm))
      assert.ok(here.includes(`  ${name}(`), `${name} is held against the rules, too`)
  }
  const known = new Set([...(await registry.metrics()).matchAll(/^([a-z0-9_]+)[{ ]/gm)].map(([, name]) => name))
  const rules = read('deploy/prometheus/rules.yml')
  const recorded = new Set([...rules.matchAll(/record: (\S+)/g)].map(([, name]) => name))
  const boards = read('deploy/grafana/dashboards/sluice.json')
  const ours = /(?:\w+:)?(?:sluice|nodejs|process)_[a-z0-9_]+(?::\w+)?(?=[^a-z0-9_]*[{[ )<>,"\\/])/g
  const asked = [rules, boards].flatMap((text) => expressionsOf(text).flatMap((one) => one.match(ours) ?? []))
  assert.ok(asked.length > 40)
  for (const name of asked) assert.ok(known.has(name) || recorded.has(name), name)
  // The histogram is asked for by its buckets.
  const seen = (name = '') => !name.startsWith('sluice_') || asked.includes(name) || /_seconds_(sum|count)$/.test(name)
  assert.deepEqual(
    [...known].filter((name) => !seen(name)),
    [],
    'what is counted is ruled or shown',
  )
})

test('every rule has a name of its own, as promtool asks: who routes or silences by it means one', () => {
  const names = [...read('deploy/prometheus/rules.yml').matchAll(/^ +- (?:alert|record): (\S+)/gm)].map(
    ([, name]) => name,
  )
  assert.ok(names.length > 20, `${names.length} rules`)
  assert.deepEqual(names, [...new Set(names)])
})

/** Of rules and of panels. */
function expressionsOf(text: string): readonly string[] {
  if (!text.startsWith('{'))
    return [...text.matchAll(/expr: (?:\|\n)?([^]*?)\n\s+(?:for|labels|- )/g)].map(([, one]) => one as string)
  const { panels } = JSON.parse(text) as {
    panels: readonly { readonly targets: readonly { readonly expr: string }[] }[]
  }
  return panels.flatMap(({ targets }) => targets.map(({ expr }) => expr))
}

function sourceOf(metric: string): string {
  return read(
    metric.startsWith('source') ? 'plugins/connectors/postgresql/read.ts' : 'plugins/realtime/redis/writing.ts',
  )
}

test('the dashboard and the realm are JSON, and the image runs the Node of the repository', () => {
  const realm = JSON.parse(read('deploy/keycloak/sluice-realm.json')) as { readonly realm: string }
  assert.equal(realm.realm, 'sluice')
  const dockerfile = read('Dockerfile')
  assert.match(dockerfile, new RegExp(`^ARG NODE_VERSION=${read('.node-version').trim()}$`, 'm'))
  assert.match(dockerfile, /^USER 10001/m)
  assert.match(dockerfile, /^HEALTHCHECK /m)
})

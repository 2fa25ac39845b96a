/**
 * An event bus that is none of the runtime's, installed from its tarball in a folder of its own: chosen by its name, it
 * carries the events of tenants, and what it cannot do is said at the start.
 */
import assert from 'node:assert/strict'
import { mkdir, mkdtemp, readdir, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, it } from 'node:test'
import { Redis } from 'ioredis'
import { type Client, type Json, ok } from '../../acceptance/client.ts'
import { printedBy } from '../../packaging/tarballs.ts'
import { RuntimeProcess } from '../../test/crash/runtime-process.ts'
import { adminOf, makeTenant, servedAt } from '../../test/first-steps.ts'
import { until } from '../../test/until.ts'
import { redisCommand, startRedisLike } from '../servers/redis.ts'

const ROOT = join(import.meta.dirname, '../..')
const url = process.env['SLUICE_TEST_REDIS_URL'] ?? 'redis://unset'
const redis = new Redis(url)

let folder: string
let plugin: string
let runtime: RuntimeProcess | null = null

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-streams-'))
  plugin = await installed()
})

after(async () => {
  await runtime?.stop()
  redis.disconnect()
  await rm(folder, { recursive: true, force: true })
})

/** Packed as its author would, and unpacked with its own client; of this repository it has the contract alone. */
async function installed(): Promise<string> {
  const packed = ['pack', '--silent', '--pack-destination', folder]
  await printedBy(join(ROOT, 'examples/plugins/redis-streams'), 'npm', packed)
  const tarball = (await readdir(folder)).find((name) => name.endsWith('.tgz')) as string
  await printedBy(folder, 'tar', ['-xzf', tarball])
  const target = join(folder, 'package')
  assert.deepEqual(
    (await readdir(target)).filter((name) => name.includes('.test.')),
    [],
  )
  await printedBy(target, 'npm', ['install', '--prefer-offline', '--no-audit', '--no-fund', '--legacy-peer-deps'])
  await mkdir(join(target, 'node_modules/@sluice'))
  await symlink(join(ROOT, 'sdk'), join(target, 'node_modules/@sluice/sdk'))
  return target
}

async function spawned(events: Json, data = 'data'): Promise<RuntimeProcess> {
  const config = join(folder, 'sluice.yaml')
  const plugins = ['@sluice/analytics/duckdb', plugin]
  await writeFile(config, JSON.stringify({ plugins, serving: { analytics: { driver: 'duckdb' } }, events }))
  return RuntimeProcess.spawn(join(folder, data), null, 0, config)
}

async function carried(slug: string, kind: string): Promise<readonly Json[]> {
  const entries = await redis.xrange(`sluice.${slug}.${kind}`, '-', '+')
  return entries.map(([, fields]) => JSON.parse(fields[fields.indexOf('value') + 1] as string))
}

async function metricsOf(admin: Client): Promise<string> {
  const { body } = await admin.get('/metrics')
  return String(body)
}

it('carries the events of tenants to their streams, and forgets a tenant that goes', async () => {
  runtime = await spawned({ 'redis-streams': { url, reader_login: '{tenant}', keep_messages: '5000' } })
  const place = { url: await servedAt(runtime), data: join(folder, 'data') }
  assert.match(runtime.output, /event-bus \(redis-streams\) of .*: proved by nobody but you/)
  const admin = await adminOf(place)
  await makeTenant(admin, 'acme')
  await until('the event is there', async () => (await carried('acme', 'tenant')).length > 0)
  const [event] = await carried('acme', 'tenant')
  assert.deepEqual(
    [event.type, event.subject, event.tenantid, event.sequence],
    ['sluice.tenant.provisioned', 'acme', 'acme', '1'],
  )
  assert.match(String(await redis.acl('GETUSER', 'acme')), /%R~sluice\.acme\.\*/)
  await until('nothing waits', async () =>
    /^sluice_relay_events_waiting\{relay="redis-streams"\} 0$/m.test(await metricsOf(admin)),
  )
  const gone = await admin.send('/api/v1/tenants/acme?confirm=acme', { method: 'DELETE' })
  assert.equal(gone.status, 204, JSON.stringify(gone.body))
  assert.deepEqual(await redis.keys('sluice*.acme.*'), [])
  const refused = await admin.post('/api/v1/tenants', { slug: 'default', display_name: 'D', tier: 'free' })
  assert.deepEqual([refused.status, refused.body.code], [400, 'invalid_slug'])
})

it('begins again where it stopped, and waits for a server that is away', async () => {
  await runtime?.stop()
  runtime = await spawned({ 'redis-streams': { url: 'redis://127.0.0.1:1' } })
  const admin = await adminOf({ url: await servedAt(runtime), data: join(folder, 'data') })
  const refused = await admin.post('/api/v1/tenants', { slug: 'beta', display_name: 'Beta', tier: 'free' })
  assert.deepEqual([refused.status, refused.body.code], [503, 'bus_unavailable'])
  await runtime.stop()
  runtime = await spawned({ 'redis-streams': { url } })
  const again = await adminOf({ url: await servedAt(runtime), data: join(folder, 'data') })
  await ok(again.post('/api/v1/tenants', { slug: 'beta', display_name: 'Beta', tier: 'free' }))
  await until('the event is there', async () => (await carried('beta', 'tenant')).length === 1)
})

it('is told of while it is away, with what to do, and the runtime stays ready', async () => {
  await runtime?.stop()
  const [command, place] = [await redisCommand(), join(folder, 'redis')]
  let server = await startRedisLike('redis', command, place)
  const own = server.env['SLUICE_TEST_REDIS_URL'] as string
  try {
    runtime = await spawned({ 'redis-streams': { url: own } })
    const address = await servedAt(runtime)
    const admin = await adminOf({ url: address, data: join(folder, 'data') })
    const told = async () => {
      const ready = await fetch(`${address}/readyz`)
      const { checks } = (await ready.json()) as Json
      const check = checks.find(({ name }: Json) => name === 'service:event-bus:redis-streams')
      const { data } = await ok(admin.get('/api/v1/plugins'))
      const { health } = data.find(({ kind }: Json) => kind === 'event-bus')
      const [, down] = /^sluice_services_down\{kind="event-bus"\} (\d)$/m.exec(await metricsOf(admin)) ?? []
      return { status: ready.status, check, health, down }
    }
    const becomes = (state: string) => until(`it is ${state}`, async () => (await told()).check.state === state)
    await becomes('ok')
    await server.stop()
    await becomes('down')
    const { status, check, health, down } = await told()
    assert.deepEqual([status, check.ok, health.status, down], [200, true, 'down', '1'])
    assert.deepEqual([check.since, check.remedy], [health.since, health.remedy])
    assert.match(health.remedy, /Check that Redis runs/)
    assert.ok(!JSON.stringify([check, health]).includes(new URL(own).port), 'no address')
    server = await startRedisLike('redis', command, place, [], Number(new URL(own).port))
    await becomes('ok')
    assert.equal((await told()).down, '0')
  } finally {
    await runtime?.stop()
    await server.stop()
  }
})

for (const [what, events, said] of [
  ['change topics', { url, change_topics: true }, /carries events alone, and change topics are asked for/],
  ['a key that it does not know', { url, partitions: 3 }, /events\.redis-streams\.partitions is not known/],
  ['no address', {}, /events\.redis-streams lacks url/],
] as const) {
  it(`does not start with ${what}, and says where`, async () => {
    const refused = await spawned({ 'redis-streams': events }, 'never')
    assert.equal(await refused.address(), null)
    assert.match(refused.output, said)
    assert.match(refused.output, /Leave change_topics out|Correct events\.redis-streams/)
  })
}

it('a name that no plugin has is told with those that there are', async () => {
  const refused = await spawned({ 'redis-stream': { url } }, 'never')
  assert.equal(await refused.address(), null)
  assert.match(refused.output, /no plugin of kind event-bus is called "redis-stream"[^]*redis-streams/)
})

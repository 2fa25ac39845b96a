/** The bus on a server: what is kept, in which order, who may read it, and what stays of a tenant that is gone. */
import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import type { BusMessage, BusTenant, EventBus } from '@sluice/sdk'
import { Redis } from 'ioredis'
import { openBus } from './bus.ts'
import type { RedisStreamsSettings } from './settings.ts'

const url = process.env['SLUICE_TEST_REDIS_URL'] ?? 'redis://unset'
const settings = { url, reader_login: '{tenant}', keep_messages: 1000, replicas: 0 }
const opened: EventBus[] = []
const bus = open(settings)
const admin = new Redis(url)
after(async () => {
  for (const one of opened) await one.close()
  admin.disconnect()
})

function open(parts: RedisStreamsSettings): EventBus {
  const made = openBus(parts)
  opened.push(made)
  return made
}

const tenantOf = (slug: string): BusTenant => ({
  slug,
  events: `sluice.${slug}.`,
  changes: `sluice-changes.${slug}.`,
})
const topicOf = (slug: string) => `sluice.${slug}.ingestion`

async function newTenant(slug: string): Promise<BusTenant> {
  await bus.provision(tenantOf(slug), [topicOf(slug)])
  return tenantOf(slug)
}

const message = (slug: string, value: string): BusMessage => ({
  topic: topicOf(slug),
  key: 'run_1',
  value,
  headers: { 'content-type': 'application/json' },
})

async function asLogin<T>(slug: string, run: (redis: Redis) => Promise<T>): Promise<T> {
  await admin.acl('SETUSER', slug, 'on', `>of-${slug}`)
  const { host } = new URL(url)
  // It may not ask the server whether it is ready.
  const redis = new Redis(`redis://${slug}:of-${slug}@${host}`, { enableReadyCheck: false })
  try {
    return await run(redis)
  } finally {
    redis.disconnect()
  }
}

const UNAVAILABLE = { kind: 'TRANSIENT', code: 'bus_unavailable' }

describe('streams of events', { timeout: 120_000 }, () => {
  it('hold every message whole, in the order given', async () => {
    await newTenant('orders')
    const values = Array.from({ length: 300 }, (_, index) => `{"n":${index}}`)
    for (let from = 0; from < 300; from += 100) {
      await bus.publish(values.slice(from, from + 100).map((value) => message('orders', value)))
    }
    const entries = await admin.xrange(topicOf('orders'), '-', '+')
    assert.deepEqual(
      entries.map(([, fields]) => fields),
      values.map((value) => ['key', 'run_1', 'value', value, 'content-type', 'application/json']),
    )
    await bus.drop(tenantOf('orders'))
  })

  it('are made once, read by their tenant alone, and go with it', async () => {
    for (const slug of ['acme', 'acme', 'other']) await newTenant(slug)
    assert.equal(await admin.exists(topicOf('acme')), 1)
    await bus.publish([message('acme', '1'), message('other', '2')])
    const read = (as: string, of: string) => asLogin(as, (redis) => redis.xrange(topicOf(of), '-', '+'))
    assert.equal((await read('acme', 'acme')).length, 1)
    await assert.rejects(read('other', 'acme'), /NOPERM/)
    await assert.rejects(
      asLogin('acme', (redis) => redis.xadd(topicOf('acme'), '*', 'key', 'forged')),
      /NOPERM/,
    )
    await assert.rejects(
      asLogin('acme', (redis) => redis.xtrim(topicOf('acme'), 'MAXLEN', 0)),
      /NOPERM/,
    )
    for (const _ of [1, 2]) await bus.drop(tenantOf('acme'))
    assert.deepEqual(await admin.keys('sluice*.acme.*'), [])
    await assert.rejects(read('acme', 'acme'), /NOPERM/)
    assert.equal((await read('other', 'other')).length, 1)
    await bus.drop(tenantOf('other'))
  })

  it('of a tenant that is gone are not made again by what comes late', async () => {
    await newTenant('late')
    await bus.drop(tenantOf('late'))
    await assert.rejects(bus.publish([message('late', '1')]), UNAVAILABLE)
    assert.equal(await admin.exists(topicOf('late')), 0)
  })

  it('keep about as many messages as is asked', async () => {
    await newTenant('many')
    for (let batch = 0; batch < 30; batch++) {
      await bus.publish(Array.from({ length: 100 }, () => message('many', '1')))
    }
    const kept = await admin.xlen(topicOf('many'))
    assert.ok(kept >= 1000 && kept < 1500, String(kept))
    await bus.drop(tenantOf('many'))
  })

  it('need no more of the server than the README asks for', async () => {
    const text = await readFile(join(import.meta.dirname, 'README.md'), 'utf8')
    const [, rights = ''] = /login needs `([^`]+)`/.exec(text) ?? []
    await admin.acl('SETUSER', 'runtime', 'reset', 'on', '>of-runtime', ...rights.split(' '))
    const { host } = new URL(url)
    const modest = open({ ...settings, url: `redis://runtime:of-runtime@${host}`, replicas: 0 })
    await modest.provision(tenantOf('modest'), [topicOf('modest')])
    await modest.publish([message('modest', '1')])
    await modest.drop(tenantOf('modest'))
    assert.equal(await admin.exists(topicOf('modest')), 0)
  })

  it('no tenant becomes the login of the server or of the runtime', () => {
    assert.equal(bus.admits('acme'), true)
    assert.equal(bus.admits('default'), false)
    const named = open({ ...settings, url: 'redis://runtime:x@127.0.0.1:1' })
    assert.equal(named.admits('runtime'), false)
    // Where nobody is given rights, no name is anybody's.
    const { reader_login: _, ...closed } = settings
    assert.equal(open({ ...closed, url: 'redis://127.0.0.1:1' }).admits('default'), true)
  })
})

describe('a server that does not do it', { timeout: 120_000 }, () => {
  it('is told of as one that may be asked again, and its bus closes', async () => {
    const away = open({ ...settings, url: 'redis://127.0.0.1:1' })
    for (const _ of [1, 2]) await assert.rejects(away.provision(tenantOf('acme'), []), UNAVAILABLE)
    await away.close()
  })

  it('has not kept what its replicas lack', async () => {
    await newTenant('alone')
    const careful = open({ ...settings, replicas: 1 })
    await assert.rejects(careful.publish([message('alone', '1')]), UNAVAILABLE)
    await bus.drop(tenantOf('alone'))
  })
})

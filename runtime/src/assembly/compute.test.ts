/** Which engines outside a configuration chooses. None of them is asked anything here. */
import assert from 'node:assert/strict'
import { it } from 'node:test'
import type { Config } from '../config.ts'
import { openComputes, watchedEngines } from './compute.ts'
import { Lifecycle } from './lifecycle.ts'

const logger = { debug() {}, info() {}, warn() {}, error() {}, child: () => logger }
const hosts = { opened: [] as string[], ended: 0 }
const services = {
  ...{ specifiers: [], baseDirectory: import.meta.dirname, onLoaded() {} },
  async hostFor(name: string) {
    hosts.opened.push(name)
    const clock = { nowMs: Date.now, every: () => () => {} }
    return { clock, [Symbol.asyncDispose]: async () => void (hosts.ended += 1) } as never
  },
  health: { watch() {}, forget() {}, states: () => [] } as never,
}
const settings = (url: string) => ({ url, user: 'sluice', catalog: { a: 'b' } })

function opened(compute: object, analytics: object, lifecycle = new Lifecycle(logger as never)) {
  const config = { compute, serving: { analytics } } as unknown as Config
  return openComputes(config, services, lifecycle)
}

const named = ({ transforms, queries }: Awaited<ReturnType<typeof opened>>) => [
  transforms?.name ?? null,
  queries?.name ?? null,
]

it('is none where a store of analytics is no engine', async () => {
  for (const analytics of [{ driver: 'duckdb' }, { driver: 'duckdb', settings: { path: '/x' } }]) {
    const computes = await opened({}, analytics)
    assert.deepEqual([named(computes), watchedEngines(computes)], [[null, null], []])
  }
})

it('runs transforms by the one that is named, and queries by the one that serves analytics', async () => {
  assert.deepEqual(named(await opened({ trino: settings('http://a') }, { driver: 'duckdb' })), ['trino', null])
  // The store has a setting that an engine has not.
  const serving = { driver: 'trino', settings: { ...settings('http://b'), path: '/x' } }
  assert.deepEqual(named(await opened({}, serving)), ['trino', 'trino'])
})

it('looks at each server once', async () => {
  const serving = { driver: 'trino', settings: settings('http://a') }
  const servers = async (url: string) =>
    watchedEngines(await opened({ trino: settings(url) }, serving)).map(({ statements }) => statements.server)
  assert.deepEqual(await servers('http://a'), ['http://a'])
  assert.deepEqual(await servers('http://b'), ['http://b', 'http://a'])
})

it('gives each engine a host of its own, which ends with it', async () => {
  const lifecycle = new Lifecycle(logger as never)
  const before = hosts.opened.length
  await opened({ trino: settings('http://a') }, { driver: 'trino', settings: settings('http://b') }, lifecycle)
  const ended = hosts.ended
  await lifecycle.stop()
  assert.deepEqual(hosts.opened.slice(before), ['compute-trino', 'serving-compute-trino'])
  assert.equal(hosts.ended - ended, 2)
})

it('refuses an engine that nobody brings, and settings that cannot be right', async () => {
  const none = { driver: 'duckdb' }
  await assert.rejects(opened({ other: {} }, none), { kind: 'CONFIG', code: 'unknown_driver' })
  await assert.rejects(opened({ trino: { url: 'here' } }, none), { kind: 'CONFIG', code: 'invalid_settings' })
})

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { NEEDED_WALLS, WALL_NAMES, type Wall } from '@sluice/engine'
import { type Config, loadConfig } from '../config.ts'
import { checkTenants, confined, confinementOf, confinementText } from './confinement.ts'

const up = (name: Wall['name']): Wall => ({ name, up: true })
const without = (down: Wall['name']) =>
  WALL_NAMES.map((name) => (name === down ? { name, up: false, why: 'the kernel has none' } : up(name)))
const config = (flags: Readonly<Record<string, string>>): Config => loadConfig({ environment: {}, flags })

for (const name of WALL_NAMES) {
  const isNeeded = NEEDED_WALLS.includes(name)
  test(`without the wall ${name} a runtime is ${isNeeded ? 'confined, unless that is taken away' : 'what it is'}`, () => {
    const required = confinementOf(config({}), without(name))
    assert.equal(required.isConfined, isNeeded)
    assert.deepEqual(required.neededWalls, isNeeded ? [] : NEEDED_WALLS)
    assert.equal(confinementText(required)?.includes('one tenant') ?? false, isNeeded)
    const free = confinementOf(config({ walls: 'not_required' }), without(name))
    assert.equal(free.isConfined, false)
    assert.deepEqual(free.neededWalls, [])
    assert.equal(confinementText(free)?.includes('trust') ?? false, isNeeded)
  })
}

for (const [host, confinedHost] of [
  ['0.0.0.0', '127.0.0.1'],
  ['192.168.1.4', '127.0.0.1'],
  ['runtime', '127.0.0.1'],
  ['127.0.0.3', '127.0.0.3'],
  ['localhost', 'localhost'],
  ['localhost.example.org', '127.0.0.1'],
  ['127.example.org', '127.0.0.1'],
  ['::', '::1'],
  ['fd00::1', '::1'],
  ['::1', '::1'],
] as const) {
  test(`a confined runtime that was to listen on ${host} listens on ${confinedHost}`, () => {
    const wanted = config({ host, 'trino.policy_host': host })
    const confinement = confinementOf(wanted, without('files'))
    const { host: own, trino } = confined(wanted, confinement)
    assert.deepEqual([own, trino.policy_host], [confinedHost, confinedHost])
    assert.equal(confined(wanted, confinementOf(wanted, [])), wanted)
  })
}

test('a confined runtime has one tenant', () => {
  const confinement = confinementOf(config({}), without('processes'))
  for (const tenants of [0, 1]) checkTenants(confinement, tenants)
  assert.throws(() => checkTenants(confinement, 2), { code: 'walls_missing' })
  checkTenants(confinementOf(config({}), []), 2)
})

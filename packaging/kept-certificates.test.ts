/**
 * What of the kept certificates holds at every commit. That they are of the very files as they are now is asked by a
 * release alone (`npm run certify -- --check`): a digest changes with every edit, and the suite runs at every commit anyway.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { capabilityNames, SDK_VERSION } from '@sluice/sdk'
import { LEVELS } from '../conformance-tests/check.ts'
import { CERTIFIED } from './certified.ts'
import { certificateOf, certifiedPlugin, keptCertificates } from './kept-certificates.ts'

const kept = await keptCertificates()

for (const one of CERTIFIED) {
  test(`${one.plugin} has a certificate of all that it declares`, async () => {
    const plugin = await certifiedPlugin(one)
    const body = certificateOf(kept, plugin)
    assert.ok(body, `npm run certify -- ${one.plugin}`)
    assert.deepEqual([body.plugin.version, body.sdk], [plugin.version, SDK_VERSION])
    assert.deepEqual([...body.proved].sort(), capabilityNames(plugin).sort(), 'its capabilities have changed since')
    assert.deepEqual([body.waived, body.checks['failed'], body.checks['waived']], [[], 0, 0])
    assert.ok(LEVELS.indexOf(body.level) >= LEVELS.indexOf(one.level), `it is of level ${body.level}`)
    assert.equal(body.killRate.caught, body.killRate.of)
  })
}

test('no certificate is kept of anything else', async () => {
  const plugins = await Promise.all(CERTIFIED.map(certifiedPlugin))
  const known = new Set(plugins.map(({ type, name }) => `${type} ${name}`))
  const others = [...kept].filter(([, { plugin }]) => !known.has(`${plugin.type} ${plugin.name}`))
  assert.deepEqual(
    others.map(([name]) => name),
    [],
  )
})

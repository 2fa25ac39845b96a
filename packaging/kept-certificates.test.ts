/**
 * What of the kept certificates holds at every commit. That they are of the very files as they are now is asked by a
 * release alone (`npm run certify -- --check`): a digest changes with every edit, and the suite runs at every commit anyway.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { capabilityNames, SDK_VERSION } from '@sluice/sdk'
import { LEVELS } from '../conformance-tests/check.ts'
import { certificateName } from '../conformance-tests/report-files.ts'
import { CERTIFIED, certifiedName } from './certified.ts'
import { certificateOf, certifiedPlugin, keptCertificates, keptName } from './kept-certificates.ts'

const kept = await keptCertificates()

for (const one of CERTIFIED) {
  test(`${certifiedName(one)} has a certificate of all that it declares`, async (t) => {
    const plugin = await certifiedPlugin(one)
    const body = certificateOf(kept, one, plugin)
    if (body === null && one.whereGiven !== undefined) return t.skip(`${one.whereGiven} named no server so far`)
    assert.ok(body, `npm run certify -- ${certifiedName(one)}`)
    assert.deepEqual([body.plugin.version, body.sdk], [plugin.version, SDK_VERSION])
    assert.deepEqual([...body.proved].sort(), capabilityNames(plugin).sort(), 'its capabilities have changed since')
    assert.deepEqual([body.waived, body.checks['failed'], body.checks['waived']], [[], 0, 0])
    assert.ok(LEVELS.indexOf(body.level) >= LEVELS.indexOf(one.level), `it is of level ${body.level}`)
    assert.equal(body.killRate.caught, body.killRate.of)
  })
}

test('no certificate is kept of anything else', async () => {
  const names = CERTIFIED.map(async (one) => keptName(certificateName(await certifiedPlugin(one)), one))
  const known = new Set(await Promise.all(names))
  assert.deepEqual(
    [...kept.keys()].filter((name) => !known.has(name)),
    [],
  )
})

/** The suite's own honesty: the reference passes, whoever breaks a promise is caught and told what, and whoever does nothing fails. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { CONNECTOR_SABOTEURS } from './connector-saboteurs/index.ts'
import { runConnectorSuite } from './connector-suite.ts'
import { HONESTY_CHECKS } from './honesty.ts'
import { measureKillRate } from './kill-rate.ts'
import { start as startSource } from './reference-connector/conformance.ts'
import { told } from './told.fixture.ts'

for (const { id, name, run } of HONESTY_CHECKS) {
  // The second is measured below, so that its number is told.
  if (id !== 'M2') test(`${id} ${name}`, run)
}

test('M2 every-mutant-killed-by-its-check', async (t) => {
  const { caught, of, missed, byCapability } = await measureKillRate()
  t.diagnostic(`kill rate: ${caught} of ${of} defective plugins`)
  assert.deepEqual(missed, [])
  assert.ok(of >= 60)
  const alone = ['every store', 'operation aggregate', 'operation range', 'digest', 'history type_2', 'every connector']
  assert.deepEqual(
    alone.filter((capability) => (byCapability[capability]?.caught ?? 0) < 2),
    [],
  )
})

test('every failure of a defective connector says what was expected, what came, and how to run it again', async () => {
  // Side by side: some of them only wait, for calls that never end.
  const texts = CONNECTOR_SABOTEURS.map(async ({ plugin, caughtBy, name }) => {
    for (const result of await runConnectorSuite({ plugin, start: startSource, only: caughtBy }))
      assert.doesNotMatch(told(result), /-?Infinity|undefined rows|while {2}/, name)
  })
  await Promise.all(texts)
})

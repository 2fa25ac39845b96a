import assert from 'node:assert/strict'
import { test } from 'node:test'
import { installedPackages, linesOf, thirdPartyDependencies } from './guards.ts'

test('packages below packages count, and links to workspaces do not', () => {
  const packages = {
    'node_modules/a': {},
    'node_modules/a/node_modules/b': {},
    'node_modules/@sluice/sdk': { link: true, resolved: 'sdk' },
    sdk: {},
  }
  assert.equal(installedPackages(JSON.stringify({ packages })), 2)
})

test("the runtime's own packages are nobody else's", () => {
  const manifest = { dependencies: { '@sluice/sdk': '1', pg: '8' }, optionalDependencies: { koffi: '3' } }
  assert.deepEqual(thirdPartyDependencies(JSON.stringify({ ...manifest, devDependencies: { c: '1' } })), [
    'pg',
    'koffi',
  ])
})

test('a line is counted once, with or without an end', () => {
  assert.deepEqual(['a', 'a\n', 'a\nb'].map(linesOf), [1, 1, 2])
})

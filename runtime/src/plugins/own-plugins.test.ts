import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import { test } from 'node:test'
import { pathToFileURL } from 'node:url'
import { ownPlugin } from './own-plugins.ts'

const require = createRequire(import.meta.url)
const { dependencies } = require('@sluice/runtime/package.json') as { dependencies: Record<string, string> }

interface Manifest {
  readonly sluice?: { readonly plugins: Readonly<Record<string, unknown>> }
}

test('what the runtime depends on declares these plugins and no others', async () => {
  const declared = Object.keys(dependencies).flatMap((name) => {
    if (!name.startsWith('@sluice/')) return []
    const { sluice } = require(`${name}/package.json`) as Manifest
    return Object.keys(sluice?.plugins ?? {}).map((subpath) => `${name}${subpath.slice(1)}`)
  })
  assert.ok(declared.length > 10)
  for (const specifier of declared) {
    const installed = await import(pathToFileURL(require.resolve(specifier)).href)
    assert.equal(await ownPlugin(specifier), installed, specifier)
  }
})

test('a name that is none of them is nothing, whatever it is called', async () => {
  for (const name of ['@sluice/lookup', 'toString', '__proto__', './mine']) assert.equal(await ownPlugin(name), null)
})

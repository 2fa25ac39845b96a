import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type CertifiedDependencies, type DependingManifest, dependenciesOf, dependencyDifference } from '@sluice/sdk'

const MANIFEST: DependingManifest = {
  dependencies: { '@sluice/sdk': '1.0.0', driver: '^2.0.0' },
  peerDependencies: { cache: '*', tool: '*' },
  peerDependenciesMeta: { tool: { optional: true } },
}

const ENTRIES = {
  'node_modules/driver': { version: '2.1.0', integrity: 'sha512-d', dependencies: { codec: '1.x' } },
  'node_modules/codec': { version: '9.0.0', integrity: 'sha512-other' },
  'node_modules/driver/node_modules/codec': {
    version: '1.4.0',
    integrity: 'sha512-c',
    dependencies: { driver: '*' },
    optionalDependencies: { 'codec-linux': '1.4.0', absent: '1.0.0' },
  },
  'node_modules/codec-linux': { version: '1.4.0', integrity: 'sha512-l', os: ['linux'] },
  'node_modules/cache': { resolved: 'packages/cache', link: true },
  'packages/cache': { version: '0.3.0' },
  'node_modules/@sluice/sdk': { version: '1.0.0', integrity: 'sha512-s' },
}

const PACKAGES = ['cache@0.3.0', 'codec@1.4.0', 'driver@2.1.0']

async function found(
  entries: object = ENTRIES,
  { at = '/work/node_modules/own', file = '/work/node_modules/.package-lock.json', manifest = MANIFEST } = {},
) {
  return dependenciesOf(at, manifest, {
    read: async (path) => (path === file ? JSON.stringify({ packages: entries }) : null),
    digest: async (folder) => `of ${folder}`,
  })
}

async function listed(...args: Parameters<typeof found>): Promise<CertifiedDependencies> {
  const dependencies = await found(...args)
  assert.ok('packages' in dependencies, JSON.stringify(dependencies))
  return dependencies
}

test('everything that is loaded with a package, by the copies that Node would find', async () => {
  const installed = await listed()
  assert.deepEqual(installed.packages, PACKAGES)
  assert.deepEqual(await listed(Object.fromEntries(Object.entries(ENTRIES).reverse())), installed)
  for (const place of [
    { at: '/work/packages/own', file: '/work/package-lock.json' },
    { at: '/work', file: '/work/npm-shrinkwrap.json' },
    { at: '/work/node_modules/a/node_modules/own', file: '/work/package-lock.json' },
  ])
    assert.deepEqual(await listed(ENTRIES, place), installed, place.at)
})

test('another version, other contents and a changed folder beside are other dependencies', async () => {
  const tried = await listed()
  const { driver } = { driver: ENTRIES['node_modules/driver'] }
  const other = await listed({ ...ENTRIES, 'node_modules/driver': { ...driver, version: '2.2.0' } })
  assert.equal(dependencyDifference(tried, other), 'tried with driver@2.1.0; installed: driver@2.2.0')
  const swapped = await listed({ ...ENTRIES, 'node_modules/driver': { ...driver, integrity: 'sha512-x' } })
  assert.match(String(dependencyDifference(tried, swapped)), /same version has other contents/)
  const moved = await listed({
    ...ENTRIES,
    'node_modules/cache': { resolved: 'lib/cache', link: true },
    'lib/cache': { version: '0.3.0' },
  })
  assert.notEqual(dependencyDifference(tried, moved), null)
  const unused = await listed({ ...ENTRIES, 'node_modules/codec': { version: '9.9.9', integrity: 'sha512-y' } })
  assert.equal(dependencyDifference(tried, unused), null)
})

test('what depends on nothing needs no lockfile, and what cannot be known is said', async () => {
  const none = await listed(
    {},
    { manifest: { dependencies: { '@sluice/sdk': '1.0.0' } }, file: '/nowhere', at: '/own' },
  )
  assert.deepEqual(none.packages, [])
  const problem = async (...args: Parameters<typeof found>) => JSON.stringify(await found(...args))
  assert.match(await problem(ENTRIES, { file: '/elsewhere/package-lock.json' }), /no lockfile/)
  assert.match(await problem({ ...ENTRIES, 'node_modules/driver': undefined }), /does not have driver/)
  assert.match(await problem({ ...ENTRIES, 'node_modules/driver': { version: '2.1.0' } }), /no checksum of driver/)
})

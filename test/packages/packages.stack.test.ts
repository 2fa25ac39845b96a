/** What is published works where this repository is not: installed from tarballs, started, and used. */
import assert from 'node:assert/strict'
import { mkdir, readdir, readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { pathToFileURL } from 'node:url'
import { SDK_VERSION } from '@sluice/sdk'
import { printedBy } from '../../packaging/tarballs.ts'
import { examplesOf } from '../readme-examples.ts'
import { installOutside, type Outside } from './outside.ts'
import { runOutside, startOutside } from './outside-process.ts'

let outside: Outside

before(async () => {
  outside = await installOutside()
})

after(() => outside?.remove())

test('packages hold compiled code and no sources or tests', async () => {
  assert.ok(outside.tarballs.size >= 8)
  for (const name of outside.tarballs.keys()) {
    const folder = join(outside.folder, 'node_modules', name)
    const all = await readdir(folder, { recursive: true })
    // Templates of new plugins are sources, with tests, and are copied as they are.
    const files = all.filter((file) => !file.startsWith('node_modules') && !file.includes('templates/'))
    const sources = files.filter((file) => file.endsWith('.ts') && !file.endsWith('.d.ts'))
    assert.deepEqual(sources, [], name)
    assert.deepEqual(
      files.filter((file) => file.includes('.test.')),
      [],
      name,
    )
    assert.ok(files.includes('LICENSE'), `${name} has no licence`)
  }
})

test('a release has one version but for the contract, dates its changes, and says what is left to a person', async () => {
  const { version, prepared, told, changelog } = outside.released
  for (const name of outside.tarballs.keys()) {
    const text = await readFile(join(outside.folder, 'node_modules', name, 'package.json'), 'utf8')
    const manifest = JSON.parse(text) as { version: string; dependencies: Record<string, string> }
    const contract = SDK_VERSION
    assert.equal(manifest.version, name === '@sluice/sdk' ? contract : version, name)
    for (const [other, range] of Object.entries(manifest.dependencies).filter(([one]) => one.startsWith('@sluice/')))
      assert.equal(range, other === '@sluice/sdk' ? contract : version, `${name} depends on ${other}`)
  }
  assert.equal(await runOutside(outside.folder, 'npx', ['sluice', '--version']), `${version}\n`)
  assert.ok(changelog.includes(`## Unreleased\n\n## ${version} (2026-01-31)\n\n- `), changelog.slice(0, 400))
  assert.match(prepared, /npm run certify/)
  assert.match(told, new RegExp(`git push origin main v${version}`))
  const published = [...told.matchAll(/npm publish --access public \S+\/sluice-([a-z]+)-/g)].map(([, name]) => name)
  assert.equal(published.length, outside.tarballs.size)
  assert.equal(published[0], 'sdk')
  assert.ok(published.indexOf('runtime') > published.indexOf('lookup'))
})

test('every export of every package can be imported', async () => {
  const specifiers = []
  for (const name of outside.tarballs.keys()) {
    const text = await readFile(join(outside.folder, 'node_modules', name, 'package.json'), 'utf8')
    const { exports = {} } = JSON.parse(text) as { exports?: Record<string, string | { types: string }> }
    for (const [subpath, target] of Object.entries(exports)) {
      if (typeof target === 'string') continue
      specifiers.push(name + subpath.slice(1))
      await readFile(join(outside.folder, 'node_modules', name, target.types))
    }
  }
  assert.ok(specifiers.length >= 10)
  const imports = specifiers.map((specifier) => `await import(${JSON.stringify(specifier)})\n`)
  await writeFile(join(outside.folder, 'imports.js'), imports.join(''))
  await runOutside(outside.folder, 'node', ['imports.js'])
})

test('Iceberg tables are written and read by the package alone', async () => {
  const { folder, tarballs } = outside
  const readme = await readFile(join(folder, 'node_modules/@sluice/iceberg/README.md'), 'utf8')
  const alone = join(folder, '../tables alone')
  await mkdir(alone)
  await writeFile(join(alone, 'package.json'), JSON.stringify({ name: 'alone', private: true, type: 'module' }))
  const needed = ['@sluice/sdk', '@sluice/engine', '@sluice/iceberg'].map((name) => tarballs.get(name) as string)
  await printedBy(alone, 'npm', ['install', '--prefer-offline', '--no-audit', '--no-fund', ...needed])
  await writeFile(join(alone, 'example.js'), /```ts\n(.*?)```/s.exec(readme)?.[1] ?? '')
  const printed = await runOutside(alone, 'node', ['example.js'])
  assert.match(printed, /'oat milk'[^]*'tea'[^]*\nfile:.*metadata\.json\n$/)
})

test('the runtime starts, and a tenant is made in every store that it loaded by package name', async () => {
  const runtime = await startOutside(outside.folder)
  try {
    const plugins = (await runtime.get('/api/v1/plugins')) as {
      data: { package: string; health: { status: string } }[]
    }
    const packages = new Set(plugins.data.map((plugin) => plugin.package))
    assert.ok(packages.has('@sluice/lookup') && packages.has('@sluice/realtime') && packages.has('@sluice/connectors'))
    await runtime.post('/api/v1/tenants', { slug: 'acme', display_name: 'Acme', tier: 'standard' })
    const { data } = (await runtime.get('/api/v1/tenants')) as { data: { slug: string }[] }
    assert.deepEqual(
      data.map(({ slug }) => slug),
      ['acme'],
    )
    const { paths } = (await runtime.get('/openapi.json')) as { paths: object }
    assert.ok('/api/v1/plugins' in paths)
  } finally {
    await runtime.stop()
  }
})

test('the examples of packages run as their READMEs say, without the repository', async () => {
  const folder = join(outside.folder, 'node_modules/@sluice/engine')
  for (const { file, code, prints } of examplesOf(await readFile(join(folder, 'README.md'), 'utf8'))) {
    await writeFile(join(outside.folder, file), code)
    assert.equal(await runOutside(outside.folder, 'node', [file]), prints, file)
  }
})

test('sluice runs in any folder, keeps what it writes there, and changes nothing of what is installed', async () => {
  const { folder } = outside
  const elsewhere = join(folder, '../somewhere else, ää')
  await mkdir(elsewhere)
  const launcher = join(folder, 'node_modules/.bin/sluice')
  const installed = await changesOf(folder)
  assert.match(await runOutside(folder, 'npx', ['sluice', '--help']), /sluice start .*\n/)
  assert.match(await runOutside(elsewhere, launcher, ['--version']), /^\d+\.\d+\.\d+\n$/)
  assert.match(await runOutside(elsewhere, launcher, ['config', '--check']), /^The configuration is valid/)
  const runtime = await startOutside(folder, elsewhere)
  try {
    assert.match(runtime.printed(), /somewhere else, ää\/\.sluice/)
    await runOutside(elsewhere, launcher, ['tenant', 'create', 'other', '--tier', 'free'])
    await runOutside(elsewhere, launcher, ['product', 'init', 'mine'])
    await runOutside(elsewhere, launcher, ['product', 'lint', 'mine'])
  } finally {
    await runtime.stop()
  }
  assert.deepEqual((await readdir(elsewhere)).toSorted(), ['.sluice', 'mine'])
  assert.deepEqual(await changesOf(folder), installed)
})

/** When each file was last changed: what an installation that may not be written to would have refused. */
async function changesOf(folder: string): Promise<ReadonlyMap<string, number>> {
  const changes = new Map<string, number>()
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue
    const path = join(entry.parentPath, entry.name)
    changes.set(path, (await stat(path)).mtimeMs)
  }
  return changes
}

test('a Node that is too old is told so by the command itself', async () => {
  const launcher = pathToFileURL(join(outside.folder, 'node_modules/@sluice/runtime/bin/sluice.js')).href
  const old = `Object.defineProperty(process.versions, 'node', { value: '20.20.2' }); await import('${launcher}')`
  const started = runOutside(outside.folder, 'node', ['--input-type=module', '-e', old])
  await assert.rejects(started, /sluice needs Node 22\.18 or newer and this is 20\.20\.2/)
  const text = await readFile(join(outside.folder, 'node_modules/@sluice/runtime/package.json'), 'utf8')
  assert.equal((JSON.parse(text) as { engines: { node: string } }).engines.node, '>=22.18')
})

test('sluice-conformance proves an installed plugin by its name', async () => {
  const printed = await runOutside(outside.folder, 'npx', ['sluice-conformance', '@sluice/realtime/lmdb'])
  assert.match(printed, /realtime\/lmdb: \d+ checks, [1-9]\d* passed, .* 0 failed \(level core/)
})

test('a new plugin compiles, passes, is certified, and serves under its certificate alone', async () => {
  const { folder } = outside
  await runOutside(folder, 'npx', ['sluice', 'plugin', 'new', 'my-store'])
  assert.match(await runOutside(join(folder, 'my-store'), 'npm', ['test']), /fail 0/)
  const printed = await runOutside(folder, 'npx', [
    'sluice-conformance',
    './my-store',
    '--report',
    'my-store',
    '--key',
    'key.pem',
  ])
  const [, key = ''] = /signed by the key (\S+)/.exec(printed) ?? []
  assert.notEqual(key, '', printed)

  const proofUnder = async (trusted: readonly string[]) => {
    await writeFile(join(folder, 'sluice.yaml'), JSON.stringify(configWith(trusted)))
    const runtime = await startOutside(folder)
    try {
      const { data } = (await runtime.get('/api/v1/plugins')) as {
        data: { name: string; proof: Proof; health: object }[]
      }
      const own = data.find(({ name }) => name === 'my-store')
      return { printed: runtime.printed(), proof: own?.proof, health: own?.health }
    } finally {
      await runtime.stop()
    }
  }
  const trusting = await proofUnder([key])
  assert.deepEqual([trusting.proof?.status, trusting.proof?.off, trusting.health], ['certified', [], { status: 'ok' }])
  assert.doesNotMatch(trusting.printed, /switched off/)
  const doubting = await proofUnder([])
  assert.deepEqual([doubting.proof?.status, doubting.health], ['unproved', { status: 'unused' }])
  assert.match(doubting.printed, /lookup \(my-store\) of my-store: not proved, and so switched off: .*trusted_keys/)
})

interface Proof {
  readonly status: string
  readonly off: readonly string[]
}

function configWith(trusted: readonly string[]) {
  return {
    plugins: ['@sluice/connectors/postgresql', './my-store'],
    serving: { lookup: { driver: 'my-store', settings: { space: 'main' } } },
    certificates: { trusted_keys: trusted },
  }
}

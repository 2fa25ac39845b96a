import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { after, before, test } from 'node:test'
import { promisify } from 'node:util'
import { isSluiceError, SDK_VERSION } from '@sluice/sdk'
import semver from 'semver'
import { loadConfig } from '../config.ts'
import { UsageError } from './arguments.ts'
import { checkPlugin, newPlugin } from './plugin-package.ts'

const ROOT = join(import.meta.dirname, '../../..')
const COMPILER = join(ROOT, 'node_modules/typescript/bin/tsc')
const config = (flags: Record<string, string> = {}) => loadConfig({ environment: {}, flags })

/** Inside of the repository, where packages are found that nobody has published yet. */
let folder: string

before(async () => {
  await mkdir(join(ROOT, '.sluice'), { recursive: true })
  folder = await mkdtemp(join(ROOT, '.sluice/new-'))
})

after(() => rm(folder, { recursive: true, force: true }))

for (const kind of ['store', 'connector'] as const) {
  test(`a new ${kind} compiles and passes its own tests`, async () => {
    const target = join(folder, `our-${kind}`)
    const steps = await newPlugin(target, kind)
    assert.match(steps, /npm test/)
    assert.doesNotMatch(steps, /npm install/, 'what no registry has is not asked for')
    const files = await readdir(target)
    assert.ok(files.includes('.gitignore') && !files.includes('gitignore'))
    for (const file of files)
      assert.doesNotMatch(await readFile(join(target, file), 'utf8'), /my-(store|connector)/, file)
    const run = (args: string[]) => promisify(execFile)(process.execPath, args, { cwd: target, maxBuffer: 16 << 20 })
    await run([COMPILER, '-p', 'tsconfig.json'])
    const { NODE_TEST_CONTEXT: _, ...env } = process.env
    const flags = ['--test', '--test-reporter=tap', 'dist/conformance.test.js']
    const { stdout } = await promisify(execFile)(process.execPath, flags, { cwd: target, env })
    assert.match(stdout, /^# fail 0$/m)
    assert.ok(Number(/^# pass (\d+)$/m.exec(stdout)?.[1]) >= (kind === 'store' ? 90 : 39), stdout.slice(-400))
    const unproved = (await checkPlugin(target, config())) as { plugin: string; off: string[]; on: string[] }
    assert.match(unproved.plugin, new RegExp(`our-${kind} 0.1.0`))
    assert.ok(unproved.off.length > 0 && unproved.on.length === 0)
    const allowed = (await checkPlugin(target, config({ 'allow-unproved': 'true' }))) as { off: string[] }
    assert.deepEqual(allowed.off, [])
  })
}

test('elsewhere than in the checkout the packages are packed first', async () => {
  const outside = await mkdtemp(join(tmpdir(), 'plugin-'))
  try {
    const steps = await newPlugin(join(outside, 'our-store'), 'store')
    assert.match(steps, /pack -w sdk -w conformance-tests .*\n.*npm install --no-save .*\n.*npm test/)
  } finally {
    await rm(outside, { recursive: true, force: true })
  }
})

test('a folder that holds something, and a name that is none, are refused', async () => {
  await writeFile(join(folder, 'file'), '')
  await assert.rejects(newPlugin(folder, 'store'), UsageError)
  for (const name of ['My-Store', 'a b', '1st'])
    await assert.rejects(newPlugin(join(folder, name), 'store'), UsageError)
})

test('what is wrong with a plugin is said before its code runs', async () => {
  const target = join(folder, 'wrong')
  await mkdir(target)
  const manifest = { name: 'wrong', exports: { '.': './index.js' }, sluice: { sdk: '^99.0.0', plugins: {} } }
  await writeFile(join(target, 'package.json'), JSON.stringify(manifest))
  await writeFile(join(target, 'index.js'), 'throw new Error("it ran")')
  await assert.rejects(
    checkPlugin(target, config()),
    (error) => isSluiceError(error) && error.code === 'plugin_sdk_range',
  )
  await assert.rejects(checkPlugin(join(folder, 'absent'), config()), (error) => isSluiceError(error, 'CONFIG'))
})

test('the templates ask for the packages that there are', async () => {
  const read = async (path: string) => JSON.parse(await readFile(path, 'utf8'))
  const suite = await read(join(dirname(dirname(import.meta.dirname)), '../conformance-tests/package.json'))
  for (const kind of ['store', 'connector']) {
    const template = await read(join(import.meta.dirname, 'templates', kind, 'package.json'))
    assert.ok(semver.satisfies(SDK_VERSION, template.peerDependencies['@sluice/sdk']))
    const range = template.devDependencies['@sluice/conformance']
    assert.ok(semver.satisfies(suite.version, range), kind)
  }
})

test('of a service is said what it is, which settings are secret, and that nobody has proved it', async () => {
  for (const [example, plugin, secrets] of [
    ['pages', 'dashboard pages 1.0.0', []],
    ['redis-streams', 'event-bus redis-streams 1.0.0', ['/url']],
    ['webdav', 'object-store webdav 1.0.0', ['/password']],
    ['python-compute', 'compute python 1.0.0', []],
  ] as const) {
    const said = (await checkPlugin(join(ROOT, 'examples/plugins', example), config())) as Record<string, unknown>
    assert.deepEqual([said['plugin'], said['secrets'], said['sdk']], [plugin, secrets, '^1.1.0'])
    assert.match(String(said['proof']), /^proved by nobody but you/)
  }
})

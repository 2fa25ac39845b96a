import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Suite } from '../suites.ts'
import { keyOf, type Surroundings } from './key.ts'
import { MadeUpTree } from './made-up-tree.ts'

const SUITE: Suite = {
  name: 'values',
  servers: ['redis'],
  tests: ['store/*.stack.test.ts'],
  programs: ['npm'],
  expectedSeconds: 10,
}

const AROUND = {
  machine: { node: 'v24.1.0', platform: 'linux', arch: 'x64', release: '6.1', hasContainers: false },
  environment: { CHOSEN: 'a', OTHER: 'a', SLUICE_LEVEL: 'a', PATH: '/bin' },
  versions: { 'server redis': '7.0.15', 'server kafka': '4', 'program npm': '11' } as Readonly<Record<string, string>>,
}

function surroundings(changes: Partial<typeof AROUND> = {}): Surroundings {
  const { machine, environment, versions } = { ...AROUND, ...changes }
  return { machine, environment, versionOf: async (kind, name) => versions[`${kind} ${name}`] ?? 'pinned' }
}

const madeUp = () =>
  new MadeUpTree({
    'package.json': '{}',
    'package-lock.json': '{}',
    'docker-compose.yml': '',
    'stack/run.ts': "import './suites.ts'; import './runner.ts'",
    'stack/runner.ts': '',
    'stack/suites.ts': "['store/*.stack.test.ts', 'other/*.ts']",
    'stack/servers/redis.ts': "run('redis.conf')",
    'stack/servers/redis.conf': '',
    'stack/servers/kafka.ts': '',
    'store/store.stack.test.ts': "import './store.ts'; spawn('child.py'); process.env['CHOSEN']; process.env.PATH",
    'store/store.ts': "readFile('./words.yaml'); list('declared/**')",
    'store/store.test.ts': '',
    'store/words.yaml': '',
    'store/child.py': '',
    'declared/a.txt': '',
    'other/other.ts': '',
    'README.md': '',
  })

/** Whether the key is another one after the change. */
async function changes(
  change: (tree: MadeUpTree) => void,
  around: Surroundings = surroundings(),
  suite: Suite = SUITE,
): Promise<boolean> {
  using tree = madeUp()
  const before = await keyOf(SUITE, tree.graph(), surroundings())
  change(tree)
  return (await keyOf(suite, tree.graph(), around)) !== before
}

const nothing = () => undefined

describe('the key of a suite', () => {
  for (const [what, path] of Object.entries({
    'a test': 'store/store.stack.test.ts',
    'a source that a test imports': 'store/store.ts',
    'a file that is read': 'store/words.yaml',
    'a program that is spawned': 'store/child.py',
    'a server': 'stack/servers/redis.ts',
    'a file of a server': 'stack/servers/redis.conf',
    'a file of a folder that is read': 'declared/a.txt',
    'the runner': 'stack/runner.ts',
    'the lockfile': 'package-lock.json',
  }))
    it(`changes with ${what}`, async () => {
      assert.ok(await changes((tree) => tree.write(path, '// changed')))
    })

  it('changes with a new test, and with a new file where all of a folder is read', async () => {
    assert.ok(await changes((tree) => tree.write('store/more.stack.test.ts', '')))
    assert.ok(await changes((tree) => tree.write('declared/b.txt', '')))
  })

  it('changes with Node, the machine and whether containers are there', async () => {
    for (const change of [
      { node: 'v24.2.0' },
      { platform: 'darwin' },
      { arch: 'arm64' },
      { release: '6.2' },
      { hasContainers: true },
    ])
      assert.ok(await changes(nothing, surroundings({ machine: { ...AROUND.machine, ...change } })), inspect(change))
  })

  it('changes with the versions of its servers and programs', async () => {
    for (const change of [{ 'server redis': '7.0.16' }, { 'program npm': '12' }])
      assert.ok(await changes(nothing, surroundings({ versions: { ...AROUND.versions, ...change } })), inspect(change))
    const others = { ...AROUND.versions, 'server kafka': '5' }
    assert.ok(!(await changes(nothing, surroundings({ versions: others }))))
  })

  it('changes with variables that its files read or that are ours', async () => {
    const withValues = (change: object) => surroundings({ environment: { ...AROUND.environment, ...change } })
    for (const change of [
      { CHOSEN: 'b' },
      { SLUICE_LEVEL: 'b' },
      { SLUICE_NEW: '' },
      { TZ: 'UTC' },
      { PATH: '/usr/bin' },
    ])
      assert.ok(await changes(nothing, withValues(change)), inspect(change))
    for (const change of [{ OTHER: 'b' }, { SLUICE_TEST_CACHE_DIR: 'b' }, { PATH: '/work/node_modules/.bin:/bin' }])
      assert.ok(!(await changes(nothing, withValues(change))), inspect(change))
  })

  it('changes with its definition, but not with what it is expected to take', async () => {
    assert.ok(await changes(nothing, surroundings(), { ...SUITE, env: { LEVEL: '1' } }))
    assert.ok(await changes(nothing, surroundings(), { ...SUITE, isAlwaysRun: true }))
    assert.ok(!(await changes(nothing, surroundings(), { ...SUITE, expectedSeconds: 20 })))
  })

  for (const path of [
    'README.md',
    'other/other.ts',
    'store/store.test.ts',
    'stack/suites.ts',
    'stack/servers/kafka.ts',
    'docker-compose.yml',
    'new.ts',
  ])
    it(`does not change with ${path}, on which it does not rest`, async () => {
      assert.ok(!(await changes((tree) => tree.write(path, '// changed'))))
    })

  it('is the same wherever the checkout lies', async () => {
    using one = madeUp()
    using other = madeUp()
    const keyIn = (tree: MadeUpTree) =>
      keyOf(SUITE, tree.graph(), surroundings({ environment: { ...AROUND.environment, CHOSEN: `${tree.root}/x` } }))
    assert.equal(await keyIn(one), await keyIn(other))
  })
})

const inspect = (value: object): string => JSON.stringify(value)

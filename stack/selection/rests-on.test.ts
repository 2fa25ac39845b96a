/** Of the repository as it is: what must not be missed, and what a suite need not run for. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { SUITES } from '../suites.ts'
import { currentGraph, ownFiles, restsOn, runnerFiles } from './rests-on.ts'
import { textOf } from './tree.ts'

const graph = currentGraph()

const filesOf = (name: string): ReadonlySet<string> => {
  const suite = SUITES.find((one) => one.name === name)
  assert.ok(suite, name)
  return new Set(ownFiles(suite, graph))
}

describe('the suites of this repository', () => {
  it('rest on their own tests and servers', () => {
    assert.ok(filesOf('redis').has('plugins/realtime/redis/store.stack.test.ts'))
    assert.ok(filesOf('redis').has('stack/servers/redis.ts'))
    assert.ok(filesOf('chaos').has('stack/servers/kafka.ts'))
    assert.ok(filesOf('kafka').has('stack/changes/changes.stack.test.ts'))
  })

  it('rest on the store and the contract that they try, and on no other', () => {
    const redis = filesOf('redis')
    for (const path of ['sdk/store.ts', 'plugins/realtime/redis/store.ts', 'conformance-tests/suite.ts'])
      assert.ok(redis.has(path), path)
    for (const path of redis) assert.doesNotMatch(path, /^(runtime\/src\/http|plugins\/lookup|acceptance)\//)
  })

  it('rest on the whole runtime and its plugins where they start one', () => {
    const runtime = [
      'runtime/bin/sluice.js',
      'runtime/src/command/main.ts',
      'runtime/src/container.ts',
      'engine/src/child/main.ts',
      'engine/src/walls/limits.ts',
      'runtime/src/http/codes.ts',
      'plugins/lookup/postgresql/index.ts',
      'plugins/realtime/lmdb/store.ts',
      'plugins/connectors/package.json',
    ]
    for (const name of ['crash', 'housekeeping', 'acceptance', 'catalog', 'kafka', 'identity', 'chaos', 'dashboards']) {
      const files = filesOf(name)
      for (const path of runtime) assert.ok(files.has(path), `${name}: ${path}`)
    }
  })

  it('rest on what the entries of other packages lead to, child programs among it', () => {
    const engine = [
      'engine/package.json',
      'engine/src/index.ts',
      'engine/src/guard/rules.ts',
      'engine/src/child/main.ts',
    ]
    for (const name of ['object-store', 'trino-store', 'trino', 'minio'])
      for (const path of engine) assert.ok(filesOf(name).has(path), `${name}: ${path}`)
    for (const name of ['redis', 'cassandra', 'conformance'])
      for (const path of engine) assert.ok(!filesOf(name).has(path), `${name}: ${path}`)
  })

  it('rest on files that are read, copied or run by name', () => {
    assert.ok(filesOf('crash').has('test/crash/products/people/compute.yaml'))
    assert.ok(filesOf('kafka').has('test/crash/products/people/serving.yaml'))
    assert.ok(filesOf('acceptance-rights').has('acceptance/schemathesis.toml'))
    assert.ok(filesOf('trino').has('stack/readers/read.py'))
    assert.ok(filesOf('minio').has('stack/catalog/signed.py'))
    assert.ok(filesOf('identity').has('deploy/keycloak/sluice-realm.json'))
    assert.ok(filesOf('minio').has('deploy/minio/policy-readonly.json'))
    assert.ok(filesOf('minio').has('docker-compose.yml'))
    assert.ok(filesOf('dashboards').has('deploy/superset/superset_config.py'))
    assert.ok(filesOf('dashboards').has('stack/servers/superset-requirements.txt'))
  })

  it('rest on plugins that only a configuration names', () => {
    for (const name of ['several-runtimes', 'acceptance-full-stack', 'chaos']) {
      const files = filesOf(name)
      for (const path of ['deploy/sluice/sluice.yaml', 'plugins/realtime/redis/store.ts'])
        assert.ok(files.has(path), `${name}: ${path}`)
    }
    assert.ok(!filesOf('crash').has('plugins/realtime/redis/store.ts'))
  })

  it('rest on everything that is packed where packages are tried', () => {
    const packages = filesOf('packages')
    for (const path of [
      'packaging/compile.ts',
      'sdk/README.md',
      'runtime/src/main.ts',
      'bench/package.json',
      'LICENSE',
    ])
      assert.ok(packages.has(path), path)
  })

  it('rest on no test of another suite, but for the packed ones', () => {
    for (const suite of SUITES.filter(({ name }) => name !== 'packages')) {
      const tests = ownFiles({ ...suite, tests: [] }, graph).filter((path) => /\.test\.ts$/.test(path))
      assert.deepEqual(
        tests.filter((path) => !path.includes('/templates/')),
        [],
        suite.name,
      )
    }
  })

  it('all rest on the runner and on what is installed, but not on each other’s definitions and servers', () => {
    const runner = runnerFiles(graph)
    for (const path of ['stack/run.ts', 'stack/suite-run.ts', 'stack/failures.ts', 'stack/selection/key.ts'])
      assert.ok(runner.includes(path), path)
    assert.ok(runner.includes('package-lock.json'))
    for (const path of runner) assert.doesNotMatch(path, /^stack\/(suites\.ts|servers\/)|\.test\.ts$|^docker-compose/)
    const [suite] = SUITES
    assert.ok(suite)
    assert.deepEqual(restsOn(suite, graph), [...new Set([...runner, ...ownFiles(suite, graph)])].sort())
  })

  it('name servers that are there', () => {
    for (const name of new Set(SUITES.flatMap((suite) => [...suite.servers, ...(suite.startedByTests ?? [])])))
      assert.match(textOf(graph.tree, `stack/servers/${name}.ts`), /^export default \w+$/m, name)
  })
})

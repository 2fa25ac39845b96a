/** A connector from PyPI behind the walls: what it brings is what it brings without them, whole and after a position. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { chmod, cp, mkdtemp, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, it } from 'node:test'
import { promisify } from 'node:util'
import { Bench, PYTHON, readAll, remove } from './airbyte-bench.fixture.ts'

const run = promisify(execFile)
const installed = process.env['SLUICE_TEST_AIRBYTE_DIR'] ?? ''
const CONFIG = { count: 40, seed: 7, parallelism: 1, always_updated: false, records_per_slice: 10 }
let folder: string
let bench: Bench

before(async () => {
  assert(installed, 'the server airbyte of the suite is not there')
  folder = await mkdtemp(join(tmpdir(), 'sluice-airbyte-'))
  await chmod(folder, 0o755)
  // The cache lies in somebody's home, which the program's own user may not enter.
  await run('cp', ['-r', '--no-preserve=mode', join(installed, 'lib'), join(folder, 'lib')])
  await cp(join(installed, 'bin', 'source-faker'), join(folder, 'source-faker'))
  await run(PYTHON, ['-m', 'venv', '--without-pip', join(folder, 'run')])
  await run('bash', ['-c', `rm -rf run/lib && mv lib run/lib && chmod -R a+rX .`], { cwd: folder })
  const command = [join(folder, 'run/bin/python'), join(folder, 'source-faker')]
  bench = new Bench({ faker: { command, arguments: [], folders: [folder], memory_mb: 1024 } })
})

after(async () => {
  await bench?.close()
  if (folder) await remove(folder)
})

it('source-faker is checked, lists its tables, and is read whole and by what is new', async () => {
  const { signal } = new AbortController()
  const connector = await bench.open('faker', CONFIG)
  try {
    const report = await connector.check(signal)
    assert(report.ok, JSON.stringify(report))
    const { tables } = await connector.discover({ after: null, limit: 100 }, signal)
    assert.deepEqual(
      tables.map(({ name, primaryKey, suggestedCursor }) => [name, primaryKey, suggestedCursor]),
      ['products', 'purchases', 'users'].map((name) => [name, ['id'], 'updated_at']),
    )
    const columns = ['id', 'email', 'age']
    const read = await readAll(connector, 'users', { columns })
    assert.deepEqual(read.rejects, [])
    assert.deepEqual(read.lines.toSorted(), await withoutWalls(columns))
    const incremental = {
      columns: [...columns, 'updated_at'],
      mode: 'incremental',
      primaryKey: ['id'],
      cursorColumn: 'updated_at',
    } as const
    const first = await readAll(connector, 'users', incremental)
    assert.equal(first.lines.length, CONFIG.count)
    const second = await readAll(connector, 'users', { ...incremental, state: first.state.state })
    assert.deepEqual(second.lines, [])
    assert.deepEqual(second.state.state, first.state.state)
  } finally {
    await connector.close()
  }
})

/** As rows of the shared CSV. */
async function withoutWalls(columns: readonly string[]): Promise<readonly string[]> {
  const [config, catalog] = [join(folder, 'config.json'), join(folder, 'catalog.json')]
  await writeFile(config, JSON.stringify(CONFIG))
  const stream = { name: 'users', json_schema: {}, supported_sync_modes: ['full_refresh'] }
  const configured = { stream, sync_mode: 'full_refresh', destination_sync_mode: 'overwrite' }
  await writeFile(catalog, JSON.stringify({ streams: [configured] }))
  const words = [join(folder, 'source-faker'), 'read', '--config', config, '--catalog', catalog]
  const { stdout } = await run(join(folder, 'run/bin/python'), words, { maxBuffer: 64 * 1024 * 1024 })
  return stdout
    .split('\n')
    .filter((line) => line.includes('"RECORD"'))
    .map((line) => JSON.parse(line).record.data)
    .map((row) => columns.map((name) => `"${row[name]}"`).join(','))
    .sort()
}

/** The example of the tables' README, as anybody would run it; PyIceberg reads what it wrote. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const READ = `
import sys
from pyiceberg.table import StaticTable
table = StaticTable.from_metadata(sys.argv[1])
print(sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["id"]))
print(table.scan(snapshot_id=table.metadata.snapshots[0].snapshot_id).to_arrow().to_pylist())
`
const run = promisify(execFile)

test('an Iceberg table is written and read in ten lines, and PyIceberg reads it', async () => {
  const python = process.env['SLUICE_TEST_ICEBERG_PYTHON']
  assert.ok(python, 'SLUICE_TEST_ICEBERG_PYTHON names a Python with PyIceberg; npm run test:stack installs one')
  const folder = await mkdtemp(join(tmpdir(), 'sluice-iceberg-example-'))
  try {
    const readme = await readFile(join(ROOT, 'iceberg/README.md'), 'utf8')
    await writeFile(join(folder, 'example.ts'), /```ts\n(.*?)```/s.exec(readme)?.[1] ?? '')
    await writeFile(join(folder, 'package.json'), JSON.stringify({ type: 'module' }))
    await symlink(join(ROOT, 'node_modules'), join(folder, 'node_modules'))
    const { stdout } = await run(process.execPath, ['example.ts'], { cwd: folder })
    const [rows = '', location = ''] = stdout.trim().split(/\n(?=file:)/)
    assert.match(rows, /'oat milk'[^]*'tea'/)
    assert.doesNotMatch(rows, /'milk'/)
    const read = await run(python, ['-c', READ, location])
    assert.deepEqual(read.stdout.trim().split('\n'), [
      "[{'id': 1, 'item': 'tea'}, {'id': 2, 'item': 'oat milk'}]",
      "[{'id': 1, 'item': 'tea'}]",
    ])
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
})

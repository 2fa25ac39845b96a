import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import type { Config } from '../config.ts'
import { exampleFiles } from '../manifest/examples.ts'
import { lintFolder } from './lint.ts'

test('lint takes the classes that the configuration masks', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-lint-'))
  t.after(() => rm(folder, { recursive: true, force: true }))
  for (const [name, bytes] of Object.entries(await exampleFiles('minimal'))) {
    const text = Buffer.from(bytes).toString()
    await writeFile(
      join(folder, `${name}.yaml`),
      text.replace('- name: title\n', '- name: title\n    classification: finance.salary\n'),
    )
  }
  const config = (sensitive: readonly string[]) =>
    ({
      plugins: [],
      serving: {},
      masking: { sensitive },
      limits: { schedule_interval_ms: 60_000 },
    }) as unknown as Config
  assert.deepEqual(await lintFolder(folder, config(['finance.salary'])), { ok: true, lines: [] })
  const { ok, lines } = await lintFolder(folder, config([]))
  assert.deepEqual([ok, lines.length], [false, 1])
  assert.match(lines[0] as string, /no masking is configured for the class finance\.salary/)
})

/** A table under a commit a second: what it costs, and what of it is there, stays what it was. Counts and bytes, and no times. */
import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { ManyCommits } from './many-commits.fixture.ts'

const HOUR_MS = 3_600_000

/** Full within minutes, so that what follows can be compared with it. */
const LADDER = [
  { forMs: 5_000, everyMs: null },
  { forMs: 30_000, everyMs: 5_000 },
  { forMs: 120_000, everyMs: 30_000 },
]
const FULL = 150

test('hundreds of commits leave metadata and files as many as the first did, and readers in peace', async (t) => {
  const dir = await mkdtemp(join(tmpdir(), 'sluice-commits-'))
  t.after(() => rm(dir, { recursive: true, force: true }))
  const table = await ManyCommits.begin(dir, LADDER)
  const bytes: number[] = []
  const commits = async (count: number) => {
    for (let made = 0; made < count; made += 1) {
      const figures = await table.commit()
      bytes.push(figures.bytes)
      assert.ok(figures.snapshots <= 16, `${figures.snapshots} snapshots`)
    }
  }
  const worst = (from: number, to: number) => Math.max(...bytes.slice(from, to))

  await commits(FULL)
  await commits(150)
  assert.ok(worst(200, 300) <= worst(120, FULL) * 1.2, `${worst(200, 300)} against ${worst(120, FULL)}`)
  const { metadata } = table.state
  assert.ok(metadata['metadata-log'].length <= 100 && metadata['snapshot-log'].length <= 16)
  assert.deepEqual(await table.unreadable(), [])
  assert.equal((await table.files()).live, 1)

  // The metadata log remembers no more than a hundred commits: whoever began before has nothing but the grace to keep him.
  const slow = await table.reader()
  await commits(105)
  table.pass(2 * HOUR_MS)
  const before = await table.files()
  assert.equal((await table.clean()).removedFiles, 0)
  table.pass(20 * HOUR_MS)
  await commits(105)
  await table.clean()
  assert.deepEqual(await slow.missing(), [], 'twenty hours are within the grace')
  table.pass(10 * HOUR_MS)
  await commits(105)
  const { removedFiles } = await table.clean()
  assert.ok(removedFiles > 1_000, `${removedFiles} of ${before.stored} files went`)
  table.pass(30 * HOUR_MS)
  await commits(105)
  await table.clean()
  assert.ok((await slow.missing()).length > 0, 'and after it it is not kept')
  const after = await table.files()
  assert.ok(after.stored < 1_300, `${after.stored} files`)
  assert.deepEqual(await table.unreadable(), [])
})

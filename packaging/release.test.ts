import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { type Release, release } from './release.ts'
import { isReleased, releasedChangelog } from './release-changelog.ts'
import { printedBy } from './tarballs.ts'

describe('the change log of a release', () => {
  test('what was unreleased gets version and day, and what follows stays', () => {
    const text = '# Changes\n\nText.\n\n## Unreleased\n\n- New: `$1`.\n\n## 0.1.0\n\n- First.\n'
    const released = releasedChangelog(text, '0.2.0', '2026-01-31')
    const expected =
      '# Changes\n\nText.\n\n## Unreleased\n\n## 0.2.0 (2026-01-31)\n\n- New: `$1`.\n\n## 0.1.0\n\n- First.\n'
    assert.equal(released, expected)
    assert.deepEqual([isReleased(expected, '0.2.0'), isReleased(text, '0.2.0')], [true, false])
  })

  test('where it is the last section, too', () => {
    const released = releasedChangelog('# C\n\n## Unreleased\n\n- New.\n', '0.2.0', '2026-01-31')
    assert.equal(released, '# C\n\n## Unreleased\n\n## 0.2.0 (2026-01-31)\n\n- New.\n')
  })

  test('nothing is released where nothing is unreleased', () => {
    assert.equal(releasedChangelog('# C\n\n## Unreleased\n\n## 0.1.0\n\n- First.\n', '0.2.0', '2026-01-31'), null)
    assert.equal(releasedChangelog('# C\n\n## 0.1.0\n\n- First.\n', '0.2.0', '2026-01-31'), null)
  })
})

describe('what a release asks for', () => {
  let root: string
  const git = (...args: string[]) =>
    printedBy(root, 'git', [
      '-c',
      'user.name=A',
      '-c',
      'user.email=a@example.com',
      '-c',
      'commit.gpgsign=false',
      ...args,
    ])
  const tried = (how: Partial<Release>) =>
    release({
      ...{ root, version: '0.2.0', day: '2026-01-31', isDryRun: false },
      check: () => Promise.reject(new Error('not green')),
      staleCertificates: () => Promise.resolve([]),
      ...how,
    })

  before(async () => {
    root = mkdtempSync(join(tmpdir(), 'release-'))
    writeFileSync(join(root, 'package.json'), '{ "version": "0.1.0" }\n')
    writeFileSync(join(root, 'CHANGELOG.md'), '# C\n\n## Unreleased\n')
    await git('init', '--quiet', '--initial-branch=main')
    await git('add', '--all')
    await git('commit', '--quiet', '--message', 'Before')
  })

  after(() => rmSync(root, { recursive: true }))

  test('a later version', async () => {
    for (const version of ['0.1.0-rc.1', '0.0.9', 'v0.2.0', 'next'])
      await assert.rejects(tried({ version }), /is no version|is not after 0\.1\.0/, version)
    await assert.rejects(tried({ version: '0.1.0', isDryRun: true }), /is not after/)
  })

  test('a green tree on main, with nothing that is not committed, and something to release', async () => {
    await assert.rejects(tried({}), /not green/)
    await assert.rejects(tried({ check: async () => {} }), /nothing unreleased/)
    writeFileSync(join(root, 'new.txt'), '')
    await assert.rejects(tried({}), /not committed:\n.*new\.txt/)
    rmSync(join(root, 'new.txt'))
    await git('switch', '--quiet', '--create', 'other')
    await assert.rejects(tried({}), /made of main, and this is other/)
    assert.equal(readFileSync(join(root, 'package.json'), 'utf8'), '{ "version": "0.1.0" }\n')
  })
})

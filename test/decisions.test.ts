/** Every decision says when it was made and whether it still holds, and the index is made of that. */
import assert from 'node:assert/strict'
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { decisionOf, decisionsIn, decisionsPage } from '../docs/decisions-page.ts'
import { ROOT } from './sources.ts'

const FOLDER = join(ROOT, 'docs/decisions')
const head = (number: number, status = 'Accepted on 2026-11-21.') =>
  `# ${number}. Why\n\n**Status.** ${status}\n\nText.\n`

describe('decisions', () => {
  test('each has a number of its own, a date and a status', () => {
    assert.equal(decisionsIn(FOLDER).length, readdirSync(FOLDER).length)
  })

  test('the index names each with its date and status', () => {
    const page = decisionsPage(FOLDER)
    for (const { file, acceptedOn } of decisionsIn(FOLDER))
      assert.match(page, new RegExp(`\\(\\.\\./decisions/${file}\\) \\| ${acceptedOn} \\| (accepted|superseded by)`))
  })

  test('a page without date or status, or with another number than its name, is refused', () => {
    const refused = [
      '# 7. Why\n\n**Decided.** Text.\n',
      head(7, 'Accepted.'),
      head(7, 'Accepted on 2026-13-41.'),
      head(8),
    ]
    for (const text of refused) assert.throws(() => decisionOf('0007-why.md', text), /0007-why\.md/)
    assert.throws(() => decisionOf('why.md', head(7)), /NNNN-words/)
    assert.equal(decisionOf('0007-why.md', head(7)).supersededBy, null)
  })

  test('what is superseded names a page that is there', () => {
    const folder = mkdtempSync(join(tmpdir(), 'decisions-'))
    try {
      writeFileSync(
        join(folder, '0007-why.md'),
        head(7, 'Accepted on 2026-11-21; superseded by [decision 8](0008-b.md).'),
      )
      assert.throws(() => decisionsIn(folder), /0008-b\.md, which is not there/)
      writeFileSync(join(folder, '0008-b.md'), head(8))
      assert.match(decisionsPage(folder), /superseded by \[8\]\(\.\.\/decisions\/0008-b\.md\)/)
      writeFileSync(join(folder, '0008-c.md'), head(8))
      assert.throws(() => decisionsIn(folder), /two have the number 8/)
    } finally {
      rmSync(folder, { recursive: true })
    }
  })
})

import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { describe, it } from 'node:test'
import { type CursorBinding, Cursors, MAX_CURSOR_LENGTH } from './cursor.ts'
import { parseTarget } from './target.ts'

const KEY = randomBytes(32)
const binding: CursorBinding = {
  tenant: 'acme',
  issuer: 'i',
  subject: 'ann',
  policyVersion: '1',
  query: { operation: 'list', filter: ['a:1'] },
  snapshot: '7',
}
const refused = { code: 'cursor_invalid' }

describe('cursors', () => {
  it('give back the position, and show none of it', () => {
    const cursors = new Cursors([KEY])
    const cursor = cursors.seal(['2026-01-01', 'hidden-value', null], binding)
    assert.deepEqual(cursors.open(cursor, binding), ['2026-01-01', 'hidden-value', null])
    assert.doesNotMatch(Buffer.from(cursor, 'base64url').toString('latin1'), /hidden/)
    assert.match(cursor, /^[\w-]+$/)
  })

  it('do not tell by their length how far the numbers of an installation have come', () => {
    const cursors = new Cursors([KEY])
    const at = '2026-01-01T00:00:00.000Z'
    const lengths = ['9', '10', '1000000', String(2n ** 63n)].map((id) => cursors.seal([at, id], binding).length)
    assert.equal(new Set(lengths).size, 1)
    const long = [at, 'x'.repeat(500)]
    assert.deepEqual(cursors.open(cursors.seal(long, binding), binding), long)
  })

  it('hold long keys, and are refused and not given away where nobody could send them', () => {
    const cursors = new Cursors([KEY])
    for (const text of ['x'.repeat(500_000), 'é'.repeat(3000), randomBytes(3000).toString('hex')]) {
      const cursor = cursors.seal(['2026-01-01', text], binding)
      assert.ok(cursor.length <= MAX_CURSOR_LENGTH)
      assert.deepEqual(cursors.open(cursor, binding), ['2026-01-01', text])
      const bytes = Buffer.from(cursor, 'base64url')
      bytes[0] = 1
      assert.throws(() => cursors.open(bytes.toString('base64url'), binding), refused)
    }
    for (const text of ['x'.repeat(2 ** 20), randomBytes(12_000).toString('hex')]) {
      assert.throws(() => cursors.seal([text], binding), { code: 'cursor_too_long' })
    }
  })

  it('fit an address, beside the longest of each other parameter', () => {
    const others = {
      columns: 3000,
      filter: 2000,
      order: 1000,
      namespace: 500,
      from: 64,
      to: 64,
      interval: 64,
      limit: 4,
    }
    const query = Object.entries({ ...others, cursor: MAX_CURSOR_LENGTH }).map(
      ([name, most]) => `${name}=${'x'.repeat(most)}`,
    )
    parseTarget(`/api/v1/products/${'p'.repeat(500)}/timeseries?${query.join('&')}`)
  })

  it('are good for their reader, policy, query and snapshot alone', () => {
    const cursors = new Cursors([KEY])
    const cursor = cursors.seal(1, binding)
    const others: Partial<CursorBinding>[] = [
      { tenant: 'globex' },
      { issuer: 'j' },
      { subject: 'bob' },
      { policyVersion: '2' },
      { query: { operation: 'list', filter: ['a:2'] } },
      { snapshot: '8' },
    ]
    for (const other of others) assert.throws(() => cursors.open(cursor, { ...binding, ...other }), refused)
    const { snapshot: _, ...without } = binding
    assert.throws(() => cursors.open(cursor, without), refused)
  })

  it('cannot be forged, changed or cut', () => {
    const cursors = new Cursors([KEY])
    const bytes = Buffer.from(cursors.seal({ after: 3 }, binding), 'base64url')
    for (let at = 0; at < bytes.length; at++) {
      const changed = Buffer.from(bytes)
      changed[at] = (changed[at] as number) ^ 1
      assert.throws(() => cursors.open(changed.toString('base64url'), binding), refused)
      assert.throws(() => cursors.open(bytes.subarray(0, at).toString('base64url'), binding), refused)
    }
    for (const text of ['', 'nonsense', 'A'.repeat(10_000)]) assert.throws(() => cursors.open(text, binding), refused)
    assert.throws(() => new Cursors([randomBytes(32)]).open(bytes.toString('base64url'), binding), refused)
  })

  it('end after a day, and outlive a rotation of the key', () => {
    let nowMs = 0
    const old = new Cursors([KEY], () => nowMs)
    const cursor = old.seal(1, binding)
    assert.equal(new Cursors([randomBytes(32), KEY], () => nowMs).open(cursor, binding), 1)
    nowMs = 24 * 60 * 60_000
    assert.throws(() => old.open(cursor, binding), refused)
  })
})

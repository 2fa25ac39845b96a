import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { BoundedAnswer, fencedText, MAX_ANSWER_BYTES } from './bounded-answer.ts'

describe('a fenced text', () => {
  it('holds the same data, and no fence but its own two, whatever is in it', () => {
    const hostile = fc.array(
      fc.oneof(fc.constantFrom('```', '`', '\n', '\\', '"', '\u202e', '\u{e0041}', '\0'), fc.string()),
    )
    fc.assert(
      fc.property(
        fc.dictionary(
          hostile.map((some) => some.join('')),
          hostile,
        ),
        (content) => {
          const [, json = '', rest, ...more] = fencedText(content).split('```')
          assert.equal(JSON.stringify(JSON.parse(json.slice('json'.length))), JSON.stringify(content))
          assert.deepEqual([rest, more], ['', []])
        },
      ),
    )
  })
})

describe('an answer', () => {
  it('stays within its limit, and names what it leaves out', () => {
    const answer = new BoundedAnswer()
    assert.equal(answer.add('small', 1), true)
    assert.equal(answer.add('large', 'x'.repeat(MAX_ANSWER_BYTES)), false)
    const rows = Array.from({ length: 1_000 }, (_, id) => [id, '`"\n'.repeat(5)])
    const shown = answer.addList('rows', rows)
    const { content, bytes } = answer.finish('And so on.')
    assert.ok(shown > 10 && shown < 1_000, String(shown))
    assert.ok(bytes <= MAX_ANSWER_BYTES && bytes > MAX_ANSWER_BYTES / 2, String(bytes))
    assert.deepEqual(content, { small: 1, rows: rows.slice(0, shown), left_out: ['large', 'rows'], next: 'And so on.' })
  })
})

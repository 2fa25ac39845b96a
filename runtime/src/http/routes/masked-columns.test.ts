import assert from 'node:assert/strict'
import { it } from 'node:test'
import type { QueryAnswer } from '../../operations/queries/query.ts'
import { MASKED_COLUMNS, maskedColumnsHeader } from './masked-columns.ts'
import { CONTENT_TYPES, replyOf } from './query.ts'

it('names columns in ASCII, and tells their number where there are too many', () => {
  const masked = (names: readonly string[]) => maskedColumnsHeader(names.map((name) => ({ name, masked: true })))
  const odd = ['a"b\r\nSet-Cookie: c', 'é', '日本\u{1f600}']
  const told = masked(odd)[MASKED_COLUMNS] ?? ''
  assert.match(told, /^[\x20-\x7e]+$/)
  assert.deepEqual(JSON.parse(told), odd)
  assert.deepEqual(masked(Array.from({ length: 1000 }, (_, at) => `column${at}`)), { [MASKED_COLUMNS]: '1000' })
  assert.deepEqual(maskedColumnsHeader([{ name: 'id', masked: false }]), {})
})

it('is told of every form of an answer: in its columns, or in a header', () => {
  const columns = [
    { name: 'id', type: 'integer', masked: false },
    { name: 'email', type: 'string', masked: true },
  ]
  const answer = { columns, run: { output: [] }, made: {}, withoutValues: {} } as unknown as QueryAnswer
  for (const format of Object.keys(CONTENT_TYPES) as (keyof typeof CONTENT_TYPES)[]) {
    const told = replyOf(answer, format).headers?.[MASKED_COLUMNS]
    assert.equal(told, format === 'json' ? undefined : '["email"]', format)
  }
})

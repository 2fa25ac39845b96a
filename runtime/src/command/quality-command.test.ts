import assert from 'node:assert/strict'
import { it } from 'node:test'
import { type CheckAnswer, type QualityAnswer, qualityText } from './quality-command.ts'

const CHECK: CheckAnswer = {
  ...{ name: 'ids', severity: 'error', passed: true, learning: false, violations: 0, total: 30 },
  ...{ measured: null, violating: null },
}
const MEASURED = { metric: 'null_share', column: 'email', value: 0.25, lower: 0, upper: 0.01, epochs: 9 }
const MADE: QualityAnswer = {
  ...{ state: 'committed', kind: 'materialize', version: '1.0.0', epoch: 4, rows: 30, quality_score: 100 },
  ...{ committed_at: '2026-05-01T08:00:00.000Z', quality: { checks: [CHECK] } },
}

it('says that there is nothing, and that there is nothing to be seen', () => {
  assert.equal(qualityText([]), 'The product has not been made yet.')
  assert.match(qualityText([{ ...MADE, quality: null, quality_score: null }]), /08:00:00\.000Z\.\nIt has no checks/)
})

it('shows what learned checks measured, within which bounds', () => {
  const mails = { ...CHECK, name: 'mails', passed: false, violations: 1, total: 1, measured: MEASURED }
  const gone = { ...mails, name: 'gone', measured: { ...MEASURED, value: null, lower: null, upper: null } }
  const young = { ...CHECK, name: 'young', learning: true, total: 1 }
  const rows = { metric: 'row_count', column: null, value: 30, lower: null, upper: null, epochs: 1 }
  const text = qualityText([{ ...MADE, quality: { checks: [mails, { ...young, measured: rows }, gone, CHECK] } }])
  assert.match(text, /^mails +failed +error +1 +1$/m)
  assert.match(text, /^young +learning +error +0 +1$/m)
  assert.match(text, /^mails +null_share of email +0\.25 +0 +0\.01 +9$/m)
  assert.match(text, /^young +row_count +30 +1$/m)
  assert.match(text, /^gone +null_share of email +nothing to measure +9$/m)
  assert.doesNotMatch(text, /newest first/)
})

it('lets no control character of a name reach the terminal', () => {
  const violating = { columns: ['a\u001b[1m'], masked_columns: [], rows: [['\u001b[2J']] }
  const check = { ...CHECK, name: 'mails\u001b]0;\u0007', passed: false, violations: 1, violating }
  const text = qualityText([{ ...MADE, version: '1.0.0\u001b[3m', quality: { checks: [check] } }])
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what must not be there
  assert.doesNotMatch(text, /[\u0000-\u0009\u000b-\u001f]/)
  assert.match(text, /^mails·\]0;·: rows that failed it$/m)
})

it('shows how it went before', () => {
  const failed = { ...CHECK, name: 'mail\u001b[2J', passed: false }
  const blocked = { ...MADE, state: 'blocked' as const, epoch: null, rows: null, quality_score: 50 }
  const back = { ...MADE, kind: 'rollback', epoch: 5 }
  const text = qualityText([MADE, back, { ...blocked, quality: { checks: [failed, CHECK] } }])
  assert.match(text, /The last 3, newest first:\nat +outcome +version +epoch +rows +score +failed\n/)
  assert.match(text, /Z +published +1\.0\.0 +4 +30 +100\n/)
  assert.match(text, /Z +rolled back to +1\.0\.0 +5 +30 +100\n/)
  assert.match(text, /Z +not published +1\.0\.0 +50 +mail·\[2J$/)
})

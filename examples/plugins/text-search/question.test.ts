import assert from 'node:assert/strict'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import plugin from './index.ts'
import { searchedColumns, termsOf } from './question.ts'

const config = { text_columns: ['title', 'body'] }
const invalid = { kind: 'INVALID_DATA', code: 'invalid_value' }

const SYNTAX = [
  '"',
  '""',
  '* ^a',
  'a AND',
  'NOT a',
  'NEAR(a b)',
  '{c0} : a',
  'c0:a',
  'a + b',
  '(a',
  "'; --",
  '\0',
  'a\0"b',
  '\ud800',
]

test('nothing that a reader writes is syntax', () => {
  const database = new DatabaseSync(':memory:')
  for (const [tokenizer, name] of [
    ['words', 'unicode61'],
    ['trigrams', 'trigram'],
  ] as const) {
    database.exec(`CREATE VIRTUAL TABLE ${tokenizer} USING fts5(c0, tokenize='${name}')`)
    const find = database.prepare(`SELECT rowid FROM ${tokenizer} WHERE ${tokenizer} MATCH ?`)
    for (const text of SYNTAX) {
      const isShort = text.split(/[\s\0]+/).some((piece) => piece.length > 0 && piece.length < 3)
      for (const mode of ['all', 'phrase']) {
        for (const prefix of [false, true]) {
          const input = { words: `${text} abc`, mode, prefix }
          const ask = () => termsOf(input, { ...config, tokenizer })
          if (isShort && tokenizer === 'trigrams' && mode === 'all') assert.throws(ask, invalid, JSON.stringify(input))
          else for (const term of ask().terms) assert.deepEqual(find.all(term), [], JSON.stringify(input))
        }
      }
    }
  }
  database.close()
})

test('what holds no word is left out, and a word counts once', () => {
  assert.deepEqual(termsOf({ words: ' - e-mail e-mail  Ä ' }, config), { terms: ['"e-mail"', '"Ä"'], isEach: true })
  assert.deepEqual(termsOf({ words: '?!' }, config).terms, [])
  assert.deepEqual(termsOf({ words: 'a "b" c', mode: 'phrase', prefix: true }, config).terms, ['"a ""b"" c" *'])
})

test('searches that are too long or too short are refused, and so is a column that is not searched', () => {
  const many = (count: number) => ({ words: Array.from({ length: count }, (_, index) => `w${index}`).join(' ') })
  assert.equal(termsOf(many(32), config).terms.length, 32)
  assert.throws(() => termsOf(many(33), config), invalid)
  assert.throws(() => termsOf({ words: 'tea ab' }, { ...config, tokenizer: 'trigrams' }), invalid)
  assert.deepEqual(searchedColumns({ columns: ['body'] }, config), ['body'])
  assert.throws(() => searchedColumns({ columns: ['body', 'secret'] }, config), invalid)
  const schema = { columns: [], primaryKey: [] }
  const asked = { operation: 'search', input: { words: 'tea' }, config, schema }
  assert.deepEqual(plugin.selects?.(asked), ['title', 'body'])
})

test('the config names columns of text, and weighs those alone', () => {
  const columns = [
    { name: 'title', type: 'string', nullable: true },
    { name: 'no', type: 'long', nullable: false },
  ] as const
  const problems = plugin.checkConfig?.(
    { text_columns: ['title', 'no', 'gone'], weights: { title: 2, 'a/b': 1 } },
    { columns, primaryKey: ['no'] },
  )
  assert.deepEqual(
    problems?.map(({ pointer }) => pointer),
    ['/text_columns/1', '/text_columns/2', '/weights/a~1b'],
  )
})

import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ClassifiedColumn } from '../../policy/masking.ts'
import { masksFor } from '../../policy/masking.ts'
import { commentsOf } from './column-comments.ts'

const RULES = { sensitive: ['salary'], strategies: { 'pii.mail': 'hash' } }
const COLUMNS = (
  [
    ['id', 'long', 'public'],
    ['mail', 'string', 'pii.mail'],
    ['pay', 'integer', 'salary'],
    // Of a class that was raised since: whoever may see the one may not see the other.
    ['name', 'string', 'pii.name'],
    ['name', 'string', 'pii.mail'],
  ] as const
).map(([name, type, classification]): ClassifiedColumn => ({ name, type, nullable: true, classification }))

const told = (clear: readonly string[], masked: readonly string[]) =>
  Object.fromEntries(commentsOf({ columns: COLUMNS }, { masks: masksFor(COLUMNS, new Set(clear), RULES) }, masked))

test('a reader is told of each column its classes, and the masks that he reads it by', () => {
  assert.deepEqual(told([], ['mail', 'pay', 'name']), {
    id: 'class public',
    mail: 'class pii.mail; masked for you: hash',
    pay: 'class salary; masked for you: null',
    name: 'class pii.mail, pii.name; masked for you: hash, redact',
  })
  assert.deepEqual(told(['pii.mail', 'pii.name', 'salary'], []), {
    id: 'class public',
    mail: 'class pii.mail',
    pay: 'class salary',
    name: 'class pii.mail, pii.name',
  })
})

test('a column that the copy has masked is told as masked, whatever its class is by now', () => {
  assert.equal(told(['pii.mail', 'pii.name', 'salary'], ['id'])['id'], 'class public; masked for you')
})

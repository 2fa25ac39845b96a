import assert from 'node:assert/strict'
import { test } from 'node:test'
import { optionsOf } from './options.ts'

const KNOWN = ['redis', 'kafka']

test('takes names and options in any order, and nothing by itself', () => {
  assert.deepEqual(optionsOf([], KNOWN), {
    names: [],
    isAffected: false,
    isAll: false,
    isRecorded: false,
    minutes: null,
    usualMinutes: null,
  })
  assert.deepEqual(
    optionsOf(['--minutes', '2.5', '--usual-minutes', '1', 'redis', '--affected', '--all', 'kafka', '--record'], KNOWN),
    {
      names: ['redis', 'kafka'],
      isAffected: true,
      isAll: true,
      isRecorded: true,
      minutes: 2.5,
      usualMinutes: 1,
    },
  )
})

test('refuses what it does not know', () => {
  assert.throws(() => optionsOf(['redsi'], KNOWN), /no suite redsi; there are redis, kafka/)
  assert.throws(() => optionsOf(['--afected'], KNOWN), /--afected/)
  for (const minutes of ['0', 'x', ''])
    for (const option of ['minutes', 'usual-minutes'])
      assert.throws(() => optionsOf([`--${option}=${minutes}`], KNOWN), /no number above 0/)
})

import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Mutation } from '../mutations/mutation.ts'
import { affectedBy, gaps, judge } from './judge.ts'

const mutation: Mutation = { file: 'a.ts', line: 1, column: 1, from: '<', to: '<=', kind: 'typescript' }
const bySuite = new Map([
  ['one', new Set(['a.ts', 'b.ts'])],
  ['two', new Set(['a.ts'])],
  ['three', new Set(['b.ts'])],
])
const recording = { bySuite, byNobody: [] }
const rests = new Map([
  ['one', new Set(['a.ts'])],
  ['two', new Set(['b.ts'])],
  ['three', new Set(['a.ts', 'b.ts'])],
])

test('left out is who has opened the file and does not rest on it', () => {
  const { openedBy, leftOut } = judge(mutation, recording, rests)
  assert.deepEqual([openedBy, leftOut], [['one', 'two'], ['two']])
  assert.deepEqual(affectedBy('a.ts', rests), ['one', 'three'])
})

test('a suite that nobody knows is left out always', () => {
  assert.deepEqual(judge(mutation, recording, new Map()).leftOut, ['one', 'two'])
})

test('every pair that is missing is told', () => {
  assert.deepEqual(gaps(recording, rests), ['one: b.ts', 'two: a.ts'])
})

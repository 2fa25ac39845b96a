import assert from 'node:assert/strict'
import { it } from 'node:test'
import type { TextRow } from '@sluice/sdk'
import { arrivingColumns, csvOf } from './rows-csv.ts'

async function* pagesOf(...pages: readonly (readonly TextRow[])[]) {
  yield* pages
}

it('tells a null from an empty text, and keeps a line for a row of nothing', async () => {
  const pages = pagesOf(
    [
      ['a"b', ''],
      [null, 'x,\ny'],
    ],
    [],
    [[null, null]],
  )
  const texts = (await Array.fromAsync(csvOf(pages))).map((bytes) => Buffer.from(bytes).toString())
  assert.deepEqual(texts, ['"a""b","",""\n,"x,\ny",""\n', '', ',,""\n'])
})

it('leaves the pages where its reader leaves', async () => {
  let isLeft = false
  const pages = (async function* () {
    try {
      for (;;) yield [['x']]
    } finally {
      isLeft = true
    }
  })()
  for await (const _ of csvOf(pages)) break
  assert.ok(isLeft)
})

it('has columns by their places, since names may come twice', () => {
  const columns = arrivingColumns([{ type: 'long' }, { type: 'binary' }])
  assert.deepEqual(columns, [
    { name: 'c0', type: 'long' },
    { name: 'c1', type: 'binary' },
    { name: '__end', type: 'string' },
  ])
})

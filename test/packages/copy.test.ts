/** A copy that tests make is whole; noticed here, before the suites that take one. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { unnamedFiles } from './copy.ts'

test('the list of what is copied names all folders and files of the root', async () => {
  assert.deepEqual(await unnamedFiles(), [])
})

/** Every code that the sources throw is in the table of answers. */
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { ERROR_CODES } from '../runtime/src/http/codes.ts'
import { ROOT, sourceFiles } from './sources.ts'

/** Codes of Node, which the sources compare with but never throw. */
const FOREIGN = /^[A-Z][A-Z0-9_]+$/

function codesInUse(): ReadonlyMap<string, string> {
  const files = sourceFiles([
    'runtime/src/**/*.ts',
    'engine/**/*.ts',
    'iceberg/**/*.ts',
    'plugins/**/*.ts',
    'sdk/**/*.ts',
  ]).filter(({ path }) => !/\.(test|fixture)\.ts$/.test(path) && !/test-?(data|server|ing)|\/templates\//.test(path))
  return new Map(
    files.flatMap(({ path, text }) =>
      [...text.matchAll(/\bcode: '([^']+)'/g)].map((match) => [match[1] as string, path]),
    ),
  )
}

test('every code in use is in the table', () => {
  const codes = codesInUse()
  assert.ok(codes.size > 100, 'the search for codes finds too few')
  const unknown = [...codes].filter(([code]) => !FOREIGN.test(code) && !Object.hasOwn(ERROR_CODES, code))
  assert.deepEqual(unknown, [])
})

test('codes are snake_case and statuses are those of refusals and faults', () => {
  for (const [code, { status, title, remedy }] of Object.entries(ERROR_CODES)) {
    assert.match(code, /^[a-z]+(_[a-z]+)*$/)
    assert.ok(status >= 400 && status < 600, code)
    assert.ok(title.length > 0 && remedy.endsWith('.'), code)
  }
})

/** Of two parts of one table with the same code, the later would take the other's place without a word. */
test('every code of every part is in the table, and in one part only', async () => {
  const parts = sourceFiles(['runtime/src/http/codes-of-*.ts'])
  assert.ok(parts.length > 5, 'the search for parts finds too few')
  const placesOf = new Map<string, string[]>()
  for (const { path } of parts) {
    const exported: Readonly<Record<string, object>> = await import(join(ROOT, path))
    for (const code of Object.values(exported).flatMap((codes) => Object.keys(codes)))
      placesOf.set(code, [...(placesOf.get(code) ?? []), path])
  }
  assert.deepEqual(
    [...placesOf].filter(([, places]) => places.length > 1),
    [],
  )
  assert.deepEqual(
    [...placesOf].filter(([code]) => !Object.hasOwn(ERROR_CODES, code)),
    [],
  )
})

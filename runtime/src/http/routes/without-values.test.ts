import assert from 'node:assert/strict'
import { it } from 'node:test'
import { WITHOUT_VALUES, withoutValuesHeader } from './without-values.ts'

it('tells columns of any name in ASCII, and numbers where there are too many', () => {
  const named = (columns: readonly string[]) => withoutValuesHeader({ 'raw_a.t': columns })[WITHOUT_VALUES] ?? ''
  const odd = ['a"b\r\nSet-Cookie: c', 'é', '日本\u{1f600}', '\u007f\u202e']
  assert.match(named(odd), /^[\x20-\x7e]+$/)
  assert.deepEqual(JSON.parse(named(odd)), { 'raw_a.t': odd })
  assert.deepEqual(withoutValuesHeader({}), {})
  assert.equal(named(Array.from({ length: 1000 }, (_, at) => `column${at}`)), '{"raw_a.t":1000}')
  const many = Object.fromEntries(Array.from({ length: 1000 }, (_, at) => [`raw_a.t${at}`, ['c']]))
  assert.deepEqual(withoutValuesHeader(many), { [WITHOUT_VALUES]: '{}' })
})

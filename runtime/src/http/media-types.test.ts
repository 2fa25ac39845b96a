import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { isSluiceError } from '@sluice/sdk'
import Koa from 'koa'
import { mediaTypeFor, offeredTypes } from './media-types.ts'

const QUERY = ['application/json', 'application/x-ndjson', 'text/csv', 'application/vnd.apache.parquet'] as const
const [JSON_TYPE, NDJSON, CSV, PARQUET] = QUERY
const NONE = 'not_acceptable'

/** What a header gets of the four forms of a query's answer. */
const CHOICES: readonly (readonly [string | undefined, string])[] = [
  [undefined, JSON_TYPE],
  ['', JSON_TYPE],
  ['*/*', JSON_TYPE],
  ['application/*', JSON_TYPE],
  ['text/*', CSV],
  ['TEXT/CSV', CSV],
  ['text/csv; charset=UTF-8', CSV],
  ['text/csv;header="present"', CSV],
  ['text/csv;charset=utf-8;header=present, application/x-ndjson', CSV],
  // Weights.
  ['text/csv;q=0.1, application/json;q=0.2', JSON_TYPE],
  ['text/csv;q=0.5, */*;q=0.1', CSV],
  ['text/csv;q=0, */*', JSON_TYPE],
  ['application/json;q=0, */*;q=0.5', NDJSON],
  ['application/*;q=0, */*', CSV],
  ['application/*;q=0.1, text/*;q=0.2, application/vnd.apache.parquet;q=0.3', PARQUET],
  ['*/*;q=0.9, application/json;q=0.1', NDJSON],
  ['text/csv;charset=utf-8;q=0.1, text/csv;q=0.9, application/json;q=0.5', JSON_TYPE],
  // Alike: the more exact one, then the earlier one.
  ['*/*, text/csv', CSV],
  ['text/csv, application/json', CSV],
  ['application/json, text/csv', JSON_TYPE],
  ['text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8', JSON_TYPE],
  // Nothing of it is there.
  ['text/html', NONE],
  ['image/*', NONE],
  ['*/*;q=0', NONE],
  ['*/*;q=0.000', NONE],
  ['application/json;q=0', NONE],
  ['application/json;profile=x', NONE],
  ['text/csv;header=absent', NONE],
  ['text/csv;charset=latin1', NONE],
  ['text/html, image/png;q=0.5, application/json;q=0', NONE],
  // What is no range asks for nothing.
  ['json', NONE],
  ['*', NONE],
  ['application/json;q=-1', NONE],
  [',,;;,', NONE],
  ['x"y,text/csv"', NONE],
  ['nonsense, text/csv', CSV],
  ['text/csv;', CSV],
]

const { request } = new Koa()

function requestFor(accept: string | undefined): Koa.Request {
  return Object.create(request, { req: { value: { headers: { accept } } } }) as Koa.Request
}

function chosen(accept: string | undefined, offered: readonly string[]): string | null {
  try {
    return mediaTypeFor(requestFor(accept), offered)
  } catch (error) {
    assert(isSluiceError(error))
    return error.code
  }
}

describe('a media type', () => {
  it('is the one that the client likes best', () => {
    for (const [accept, type] of CHOICES) assert.equal(chosen(accept, QUERY), type, String(accept))
  })

  it('is asked for in whatever order and case, to the same end', () => {
    for (const [accept, type] of CHOICES) {
      if (accept === undefined || type === NONE) continue
      assert.equal(chosen(accept.toUpperCase().replaceAll('Q=', 'q='), QUERY), type, accept)
      assert.equal(chosen(`image/png, ${accept} ,text/nothing;q=0.3`, QUERY), accept === '' ? NONE : type, accept)
    }
  })

  it('is of no matter to an answer without content', () => {
    assert.equal(chosen('image/png', []), null)
  })

  it('takes a header of any length in a moment', () => {
    assert.equal(chosen(`${'a/b;q=0.1,'.repeat(2_400)}text/csv`, QUERY), CSV)
    assert.equal(chosen('"'.repeat(24_000), QUERY), NONE)
  })
})

describe('the types of a route', () => {
  const of = (responses: Parameters<typeof offeredTypes>[0]['responses']) => offeredTypes({ responses })
  it('are those of its answers that have content', () => {
    const also = { 'text/csv': 'rows' }
    assert.deepEqual(of({ 200: { description: '' } }), ['application/json'])
    assert.deepEqual(of({ 200: { description: '', also } }), ['text/csv'])
    assert.deepEqual(of({ 204: { description: '' } }), [])
    assert.deepEqual(of({ 202: { description: '' }, 204: { description: '' } }), ['application/json'])
    assert.deepEqual(of({ 200: { description: '' }, 503: { description: '', also } }), ['application/json'])
    assert.deepEqual(offeredTypes({ responses: { 200: { description: '' } }, answersAnyType: true }), [])
  })
})

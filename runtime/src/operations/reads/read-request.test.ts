import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type FilterOperator, isSluiceError, type ReadPolicy, type TableSchema } from '@sluice/sdk'
import { parseFilters } from './read-request.ts'

const schema: TableSchema = {
  columns: [
    { name: 'host', type: 'string', nullable: true },
    { name: 'price', type: 'long', nullable: true },
    { name: 'email', type: 'string', nullable: true },
    { name: 'body', type: 'binary', nullable: true },
  ],
  primaryKey: [],
}
const policy = { visibleColumns: ['host', 'price', 'email', 'body'], maskedColumns: ['email'] } as unknown as ReadPolicy
const one = (text: string) => parseFilters([text], schema, policy)[0]

describe('a filter', () => {
  it('is equality with the whole text behind the first colon', () => {
    for (const value of ['in.tum.de', 'gt.10', 'eq.x', 'a:b', 'a,b', '', '.gt:1', ' x ']) {
      assert.deepEqual(one(`host:${value}`), { column: 'host', operator: 'eq', values: [value] })
    }
  })

  it('takes its operator at the column', () => {
    for (const operator of ['eq', 'ne', 'lt', 'le', 'gt', 'ge'] satisfies FilterOperator[]) {
      assert.deepEqual(one(`host.${operator}:in.a,b`), { column: 'host', operator, values: ['in.a,b'] })
    }
    assert.deepEqual(one('price.in:1,2')?.values.length, 2)
    assert.equal(one('price.in:1,2')?.operator, 'in')
  })

  it('is refused where it names no operator, no column or a masked one', () => {
    for (const [text, code] of [
      ['price.like:1', 'filter_malformed'],
      ['price.:1', 'filter_malformed'],
      ['price.GT:1', 'filter_malformed'],
      ['price.gt.lt:1', 'filter_malformed'],
      ['price.gt', 'filter_malformed'],
      [':1', 'filter_malformed'],
      ['.gt:1', 'unknown_column'],
      ['cost.gt:1', 'unknown_column'],
      ['price.gt:in.x', 'invalid_value'],
      ['email.gt:a', 'column_masked'],
      // Of these letters or bits would be left over: each would be taken for other bytes than somebody wrote.
      ['body:A', 'invalid_value'],
      ['body.ge:AB==', 'invalid_value'],
      ['body.in:AA==,AAAAA', 'invalid_value'],
    ] as const) {
      assert.throws(
        () => one(text),
        (error) => isSluiceError(error) && error.code === code,
        text,
      )
    }
  })
})

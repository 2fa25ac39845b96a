import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { trinoPolicy } from './policy.ts'

const TABLE = { catalogName: 'lakehouse_acme', schemaName: 'crm', tableName: 'people' }
const PLAIN = { catalog: 'lakehouse_acme', schema: 'crm', table: 'people' }

const body = (operation: string, more: object = {}) => ({
  input: { context: { identity: { user: 'vito', groups: [] } }, action: { operation, ...more } },
})

function asked(path: string, operation: string, more: object = {}) {
  const request = trinoPolicy.read(path, body(operation, more))
  assert.ok(request !== null)
  assert.equal(request.user, 'vito')
  return request
}

const one = (operation: string, resource?: object) => {
  const { questions } = asked('allow', operation, resource === undefined ? {} : { resource })
  assert.equal(questions.length, 1)
  return questions[0]
}

describe('what Trino asks', () => {
  it('is a statement, a catalog, a schema, a table, rows or somebody’s statement', () => {
    const schema = { catalogName: 'lakehouse_acme', schemaName: 'crm' }
    assert.deepEqual(one('ExecuteQuery'), { about: 'statement' })
    assert.deepEqual(one('AccessCatalog', { catalog: { name: 'c' } }), { about: 'catalog', catalog: 'c' })
    assert.deepEqual(one('ShowTables', { schema }), { about: 'schema', catalog: 'lakehouse_acme', schema: 'crm' })
    assert.deepEqual(one('ShowColumns', { table: TABLE }), { about: 'table', table: PLAIN })
    assert.deepEqual(one('SelectFromColumns', { table: TABLE }), { about: 'rows', table: PLAIN })
    assert.deepEqual(one('KillQueryOwnedBy', { user: { user: 'olga' } }), { about: 'others-statement', owner: 'olga' })
    for (const operation of ['CreateCatalog', 'DropCatalog', 'ShowCatalogs'])
      assert.deepEqual(one(operation, { catalog: { name: 'c' } }), { about: 'operation' })
  })

  it('is nobody’s where it is not known, or of the tables behind a dollar sign', () => {
    for (const operation of ['InsertIntoTable', 'ExecuteProcedure', 'ImpersonateUser', 'SetCatalogSessionProperty', ''])
      assert.deepEqual(one(operation, { table: TABLE }), { about: 'nothing' }, operation)
    for (const operation of ['SelectFromColumns', 'FilterTables', 'ShowColumns']) {
      assert.deepEqual(one(operation, { table: { ...TABLE, tableName: 'people$snapshots' } }), { about: 'nothing' })
      assert.deepEqual(one(operation), { about: 'nothing' })
    }
  })

  it('is everybody’s of those tables of its own that it filters itself', () => {
    const of = (schemaName: string, tableName: string, catalogName = 'system') =>
      one('SelectFromColumns', { table: { catalogName, schemaName, tableName } })
    assert.deepEqual(of('jdbc', 'tables'), { about: 'own' })
    assert.deepEqual(of('runtime', 'queries'), { about: 'own' })
    for (const [schema, table] of [
      ['runtime', 'tasks'],
      ['metadata', 'catalogs'],
      ['constructor', 'x'],
    ] as const)
      assert.deepEqual(of(schema, table), { about: 'nothing' })
    const described = of('information_schema', 'columns', 'lakehouse_acme')
    assert.deepEqual(described, { about: 'catalog', catalog: 'lakehouse_acme' })
  })

  it('is answered by what is allowed of a list, and columns of one table together', () => {
    const table = { table: TABLE }
    const list = asked('batch', 'FilterTables', { filterResources: [table, table, table] })
    assert.deepEqual(list.answer([true, false, true]), { result: [0, 2] })
    const columns = { table: { ...TABLE, columns: ['id', 'email'] } }
    const whole = asked('batch', 'FilterColumns', { filterResources: [columns] })
    assert.deepEqual(whole.questions, [{ about: 'table', table: PLAIN }])
    assert.deepEqual([whole.answer([true]), whole.answer([false])], [{ result: [0, 1] }, { result: [] }])
    const two = asked('batch', 'FilterColumns', { filterResources: [columns, columns] })
    assert.deepEqual([two.questions, two.answer([])], [[], { result: [] }])
  })

  it('has a mask for each column that may not be read, and no rows of such a table', () => {
    const column = (columnType: string) => ({ column: { ...TABLE, columnName: 'x', columnType } })
    const masks = asked('column-masks', 'GetColumnMask', {
      filterResources: [column('varchar(5)'), column('row(a b)')],
    })
    assert.deepEqual(masks.answer([true, true]), { result: [] })
    const hidden = { index: 1, viewExpression: { expression: 'CAST(NULL AS row(a b))' } }
    assert.deepEqual(masks.answer([true, false]), { result: [hidden] })
    // No answer lacks a mask: it is none.
    assert.equal((masks.answer([]) as { result: readonly unknown[] }).result.length, 2)
    for (const type of ['varchar) OR (true', 'x; y', "'a'", ''])
      assert.throws(() => asked('column-masks', 'GetColumnMask', { filterResources: [column(type)] }).answer([false]), {
        code: 'trino_question_malformed',
      })
    const rows = asked('row-filters', 'GetRowFilters', { resource: { table: TABLE } })
    assert.deepEqual(rows.answer([true]), { result: [] })
    for (const none of [[false], []]) assert.deepEqual(rows.answer(none), { result: [{ expression: 'false' }] })
  })

  it('is answered only where it is understood', () => {
    assert.equal(trinoPolicy.read('constructor', body('ExecuteQuery')), null)
    const malformed = { code: 'trino_question_malformed' }
    for (const wrong of [
      null,
      [],
      {},
      { input: {} },
      body('x', { filterResources: {} }),
      body('x', { filterResources: [1] }),
    ])
      assert.throws(() => trinoPolicy.read('allow', wrong), malformed, JSON.stringify(wrong))
    assert.throws(() => trinoPolicy.read('column-masks', body('GetColumnMask', { filterResources: [{}] })), malformed)
  })
})

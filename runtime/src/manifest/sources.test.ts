import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Column, LogicalType } from '@sluice/sdk'
import type { ManifestContext, SourceTable } from './context.ts'
import { type Edit, inBrief, parseEdited } from './editing.ts'
import { type ExampleName, exampleContext } from './examples.ts'

function table(name: string, columns: Record<string, LogicalType>, rest: Partial<SourceTable> = {}): SourceTable {
  const list = Object.entries(columns).map(([column, type]): Column => ({ name: column, type, nullable: true }))
  return { schema: 'public', name, columns: list, primaryKey: [], suggestedCursor: null, ...rest }
}

const CUSTOMERS = table('customers', {
  id: 'long',
  full_name: 'string',
  email: 'string',
  country: 'string',
  updated_at: 'timestamptz',
})
const ORDERS = table('orders', { id: 'long', customer_id: 'long', status: 'string', total: 'decimal(18,2)' })
const READINGS = table('readings', {
  sequence: 'long',
  sensor: 'string',
  measured_at: 'timestamp',
  value: 'double',
  details: 'json',
})

async function against(
  example: ExampleName,
  tables: Record<string, readonly SourceTable[] | null>,
  edits: readonly Edit[] = [],
) {
  const context: ManifestContext = { ...exampleContext(example), connections: new Map(Object.entries(tables)) }
  const parsed = await parseEdited(example, edits, context)
  const warnings = parsed.warnings.filter((warning) => warning.manifest === 'inputs')
  return { problems: inBrief(parsed.problems), warnings: inBrief(warnings), first: parsed.problems[0] }
}

describe('inputs are held against their sources', () => {
  it('accepts what is there', async () => {
    assert.deepEqual((await against('customers', { shop: [CUSTOMERS, ORDERS] })).problems, [])
    assert.deepEqual((await against('readings', { historian: [READINGS] })).problems, [])
  })

  it('names connections, tables and columns that are not', async () => {
    const { problems, first } = await against('customers', { shop: [CUSTOMERS, { ...ORDERS, name: 'order' }] })
    assert.deepEqual(problems, ['inputs[1].table: "shop" has no table "orders"'])
    assert.equal(first?.hint, 'Did you mean order?')
    assert.deepEqual((await against('minimal', { erp2: [] })).problems, [
      'inputs[0].connection: there is no connection "erp"',
    ])
    const bare = table('customers', { id: 'long' })
    assert.deepEqual((await against('customers', { shop: [bare, ORDERS] })).problems, [
      'inputs[0].cursor_column: the table "customers" has no column "updated_at"',
      'inputs[0].columns[1]: the table "customers" has no column "full_name"',
      'inputs[0].columns[2]: the table "customers" has no column "email"',
      'inputs[0].columns[3]: the table "customers" has no column "country"',
      'inputs[0].columns[4]: the table "customers" has no column "updated_at"',
    ])
  })

  it('asks for the schema where a name is ambiguous', async () => {
    const twins = [CUSTOMERS, ORDERS, { ...ORDERS, schema: 'archive' }]
    const { problems, first } = await against('customers', { shop: twins })
    assert.deepEqual(problems, ['inputs[1].table: "shop" has several tables "orders"'])
    assert.equal(first?.hint, 'Write one of public.orders, archive.orders.')
  })

  it('asks for the schema where a bare name is in another one than is read', async () => {
    const elsewhere = { ...ORDERS, schema: 'sales' }
    const bare = await against('customers', { shop: [CUSTOMERS, elsewhere] })
    assert.deepEqual(bare.problems, ['inputs[1].table: "shop" has no table "orders" in the schema public'])
    assert.equal(bare.first?.hint, 'Write sales.orders.')
    const both = await against('customers', { shop: [CUSTOMERS, elsewhere, { ...ORDERS, schema: 'archive' }] })
    assert.equal(both.first?.hint, 'Write one of sales.orders, archive.orders.')
    const named: Edit = ['inputs', 'table: orders', 'table: sales.orders']
    assert.deepEqual((await against('customers', { shop: [CUSTOMERS, elsewhere] }, [named])).problems, [])
  })

  it('warns where nothing was discovered yet', async () => {
    const { problems, warnings } = await against('minimal', { erp: null })
    assert.deepEqual(problems, [])
    assert.deepEqual(warnings, ['inputs[0].table: the tables of "erp" are not known, so this input was not checked'])
  })

  it('asks for a safe cursor', async () => {
    const noCursor: Edit = ['inputs', '    cursor_column: sequence\n', '']
    assert.deepEqual((await against('readings', { historian: [READINGS] }, [noCursor])).problems, [
      'inputs[0].mode: "readings" suggests no column that grows with every change, so incremental needs one named',
    ])
    const byTime: Edit = ['inputs', 'cursor_column: sequence', 'cursor_column: measured_at']
    const keyed = { ...READINGS, primaryKey: ['sequence'] }
    assert.deepEqual((await against('readings', { historian: [keyed] }, [byTime])).problems, [])
    assert.deepEqual((await against('readings', { historian: [keyed] })).warnings, [
      'inputs[0].cursor_column: "sequence" is the primary key: changes of rows that were read before will be missed',
    ])
    const byName: Edit = ['inputs', 'cursor_column: sequence', 'cursor_column: sensor']
    assert.deepEqual((await against('readings', { historian: [keyed] }, [byName])).problems, [
      'inputs[0].cursor_column: a column of type string cannot be a cursor',
    ])
  })

  it('asks for a key wherever rows are read incrementally', async () => {
    const noKey: Edit = ['inputs', '    primary_key: [sequence]\n', '']
    const byTime: Edit = ['inputs', 'cursor_column: sequence', 'cursor_column: measured_at']
    const why = 'incremental needs a primary key, because rows are read again with an overlap; "readings" has none'
    for (const edits of [[noKey], [noKey, byTime]]) {
      const { problems, first } = await against('readings', { historian: [READINGS] }, edits)
      assert.deepEqual(problems, [`inputs[0].cursor_column: ${why}`])
      assert.equal(first?.hint, 'Add primary_key, or use mode full.')
    }
    const bySource: Edit = ['inputs', '    cursor_column: sequence\n', '']
    const suggested = { ...READINGS, suggestedCursor: 'measured_at' }
    assert.deepEqual((await against('readings', { historian: [suggested] }, [noKey, bySource])).problems, [
      `inputs[0].mode: ${why}`,
    ])
  })

  it('reads in full where a cursor is named and there is no key, and says so', async () => {
    const noMode: Edit = ['inputs', 'mode: full', 'cursor_column: id']
    const { problems, warnings } = await against('customers', { shop: [CUSTOMERS, ORDERS] }, [noMode])
    assert.deepEqual(problems, [])
    assert.deepEqual(warnings, [
      'inputs[1].cursor_column: is not used: "orders" has no primary key, so it is read in full',
    ])
    const parsed = await parseEdited('customers', [noMode])
    assert.equal(parsed.ok && parsed.manifests.inputs[1]?.mode, 'auto')
  })

  it('asks that the cursor and the key are read', async () => {
    const some: Edit = ['inputs', 'columns: [id, full_name, email, country, updated_at]', 'columns: [full_name]']
    assert.deepEqual((await against('customers', { shop: [CUSTOMERS, ORDERS] }, [some])).problems, [
      'inputs[0].cursor_column: "updated_at" is not among the columns that are read',
      'inputs[0].primary_key[0]: "id" is not among the columns that are read',
    ])
  })

  it('asks that a projected input has every column of the output', async () => {
    const countries = table('countries', { CODE: 'string', name: 'string' })
    assert.deepEqual((await against('minimal', { erp: [countries] })).problems, [
      ': without a transform the column "title" of output.yaml must come from public.countries of the connection "erp" (input "countries"), which has none',
    ])
  })

  it('tells which columns of a projected input nothing takes, once for all of them', async () => {
    const wide = Object.fromEntries(Array.from({ length: 12 }, (_, at) => [`extra_${at}`, 'string' as const]))
    const told = async (countries: SourceTable, edits: readonly Edit[] = []) => {
      const connections = new Map([['erp', [countries]]])
      const { warnings } = await parseEdited('minimal', edits, { ...exampleContext('minimal'), connections })
      return warnings
    }
    assert.deepEqual(await told(table('countries', { CODE: 'string', title: 'string' })), [])
    const [warning, ...others] = await told(table('countries', { code: 'string', title: 'string', ...wide }))
    assert.deepEqual(others, [])
    assert.deepEqual([warning?.manifest, warning?.path], ['output', 'schema'])
    assert.match(warning?.message ?? '', /countries of the connection "erp".*: extra_0, .*extra_9 and 2 more$/)
    const chosen: Edit = ['inputs', 'table: countries', 'table: countries\n    columns: [code, title]']
    assert.deepEqual(await told(table('countries', { code: 'string', title: 'string', ...wide }), [chosen]), [])
  })

  it('holds the columns that an input chooses against the output without any source', async () => {
    const parse = (columns: string, more = '') =>
      parseEdited('minimal', [['inputs', 'table: countries', `table: countries\n    columns: [${columns}]${more}`]])
    const missing = await parse('code, titel')
    assert.equal(missing.ok, false)
    assert.match(
      missing.problems[0]?.message ?? '',
      /"title" of output.yaml must come from the columns that inputs.yaml/,
    )
    assert.equal(missing.problems[0]?.hint, 'Did you mean titel?')
    const excess = await parse('code, title, region')
    assert.equal(excess.ok, true)
    assert.deepEqual(
      excess.warnings.map(({ message }) => message.split(': ').at(-1)),
      ['region'],
    )
    const cursor = await parse('code, title, changed', '\n    cursor_column: changed\n    primary_key: [code]')
    assert.deepEqual(cursor.warnings, [], 'the read goes by it')
  })
})

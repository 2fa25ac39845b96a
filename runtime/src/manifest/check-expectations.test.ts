import assert from 'node:assert/strict'
import { it } from 'node:test'
import { PRODUCTS } from '../registry/product-sources.ts'
import type { ManifestContext, SourceTable } from './context.ts'
import { inBrief, parseEdited } from './editing.ts'
import { exampleContext } from './examples.ts'

const column = (name: string, type: 'long' | 'string' | 'timestamp') => ({ name, type, nullable: true })
const ORDERS: SourceTable = {
  ...{ schema: 'shop', name: 'orders', primaryKey: ['id'], suggestedCursor: null },
  columns: [column('id', 'long'), column('status', 'string'), column('at', 'timestamp'), column('hidden', 'string')],
}
const KNOWN: ManifestContext = {
  ...exampleContext('customers'),
  connections: new Map<string, readonly SourceTable[] | null>([
    [PRODUCTS, [ORDERS]],
    ['shop', null],
  ]),
}

const parse = (expectations: string, context: ManifestContext = KNOWN) =>
  parseEdited(
    'customers',
    [
      [
        'inputs',
        '    connection: shop\n    table: orders\n    mode: full\n',
        '    product: shop.orders\n    columns: [id, status, at]\n',
      ],
      ['quality', 'checks:\n  - name: id_present', `${expectations}\nchecks:\n  - name: id_present`],
    ],
    context,
  )

it('are checks of an input, beside those of the product, and of its digest', async () => {
  const list = '[{ on: orders, name: there, not_null: status, severity: warn, threshold: 2% }]'
  const [none, found] = [await parse('', KNOWN), await parse(`expectations: ${list}`)]
  assert.ok(none.ok && found.ok, JSON.stringify(found.problems))
  assert.deepEqual(found.manifests.quality.expectations, [
    {
      ...{ on: 'orders', name: 'there', description: '', severity: 'warn', dimension: 'completeness', weight: 1 },
      ...{ threshold: { percent: 2 }, onError: 'block', rule: { kind: 'not_null', columns: ['status'] } },
    },
  ])
  assert.deepEqual(found.manifests.quality.checks, none.manifests.quality.checks)
  assert.notEqual(found.manifests.digest, none.manifests.digest)
  const warn = await parse('downstream_expectations: warn')
  const enforce = await parse('downstream_expectations: enforce')
  assert.ok(warn.ok && enforce.ok)
  assert.equal(warn.manifests.digest, none.manifests.digest, 'the default says nothing new')
  assert.equal(enforce.manifests.quality.downstreamExpectations, 'enforce')
})

it('name inputs that are products, columns that are read of them, and one thing each', async () => {
  const refused = async (list: string, context?: ManifestContext) =>
    inBrief((await parse(`expectations: [${list}]`, context)).problems)
  assert.deepEqual(await refused('{ on: orders, name: a, not_null: hidden }'), [
    'expectations[0].not_null: the product shop.orders (input "orders") has no column "hidden"',
  ])
  assert.deepEqual(await refused('{ on: orders, name: a, not_null: hidden }', exampleContext('customers')), [])
  assert.deepEqual(await refused('{ on: orders, name: a, range: { column: id, min: x } }'), [
    'expectations[0].range.min: the value is none of type long',
  ])
  assert.deepEqual(await refused('{ on: nobody, name: a, row_count: { min: 1 } }'), [
    'expectations[0].on: inputs.yaml has no input "nobody"',
  ])
  assert.match(
    (await refused('{ on: customers, name: a, row_count: { min: 1 } }')).join(),
    /are of inputs that are products/,
  )
  assert.match((await refused('{ on: orders, name: a }')).join(), /does not say what it checks/)
  assert.match((await refused('{ on: orders, name: a, not_null: id, unique: id }')).join(), /checks one thing/)
  assert.match(
    (await refused('{ on: orders, name: a, not_null: id }, { on: orders, name: a, unique: id }')).join(),
    /expectations\[1\]\.name: the expectation "a" stands here twice/,
  )
  assert.match((await refused('{ on: orders, name: a, not_null: id, on_error: block }')).join(), /on_error/)
})

it('have names to themselves among results', async () => {
  const { problems } = await parseEdited('customers', [
    ['quality', '  - name: id_present', '  - name: "expected by me"'],
  ])
  assert.match(inBrief(problems).join(), /names that begin with "expected by " are those of what other products expect/)
})

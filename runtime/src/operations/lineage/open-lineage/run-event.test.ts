import assert from 'node:assert/strict'
import { it } from 'node:test'
import type { ManifestSet } from '../../../manifest/manifest-set.ts'
import { PRODUCTS } from '../../../registry/product-sources.ts'
import { columnLineage } from './column-lineage-facet.ts'
import { datasetOf, type Naming } from './dataset-names.ts'
import { runEvent, runUuid } from './run-event.ts'
import type { ToldRun } from './told-run.ts'

const naming: Naming = { prefix: 'sluice', tenant: 'acme', told: new Map() }
const server = (connectorType: string, config: Readonly<Record<string, unknown>>) => ({ connectorType, config })
const withHosts: Naming = {
  ...naming,
  told: new Map([
    ['shop', server('postgresql', { host: 'db.acme.test', port: 5433, database: 'shop' })],
    ['old', server('mariadb', { host: '10.0.0.7', database: 'erp' })],
    ['six', server('postgresql', { host: '2001:db8::1', database: 'd' })],
    ['push', server('push', {})],
  ]),
}
const raw = (table: string, column: string, connection = 'shop') => JSON.stringify([connection, table, column])

const column = (name: string, more = {}) => ({
  name,
  type: 'string',
  nullable: true,
  role: 'attribute',
  classification: 'none',
  description: '',
  ...more,
})

const manifests = {
  product: { name: 'people', domain: 'crm', description: 'Who buys.', owner: { team: 'crm', email: 'crm@acme.test' } },
  inputs: [
    { name: 'p', connection: 'shop', table: 'people' },
    { name: 'again', connection: 'shop', table: 'public.people' },
    { name: 'o', connection: PRODUCTS, table: 'sales.orders' },
  ],
  output: { columns: [column('email', { description: 'To write to.' }), column('total'), column('city')] },
  quality: { checks: [{ name: 'has_city', rule: { kind: 'not_null', columns: ['city'] } }] },
} as unknown as ManifestSet

const told: ToldRun = {
  event: 'COMPLETE',
  at: new Date('2026-11-28T07:00:00.123Z'),
  of: { tenant: 'acme', productId: 'prd_1', runId: 'run_1', product: 'crm.people' },
  run: { trigger: 'schedule', createdAt: new Date('2026-11-28T06:00:00Z') },
  version: '1.2.0',
  manifests,
  origins: [
    {
      column: 'email',
      sources: [raw('public.people', 'email'), raw('public.people', 'mail')],
      copied: raw('public.people', 'email'),
      influences: [raw('public.people', 'id')],
    },
    {
      column: 'total',
      sources: [raw('sales.orders', 'price', PRODUCTS)],
      influences: [raw('public.people', 'id'), raw('public.people', 'age')],
      grouped: [raw('public.people', 'city')],
    },
    { column: 'city', sources: [raw('public.people', 'city')], guessed: true },
  ],
  masked: new Set(['email']),
  inputs: { p: { snapshot_id: '9007199254740993' }, o: { product_id: 'prd_0', epoch: 4, snapshot_id: '1' } },
  checks: [
    {
      name: 'has_city',
      severity: 'warn',
      dimension: 'validity',
      weight: 1,
      onError: 'publish',
      passed: false,
      violations: 17,
      total: 99,
      reads: { output: ['city'], raw: [] },
    },
  ],
  made: { epoch: 3, rows: 5, files: { bytes: 1234, count: 2 } },
  error: null,
}

// biome-ignore lint/suspicious/noExplicitAny: a document, looked into
const event = (change: Partial<ToldRun> = {}): any =>
  JSON.parse(JSON.stringify(runEvent({ ...told, ...change }, naming, '9.9.9')))

it('a run of a product has one id that is a UUID of version 5, and other runs and products have others', () => {
  const one = runUuid({ runId: 'run_1', productId: 'prd_1' })
  // As Python's uuid5(NAMESPACE_URL, 'sluice:run_1/prd_1') has it.
  assert.equal(one, '1ead472d-9953-5ea8-924a-7675e07cfd07')
  assert.equal(event().run.runId, one)
  const others = ['run_2/prd_1', 'run_1/prd_2', 'run_1/prd_11'].map((text) => text.split('/') as [string, string])
  const ids = others.map(([runId, productId]) => runUuid({ runId, productId }))
  assert.equal(new Set([one, ...ids]).size, 4)
})

it('tables are named in the tenant’s own namespace, and by host only where that is told', () => {
  const people = { connection: 'shop', table: 'people' }
  assert.deepEqual(datasetOf(naming, people), { namespace: 'sluice/acme', name: 'shop/public.people' })
  const tables = [
    people,
    { connection: 'old', table: 'items' },
    { connection: 'old', table: 'crm.items' },
    { connection: 'six', table: 'a.b' },
    { connection: 'push', table: 'public.events' },
    { connection: 'gone', table: 't' },
    { connection: PRODUCTS, table: 'crm.people' },
  ]
  assert.deepEqual(
    tables.map((table) => Object.values(datasetOf(withHosts, table)).join(' ')),
    [
      'postgres://db.acme.test:5433 shop.public.people',
      'mysql://10.0.0.7:3306 erp.items',
      'mysql://10.0.0.7:3306 crm.items',
      'postgres://[2001:db8::1]:5432 d.a.b',
      'sluice/acme push/public.events',
      'sluice/acme gone/public.t',
      'sluice/acme crm.people',
    ],
  )
})

it('columns have what their values come from; what decides about all rows is of the dataset; guesses are left out', () => {
  const lineage = columnLineage(told, naming)
  const people = { namespace: 'sluice/acme', name: 'shop/public.people' }
  const indirect = (field: string, more = {}) => ({
    ...people,
    field,
    transformations: [{ type: 'INDIRECT', ...more, masking: false }],
  })
  assert.deepEqual(lineage, {
    fields: {
      email: {
        inputFields: [
          { ...people, field: 'email', transformations: [{ type: 'DIRECT', subtype: 'IDENTITY', masking: true }] },
        ],
      },
      total: {
        inputFields: [
          {
            namespace: 'sluice/acme',
            name: 'sales.orders',
            field: 'price',
            transformations: [{ type: 'DIRECT', subtype: 'TRANSFORMATION', masking: false }],
          },
          indirect('age'),
          indirect('city', { subtype: 'GROUP_BY' }),
        ],
      },
    },
    dataset: [indirect('id')],
  })
  assert.equal(columnLineage({ ...told, origins: null }, naming), null)
  const many = Array.from({ length: 10_001 }, (_, index) => raw('public.people', `c${index}`))
  assert.equal(columnLineage({ ...told, origins: [{ column: 'total', sources: many }] }, naming), null)
})

it('an epoch is told with what it is, and a check without what it counted', () => {
  const { eventType, eventTime, job, run, inputs, outputs } = event()
  assert.deepEqual([eventType, eventTime], ['COMPLETE', '2026-11-28T07:00:00.123Z'])
  assert.deepEqual([job.namespace, job.name], ['sluice/acme', 'crm.people'])
  assert.equal(run.facets.nominalTime.nominalStartTime, '2026-11-28T06:00:00.000Z')
  assert.equal(run.facets.errorMessage, undefined)
  const versions = inputs.map((input: { name: string; facets: { version?: { datasetVersion: string } } }) => [
    input.name,
    input.facets.version?.datasetVersion,
  ])
  // One table under two names is one dataset.
  assert.deepEqual(versions, [
    ['shop/public.people', '9007199254740993'],
    ['sales.orders', '4'],
  ])
  const [{ facets, outputFacets }] = outputs
  assert.equal(facets.version.datasetVersion, '3')
  assert.deepEqual(facets.schema.fields[0], {
    name: 'email',
    type: 'string',
    description: 'To write to.',
    ordinal_position: 1,
  })
  assert.deepEqual(facets.dataQualityAssertions.assertions, [
    { assertion: 'not_null', name: 'has_city', success: false, severity: 'warn', column: 'city' },
  ])
  const { rowCount, size, fileCount } = outputFacets.outputStatistics
  assert.deepEqual([rowCount, size, fileCount], [5, 1234, 2])
  assert.doesNotMatch(JSON.stringify(event()), /\b(17|99)\b/)
})

it('a run that failed before its version was known is told all the same', () => {
  const failed = {
    event: 'FAIL',
    version: null,
    manifests: null,
    origins: null,
    made: null,
    checks: [],
    run: null,
  } as const
  const { run, inputs, outputs } = event({ ...failed, error: 'the tenant may store no more' })
  assert.equal(run.facets.errorMessage.message, 'the tenant may store no more')
  assert.deepEqual([inputs, outputs[0].facets, outputs[0].outputFacets], [[], {}, {}])
})

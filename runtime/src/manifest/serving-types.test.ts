import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { defineServingPlugin, EXACT_TYPES, type ServingPlugin } from '@sluice/sdk'
import { type ManifestContext, servingTypesOf } from './context.ts'
import { type Edit, inBrief, parseEdited } from './editing.ts'
import { EXAMPLES } from './examples.ts'
import { endpointOf } from './manifest-set.ts'

const graph = defineServingPlugin<unknown, { readonly from: string; readonly depth: number }>({
  type: 'graph',
  name: 'memory',
  version: '1.0.0',
  description: 'Edges between rows.',
  settingsSchema: { type: 'object' },
  configSchema: {
    type: 'object',
    additionalProperties: false,
    required: ['from'],
    properties: {
      from: { type: 'string' },
      depth: { type: 'integer', minimum: 1, default: 3 },
      nested: { type: 'object', properties: { a: { type: 'boolean' } } },
    },
  },
  capabilities: {
    commit: 'atomic',
    operations: ['get'],
    filters: ['eq'],
    histories: ['current'],
    types: { ...EXACT_TYPES, json: 'rejected' },
    limits: { maxReadRows: 10, maxRowBytes: 1000 },
  },
  checkConfig: (config, schema) =>
    schema.columns.some((column) => column.name === config.from)
      ? []
      : [{ pointer: '/from', message: `there is no column "${config.from}"`, hint: `Depth is ${config.depth}.` }],
  open: () => Promise.reject(new Error('these tests open nothing')),
}) as ServingPlugin

const context = (example: 'minimal' | 'readings'): ManifestContext => ({
  product: EXAMPLES[example],
  servingTypes: servingTypesOf([graph]),
})

const endpoint = (config: string): Edit => [
  'serving',
  'kind: Serving',
  `kind: Serving\nendpoints:\n  - {type: graph, config: ${config}}`,
]

describe('endpoint types of plugins', () => {
  it('are validated by their schema, with defaults', async () => {
    const parsed = await parseEdited('minimal', [endpoint('{from: code}')], context('minimal'))
    assert.ok(parsed.ok)
    assert.deepEqual(endpointOf(parsed.manifests.serving, 'graph')?.config, { from: 'code', depth: 3 })
    const deeper = await parseEdited('minimal', [endpoint('{from: code, depth: 5}')], context('minimal'))
    assert.ok(deeper.ok)
    assert.deepEqual(endpointOf(deeper.manifests.serving, 'graph')?.config, { from: 'code', depth: 5 })
  })

  it('point to the line of what does not fit', async () => {
    const wrong = endpoint('{form: code, depth: 0, nested: {a: maybe}}')
    const { problems } = await parseEdited('minimal', [wrong], context('minimal'))
    assert.deepEqual(inBrief(problems), [
      'endpoints[0].config: "from" is missing',
      'endpoints[0].config.form: unknown field "form"',
      'endpoints[0].config.depth: must be at least 1',
      'endpoints[0].config.nested.a: must be true or false, not "maybe"',
    ])
    assert.deepEqual(
      problems.map(({ line, column }) => [line, column]),
      [
        [4, 27],
        [4, 28],
        [4, 47],
        [4, 62],
      ],
    )
  })

  it('have a word of their own, with defaults filled in', async () => {
    const { problems } = await parseEdited('minimal', [endpoint('{from: nowhere}')], context('minimal'))
    assert.deepEqual(problems, [
      {
        manifest: 'serving',
        line: 4,
        column: 34,
        path: 'endpoints[0].config.from',
        message: 'there is no column "nowhere"',
        hint: 'Depth is 3.',
      },
    ])
  })

  it('refuse columns of types that their store cannot hold', async () => {
    const edits: readonly Edit[] = [
      ['serving', 'type: timeseries\n  - type: analytics', 'type: graph\n    config: {from: sensor}'],
    ]
    const { problems } = await parseEdited('readings', edits, context('readings'))
    assert.deepEqual(inBrief(problems), ['endpoints[0].type: the store cannot hold "details", which is of type json'])
  })

  it('refuse histories that their store does not keep', async () => {
    const lookup = servingTypesOf([{ ...graph, type: 'lookup', configSchema: {} }])
    const serving = 'endpoints:\n  - {type: lookup, config: {history_mode: type_2, tracked_columns: [title]}}'
    const { problems } = await parseEdited(
      'minimal',
      [
        ['output', 'name: code', 'name: code\n    role: identity'],
        ['serving', 'kind: Serving', `kind: Serving\n${serving}`],
      ],
      {
        product: EXAMPLES.minimal,
        servingTypes: {
          ...lookup,
          get: (type) => {
            const found = lookup.get(type)
            return found === undefined ? undefined : { ...found, check: () => [] }
          },
        },
      },
    )
    assert.deepEqual(inBrief(problems), ['endpoints[0].config.history_mode: the store keeps no history of kind type_2'])
  })
})

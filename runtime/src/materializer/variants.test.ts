import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { OutputManifest } from '../manifest/manifest-set.ts'
import type { ProductGrant } from '../policy/classification.ts'
import { configFor, layoutOf, planVariants, servesVariant, type VariantPlan } from './variants.ts'

const RULES = { sensitive: [], strategies: { 'pii.identifier': 'hash', 'pii.name': 'redact' } }

function output(primaryKey: readonly string[], classes: Readonly<Record<string, string>>): OutputManifest {
  const columns = [
    ...Object.entries(classes).map(([name, classification]) => ({ name, classification, type: 'string' })),
    { name: 'at', classification: 'none', type: 'timestamptz' },
  ].map((column) => ({ ...column, nullable: false }))
  return { columns, primaryKey } as unknown as OutputManifest
}

const PEOPLE = output(['id'], { id: 'none', name: 'pii.name', email: 'pii.identifier' })

function unmask(subject: string, ...classes: string[]): ProductGrant {
  return { may: 'unmask', subjectType: 'user', subject, issuer: 'urn:test', classes }
}

function named(plans: readonly VariantPlan[], variant: string): VariantPlan {
  const plan = plans.find((one) => one.variant === variant)
  assert.ok(plan, `there is a variant ${variant}`)
  return plan
}

describe('the variants of a product', () => {
  it('are only the clear one without sensitive columns', () => {
    const plans = planVariants(output(['id'], { id: 'none' }), [], RULES)
    assert.deepEqual(
      plans.map((plan) => plan.variant),
      ['clear'],
    )
  })

  it('are clear and masked, and one more for each partial clearance that somebody has', () => {
    assert.deepEqual(
      planVariants(PEOPLE, [], RULES).map((plan) => plan.variant),
      ['clear', 'masked'],
    )
    const grants = [unmask('a', 'pii.name'), unmask('b', 'pii.name'), unmask('c', '*')]
    const plans = planVariants(PEOPLE, grants, RULES)
    assert.equal(plans.length, 3)
    assert.deepEqual(
      plans[2]?.masks.map((mask) => mask.column),
      ['email'],
    )
  })

  it('say of their columns the class, and how each of them masks it', () => {
    const partitioned = { ...PEOPLE, partitioning: [] } as unknown as OutputManifest
    const told = planVariants(partitioned, [unmask('a', 'pii.name')], RULES).map((plan) =>
      Object.fromEntries(layoutOf(plan, partitioned).comments ?? []),
    )
    const clear = { id: 'class none', name: 'class pii.name', email: 'class pii.identifier', at: 'class none' }
    const masked = { ...clear, email: 'class pii.identifier; masked: hash' }
    assert.deepEqual(told, [clear, { ...masked, name: 'class pii.name; masked: redact' }, masked])
  })

  it('count the grants of one subject together', () => {
    const plans = planVariants(PEOPLE, [unmask('a', 'pii.name'), unmask('a', 'pii.identifier')], RULES)
    assert.deepEqual(
      plans.map((plan) => plan.variant),
      ['clear', 'masked'],
    )
  })

  it('tell people of two issuers apart who have one name', () => {
    const grants = [unmask('a', 'pii.name'), { ...unmask('a', 'pii.identifier'), issuer: 'urn:other' }]
    assert.deepEqual(
      planVariants(PEOPLE, grants, RULES).map(({ masks }) => masks.map((mask) => mask.column)),
      [[], ['name', 'email'], ['email'], ['name']],
    )
  })

  it('are bounded, however many partial clearances there are', () => {
    const names = Array.from({ length: 20 }, (_, index) => `c${index}`)
    const many = output(['id'], Object.fromEntries(['id', ...names].map((name) => [name, `pii.${name}`])))
    const plans = planVariants(
      many,
      names.map((name) => unmask(name, `pii.${name}`)),
      RULES,
    )
    assert.ok(plans.length <= 10, `${plans.length}`)
  })

  it('keep a key that is hashed and lose one that is redacted', () => {
    const key = (primaryKey: string) =>
      named(planVariants({ ...PEOPLE, primaryKey: [primaryKey] }, [], RULES), 'masked').schema.primaryKey
    assert.deepEqual(key('email'), ['email'])
    assert.deepEqual(key('name'), [])
  })
})

describe('what an endpoint is given', () => {
  const plans = planVariants({ ...PEOPLE, primaryKey: ['name'] }, [], RULES)
  const [clear, masked] = [named(plans, 'clear'), named(plans, 'masked')]
  const serves = (type: string, config: Readonly<Record<string, unknown>>, plan = masked) =>
    servesVariant(type, config, plan, PEOPLE)

  it('is every variant of which the endpoint shows no hidden value by its shape', () => {
    assert.equal(serves('realtime', { key_template: 'p:{id}' }), true)
    assert.equal(serves('realtime', { key_template: 'p:{id}:{name}' }), false)
    assert.equal(serves('realtime', { key_template: 'p:{email}' }), false)
    assert.equal(serves('realtime', { key_template: 'p:{name}' }, clear), true)
    assert.equal(serves('timeseries', { time_column: 'at' }), true)
    assert.equal(serves('timeseries', {}), true)
    assert.equal(serves('timeseries', { time_column: 'name' }), false)
    assert.equal(serves('lookup', {}), true)
    assert.equal(serves('lookup', { history_mode: 'type_2' }), false)
    assert.equal(serves('lookup', { history_mode: 'type_2' }, clear), true)
    assert.equal(serves('search', { history_mode: 'type_2', time_column: 'name', key_template: '{name}' }), true)
  })

  it('is a config without the columns that the twin leaves out or means nothing by', () => {
    const rules = { ...RULES, strategies: { 'pii.name': 'omit', 'pii.identifier': 'null' } }
    const plan = named(planVariants(PEOPLE, [], rules), 'masked')
    const config = {
      index_columns: ['id', 'name'],
      continuous_aggregates: [{ interval: '1 day', columns: ['email', 'id'] }],
      ttl: '1h',
    }
    assert.deepEqual(configFor(config, plan), {
      index_columns: ['id'],
      continuous_aggregates: [{ interval: '1 day', columns: ['id'] }],
      ttl: '1h',
    })
    assert.equal(configFor(config, clear), config)
    // Of a plugin's own: what is no column of the product stays.
    const own = { text_columns: ['name', 'email'], stop_words: ['the', 'id'], sizes: [1, 2] }
    assert.deepEqual(configFor(own, plan), { ...own, text_columns: ['email'] })
  })
})

it('a twin without any of the columns that a history is of has the current state alone', () => {
  const omitting = { ...RULES, strategies: { ...RULES.strategies, 'pii.name': 'omit' } }
  const plan = named(planVariants(PEOPLE, [], omitting), 'masked')
  for (const history_mode of ['type_2', 'type_3']) {
    const of = (...tracked_columns: string[]) => configFor({ history_mode, tracked_columns }, plan)
    assert.deepEqual(of('name'), { history_mode: 'current', tracked_columns: [] })
    assert.deepEqual(of('name', 'email'), { history_mode, tracked_columns: ['email'] })
  }
  const none = { history_mode: 'current', tracked_columns: [] }
  assert.deepEqual(configFor(none, plan), none)
})

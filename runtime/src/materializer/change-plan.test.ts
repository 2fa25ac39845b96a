import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { ManifestSet } from '../manifest/manifest-set.ts'
import type { Classification } from '../policy/classification.ts'
import type { EpochMasks } from '../registry/materializations.ts'
import type { Product } from '../registry/products.ts'
import type { RaisedByDigest } from '../registry/raised-classes.ts'
import { mayStay, type PlannedTopic, planTopics, showsTooMuch } from './change-plan.ts'

const rules = { sensitive: [], strategies: { 'pii.identifier': 'hash', 'pii.name': 'redact', 'pii.phone': 'partial' } }
const principals = { reader: 'User:{tenant}', cleared: 'User:{tenant}-cleared' }
const product = { id: 'prd_1', tenant: 'acme', domain: 'crm', name: 'people' } as Product

function planned(
  classes: Readonly<Record<string, string>>,
  options: {
    level?: Classification
    key?: string[]
    cleared?: null
    /** Classes of the version that made the newest epoch. */
    newest?: Readonly<Record<string, string>>
    /** Classes that columns of the version in service were given afterwards. */
    raised?: Readonly<Record<string, string>>
  } = {},
) {
  const manifestsOf = (classesOf: Readonly<Record<string, string>>) => {
    const columns = Object.entries(classesOf).map(([name, classification]) => ({
      name,
      type: 'string',
      nullable: true,
      role: 'attribute',
      classification,
    }))
    return { output: { columns, primaryKey: options.key ?? ['id'] }, digest: 'live' } as unknown as ManifestSet
  }
  const newest = options.newest === undefined ? null : manifestsOf(options.newest)
  const named = options.cleared === null ? { ...principals, cleared: null } : principals
  const raised = Object.entries(options.raised ?? {}).map(([column, classification]) => ({ column, classification }))
  const byDigest = new Map([['live', raised]]) as unknown as RaisedByDigest
  return planTopics(product, options.level ?? 'internal', manifestsOf(classes), newest, rules, named, byDigest)
}

/** An epoch whose columns are masked so, or by what shows nothing. */
const made = (
  maskedColumns: Readonly<Record<string, readonly string[]>>,
  masks: EpochMasks = shownNothing(maskedColumns),
) => ({ maskedColumns, masks })

const shownNothing = (maskedColumns: Readonly<Record<string, readonly string[]>>): EpochMasks =>
  Object.fromEntries(
    Object.entries(maskedColumns).map(([variant, names]) => [
      variant,
      Object.fromEntries(names.map((name) => [name, 'redact' as const])),
    ]),
  )

const seen = (topics: readonly PlannedTopic[]) =>
  topics.map(({ variant, plan, readers }) => [variant, plan.variant, ...readers])

describe('the topics of a product', () => {
  it('are one of clear rows where nothing is hidden, else one of each kind', () => {
    assert.deepEqual(seen(planned({ id: 'public', city: 'public' })), [
      ['masked', 'clear', 'User:acme', 'User:acme-cleared'],
    ])
    assert.deepEqual(seen(planned({ id: 'public', name: 'pii.name' })), [
      ['masked', 'masked', 'User:acme', 'User:acme-cleared'],
      ['clear', 'clear', 'User:acme-cleared'],
    ])
  })

  it('hold nothing of a column whose source was given a class afterwards', () => {
    const before = planned({ id: 'public', name: 'public' })[0] as PlannedTopic
    const [members, cleared] = planned({ id: 'public', name: 'public' }, { raised: { name: 'pii.name' } })
    assert.equal(cleared?.variant, 'clear')
    assert.equal(mayStay(before.shape, (members as PlannedTopic).shape), false, 'what was sent is taken out')
    assert.equal(
      showsTooMuch(made({ clear: [] }), members as PlannedTopic),
      true,
      'epochs without the mask are not sent',
    )
  })

  it('are none in clear where nobody may read them', () => {
    assert.deepEqual(seen(planned({ id: 'public', name: 'pii.name' }, { cleared: null })), [
      ['masked', 'masked', 'User:acme'],
    ])
  })

  it('are opened to nobody where not every member may read the product', () => {
    for (const level of ['confidential', 'restricted'] as const) {
      assert.deepEqual(seen(planned({ id: 'public', name: 'pii.name' }, { level })), [
        ['masked', 'masked'],
        ['clear', 'clear'],
      ])
    }
  })

  it('are refused where rows have no key (any more)', () => {
    assert.match(planned({ id: 'public' }, { key: [] })[0]?.refused ?? '', /no primary key/)
    const [masked, clear] = planned({ id: 'pii.name' })
    assert.notEqual(masked?.refused, null)
    assert.equal(clear?.refused, null)
    assert.equal(planned({ id: 'pii.identifier' })[0]?.refused, null)
  })
})

describe('a version that hides less than the newest epoch', () => {
  const newest = { id: 'public', email: 'pii.identifier', gone: 'pii.name' }

  it('opens nothing before it has made an epoch of its own', () => {
    const before = planned(newest, { newest })
    const deployed = planned({ id: 'public', email: 'public' }, { newest })
    assert.deepEqual(seen(deployed), seen(before))
    assert.equal(deployed[0]?.shape.columns['email'], 'hash of pii.identifier')
    assert.equal(mayStay(before[0]?.shape ?? null, (deployed[0] as PlannedTopic).shape), true)
    const materialized = planned({ id: 'public', email: 'public' }, { newest: { id: 'public', email: 'public' } })
    assert.deepEqual(seen(materialized), [['masked', 'clear', 'User:acme', 'User:acme-cleared']])
    assert.equal(mayStay((deployed[0] as PlannedTopic).shape, (materialized[0] as PlannedTopic).shape), false)
  })

  it('shows a column as the epoch does until then, where both mask it', () => {
    const [masked] = planned({ id: 'pii.identifier' }, { newest: { id: 'pii.name' } })
    assert.equal(masked?.shape.columns['id'], 'redact of pii.name')
    assert.notEqual(masked?.refused, null)
  })
})

describe('what was sent', () => {
  const shape = (classes: Readonly<Record<string, string>>, level: Classification = 'internal') =>
    (planned(classes, { level })[0] as PlannedTopic).shape
  const before = shape({ id: 'public', name: 'pii.name', city: 'public' })

  it('stays where columns come or go, and where fewer may read', () => {
    assert.equal(mayStay(before, before), true)
    assert.equal(mayStay(before, shape({ id: 'public', name: 'pii.name' })), true)
    assert.equal(
      mayStay(before, shape({ id: 'public', name: 'pii.name', city: 'public', email: 'pii.identifier' })),
      true,
    )
    assert.equal(mayStay(before, shape({ id: 'public', name: 'pii.name', city: 'public' }, 'restricted')), true)
  })

  it('goes where a column is shown in another way, the key or the table is another, or more may read', () => {
    assert.equal(mayStay(null, before), false)
    assert.equal(mayStay(before, shape({ id: 'public', name: 'pii.name', city: 'pii.name' })), false)
    assert.equal(mayStay(before, shape({ id: 'public', name: 'pii.identifier', city: 'public' })), false)
    assert.equal(mayStay(before, shape({ id: 'public', name: 'public', city: 'public' })), false)
    assert.equal(mayStay({ ...before, key: ['city'] }, before), false)
    assert.equal(mayStay({ ...before, source: 'clear' }, before), false)
    assert.equal(mayStay({ ...before, level: 'restricted' }, before), false)
  })
})

describe('an epoch', () => {
  it('is not sent while it shows what is hidden by now', () => {
    const [masked, clear] = planned({ id: 'public', name: 'pii.name', city: 'pii.name' }) as [
      PlannedTopic,
      PlannedTopic,
    ]
    assert.equal(showsTooMuch(made({ clear: [], masked: ['name'] }), masked), true)
    assert.equal(showsTooMuch(made({ clear: [], masked: ['name', 'city'] }), masked), false)
    assert.equal(showsTooMuch(made({ clear: [], masked: ['name', 'city'] }), clear), false)
  })

  it('is not sent where its mask shows more than that of today, and what was sent is taken out', () => {
    const changed = { pseudonym: 'pii.identifier', nothing: 'pii.name' }
    const ofMembers = (name: string, newest: string, raised: Readonly<Record<string, string>> = {}) =>
      planned({ id: 'public', name }, { newest: { id: 'public', name: newest }, raised })[0] as PlannedTopic
    const hashed = made({ masked: ['name'] }, { masked: { name: 'hash' } })
    const redacted = made({ masked: ['name'] }, { masked: { name: 'redact' } })
    const before = ofMembers(changed.pseudonym, changed.pseudonym)
    for (const now of [
      ofMembers(changed.nothing, changed.pseudonym),
      ofMembers(changed.pseudonym, changed.pseudonym, { name: changed.nothing }),
    ]) {
      assert.equal(mayStay(before.shape, now.shape), false)
      assert.deepEqual([showsTooMuch(hashed, now), showsTooMuch(redacted, now)], [true, false])
    }
    const opened = ofMembers(changed.pseudonym, changed.nothing)
    assert.deepEqual([showsTooMuch(hashed, opened), showsTooMuch(redacted, opened)], [true, false])
  })

  it('is not sent where a class that came later asks for a mask which stands for none of its own, nor does that for it', () => {
    const classOf = { hash: 'pii.identifier', partial: 'pii.phone', redact: 'pii.name' } as const
    const WAYS = ['hash', 'partial', 'redact'] as const
    for (const own of WAYS) {
      for (const later of WAYS.filter((way) => way !== own)) {
        const of = { id: 'public', name: classOf[own] }
        const before = planned(of)[0] as PlannedTopic
        const now = planned(of, { newest: of, raised: { name: classOf[later] } })[0] as PlannedTopic
        const isSent = !showsTooMuch(made({ masked: ['name'] }, { masked: { name: own } }), now)
        assert.equal(isSent, own === 'redact', `${own}, then ${later}`)
        assert.equal(mayStay(before.shape, now.shape), isSent, `${own}, then ${later}`)
      }
    }
  })

  it('is not sent to members in clear where its own version hides something', () => {
    const [ofMembers] = planned({ id: 'public', email: 'public' }) as [PlannedTopic]
    assert.equal(ofMembers.plan.variant, 'clear')
    assert.equal(showsTooMuch(made({ clear: [], masked: ['email'] }), ofMembers), true)
    assert.equal(showsTooMuch(made({ clear: [] }), ofMembers), false)
  })
})

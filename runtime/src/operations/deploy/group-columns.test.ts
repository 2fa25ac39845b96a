import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Principal } from '../../flow.ts'
import type { ManifestSet } from '../../manifest/manifest-set.ts'
import { planVariants } from '../../materializer/variants.ts'
import { CLASSIFICATIONS, type Classification, type ProductGrant } from '../../policy/classification.ts'
import type { MaskingRules } from '../../policy/masking.ts'
import type { Product } from '../../registry/products.ts'
import { accessIfAny, type ServedProduct } from '../served/served-product.ts'
import { type GroupColumns, planAccess } from './group-columns.ts'

const RULES: MaskingRules = { sensitive: ['secret'], strategies: { 'pii.email': 'hash', 'pii.name': 'omit' } }
const ISSUER = 'https://issuer.example'
const CLASSES = ['none', 'pii.email', 'pii.name', 'pii.phone', 'secret'] as const

const unmask = (subject: string, ...classes: string[]): ProductGrant => ({
  subjectType: subject.startsWith('team') ? 'team' : 'user',
  subject,
  issuer: subject.startsWith('team') ? null : ISSUER,
  may: 'unmask',
  classes,
})
const GRANTS: readonly ProductGrant[] = [
  { subjectType: 'team', subject: 'team-plain', issuer: null, may: 'read', classes: [] },
  unmask('team-email', 'pii.email'),
  unmask('team-all', '*'),
  unmask('ann', 'pii.email', 'secret'),
  // What all viewers have, every group of them has.
  { ...unmask('team', 'pii.phone'), subject: 'svc-viewers' },
]

function version(level: Classification, columns: Readonly<Record<string, string>>): ManifestSet {
  const own = Object.entries(columns).map(([name, classification]) => {
    return { name, type: 'string', nullable: true, role: 'attribute', classification, description: '' }
  })
  const output = { columns: own, primaryKey: [], partitioning: [], writeMode: 'replace' }
  return { product: { classification: level }, output, digest: JSON.stringify(columns) } as unknown as ManifestSet
}

function servedAs({ product: { classification }, output }: ManifestSet): ServedProduct {
  const plans = planVariants(output, GRANTS, RULES)
  return {
    id: 'prd_1',
    tenant: 'acme',
    domain: 'crm',
    name: 'people',
    isPreview: false,
    classification,
    snapshotClassification: classification,
    columns: output.columns,
    formerColumns: [],
    raised: new Map(),
    grants: GRANTS,
    variants: new Map(plans.map(({ variant }) => [variant, {}])),
  } as unknown as ServedProduct
}

const product = { id: 'prd_1', tenant: 'acme', domain: 'crm', name: 'people' } as Product

/** Whoever shows such a token. */
const READERS: Readonly<Record<string, Pick<Principal, 'groups'> & Partial<Principal>>> = {
  'everybody ': { groups: [] },
  'team svc-viewers': { groups: ['svc-viewers'] },
  'team svc-developers': { groups: ['svc-developers'] },
  'team team-plain': { groups: ['svc-viewers', 'team-plain'] },
  'team team-email': { groups: ['svc-viewers', 'team-email'] },
  'team team-all': { groups: ['svc-viewers', 'team-all'] },
  'user ann': { groups: ['svc-viewers'], issuer: ISSUER, subject: 'ann' },
}

const nameOf = ({ type, name }: GroupColumns): string => `${type} ${name ?? ''}`

/** What a read by that reader is given of the version. */
function read(version: ManifestSet, reader: (typeof READERS)[string]): ReadonlyMap<string, string> {
  const principal = {
    issuer: '',
    subject: '',
    tenant: 'acme',
    isAdmin: false,
    isDeveloper: reader.groups.includes('svc-developers'),
    isViewer: reader.groups.includes('svc-viewers'),
    claimedClearance: null,
    email: null,
    tokenExpiresAtMs: 0,
    tokenIssuedAtMs: 0,
    ...reader,
  }
  const served = servedAs(version)
  const access = accessIfAny(served, principal, RULES, (variant) => served.variants.has(variant))
  const maskOf = (name: string) => access?.masks.find(({ column }) => column === name)?.strategy ?? 'clear'
  return new Map(version.output.columns.map(({ name }) => [name, access === null ? 'forbidden' : maskOf(name)]))
}

describe('what each group is shown before and after is what its reads are given', () => {
  for (const [from, to] of CLASSIFICATIONS.flatMap((one) => CLASSIFICATIONS.map((other) => [one, other] as const))) {
    it(`${from} to ${to}, whatever the classes`, () => {
      // Each column changes from one class to another; two come and go.
      const pairs = CLASSES.flatMap((one) => CLASSES.map((other) => [one, other] as const))
      const live = version(from, {
        ...Object.fromEntries(pairs.map(([one, other]) => [`${one}_${other}`, one])),
        gone: 'none',
      })
      const next = version(to, {
        ...Object.fromEntries(pairs.map(([one, other]) => [`${one}_${other}`, other])),
        come: 'secret',
      })
      const { groups, leftOut } = planAccess({ product, live, next, readers: [], served: servedAs(live) }, RULES)
      assert.deepEqual(groups.map(nameOf).toSorted(), Object.keys(READERS).toSorted())
      assert.equal(leftOut, 0)
      for (const group of groups) {
        const reader = READERS[nameOf(group)] as (typeof READERS)[string]
        const [before, after] = [read(live, reader), read(next, reader)]
        assert.equal(group.columns.length, pairs.length + 2)
        for (const column of group.columns) {
          assert.equal(column.before, before.get(column.name) ?? 'absent', `${nameOf(group)} ${column.name} before`)
          assert.equal(column.after, after.get(column.name) ?? 'absent', `${nameOf(group)} ${column.name} after`)
        }
      }
    })
  }
})

describe('known cells', () => {
  const shown = (level: Classification, group: string, column: string, readers: readonly ProductGrant[] = []) => {
    const next = version(level, { email: 'pii.email', name: 'pii.name', key: 'secret', city: 'none' })
    const { groups } = planAccess({ product, live: null, next, readers, served: null }, RULES)
    const found = groups.find((one) => nameOf(one) === group)?.columns.find(({ name }) => name === column)
    return found && `${found.before} ${found.after}`
  }
  const reader = { subjectType: 'team', subject: 'firsts', issuer: null, may: 'read', classes: [] } as const

  it('of a product that is not there yet nothing is shown before', () => {
    assert.equal(shown('internal', 'team svc-viewers', 'email'), 'absent hash')
    assert.equal(shown('internal', 'team svc-viewers', 'name'), 'absent omit')
    assert.equal(shown('internal', 'team svc-viewers', 'key'), 'absent redact')
    assert.equal(shown('internal', 'team svc-viewers', 'city'), 'absent clear')
    assert.equal(shown('internal', 'everybody ', 'city'), 'absent forbidden')
    assert.equal(shown('public', 'everybody ', 'city'), 'absent clear')
  })

  it('whom the first version lets read is a group of its own', () => {
    assert.equal(shown('confidential', 'team firsts', 'city', [reader]), 'absent clear')
    assert.equal(shown('confidential', 'team svc-viewers', 'city', [reader]), 'absent forbidden')
  })
})

describe('many groups', () => {
  const live = version('internal', { email: 'pii.email', city: 'none' })
  const next = version('internal', { email: 'none', city: 'none' })
  const cleared = Array.from({ length: 40 }, (_, at) => unmask(`team-${at}`, '*'))
  const masked = Array.from({ length: 20 }, (_, at) => ({ ...unmask(`team-m${at}`), may: 'read' as const }))
  const planned = { product, live, next, readers: [], served: { ...servedAs(live), grants: [...cleared, ...masked] } }

  it('come with those first who are shown something else, and the rest is counted', () => {
    const { groups, leftOut, changedLeftOut } = planAccess(planned, RULES, {
      mostJudged: 500,
      mostCellsJudged: 1000,
      mostCells: 20,
    })
    // 20 of the teams, viewers and developers; everybody may not read it.
    assert.equal(groups.length, 10)
    assert.ok(groups.every(({ columns }) => columns.some(({ before, after }) => before !== after)))
    assert.equal(leftOut, 53)
    assert.equal(changedLeftOut, 12)
  })

  it('are judged up to a bound, and those beyond it are counted as left out', () => {
    const { groups, leftOut } = planAccess(planned, RULES, { mostJudged: 7, mostCellsJudged: 1000, mostCells: 1000 })
    assert.equal(groups.length, 7)
    assert.equal(leftOut, 56)
  })

  it('are fewer of a product of many columns: nothing else is done meanwhile', () => {
    const wide = version(
      'internal',
      Object.fromEntries(Array.from({ length: 100 }, (_, at) => [`c${at}`, 'pii.email'])),
    )
    const bounds = { mostJudged: 500, mostCellsJudged: 1000, mostCells: 100_000 }
    const { groups, leftOut } = planAccess({ ...planned, live: wide, next: wide }, RULES, bounds)
    assert.equal(groups.length, 10)
    assert.equal(leftOut, 53)
  })
})

import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { ManifestContext } from './context.ts'
import { parseEdited } from './editing.ts'
import { exampleContext } from './examples.ts'
import type { Check, Rule } from './manifest-set.ts'
import { placeOfCheck, sharedIn } from './used-checks.ts'

const check = (name: string, rule: Rule): Check => ({
  ...{ name, description: '', severity: 'warn', dimension: 'validity', weight: 2, threshold: { rows: 3 } },
  ...{ onError: 'publish', rule },
})

const SHARED: NonNullable<ManifestContext['sharedChecks']> = new Map([
  [
    'crm.rules',
    {
      version: '1.2.0',
      checks: [
        check('names', { kind: 'not_null', columns: ['full_name'] }),
        check('cities', { kind: 'not_null', columns: ['city'] }),
        check('target', { kind: 'references', columns: ['country'], input: 'lands', inputColumns: ['code'] }),
        check('mean', {
          ...{ kind: 'anomaly', metric: 'drift', column: 'last_order_at' },
          ...{ sensitivity: 'low', minHistory: 3, window: 9, learnFrom: null },
        } as Rule),
        check('range', { kind: 'range', column: 'order_count', min: 'x', max: null, exclusive: false }),
      ],
    },
  ],
  ['crm.draft', null],
])

const parse = (uses: string, sharedChecks?: ManifestContext['sharedChecks']) =>
  parseEdited(
    'customers',
    [['quality', 'checks:\n  - name: id_present', `uses: ${uses}\nchecks:\n  - name: id_present`]],
    {
      ...exampleContext('customers'),
      ...(sharedChecks === undefined ? {} : { sharedChecks }),
    },
  )

describe('checks of other products', () => {
  it('stand behind the product’s own, as they are there', async () => {
    const parsed = await parse('[{ product: crm.rules, checks: [names] }]', SHARED)
    assert.ok(parsed.ok, JSON.stringify(parsed.problems))
    const { quality, digest } = parsed.manifests
    assert.deepEqual(quality.checks.at(-1), { ...SHARED.get('crm.rules')?.checks[0], from: 'crm.rules' })
    assert.deepEqual(quality.uses, [{ product: 'crm.rules', checks: ['names'], version: '1.2.0' }])
    assert.equal(placeOfCheck(quality, quality.checks.length - 1), 'uses[0].checks[0]')
    assert.equal(placeOfCheck(quality, 0), 'checks[0]')
    const again = await parse('[{ product: crm.rules, checks: [names] }]', sharedIn(quality))
    assert.ok(again.ok && again.manifests.digest === digest, 'read again with what was kept')
    assert.deepEqual(again.manifests.quality, quality)
    const own = SHARED.get('crm.rules')?.checks[0] as Check
    for (const version of ['2.0.0', undefined]) {
      const shared = new Map([['crm.rules', { checks: [own], ...(version === undefined ? {} : { version }) }]])
      const same = await parse('[{ product: crm.rules, checks: [names] }]', shared)
      assert.ok(same.ok && same.manifests.digest === digest, 'a version that has the same changes nothing')
    }
    const stricter = new Map([['crm.rules', { version: '1.2.0', checks: [{ ...own, weight: 3 }] }]])
    const other = await parse('[{ product: crm.rules, checks: [names] }]', stricter)
    assert.ok(other.ok && other.manifests.digest !== digest, 'the digest is of what runs')
  })

  it('are told to be looked up, also of files that have other problems', async () => {
    const parsed = await parse('[{ product: crm.rules, checks: [id_unique] }]')
    assert.ok(!parsed.ok)
    assert.deepEqual(parsed.uses, [{ product: 'crm.rules', checks: ['id_unique'] }])
  })

  for (const [uses, problems] of [
    [
      '[{ product: crm.rules, checks: [cities, target, mean, range, name] }]',
      [
        'uses[0].checks[0]: the check "cities" of crm.rules does not fit: output.yaml has no column "city"',
        'uses[0].checks[1]: the check "target" of crm.rules does not fit: inputs.yaml has no input "lands"',
        'uses[0].checks[2]: the check "mean" of crm.rules does not fit: drift needs a column of numbers, string or boolean, and "last_order_at" is of type timestamptz',
        'uses[0].checks[3]: the check "range" of crm.rules does not fit: the value is none of type integer',
        'uses[0].checks[4]: crm.rules has no check "name" in service',
      ],
    ],
    [
      '[{ product: crm.draft, checks: [a] }, { product: sales.customer_orders, checks: [b] }, { product: crm, checks: [c] }]',
      [
        'uses[0].product: there is no product crm.draft with a version in service, whose checks could be used',
        'uses[1].product: a product has its own checks already',
        'uses[2].product: "crm" is no name of a product',
      ],
    ],
    [
      '[{ product: crm.rules, checks: [names] }, { product: crm.rules, checks: [names] }]',
      ['uses[1].checks[0]: the check "names" stands here twice'],
    ],
    ['[{ product: crm.rules, checks: [] }]', ['uses[0].checks: must name at least one']],
    ['[{ product: crm.rules }]', ['uses[0]: "checks" is missing']],
  ] as const) {
    it(`are refused: ${uses}`, async () => {
      const parsed = await parse(uses, SHARED)
      const told = parsed.problems.map(({ path, message }) => `${path}: ${message}`)
      assert.deepEqual(told, problems)
    })
  }
})

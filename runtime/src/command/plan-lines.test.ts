import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { PlannedProduct } from './apply-plan.ts'
import { shownApply } from './apply-table.ts'
import { type PlanAnswer, shownPlan } from './deploy-answer.ts'
import type { FolderProduct } from './product-folders.ts'

const asIs = (text: string): string => text
const GONE = 'columns are gone: state'

/** Of a version that says something under each heading. */
const PLAN: PlanAnswer = {
  verdict: 'breaking',
  changes: [{ verdict: 'breaking', subject: 'column state', reason: 'removed' }],
  lake: ['drop column state'],
  stores: ['lookup', 'analytics', 'timeseries'].flatMap((endpoint) =>
    ['clear', 'masked'].map((variant) => ({
      endpoint,
      variant,
      steps: [{ action: 'replace', description: `table of ${endpoint}` }],
      columns: ['id', 'email', 'city', 'spent'].map((name) => ({ name, verdict: 'unsatisfiable', reason: GONE })),
    })),
  ),
  estimated_rows: 990,
  estimated_from: 'count',
  rows: { before: 2000, after: 990, leaving: 1010, coming: 3, not_counted: null },
  access: {
    groups: [
      {
        type: 'team',
        name: 'support',
        columns: [
          { name: 'email', before: 'redact', after: 'clear' },
          { name: 'phone', before: 'redact', after: 'clear' },
          { name: 'city', before: 'clear', after: 'clear' },
          { name: 'state', before: 'clear', after: 'absent' },
        ],
      },
      { type: 'everybody', name: null, columns: [{ name: 'new', before: 'absent', after: 'forbidden' }] },
    ],
    groups_left_out: 7,
    changed_left_out: 2,
  },
  cost: [
    { place: 'lake', variant: 'clear', rows: 990, bytes: 4000, whole: false },
    { place: 'lookup', variant: 'masked', rows: 990, bytes: null, whole: true },
  ],
  lowered_classes: [],
  problems: [],
  warnings: [],
  reads: [
    { input: 'source', mode: 'incremental', mode_reason: 'it grows', deletes: 'key_sweep' },
    { input: 'whole', mode: 'full', mode_reason: 'it has no key', deletes: 'implied', not_by_log: 'it has no limit' },
  ],
  notes: [],
  reaches: [
    { namespace: 'crm', product: 'other', columns: [{ name: 'mail', classification: 'pii.email' }], blocked: true },
  ],
  downstream: [
    { namespace: 'crm', product: 'daily', owner: { team: 'sales', email: null }, breaks: ['state'] },
    { namespace: 'crm', product: 'orphan', owner: { team: null, email: null }, breaks: [] },
  ],
}

/** Each of them once, in what is said of one product and of a folder. */
const TOLD = [
  'lake: drop column state',
  'lookup (clear): replace: table of lookup',
  'about 990 rows',
  'rows: 2000 today, 990 by this version, 1010 leave, 3 come',
  'shown to team support: email, phone: redact -> clear',
  'shown to team support: state: clear -> absent',
  'shown to 7 more groups: not told here, 2 of them known to change',
  'writes to lake (clear): at most 990 rows, about 4000 bytes',
  'writes to lookup (masked): all 990 rows',
  'read: source: incremental, because it grows; rows that are gone: key_sweep',
  'read: whole: full, because it has no key; not cdc: it has no limit',
  'made of it: crm.daily (owner: sales); it would lose state',
  'made of it: crm.orphan (owner: nobody named)',
  'hides columns of crm.other: mail as pii.email; blocked until it is deployed',
  `id, email, city, spent are unsatisfiable: ${GONE}`,
]

function folderText(plan: PlanAnswer): string {
  const product = { name: 'crm.people', folder: 'people' } as FolderProduct
  const at = { deployed: '1.0.0', version: '2.0.0', verdict: 'breaking', digest: 'd', waitsFor: [] }
  const planned: PlannedProduct = { product, action: 'change', ...at, plan, warnings: [], refusals: [] }
  return shownApply([planned], [], [], asIs)
}

describe('the plan of one product, and of a folder', () => {
  for (const [where, text] of [
    ['product', shownPlan(PLAN)],
    ['folder', folderText(PLAN)],
  ] as const) {
    for (const line of TOLD) it(`${where}: ${line}`, () => assert.equal(text.split(line).length, 2, text))
    it(`${where}: what is the same before and after is left out`, () => {
      assert.doesNotMatch(text, /shown to everybody/)
      assert.doesNotMatch(text, /shown to team support: [^:]*city/)
    })
    it(`${where}: what stores say in the same words of columns and variants is one line`, () => {
      assert.equal(text.split(GONE).length, 2, text)
      assert.match(text, /lookup \(clear\), lookup \(masked\), analytics \(clear\).*unsatisfiable/)
    })
  }

  it('is bounded, and says how much is left out', () => {
    const groups = Array.from({ length: 200 }, (_, at) => ({
      type: 'user',
      name: `u${at}`,
      columns: [{ name: 'email', before: 'redact', after: 'clear' }],
    }))
    const text = shownPlan({ ...PLAN, access: { groups, groups_left_out: 0, changed_left_out: 0 } })
    assert.equal(text.match(/shown to user/g)?.length, 30)
    assert.match(text, /and 170 more lines of who is shown what/)
  })

  it('says of no number that was not counted that there are no more', () => {
    for (const [estimated_from, lake, lookup] of [
      ['count', 'at most 990 rows, about', 'all 990 rows'],
      ['source', 'at most all rows (about 990), about', 'all rows (about 990)'],
      ['last_epoch', 'at most all rows (990 in its last epoch), about', 'all rows (990 in its last epoch)'],
    ] as const) {
      const text = shownPlan({ ...PLAN, estimated_from })
      assert.ok(text.includes(`writes to lake (clear): ${lake}`), text)
      assert.ok(text.includes(`writes to lookup (masked): ${lookup}\n`), text)
    }
  })

  it('says why rows were not counted, and of a server that tells nothing of these says nothing', () => {
    const none = { before: null, after: null, leaving: null, coming: null }
    const rows = { ...none, not_counted: 'no version of it is in service' }
    assert.match(shownPlan({ ...PLAN, rows }), /rows: not counted: no version of it is in service/)
    const { rows: _, access: __, cost: ___, reaches: ____, downstream: _____, ...former } = PLAN
    assert.doesNotMatch(shownPlan(former), /rows: |shown to|writes to|made of it|hides columns/)
  })
})

describe('texts of sources and stores', () => {
  /** Every text of it ends with what moves the cursor of a terminal. */
  const soiled = (value: unknown): unknown => {
    if (typeof value === 'string') return `${value}\u001b[2J`
    if (Array.isArray(value)) return value.map(soiled)
    if (value === null || typeof value !== 'object') return value
    return Object.fromEntries(Object.entries(value).map(([key, inside]) => [key, soiled(inside)]))
  }

  it('are shown without what a terminal obeys', () => {
    const told = { notes: ['a note'], lowered_classes: ['city'], problems: [{ code: 'c', message: 'm', remedy: null }] }
    // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
    const found = shownPlan(soiled({ ...PLAN, ...told }) as PlanAnswer).match(/.*\u001b.*/g)
    assert.equal(found, null)
  })
})

import assert from 'node:assert/strict'
import { it } from 'node:test'
import type { MaskStrategy } from '../config.ts'
import { areNoted, epochMasks, type MaskedEpoch, madeMasks, missingMasks, rowMasks } from './made-masks.ts'
import { type ColumnMask, masksFor } from './masking.ts'

const STRATEGIES: readonly MaskStrategy[] = ['hash', 'partial', 'redact', 'null', 'omit']
/** What a reader learns of a value. */
const SHOWN = { hash: ['equality'], partial: ['tail'], redact: [], null: [], omit: [] } as const

const mask = (strategy: MaskStrategy, column = 'phone'): ColumnMask => ({
  column,
  classification: `pii.by_${strategy}`,
  strategy,
})
const rules = {
  sensitive: [],
  strategies: Object.fromEntries(STRATEGIES.map((strategy) => [`pii.by_${strategy}`, strategy])),
}

function epochOf(masks: readonly ColumnMask[]): MaskedEpoch {
  const variants = [{ variant: 'masked', masks }]
  return {
    maskedColumns: { masked: masks.map(({ column }) => column) },
    masks: epochMasks(variants),
  }
}

it('a mask stands for another one where nobody learns more by it', () => {
  for (const made of STRATEGIES) {
    for (const now of STRATEGIES) {
      const learnsNoMore = SHOWN[made].every((one) => (SHOWN[now] as readonly string[]).includes(one))
      const rows = madeMasks(epochOf([mask(made)]), 'masked')
      assert.equal(missingMasks([mask(now)], rows).length === 0, learnsNoMore, `${made} for ${now}`)
    }
  }
})

it('of several masks that a column is to have, none may be missing', () => {
  for (const made of STRATEGIES) {
    const rows = madeMasks(epochOf([mask(made)]), 'masked')
    const missing = missingMasks([mask('hash'), mask('partial'), mask('null')], rows)
    const expected = STRATEGIES.filter((now) => ['hash', 'partial', 'null'].includes(now))
      .filter((now) => SHOWN[made].length > 0 && now !== made)
      .map((now) => now)
    assert.deepEqual(
      missing.map(({ strategy }) => strategy),
      expected,
    )
  }
})

it('columns that are not masked, or are named as what every object has, are told apart', () => {
  const rows = madeMasks(epochOf([mask('redact', 'constructor')]), 'masked')
  for (const column of ['phone', 'toString', '__proto__']) {
    assert.equal(missingMasks([mask('hash', column)], rows).length, 1, column)
  }
  assert.deepEqual(missingMasks([mask('hash', 'constructor')], rows), [])
})

it('rows of a time when the column had another type have the mask of its class that the type could carry', () => {
  const typed = (type: 'string' | 'long', classification: string) =>
    masksFor([{ name: 'phone', type, nullable: true, classification }], new Set(), rules)
  for (const then of STRATEGIES) {
    for (const now of STRATEGIES) {
      const rows = madeMasks(epochOf(typed('string', `pii.by_${then}`)), 'masked')
      const isServed = missingMasks(typed('long', `pii.by_${now}`), rows).length === 0
      assert.equal(isServed, then === now || SHOWN[then].length === 0, `${then} of a text, ${now} of a number`)
    }
  }
})

it('rows of which nobody knows how they are masked have no mask that stands for one', () => {
  for (const masks of [null, {}, { masked: {} }, { masked: { city: 'redact' } }] as const) {
    const epoch = { ...epochOf([mask('redact')]), masks }
    const rows = madeMasks(epoch, 'masked')
    assert.ok(rows.has('phone'))
    for (const now of STRATEGIES) assert.equal(missingMasks([mask(now)], rows).length, 1, now)
    assert.equal(areNoted(epoch), false)
  }
  assert.equal(areNoted(epochOf([mask('redact')])), true)
  assert.equal(areNoted({ maskedColumns: { clear: [] }, masks: null }), true)
})

it('rows need no mask of a column that the version which made them has not, in whatever case its name is written', () => {
  for (const now of STRATEGIES) {
    const missing = (columns: readonly string[]) =>
      missingMasks(
        [mask('hash'), mask(now, 'email')],
        rowMasks(
          epochOf([mask('hash')]),
          'masked',
          columns.map((name) => ({ name })),
        ),
      ).map(({ column }) => column)
    assert.deepEqual(missing(['id', 'phone']), [])
    assert.deepEqual(missing(['id', 'phone', 'email']), ['email'], 'in clear')
    assert.deepEqual(missing(['id', 'phone', 'EMail']), ['email'], 'in clear, under a name of another case')
  }
})

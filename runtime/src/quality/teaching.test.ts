import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import type { AnomalyRule } from '../manifest/manifest-set.ts'
import type { PastEpoch } from '../registry/past-epochs.ts'
import { lessons, standing } from './teaching.ts'

const RULE: AnomalyRule = {
  kind: 'anomaly',
  metric: 'null_share',
  column: 'email',
  sensitivity: 'normal',
  minHistory: 3,
  window: 5,
  learnFrom: null,
}

/** What befalls a product. A failed run leaves no epoch, so that there is none here. */
type Happening =
  | { readonly does: 'make'; readonly inputs: number; readonly basis: 'a' | 'b'; readonly measures: boolean }
  | { readonly does: 'restore'; readonly back: number }

const happenings = fc.array(
  fc.oneof(
    {
      weight: 5,
      arbitrary: fc.record({
        does: fc.constant('make' as const),
        inputs: fc.nat(6),
        basis: fc.constantFrom('a' as const, 'a' as const, 'b' as const),
        measures: fc.boolean(),
      }),
    },
    { weight: 1, arbitrary: fc.record({ does: fc.constant('restore' as const), back: fc.nat(5) }) },
  ),
  { maxLength: 30 },
)

const DAY_MS = 86_400_000

function recorded(all: readonly Happening[]): readonly PastEpoch[] {
  return all.map((one, at) => {
    const epoch = at + 1
    const common = { id: `m${epoch}`, epoch, committedAt: new Date(at * DAY_MS) }
    if (one.does === 'restore') {
      const restoredEpoch = Math.max(1, epoch - 1 - one.back)
      return { ...common, kind: 'rollback', restoredEpoch, inputs: {}, measured: [] }
    }
    const own = { metric: 'null_share', column: 'email', basis: one.basis, value: epoch / 100 }
    const others = [
      { ...own, metric: 'distinct', value: -1 },
      { ...own, column: 'city', value: -2 },
    ]
    const inputs = { source: { snapshot_id: String(one.inputs), read_at: `at ${at}`, moment: null } }
    return {
      ...common,
      kind: 'materialize',
      restoredEpoch: null,
      inputs,
      measured: one.measures ? [...others, own] : others,
    }
  })
}

/** Said forward: each epoch leaves a list of those that stand, and a rollback leaves that of the epoch it restores. */
function standingForward(epochs: readonly PastEpoch[]): readonly PastEpoch[] {
  const after: (readonly PastEpoch[])[] = [[]]
  for (const past of epochs) {
    const before = after.at(-1) ?? []
    const isRollback = past.kind === 'rollback'
    after.push(
      isRollback && past.restoredEpoch !== past.epoch
        ? (after[past.restoredEpoch ?? 0] ?? [])
        : isRollback
          ? []
          : [...before, past],
    )
  }
  return after.at(-1) ?? []
}

describe('epochs that teach', () => {
  it('are those that no rollback took back', () => {
    fc.assert(
      fc.property(happenings, (all) => {
        const epochs = recorded(all)
        const expected = standingForward(epochs).map(({ id }) => id)
        assert.deepEqual(
          standing(epochs.toReversed()).map(({ id }) => id),
          expected.toReversed(),
        )
      }),
    )
  })

  it('are of the same rows’ meaning, each state of the inputs once, and never the one that is judged', () => {
    fc.assert(
      fc.property(happenings, fc.nat(6), (all, now) => {
        const epochs = recorded(all)
        const made = (inputs: number) => JSON.stringify([['source', String(inputs)]])
        const found = lessons(RULE, epochs, { basis: 'a', inputs: made(now) })
        const newestOf = new Map<string, number>()
        for (const past of standingForward(epochs)) {
          const happened = all[past.epoch - 1] as Happening
          if (happened.does !== 'make' || happened.basis !== 'a' || !happened.measures) continue
          if (happened.inputs !== now) newestOf.set(String(happened.inputs), past.epoch)
        }
        const expected = [...newestOf.values()].toSorted((a, b) => b - a).slice(0, RULE.window)
        assert.deepEqual(
          found.map(({ value }) => value),
          expected.map((epoch) => epoch / 100),
        )
      }),
    )
  })

  it('begin with the day that the check names', () => {
    const all = Array.from(
      { length: 9 },
      (_, inputs): Happening => ({ does: 'make', inputs, basis: 'a', measures: true }),
    )
    const rule = { ...RULE, window: 30, learnFrom: '1970-01-06' }
    const found = lessons(rule, recorded(all), { basis: 'a', inputs: '' })
    assert.deepEqual(
      found.map(({ materializationId }) => materializationId),
      ['m9', 'm8', 'm7', 'm6'],
    )
  })

  it('are none before a rollback of which nobody knows what it restored', () => {
    const [first] = recorded([{ does: 'make', inputs: 1, basis: 'a', measures: true }])
    assert.ok(first)
    const back = { ...first, id: 'm2', epoch: 2, kind: 'rollback' as const }
    assert.deepEqual(
      standing([first, back, { ...first, id: 'm3', epoch: 3 }]).map(({ id }) => id),
      ['m3'],
    )
  })
})

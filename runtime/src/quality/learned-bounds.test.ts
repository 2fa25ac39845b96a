import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { stabilityIndex } from './distribution.ts'
import { driftBounds, levelBounds, median } from './learned-bounds.ts'

/** Numbers of a known sequence (Park and Miller), so that what is measured here is the same on every machine. */
function randomOf(seed: number): () => number {
  let state = seed
  return () => {
    state = (state * 48_271) % 2_147_483_647
    return state / 2_147_483_647
  }
}

function normal(random: () => number): number {
  return Math.sqrt(-2 * Math.log(random())) * Math.cos(2 * Math.PI * random())
}

const counts = fc.array(fc.integer({ min: 0, max: 1_000_000 }), { minLength: 3, maxLength: 30 })

describe('median', () => {
  it('has as many values above as below', () => {
    fc.assert(
      fc.property(fc.array(fc.integer(), { minLength: 1 }), (values) => {
        const middle = median(values)
        const [below, above] = [values.filter((one) => one < middle), values.filter((one) => one > middle)]
        assert.ok(below.length <= values.length / 2 && above.length <= values.length / 2)
        assert.ok(middle >= Math.min(...values) && middle <= Math.max(...values))
      }),
    )
  })
})

describe('bounds of a count', () => {
  it('let a constant one change by its floor, and tell of half of it', () => {
    fc.assert(
      fc.property(fc.integer({ min: 40, max: 10_000_000 }), fc.integer({ min: 3, max: 30 }), (count, epochs) => {
        const { lower, upper } = levelBounds('row_count', Array(epochs).fill(count), count, 'normal')
        const floor = count >= 400 ? count / 10 : 2 * Math.sqrt(count)
        assert.deepEqual([lower, upper], [Math.floor(count - floor), Math.ceil(count + floor)])
        assert.ok((lower as number) > count / 2 && (lower as number) < count && (upper as number) > count)
      }),
    )
    for (const few of [0, 1, 2, 5]) {
      const { lower, upper } = levelBounds('row_count', Array(7).fill(few), few, 'normal')
      assert.ok((lower as number) <= few && (few < 2 || (lower as number) < few) && (upper as number) >= few + 1)
    }
  })

  it('follow a product that grows', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 0, max: 1_000_000 }),
        fc.integer({ min: 0, max: 10_000 }),
        fc.integer({ min: 3, max: 60 }),
        (base, step, epochs) => {
          const values = Array.from({ length: epochs }, (_, at) => base + step * at)
          const next = base + step * epochs
          const { lower, upper } = levelBounds('row_count', values, next, 'high')
          assert.ok((lower as number) <= next && (upper as number) >= next)
          // Along a line nothing lies beside it: what is left is the floor.
          assert.ok((upper as number) - next <= 0.5 * Math.max(next / 10, 2 * Math.sqrt(next), 2) + 1)
        },
      ),
    )
  })

  it('let every level of a week pass, and tell where there is less than on its least day', () => {
    const level = fc.integer({ min: 100, max: 1_000_000 })
    const week = fc.record({ high: level, low: level, days: fc.integer({ min: 1, max: 6 }), first: fc.nat(6) })
    fc.assert(
      fc.property(week, fc.integer({ min: 14, max: 60 }), fc.nat(), ({ high, low, days, first }, epochs, seed) => {
        const random = randomOf(seed + 1)
        const noise = (value: number) => Math.round(value * (1 + 0.03 * (random() - 0.5)))
        const on = (day: number) => noise((day + first) % 7 < days ? low : high)
        const { lower, upper } = levelBounds(
          'row_count',
          Array.from({ length: epochs }, (_, day) => on(day)),
          1,
          'normal',
        )
        for (let day = epochs; day < epochs + 7; day += 1) {
          const value = on(day)
          assert.ok(value >= (lower as number) && value <= (upper as number), `${value}: ${lower} to ${upper}`)
        }
        assert.ok((lower as number) >= 1)
      }),
    )
    const weeks = Array.from({ length: 28 }, (_, day) => (day % 7 < 5 ? 1000 : 100))
    assert.deepEqual(levelBounds('row_count', weeks, 1000, 'normal'), { lower: 80, upper: 1100 })
    const growing = weeks.map((rows, day) => rows + 20 * day)
    assert.deepEqual(levelBounds('row_count', growing, 1, 'normal'), { lower: 171, upper: 1672 })
    const shares = weeks.map((rows) => rows / 2000)
    assert.deepEqual(levelBounds('null_share', shares, 100_000, 'normal'), { lower: 0.04, upper: 0.51 })
  })

  it('never let an emptied table pass that was none before', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 1, max: 10_000 }), { minLength: 2, maxLength: 30 }), (values) => {
        assert.ok((levelBounds('row_count', values, 0, 'low').lower as number) >= 1)
      }),
    )
    assert.equal(levelBounds('row_count', [1000, 1000, 1000, 1000, 2000, 2000, 2000], 0, 'normal').lower, 1)
    assert.equal(levelBounds('row_count', [9, 0, 0, 9, 9, 9, 0, 0, 9, 9], 0, 'normal').lower, 0, 'it is empty at times')
  })

  it('let a product that grew or shrank stay as it is, or lose a part of it again', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 100, max: 1_000_000 }),
        fc.integer({ min: -10_000, max: 10_000 }),
        fc.integer({ min: 3, max: 60 }),
        (newest, step, epochs) => {
          const values = Array.from({ length: epochs }, (_, at) => newest - step * (epochs - 1 - at))
          if (values.some((value) => value < 1)) return
          const { lower, upper } = levelBounds('row_count', values, newest, 'high')
          assert.ok((lower as number) <= newest && (upper as number) >= newest, `${newest}: ${lower} to ${upper}`)
          const next = Math.max(newest + step, Math.ceil(newest / 2))
          assert.ok((lower as number) <= next && (upper as number) >= next, `${next}: ${lower} to ${upper}`)
          const reach = Math.max(newest, newest + step)
          assert.ok((upper as number) <= reach + 0.5 * Math.max(reach / 10, 2 * Math.sqrt(reach)) + 1)
        },
      ),
    )
    assert.deepEqual(levelBounds('row_count', [3000, 2000, 1000], 0, 'normal'), { lower: 450, upper: 1100 })
  })

  it('are moved by no odd epoch, wherever it stands', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 7, max: 30 }),
        fc.nat(),
        fc.integer({ min: 0, max: 1_000_000_000 }),
        (epochs, at, odd) => {
          const values: number[] = Array(epochs).fill(5000)
          values[at % epochs] = odd
          assert.deepEqual(levelBounds('row_count', values, 5000, 'normal'), { lower: 4500, upper: 5500 })
        },
      ),
    )
  })

  it('are the wider the less is asked of them, and never below nothing', () => {
    fc.assert(
      fc.property(counts, (values) => {
        const [high, normal, low] = (['high', 'normal', 'low'] as const).map((sensitivity) => {
          const { lower, upper } = levelBounds('distinct', values, 1, sensitivity)
          assert.ok(Number.isInteger(lower) && Number.isInteger(upper) && (lower as number) >= 0)
          return [lower as number, upper as number] as const
        }) as unknown as readonly (readonly [number, number])[]
        assert.ok(high && normal && low)
        assert.ok(high[0] >= normal[0] && normal[0] >= low[0] && high[1] <= normal[1] && normal[1] <= low[1])
      }),
    )
  })

  it('rarely tell of noise, and always of half of the rows', () => {
    const random = randomOf(7)
    let told = 0
    let missed = 0
    for (let trial = 0; trial < 2000; trial += 1) {
      const draw = () => Math.max(0, Math.round(10_000 + 400 * normal(random)))
      const values = Array.from({ length: 7 + (trial % 24) }, draw)
      const { lower, upper } = levelBounds('row_count', values, 10_000, 'normal')
      const next = draw()
      if (next < (lower as number) || next > (upper as number)) told += 1
      if (values.length >= 20 && 5000 >= (lower as number)) missed += 1
    }
    assert.ok(told < 20, `told of ${told} of 2000`)
    assert.equal(missed, 0)
  })
})

describe('bounds of a share', () => {
  it('bear a hundredth, and tell of a tenth', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1000, max: 10_000_000 }), fc.integer({ min: 3, max: 30 }), (rows, epochs) => {
        const bounds = levelBounds('null_share', Array(epochs).fill(0), rows, 'normal')
        assert.deepEqual(bounds, { lower: 0, upper: 0.01 })
      }),
    )
  })

  it('lie between none and all, and know how few rows there are', () => {
    fc.assert(
      fc.property(
        fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { minLength: 3, maxLength: 30 }),
        fc.integer({ min: 0, max: 1000 }),
        (values, rows) => {
          const { lower, upper } = levelBounds('null_share', values, rows, 'normal')
          assert.ok((lower as number) >= 0 && (upper as number) <= 1 && (lower as number) <= (upper as number))
        },
      ),
    )
    assert.deepEqual(levelBounds('null_share', Array(7).fill(0), 10, 'normal'), { lower: 0, upper: 0.2 })
  })
})

describe('a drift', () => {
  const histogram = fc.array(fc.integer({ min: 0, max: 1000 }), { minLength: 2, maxLength: 21 })

  it('is nothing between the same shares, and grows with none of them alone', () => {
    fc.assert(
      fc.property(histogram, (expected) => {
        assert.equal(stabilityIndex(expected, expected), 0)
        const other = expected.toReversed()
        assert.ok(stabilityIndex(expected, other) >= 0)
        assert.ok(Math.abs(stabilityIndex(expected, other) - stabilityIndex(other, expected)) < 1e-9)
      }),
    )
  })

  it('is both divergences of Kullback and Leibler together', () => {
    fc.assert(
      fc.property(histogram, fc.integer(), (expected, seed) => {
        const random = randomOf(Math.abs(seed) + 1)
        const actual = expected.map(() => Math.floor(random() * 1000))
        const smooth = (counts: readonly number[]) => {
          const all = counts.reduce((total, count) => total + count + 0.5, 0)
          return counts.map((count) => (count + 0.5) / all)
        }
        const [p, q] = [smooth(expected), smooth(actual)]
        const divergence = (from: readonly number[], to: readonly number[]) =>
          from.reduce((total, share, at) => total + share * (Math.log(share) - Math.log(to[at] as number)), 0)
        assert.ok(Math.abs(stabilityIndex(expected, actual) - divergence(p, q) - divergence(q, p)) < 1e-9)
      }),
    )
  })

  it('is bounded by what chance alone gives, by the tables of chi-square', () => {
    // The quantile 0.9999 by degrees of freedom.
    for (const [freedom, quantile] of [
      [1, 15.137],
      [9, 33.72],
      [20, 52.386],
    ] as const) {
      const { lower, upper } = driftBounds([], { buckets: freedom + 1, noise: 1 }, 'normal')
      assert.equal(lower, null)
      const ratio = (upper as number) / quantile
      // The approximation is wider where there are two buckets.
      assert.ok(ratio > 0.99 && ratio < 1.08, `${freedom}: ${upper}`)
    }
  })

  it('of two samples of one distribution is rarely told of, however few there are', () => {
    const random = randomOf(11)
    for (const size of [20, 100, 2000]) {
      let told = 0
      for (let trial = 0; trial < 500; trial += 1) {
        const sample = () => {
          const found: number[] = Array(10).fill(0)
          for (let at = 0; at < size; at += 1) {
            const bucket = Math.floor(random() * 10)
            found[bucket] = (found[bucket] as number) + 1
          }
          return found
        }
        const { upper } = driftBounds([], { buckets: 10, noise: 2 / size }, 'high')
        if (stabilityIndex(sample(), sample()) > (upper as number)) told += 1
      }
      assert.ok(told <= 2, `${told} of 500, of ${size} values`)
    }
  })

  it('is expected as it was, where it always drifts', () => {
    const usual = [0.8, 0.9, 0.85, 0.8, 0.95]
    const { upper } = driftBounds(usual, { buckets: 10, noise: 1e-6 }, 'normal')
    assert.ok((upper as number) > 0.95 && (upper as number) < 2, String(upper))
    assert.equal(driftBounds([0, 0, 0], { buckets: 10, noise: 1e-6 }, 'normal').upper, 0.25)
  })
})

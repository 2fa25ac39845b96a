/** Numbers of JSON, against fractions of whole numbers that have every digit. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { isRounded, isWrittenAsDouble, mayBeRounded, NumbersLost, parseKeepingNumbers } from './kept-numbers.ts'

/** Numerator and denominator. */
function fractionOf(text: string): readonly [bigint, bigint] {
  const [mantissa = '', exponent = '0'] = text.toLowerCase().split('e')
  const [whole = '', fraction = ''] = mantissa.split('.')
  const power = BigInt(exponent) - BigInt(fraction.length)
  const digits = BigInt(`${whole}${fraction}`.replace('-', ''))
  const signed = whole.startsWith('-') ? -digits : digits
  return power >= 0n ? [signed * 10n ** power, 1n] : [signed, 10n ** -power]
}

function isSame(one: string, other: string): boolean {
  const [a, b] = fractionOf(one)
  const [c, d] = fractionOf(other)
  return a * d === c * b
}

const digits = (most: number) =>
  fc.array(fc.constantFrom(...'0123456789'), { minLength: 1, maxLength: most }).map((all) => all.join(''))
const whole = digits(24).map((text) => text.replace(/^0+(?=\d)/, ''))
const written = fc
  .tuple(
    fc.constantFrom('', '-'),
    whole,
    fc.option(digits(24), { nil: null }),
    fc.option(fc.integer({ min: -330, max: 330 }), { nil: null }),
  )
  .map(([sign, before, after, exponent]) => {
    return `${sign}${before}${after === null ? '' : `.${after}`}${exponent === null ? '' : `e${exponent}`}`
  })

/** Null: it was refused. */
function read(text: string): number | null {
  return readWhole(text)?.value ?? null
}

function readWhole(text: string): { readonly value: number; readonly isRounded: boolean } | null {
  try {
    const { v } = parseKeepingNumbers(`{"v":[1,${text}]}`) as { readonly v: readonly number[] }
    assert.equal(isRounded(v, 0), false)
    return { value: (v[1] ?? Number.NaN) + 0, isRounded: isRounded(v, 1) }
  } catch (error) {
    assert.ok(error instanceof NumbersLost)
    assert.deepEqual(error.pointers, ['/v/1'])
    return null
  }
}

test('a number is what is written, or is refused, or a fraction that is known to be rounded', () => {
  fc.assert(
    fc.property(written, (text) => {
      const found = readWhole(text)
      const nearest = Number(text)
      // As JavaScript tells it: no other number has these digits.
      const isKept = Number.isFinite(nearest) && isSame(text, String(nearest))
      const isFraction = Number.isFinite(nearest) && nearest % 1 !== 0
      const isDouble = /[.e]/.test(text) && Number.isFinite(nearest) && isSame(text, nearest.toExponential(16))
      if (!isKept && !isFraction && !isDouble) return assert.equal(found, null, text)
      assert.deepEqual(found, { value: nearest + 0, isRounded: !isKept }, text)
    }),
    { numRuns: 400 },
  )
})

test('the 17 digits that many clients write of a double are that double', () => {
  fc.assert(
    fc.property(fc.double({ noNaN: true, noDefaultInfinity: true }), (value) => {
      const text = value.toExponential(16)
      return read(text) === value + 0
    }),
  )
  const { a } = parseKeepingNumbers('{"a":{"b":0.10000000000000001,"c":0.1}}') as {
    readonly a: { b: number; c: number }
  }
  assert.deepEqual([a, isRounded(a, 'b'), isRounded(a, 'c')], [{ b: 0.1, c: 0.1 }, true, false])
})

test('every double is taken as JavaScript writes it, and every number of 15 digits', () => {
  fc.assert(
    fc.property(
      fc.double({ noNaN: true, noDefaultInfinity: true }),
      (value) => read(JSON.stringify(value)) === value + 0,
    ),
  )
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 999_999_999_999_999 }), fc.nat(15), (value, places) => {
      const text = String(value).padStart(places + 1, '0')
      const written = places === 0 ? text : `${text.slice(0, -places)}.${text.slice(-places)}`
      return read(written) === Number(written) && !mayBeRounded(Number(written))
    }),
  )
})

test('what a double has lost may be anywhere', () => {
  const lost = (text: string) => {
    try {
      return parseKeepingNumbers(text)
    } catch (error) {
      return error instanceof NumbersLost ? error.pointers : error
    }
  }
  assert.deepEqual(lost('9007199254740993'), [''])
  assert.deepEqual(lost('{"a":{"b/c":[1,0.99999999999999999999]},"~":1e400}'), ['/a/b~1c/1', '/~0'])
  assert.deepEqual(lost('{"a":"9007199254740993","b":9007199254740991,"c":1.50,"d":1E+2}'), {
    ...{ a: '9007199254740993', b: 9007199254740991, c: 1.5, d: 100 },
  })
  assert.deepEqual(lost('[0e999999999, -0.0, 1e-999999999]'), ['/2'])
  assert.deepEqual(lost(`[1.${'0'.repeat(5_000)}]`), ['/0'], 'and nothing is worth more than a double takes')
})

test('of a number that came as a double digits may have been lost before', () => {
  for (const value of [9007199254740994, 1e300, 1234567890123.4568, 0.30000000000000004, 12345678.123456789])
    assert.equal(mayBeRounded(value), true, String(value))
  for (const value of [9007199254740991, -7, 0.1, 1e-300, 123456789012345e-7, 999999999999.999])
    assert.equal(mayBeRounded(value), false, String(value))
})

test('large numbers that are written as doubles are told from whole ones', () => {
  const large = parseKeepingNumbers(
    '[1e+16, 1E20, 9.9999999999999992e+22, 1e-16, 1e15, 10000000000000000, 12345678901234568.0, "1e+16"]',
  ) as readonly unknown[]
  assert.deepEqual(
    large.map((_, at) => isWrittenAsDouble(large, at)),
    [true, true, true, false, false, false, true, false],
  )
  assert.deepEqual(
    large.map((_, at) => isRounded(large, at)),
    [false, false, true, false, false, false, false, false],
  )
})

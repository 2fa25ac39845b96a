/** Floating-point numbers: the engine and PostgreSQL have the same digits, the shortest ones, and begin with an exponent at other numbers. */

/** From so many digits before the point on PostgreSQL writes an exponent. */
export const FLOAT_DIGITS = { float4: 6, float8: 15 } as const

const LEAST_EXPONENT = -4

/** `1000000` → `1e+06` of a float4; what is no number of digits stays: `NaN`, `-Infinity`. */
export function floatText(text: string, mostDigits: number): string {
  const [, sign, whole = '', fraction = '', power = '0'] =
    /^(-?)([0-9]+)(?:\.([0-9]+))?(?:e([+-]?[0-9]+))?$/.exec(text) ?? []
  if (sign === undefined) return text
  const all = whole + fraction
  const digits = all.replace(/^0+/, '').replace(/0+$/, '')
  if (digits === '') return `${sign}0`
  const exponent = whole.length - 1 - leadingZeros(all) + Number(power)
  const isPlain = exponent >= LEAST_EXPONENT && exponent < mostDigits
  return sign + (isPlain ? plain(digits, exponent) : withExponent(digits, exponent))
}

const leadingZeros = (digits: string): number => digits.length - digits.replace(/^0+/, '').length

function plain(digits: string, exponent: number): string {
  if (exponent < 0) return `0.${'0'.repeat(-exponent - 1)}${digits}`
  const fraction = digits.slice(exponent + 1)
  return digits.slice(0, exponent + 1).padEnd(exponent + 1, '0') + (fraction === '' ? '' : `.${fraction}`)
}

function withExponent(digits: string, exponent: number): string {
  const fraction = digits.length === 1 ? '' : `.${digits.slice(1)}`
  const power = String(Math.abs(exponent)).padStart(2, '0')
  return `${digits[0]}${fraction}e${exponent < 0 ? '-' : '+'}${power}`
}

/**
 * Numbers of JSON and YAML that are what they were written as. JavaScript's have 53 bits, and both readers round in silence: a
 * key of many digits would name another row.
 */

/** Has more digits than any number keeps, or an exponent beyond whole numbers or all. Texts and dates are looked at in vain, seldom. */
const DELICATE = /\d(?:\.?\d){15}|\d[eE](?:\+?\d{2}|-?\d{3})/

type Reviver = (this: object, key: string, value: unknown, context: { readonly source?: string }) => unknown

/** Numbers that cannot be kept as they are written. */
export class NumbersLost extends Error {
  override readonly name = 'NumbersLost'
  /** Where they stand (RFC 6901), the first of them. */
  readonly pointers: readonly string[]

  constructor(pointers: readonly string[]) {
    super(NUMBER_LOST)
    this.pointers = pointers
  }
}

/** Of such a number; never with the number. */
export const NUMBER_LOST = 'is a number that cannot be kept as it is written: write it as a string'

const MOST_POINTERS = 50

interface Place {
  readonly holder: object
  readonly key: string
}

type Places = WeakMap<object, Set<string>>

/** Where numbers were read that have more digits than their double, by what holds them. */
const rounded: Places = new WeakMap()
/** The same of whole numbers beyond ±(2^53−1). */
const doubles: Places = new WeakMap()

/**
 * Whether the number there was read by `parseKeepingNumbers` from more digits than it has. It is what was meant where a double is
 * meant; where every digit counts it is another number.
 * @param holder the object or list itself as it was read
 */
export const isRounded = (holder: object, key: string | number): boolean =>
  rounded.get(holder)?.has(String(key)) ?? false

/** Whether the whole number there, which is beyond ±(2^53−1), was written with a point or an exponent, as clients write doubles. */
export const isWrittenAsDouble = (holder: object, key: string | number): boolean =>
  doubles.get(holder)?.has(String(key)) ?? false

/**
 * As `JSON.parse`; throws `NumbersLost` besides. Fractions are the nearest double: many clients write 17 digits of each
 * (`0.10000000000000001`), and of large ones as well (`9.9999999999999992e+22`). `isRounded` tells which.
 */
export function parseKeepingNumbers(text: string): unknown {
  if (!DELICATE.test(text)) return JSON.parse(text)
  const lost: Place[] = []
  const look: Reviver = function (this: object, key, value, { source }) {
    if (typeof value !== 'number' || source === undefined) return value
    const isLarge = Number.isInteger(value) && !Number.isSafeInteger(value)
    const isDouble = isLarge && /[.e]/i.test(source)
    if (isDouble) note(doubles, this, key)
    if (isKept(source, value)) return value
    if (isFraction(value) || (isDouble && digitsOf(source) === digitsOf(value.toPrecision(17))))
      note(rounded, this, key)
    else lost.push({ holder: this, key })
    return value
  }
  const found: unknown = JSON.parse(text, look as Parameters<typeof JSON.parse>[1])
  if (lost.length > 0) throw new NumbersLost(pointersTo(found, lost.slice(0, MOST_POINTERS)))
  return found
}

const isFraction = (value: number): boolean => Number.isFinite(value) && !Number.isInteger(value)

function note(places: Places, holder: object, key: string): void {
  places.set(holder, (places.get(holder) ?? new Set()).add(key))
}

function pointersTo(root: unknown, places: readonly Place[]): readonly string[] {
  const pathOf = new Map<unknown, string>()
  const walk = (value: unknown, path: string): void => {
    if (typeof value !== 'object' || value === null) return
    pathOf.set(value, path)
    for (const [key, item] of Object.entries(value)) walk(item, `${path}/${escaped(key)}`)
  }
  walk(root, '')
  return places.map(({ holder, key }) => {
    const path = pathOf.get(holder)
    // The whole text is one number.
    return path === undefined ? '' : `${path}/${escaped(key)}`
  })
}

const escaped = (key: string): string => key.replaceAll('~', '~0').replaceAll('/', '~1')

/** Whether the number is the one that is written there. */
export function isKept(written: string, value: number): boolean {
  return Number.isFinite(value) && digitsOf(written) === digitsOf(String(value))
}

/** As many as every double keeps. */
const SURE_DIGITS = 15

/**
 * Whether digits may have been lost before it came, where it is not meant as a double: whoever wrote it may have had another number
 * that rounds to this one.
 */
export function mayBeRounded(value: number): boolean {
  if (Number.isSafeInteger(value)) return false
  const [digits = ''] = digitsOf(String(value)).replace('-', '').split('e')
  return Number.isInteger(value) || digits.length > SURE_DIGITS
}

const NUMBER = /^([+-]?)(\d*)\.?(\d*)(?:[eE]([+-]?\d+))?$/
/** More than any double takes, written out whole; and than any exponent that a double has. */
const MOST_LENGTH = 1_200
const MOST_EXPONENT = 99_999

/** The same for the same number, however it is written: its digits from the first to the last that is not 0, and how far they are moved. */
function digitsOf(text: string): string {
  if (text.length > MOST_LENGTH) return text
  const [, sign = '', whole = '', fraction = '', exponent = '0'] = NUMBER.exec(text) ?? []
  const digits = `${whole}${fraction}`.replace(/^0+/, '')
  let end = digits.length
  while (digits[end - 1] === '0') end -= 1
  if (end === 0) return '0'
  const far = Number(exponent)
  // Beyond it a double is nothing, or everything.
  if (Math.abs(far) > MOST_EXPONENT) return text
  return `${sign === '-' ? '-' : ''}${digits.slice(0, end)}e${far - fraction.length + digits.length - end}`
}

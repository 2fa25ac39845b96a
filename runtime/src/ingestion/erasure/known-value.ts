/** Texts of rows that were put aside, as their source wrote them, compared with a value that is to be nowhere. Pure. */
import { typeName } from '@sluice/sdk'
import type { ErasedValue } from '../../materializer/erased-key.ts'

/** Whether that text may be the value. What is in no form that we know may be. */
export function mayBeValue(known: string, { text, type }: ErasedValue): boolean {
  const given = known.trim()
  switch (typeName(type)) {
    case 'boolean':
      return truthOf(given) === null || truthOf(given) === truthOf(text)
    case 'integer':
    case 'long':
    case 'decimal':
      return isSameNumber(given, text)
    case 'date':
    case 'timestamp':
    case 'timestamptz': {
      const instant = instantOf(given)
      return instant === null || instant === instantOf(text)
    }
    case 'uuid':
      return given.replaceAll(/[{}-]/g, '').toLowerCase() === text.replaceAll('-', '').toLowerCase()
    default:
      // Fields of fixed length are filled up with spaces; any other blank is a letter of the key, and another row's.
      return withoutLast(known, ' ') === withoutLast(text, ' ')
  }
}

const TRUE = ['true', 't', '1', 'yes', 'y', 'on']
const FALSE = ['false', 'f', '0', 'no', 'n', 'off']

function truthOf(text: string): boolean | null {
  const word = text.toLowerCase()
  return TRUE.includes(word) ? true : FALSE.includes(word) ? false : null
}

/** Digit by digit where there is no exponent: two keys beyond 53 bits may be one number of JavaScript's. */
function isSameNumber(one: string, other: string): boolean {
  const [a, b] = [digitsOf(one), digitsOf(other)]
  if (a !== null && b !== null) return a === b
  return one !== '' && Number(one) === Number(other)
}

function digitsOf(text: string): string | null {
  const parts = /^([+-]?)(\d*)(?:\.(\d*))?$/.exec(text)
  if (parts === null || !/\d/.test(text)) return null
  const [, sign = '', whole = '', fraction = ''] = parts
  const digits = `${whole.replace(/^0+/, '')}.${withoutLast(fraction, '0')}`
  return `${sign === '-' && digits !== '.' ? '-' : ''}${digits}`
}

function withoutLast(text: string, letter: string): string {
  let end = text.length
  while (text[end - 1] === letter) end -= 1
  return text.slice(0, end)
}

const TIME = /^(\d{4}-\d{2}-\d{2})(?:[ T](\d{2}:\d{2})(?::(\d{2})(?:[.,](\d{1,9}))?)?)?\s*(Z|[+-]\d{2}(?::?\d{2})?)?$/i

/** To the microsecond; null: it is in no form that we know. Without a zone it is UTC, which is what sources are asked for. */
function instantOf(text: string): string | null {
  const match = TIME.exec(text)
  if (match === null) return null
  const [, day, clock = '00:00', second = '00', fraction = '', zone = 'Z'] = match
  const offset = zone.toUpperCase() === 'Z' ? 'Z' : `${zone.slice(0, 3)}:${zone.slice(3).replace(':', '') || '00'}`
  const instant = Date.parse(`${day}T${clock}:${second}${offset}`)
  return Number.isNaN(instant) ? null : `${instant / 1000}.${fraction.slice(0, 6).padEnd(6, '0')}`
}

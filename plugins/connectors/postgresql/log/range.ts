/** What a read of the table judges by SQL, judged of the log's text: values that their logical type does not hold. */
import type { LogicalType } from '@sluice/sdk'

const MAX_WHOLE_DIGITS = 29
const MAX_FRACTION_DIGITS = 9

export function outOfRange(type: LogicalType, cell: Buffer): boolean {
  const text = cell.toString('utf8')
  switch (type) {
    case 'date':
    case 'timestamp':
    case 'timestamptz':
      // Infinities, years of five digits and years before the first are written otherwise.
      return !/^\d{4}-/.test(text) || text.endsWith(' BC')
    case 'json':
      return hasHalfPair(text)
    default:
      return type === 'decimal(38,9)' ? !fitsUnconstrained(text) : text === 'NaN'
  }
}

function fitsUnconstrained(text: string): boolean {
  const match = /^-?(\d+)(?:\.(\d+))?$/.exec(text)
  if (!match) return false
  const whole = (match[1] ?? '').replace(/^0+/, '')
  const fraction = (match[2] ?? '').replace(/0+$/, '')
  return whole.length <= MAX_WHOLE_DIGITS && fraction.length <= MAX_FRACTION_DIGITS
}

function hasHalfPair(text: string): boolean {
  if (!/\\u[dD][89a-fA-F]/.test(text)) return false
  const rest = text.replace(/\\(\\|u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})/g, '')
  return /\\u[dD][89a-fA-F]/.test(rest)
}

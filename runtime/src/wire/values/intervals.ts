/** Intervals, as the engine writes them, as PostgreSQL does, and as months, days and microseconds. */

export interface Interval {
  readonly months: number
  readonly days: number
  readonly micros: bigint
}

const PART = /([+-]?[0-9]+) (year|mon|day)(?:th)?s?/g
const CLOCK = /^([+-]?)([0-9]{2,}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,6}))?$/

/** Of the text of either; null where it is none. */
export function intervalOf(text: string): Interval | null {
  let months = 0
  let days = 0
  const rest = text.replace(PART, (_all, digits: string, unit: string) => {
    if (unit === 'day') days += Number(digits)
    else months += Number(digits) * (unit === 'year' ? MONTHS_A_YEAR : 1)
    return ''
  })
  const clock = rest.trim()
  const parts = CLOCK.exec(clock)
  if (parts === null) return clock === '' && text !== '' ? { months, days, micros: 0n } : null
  const [, sign, hours = '', minutes = '', seconds = '', fraction = ''] = parts
  const wholeS = (BigInt(hours) * 60n + BigInt(minutes)) * 60n + BigInt(seconds)
  const micros = wholeS * 1_000_000n + BigInt(fraction.padEnd(6, '0'))
  return { months, days, micros: sign === '-' ? -micros : micros }
}

const MONTHS_A_YEAR = 12

/** `-1 years +3 days 04:05:06.5`: a part behind one below zero has its sign, and 1 alone is no plural. */
export function intervalText({ months, days, micros }: Interval): string {
  const parts: readonly (readonly [number, string])[] = [
    [Math.trunc(months / MONTHS_A_YEAR), 'year'],
    [months % MONTHS_A_YEAR, 'mon'],
    [days, 'day'],
  ]
  const told: string[] = []
  let isBelow = false
  for (const [count, unit] of parts) {
    if (count === 0) continue
    told.push(`${isBelow && count > 0 ? '+' : ''}${count} ${unit}${count === 1 ? '' : 's'}`)
    isBelow = count < 0
  }
  if (told.length === 0 || micros !== 0n) told.push(`${micros < 0n ? '-' : isBelow ? '+' : ''}${clockText(micros)}`)
  return told.join(' ')
}

function clockText(micros: bigint): string {
  const all = micros < 0n ? -micros : micros
  const wholeS = all / 1_000_000n
  const pad = (part: bigint) => String(part).padStart(2, '0')
  const fraction = String(all % 1_000_000n)
    .padStart(6, '0')
    .replace(/0+$/, '')
  const clock = `${pad(wholeS / 3600n)}:${pad((wholeS / 60n) % 60n)}:${pad(wholeS % 60n)}`
  return fraction === '' ? clock : `${clock}.${fraction}`
}

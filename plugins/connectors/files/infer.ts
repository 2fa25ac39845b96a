/** The narrowest type that holds what was seen of a column. */
import { type JsonCell, type LogicalType, parseDecimal, typeName, valueReader } from '@sluice/sdk'

/** By narrowness; text that none of them takes is a string. A number with leading zeros is a code. */
const OF_TEXT: readonly (readonly [LogicalType, (text: string) => boolean])[] = [
  ['boolean', (text) => /^(true|false)$/i.test(text)],
  ['long', takes('long', /^-?(0|[1-9]\d*)$/)],
  ['decimal(38,9)', takes('decimal(38,9)', /^-?(0|[1-9]\d*)(\.\d+)?$/)],
  ['double', takes('double', /^(-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?|NaN|-?Infinity)$/)],
  ['date', takes('date', /^/)],
  ['timestamp', takes('timestamp', /^/)],
  ['timestamptz', takes('timestamptz', /^/)],
  ['uuid', takes('uuid', /^/)],
]

function takes(type: LogicalType, form: RegExp): (text: string) => boolean {
  const reader = valueReader(type)
  return (text) => form.test(text) && reader(text) !== null
}

export class SeenTexts {
  #left = OF_TEXT
  #hasSeen = false

  add(text: string): void {
    this.#hasSeen = true
    this.#left = this.#left.filter(([, fits]) => fits(text))
  }

  get type(): LogicalType {
    return this.#hasSeen ? (this.#left[0]?.[0] ?? 'string') : 'string'
  }
}

/** What JSON says itself counts: a text of digits is a text. */
export class SeenJson {
  readonly #kinds = new Set<JsonCell['kind']>()
  readonly #texts = new SeenTexts()
  #isTime = true

  add({ text, kind }: JsonCell): void {
    this.#kinds.add(kind)
    this.#texts.add(text)
    this.#isTime &&= /^\d{4}-\d{2}-\d{2}|^[\da-f]{8}-/i.test(text)
  }

  get type(): LogicalType {
    const [kind, other] = this.#kinds
    if (kind === undefined) return 'string'
    if (other !== undefined || kind === 'document') return 'json'
    return kind === 'string' && !this.#isTime ? 'string' : this.#texts.type
  }
}

/** Files say their types: one that holds those of all. */
export class SeenTypes {
  #type: LogicalType | null = null

  add(type: LogicalType): void {
    this.#type = this.#type === null ? type : wider(this.#type, type)
  }

  get type(): LogicalType {
    return this.#type ?? 'string'
  }
}

const DIGITS_OF_WHOLE: Readonly<Record<string, number>> = { integer: 10, long: 19 }
const NUMBERS: ReadonlySet<string> = new Set(['integer', 'long', 'decimal', 'float', 'double'])
const MAX_DIGITS = 38

function wider(one: LogicalType, other: LogicalType): LogicalType {
  const names = [typeName(one), typeName(other)]
  if (one === other) return one
  if (!names.every((name) => NUMBERS.has(name))) return 'string'
  if (names.includes('double') || names.includes('float')) return 'double'
  if (!names.includes('decimal')) return 'long'
  const [left, right] = [digitsOf(one), digitsOf(other)]
  const scale = Math.max(left.scale, right.scale)
  const precision = Math.max(left.whole, right.whole) + scale
  return precision <= MAX_DIGITS ? `decimal(${precision},${scale})` : 'string'
}

function digitsOf(type: LogicalType): { readonly whole: number; readonly scale: number } {
  const { precision, scale } = parseDecimal(type) ?? { precision: DIGITS_OF_WHOLE[type] ?? MAX_DIGITS, scale: 0 }
  return { whole: precision - scale, scale }
}

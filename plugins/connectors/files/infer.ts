/** The narrowest type that holds what was seen of a column. */
import type { LogicalType } from '@sluice/sdk'
import type { JsonCell } from './json-cells.ts'
import { readerOf } from './value-text.ts'

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
  const reader = readerOf(type)
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

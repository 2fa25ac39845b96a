/**
 * The key that a reader sends, as the store has rendered it. Values as answers spell them, or in any spelling of their
 * type, name the same row: a time with its colons, a number with fewer digits, a text that holds a `%`.
 */
import { columnNamed, isSluiceError, type KeyTemplate, renderKey, type TableSchema, type Value } from '@sluice/sdk'
import { parseValue } from './parse-value.ts'

/** How often a part of a key is tried as a value: a hostile key could be cut in more ways than there is time for. */
const MAX_TRIES = 200

type Reading = readonly NonNullable<Value>[]

/** A key that is rendered already stays as it is, and so does what can be read in no way, or in several. */
export function renderedKey(given: string, template: KeyTemplate, schema: TableSchema): string {
  for (const reading of readings(given, template, new Values(schema, decoded))) {
    if (render(reading, template, schema) === given) return given
  }
  const asTheyAre = new Values(schema, (text) => text)
  const found = readings(given, template, asTheyAre)
  const reading = found.next().value
  const isOnly = found.next().done === true && !asTheyAre.areTried
  return reading && isOnly ? (render(reading, template, schema) ?? given) : given
}

function render(reading: Reading, template: KeyTemplate, schema: TableSchema): string | null {
  const cells = new Map(template.parts.map(({ column }, part) => [column, reading[part] ?? null]))
  return renderKey(template, schema, (column) => cells.get(column) ?? null)
}

/** All ways to cut a key into values of the template's columns. */
function* readings(key: string, template: KeyTemplate, values: Values, part = 0): Generator<Reading, undefined> {
  const { column, before } = template.parts[part] as KeyTemplate['parts'][number]
  const { after } = template
  if (!key.startsWith(before)) return
  const rest = key.slice(before.length)
  const next = template.parts[part + 1]
  if (next === undefined) {
    const last = rest.endsWith(after) ? values.of(column, rest.slice(0, rest.length - after.length)) : null
    if (last !== null) yield [last]
    return
  }
  for (let end = rest.indexOf(next.before); end >= 0 && !values.areTried; end = rest.indexOf(next.before, end + 1)) {
    const own = values.of(column, rest.slice(0, end))
    if (own === null) continue
    for (const others of readings(rest.slice(end), template, values, part + 1)) yield [own, ...others]
  }
}

class Values {
  readonly #schema: TableSchema
  readonly #meant: (text: string) => string
  #tries = 0

  constructor(schema: TableSchema, meant: (text: string) => string) {
    this.#schema = schema
    this.#meant = meant
  }

  get areTried(): boolean {
    return this.#tries > MAX_TRIES
  }

  /** Null where the text is no value of the column. */
  of(column: string, text: string): NonNullable<Value> | null {
    this.#tries += 1
    try {
      return parseValue(this.#meant(text), columnNamed(this.#schema, column).type, 'the key')
    } catch (error) {
      if (isSluiceError(error)) return null
      throw error
    }
  }
}

/** As the contract's `escapeKeyPart` has encoded it. */
function decoded(text: string): string {
  try {
    return text.replace(/(?:%[0-9A-F]{2})+/g, decodeURIComponent)
  } catch {
    return text
  }
}

/**
 * Rows that a store gave as one JSON text, told apart without reading their values: for rows that are sent as they are, but
 * have to be found by their key first.
 */

const QUOTE = 34
const COMMA = 44
const BACKSLASH = 92

const opens = (code: number) => code === 123 || code === 91
const closes = (code: number) => code === 125 || code === 93

export interface JsonRow {
  /** Without the members that were to be left out. */
  readonly text: string
  /** The JSON text of each member that was asked for, in the order of the names. */
  readonly values: readonly string[]
}

/**
 * @param json an array of objects
 * @param names of members that each object has
 * @param without of those, the ones that leave with the row
 * @throws a plain Error where `json` is something else: a store's fault
 */
export function jsonRows(json: string, names: readonly string[], without: ReadonlySet<string>): readonly JsonRow[] {
  const heads = names.map((name) => JSON.stringify(name))
  // A name may be written in several ways.
  const placeOf = (head: string) =>
    head.includes('\\') ? names.indexOf(JSON.parse(head) as string) : heads.indexOf(head)
  const rows: JsonRow[] = []
  let at = behind(json, 0, '[')
  if (json[at] === ']') return rows
  for (;;) {
    const begins = at
    const values: string[] = []
    const kept: string[] = []
    at = behind(json, at, '{')
    while (json[at] !== '}') {
      const name = endOfString(json, at)
      const place = placeOf(json.slice(at, name))
      const value = behind(json, skipped(json, name), ':')
      const end = endOfValue(json, value)
      if (place >= 0) values[place] = json.slice(value, end).trimEnd()
      if (without.size > 0 && !without.has(names[place] ?? '')) kept.push(json.slice(at, end))
      at = json[end] === ',' ? behind(json, end, ',') : end
    }
    if (Object.keys(values).length < names.length) throw new Error(`a store gave a row without ${names.join(', ')}`)
    rows.push({ text: without.size > 0 ? `{${kept.join(',')}}` : json.slice(begins, at + 1), values })
    at = skipped(json, at + 1)
    if (json[at] === ']') return rows
    at = behind(json, at, ',')
  }
}

/** Where what follows that mark begins. */
function behind(json: string, at: number, mark: string): number {
  if (json[at] !== mark) throw broken()
  return skipped(json, at + 1)
}

function skipped(json: string, from: number): number {
  let at = from
  while (json.charCodeAt(at) <= 32) at += 1
  return at
}

/** Behind its closing quote. */
function endOfString(json: string, begins: number): number {
  if (json.charCodeAt(begins) !== QUOTE) throw broken()
  let at = begins
  for (;;) {
    at = json.indexOf('"', at + 1)
    if (at < 0) throw broken()
    let slashes = at
    while (json.charCodeAt(slashes - 1) === BACKSLASH) slashes -= 1
    if ((at - slashes) % 2 === 0) return at + 1
  }
}

/** Of any value: at the comma or the bracket that follows it. */
function endOfValue(json: string, begins: number): number {
  let depth = 0
  for (let at = begins; at < json.length; at += 1) {
    const code = json.charCodeAt(at)
    if (code === QUOTE) at = endOfString(json, at) - 1
    else if (opens(code)) depth += 1
    else if (depth === 0 && (code === COMMA || closes(code))) return at
    else if (closes(code)) depth -= 1
  }
  throw broken()
}

const broken = () => new Error('a store gave rows that are no JSON array of objects')

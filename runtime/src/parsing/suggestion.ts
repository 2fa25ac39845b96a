/** Words people bring from other tools, by what a manifest calls them. */
const SYNONYMS: Readonly<Record<string, string>> = {
  int: 'integer',
  int4: 'integer',
  int32: 'integer',
  smallint: 'integer',
  int8: 'long',
  int64: 'long',
  bigint: 'long',
  number: 'double',
  numeric: 'decimal(18,2)',
  decimal: 'decimal(18,2)',
  real: 'float',
  float4: 'float',
  float8: 'double',
  bool: 'boolean',
  text: 'string',
  varchar: 'string',
  char: 'string',
  datetime: 'timestamp',
  timestamp_tz: 'timestamptz',
  bytea: 'binary',
  bytes: 'binary',
  blob: 'binary',
  jsonb: 'json',
  object: 'json',
  primary_key: 'identity',
  key: 'identity',
  upsert: 'merge',
  overwrite: 'replace',
  insert: 'append',
  scd1: 'current',
  scd2: 'type_2',
  scd_2: 'type_2',
  type2: 'type_2',
  scd3: 'type_3',
  type3: 'type_3',
  pii: 'pii.identifier',
  columns: 'schema',
}

/**
 * The number of letters to insert, delete, replace or swap with their neighbour (optimal string alignment). A
 * distance beyond `most` comes as `most + 1`: what cannot stay within is not computed.
 */
export function editDistance(a: string, b: string, most = Math.max(a.length, b.length)): number {
  let start = 0
  while (start < a.length && a[start] === b[start]) start += 1
  let end = 0
  while (end < Math.min(a.length, b.length) - start && a.at(-1 - end) === b.at(-1 - end)) end += 1
  return middleDistance(a.slice(start, a.length - end), b.slice(start, b.length - end), most)
}

function middleDistance(a: string, b: string, most: number): number {
  const beyond = most + 1
  if (Math.abs(a.length - b.length) > most) return beyond
  let before: number[] = []
  let above = Array.from({ length: b.length + 1 }, (_, j) => Math.min(j, beyond))
  for (let i = 1; i <= a.length; i++) {
    const row = new Array<number>(b.length + 1).fill(beyond)
    row[0] = Math.min(i, beyond)
    let least = row[0]
    for (let j = Math.max(1, i - most); j <= Math.min(b.length, i + most); j++) {
      const replaced = (above[j - 1] ?? beyond) + (a[i - 1] === b[j - 1] ? 0 : 1)
      const swapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]
      const swap = swapped ? (before[j - 2] ?? beyond) + 1 : beyond
      const cost = Math.min(replaced, swap, (above[j] ?? beyond) + 1, (row[j - 1] ?? beyond) + 1, beyond)
      row[j] = cost
      least = Math.min(least, cost)
    }
    // A swap reaches back two rows, and never below the least of the row between.
    if (least > most) return beyond
    before = above
    above = row
  }
  return above[b.length] ?? beyond
}

const LONGEST_WORD = 64
const MOST_CANDIDATES = 1000

/** The candidate that was probably meant by `word`, or undefined where none is near. */
export function nearest(word: string, candidates: Iterable<string>): string | undefined {
  if (word.length > LONGEST_WORD) return undefined
  const bounded = [...candidates].slice(0, MOST_CANDIDATES).filter((candidate) => candidate.length <= LONGEST_WORD)
  const normal = normalised(word)
  const synonym = Object.hasOwn(SYNONYMS, word.toLowerCase()) ? SYNONYMS[word.toLowerCase()] : undefined
  if (
    synonym !== undefined &&
    bounded.some((candidate) => candidate === synonym || synonym.startsWith(`${candidate}(`))
  ) {
    return synonym
  }
  let best: string | undefined
  let most = tolerance(normal)
  for (const candidate of bounded) {
    const distance = editDistance(normal, normalised(candidate), most)
    if (distance > most) continue
    best = candidate
    most = distance - 1
    if (most < 0) break
  }
  return best
}

/** "Did you mean …?", or the choices where there are few, or undefined. */
export function didYouMean(word: string, candidates: Iterable<string>): string | undefined {
  const choices = [...candidates]
  const near = nearest(word, choices)
  if (near !== undefined) return `Did you mean ${near}?`
  if (choices.length === 0 || choices.length > 16) return undefined
  return `Possible here: ${choices.join(', ')}.`
}

function normalised(word: string): string {
  return word.toLowerCase().replaceAll('-', '_')
}

/** One letter in a short word, up to three in a long one: more would suggest what nobody meant. */
function tolerance(word: string): number {
  return word.length <= 3 ? 1 : word.length <= 7 ? 2 : 3
}

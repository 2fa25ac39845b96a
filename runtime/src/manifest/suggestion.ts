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

/** The number of letters to insert, delete, replace or swap with their neighbour (optimal string alignment). */
export function editDistance(a: string, b: string): number {
  const rows: number[][] = [Array.from({ length: b.length + 1 }, (_, column) => column)]
  for (let i = 1; i <= a.length; i++) {
    const row = [i]
    for (let j = 1; j <= b.length; j++) row.push(stepCost(rows, row, a, b, i, j))
    rows.push(row)
  }
  return rows[a.length]?.[b.length] ?? 0
}

function stepCost(rows: number[][], row: number[], a: string, b: string, i: number, j: number): number {
  const at = (r: number, c: number): number => rows[r]?.[c] ?? Number.POSITIVE_INFINITY
  const same = a[i - 1] === b[j - 1]
  let cost = Math.min(at(i - 1, j) + 1, (row[j - 1] ?? 0) + 1, at(i - 1, j - 1) + (same ? 0 : 1))
  const swapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]
  if (swapped) cost = Math.min(cost, at(i - 2, j - 2) + 1)
  return cost
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
  let best: { readonly candidate: string; readonly distance: number } | undefined
  for (const candidate of bounded) {
    const distance = editDistance(normal, normalised(candidate))
    if (distance <= tolerance(normal) && (best === undefined || distance < best.distance))
      best = { candidate, distance }
  }
  return best?.candidate
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

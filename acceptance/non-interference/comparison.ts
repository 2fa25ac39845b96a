/** What may differ between two worlds, and whether anything else does. */

/**
 * The whole list of what a reader without clearance may learn of what is hidden from him, or that tells worlds apart
 * without telling of it. A test holds it against the promise; what a comparison sets aside names its entry.
 */
export const EXCEPTIONS = {
  pseudonyms: 'pseudonyms, and what they concede: which rows join, group and are null, and how many they are',
  partial: 'what the mask "partial" shows',
  approved: 'columns that the owner of their source has approved by name, and products listed as deployed before',
  pseudonymFiles: 'sizes and offsets in bytes of files that hold pseudonyms',
  idsAndTimes: 'ids and times of epochs, snapshots and runs',
  blockingChecks: 'whether a blocking check on a hidden column let an epoch pass',
} as const

export type Exception = keyof typeof EXCEPTIONS

/**
 * What says which of the two worlds it is. Of what is numbered, the same has to be equal in both worlds: it is told by the
 * order in which it first comes.
 */
const NUMBERED: readonly (readonly [Exception, RegExp])[] = [
  ['pseudonyms', /[0-9a-f]{64}/],
  ['idsAndTimes', /\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b/],
  ['idsAndTimes', /\b[a-z]{3}_[0-9a-f]{24}\b/],
  ['idsAndTimes', /\b[0-9a-f]{32}\b/],
  ['idsAndTimes', /\b\d{13,19}\b/],
]
const SET_ASIDE: readonly (readonly [Exception, RegExp])[] = [
  ['idsAndTimes', /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)?/g],
  ['idsAndTimes', /(?<=^x-sluice-freshness: )\d+$/gm],
  ['idsAndTimes', /(?<="(?:age_s|ttl_remaining_s|\w+_ms|\w+_seconds)\\?":\s*)[\d.]+/g],
]
const PSEUDONYM_FILES = /(?<="(?:[\w-]*files-size|[\w-]*bytes)":\s*"?)\d+/g
/** Sealed places, of pages and of streams of changes: their lengths are compared. */
const SEALED = /(?<="next_cursor":")[^"]+|(?<=^id: )[\w-]{30,}/gm
/** What bodies are made of is compared itself, and how much of his rate a reader has left is counted by time. */
const UNCOMPARED = new Set(['date', 'x-request-id', 'content-length', 'ratelimit', 'connection', 'keep-alive'])
/** Made of ids of what was read and of the request. */
const VALIDATOR = /(?<=").*(?=")/
const PARQUET = 'application/vnd.apache.parquet'

export interface Heard {
  readonly status: number
  /** By names in lower case. */
  readonly headers: Readonly<Record<string, string>>
  /** Of bytes, each as a character. */
  readonly text: string
}

/**
 * An answer without what may differ.
 * @param names of this world's tenants and databases
 */
export function told({ status, headers, text }: Heard, names: readonly string[], hasPseudonyms: boolean): string {
  const isFileOfPseudonyms = hasPseudonyms && headers['content-type'] === PARQUET
  const head = Object.entries(headers).filter(([name]) => !UNCOMPARED.has(name))
  const lines = head
    .map(([name, value]) => `${name}: ${name === 'etag' ? value.replace(VALIDATOR, '<>') : value}`)
    .sort()
  let rest = [status, ...lines, '', isFileOfPseudonyms ? '<file>' : text].join('\n')
  for (const [index, name] of names.entries()) rest = rest.replaceAll(name, `world${index}`)
  for (const [, pattern] of SET_ASIDE) rest = rest.replace(pattern, '<>')
  if (hasPseudonyms) rest = rest.replace(PSEUDONYM_FILES, '<size>')
  const seen = new Map<string, number>()
  const numbered = new RegExp(NUMBERED.map(([, { source }]) => source).join('|'), 'g')
  rest = rest.replace(numbered, (found) => {
    seen.set(found, seen.get(found) ?? seen.size)
    return `<${seen.get(found)}>`
  })
  return rest.replace(SEALED, (found) => `<${found.length}>`)
}

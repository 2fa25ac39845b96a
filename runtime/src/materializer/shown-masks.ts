/**
 * By which mask a column of a twin was made, told by the files that hold it: their statistics name its least and its greatest
 * value. No row is read.
 */
import type { Scan } from '@sluice/iceberg'
import { type Column, typeName } from '@sluice/sdk'
import type { MaskStrategy } from '../config.ts'
import { carriesMasks } from '../policy/masking.ts'
import { REDACTED } from './mask-sql.ts'

type Lying = Pick<Scan, 'schema' | 'files'>
type File = Scan['files'][number]['file']

/**
 * Null where the files do not say so: of a mask that may show something, nothing is guessed.
 * @param column as the version has it that masked it
 * @param now by which it would be masked today: the same where the rows would be the same ones
 */
export function shownMask(column: Column, now: MaskStrategy, { schema, files }: Lying): MaskStrategy | null {
  const field = schema.fields.find(({ name }) => name === column.name)
  if (field === undefined) return 'omit'
  if (!carriesMasks(column.type)) return 'null'
  const filled = files.map(({ file }) => file).filter(({ rows }) => rows > 0)
  if (filled.length === 0) return null
  const counted = filled.every(({ nullCounts }) => nullCounts.has(field.id))
  const valued = filled.filter(({ rows, nullCounts }) => nullCounts.get(field.id) !== rows)
  // A hash of nothing is null as well, which is hidden by other masks of a text than these two: it counts as what shows more of them,
  // but where the rows would be all null today, too.
  if (valued.length === 0) return typeName(column.type) === 'string' && now !== 'null' ? 'hash' : 'null'
  if (typeName(column.type) !== 'string') return counted ? 'hash' : null
  const [first = null, ...others] = new Set(valued.map((file) => shownIn(file, field.id)))
  return others.length === 0 ? first : null
}

const STARS = /^\*{6}/
/** Bounds of texts end after 16 characters; the upper one has the next character there. */
const HASHED = { lower: /^[0-9a-f]{16}$/, upper: /^[0-9a-f]{15}[0-9a-g:]$/ }

/** Each of the masks begins otherwise than the others: with a bracket, a star, a digit of base 16. */
function shownIn({ lowerBounds, upperBounds }: File, id: number): MaskStrategy | null {
  const [lower, upper] = [lowerBounds, upperBounds].map((bounds) => Buffer.from(bounds.get(id) ?? []).toString('utf8'))
  if (lower === undefined || upper === undefined) return null
  if (lower === REDACTED && upper === REDACTED) return 'redact'
  if (STARS.test(lower) && STARS.test(upper)) return 'partial'
  return HASHED.lower.test(lower) && HASHED.upper.test(upper) ? 'hash' : null
}

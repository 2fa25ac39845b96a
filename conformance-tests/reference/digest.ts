import { createHash } from 'node:crypto'
import type { Digest, Value } from '@sluice/sdk'
import type { Content } from './memory.ts'

/** Of the rows and their history; the order in which they were written does not show. */
export function digestOf(content: Content): Digest {
  const lines = content.versions.map(({ row, validFrom, validTo, previous }) =>
    JSON.stringify([
      row.map(cellText),
      validFrom,
      validTo,
      Object.entries(previous)
        .sort()
        .map(([name, value]) => [name, cellText(value)]),
    ]),
  )
  const hash = createHash('sha256')
  for (const line of lines.sort()) hash.update(`${line}\n`)
  return { rowCount: lines.length, sha256: hash.digest('hex') }
}

/** Text that keeps null from 'null', 1 from '1' and -0 from 0. */
function cellText(value: Value): readonly [string, string] | null {
  if (value === null) return null
  if (value instanceof Uint8Array) return ['bytes', Buffer.from(value).toString('hex')]
  return [typeof value, Object.is(value, -0) ? '-0' : String(value)]
}

/** What is told of a row that cannot be carried: why, which one it is, and the value at fault as the server writes it. */
import type { ReadEvent } from '@sluice/sdk'
import type { Refused } from './copy-out.ts'
import type { RelationColumn } from './relation.ts'

type RejectEvent = Extract<ReadEvent, { kind: 'reject' }>

const MAX_RAW_CHARACTERS = 1_000
const MAX_KEY_CHARACTERS = 256

export function rejectOf(
  { column: ordinal, csv }: Refused,
  columns: readonly RelationColumn[],
  primaryKey: readonly string[],
): RejectEvent {
  const column = columns[ordinal - 1]
  const values = cellsOf(csv.toString('utf8'))
  const valueOf = (name: string) => values[columns.findIndex((one) => one.name === name)]
  const key = primaryKey.map((name) => [name, valueOf(name)] as const)
  const isKnown = key.length > 0 && key.every(([, value]) => value != null && value.length <= MAX_KEY_CHARACTERS)
  const raw = column === undefined ? undefined : (values[ordinal - 1] ?? undefined)
  return {
    kind: 'reject',
    reason: column?.carriage.unfit?.reason ?? 'a value cannot be carried',
    column: column?.name ?? null,
    ...(isKnown ? { key: Object.fromEntries(key) as Record<string, string> } : {}),
    ...(raw === undefined ? {} : { raw: raw.slice(0, MAX_RAW_CHARACTERS) }),
  }
}

/** The cells of one row of the shared CSV that are there: of a row that was cut, the last one is what is left of it. */
function cellsOf(text: string): readonly (string | null)[] {
  const cells: (string | null)[] = []
  const cell = /(?:"((?:[^"]|"")*)"?)?([,\n]|$)/y
  while (cell.lastIndex < text.length) {
    const match = cell.exec(text)
    if (match === null) break
    cells.push(match[1]?.replaceAll('""', '"') ?? null)
  }
  return cells
}

/** What is told of a row that cannot be carried as it is: why, which one it is, and the values at fault as the server has them. */
import type { ReadEvent } from '@sluice/sdk'
import type { Refused } from './copy-out.ts'
import type { RelationColumn } from './relation.ts'

type RejectEvent = Extract<ReadEvent, { kind: 'reject' }>

const MAX_RAW_CHARACTERS = 1_000
const MAX_KEY_CHARACTERS = 256

export interface Chosen {
  readonly columns: readonly RelationColumn[]
  readonly primaryKey: readonly string[]
  /** Names of columns without whose value a row may come. */
  readonly optional: ReadonlySet<string>
  /** Rows end with a cell that tells of which columns. */
  readonly marks: boolean
}

/** The row without the values at fault, where it can come without them; else null. */
export function carriedRow({ columns, csv, isWhole }: Refused, chosen: Chosen): Buffer | null {
  const isOptional = columns.every((ordinal) => chosen.optional.has(chosen.columns[ordinal - 1]?.name ?? ''))
  if (!isOptional || !isWhole) return null
  const cells = cellsOf(csv.toString('utf8')).map(({ text }, index) => (columns.includes(index + 1) ? '' : text))
  if (chosen.marks) cells[chosen.columns.length] = markOf(columns, chosen)
  return Buffer.from(`${cells.join(',')}\n`)
}

function markOf(ordinals: readonly number[], { columns }: Chosen): string {
  const names = ordinals.map((ordinal) => columns[ordinal - 1]?.name ?? '')
  return `"${JSON.stringify(names).replaceAll('"', '""')}"`
}

/** One for each column at fault. */
export function rejectsOf(refused: Refused, chosen: Chosen, carried: boolean): readonly RejectEvent[] {
  const cells = cellsOf(refused.csv.toString('utf8'))
  const valueOf = (name: string) => cells[chosen.columns.findIndex((one) => one.name === name)]?.value
  const key = chosen.primaryKey.map((name) => [name, valueOf(name)] as const)
  const isKnown = key.length > 0 && key.every(([, value]) => value != null && value.length <= MAX_KEY_CHARACTERS)
  return refused.columns.map((ordinal) => {
    const column = chosen.columns[ordinal - 1]
    const raw = cells[ordinal - 1]?.value
    return {
      kind: 'reject',
      reason: column?.carriage.unfit?.reason ?? 'a value cannot be carried',
      column: column?.name ?? null,
      ...(isKnown ? { key: Object.fromEntries(key) as Record<string, string> } : {}),
      ...(raw == null ? {} : { raw: raw.slice(0, MAX_RAW_CHARACTERS) }),
      ...(carried ? { carried } : {}),
    }
  })
}

interface Cell {
  /** As it stands there. */
  readonly text: string
  readonly value: string | null
}

/** The cells of one row of the shared CSV that are there: of a row that was cut, the last one is what is left of it. */
function cellsOf(row: string): readonly Cell[] {
  const cells: Cell[] = []
  const cell = /((?:"((?:[^"]|"")*)"?)?)([,\n]|$)/y
  while (cell.lastIndex < row.length) {
    const match = cell.exec(row)
    if (match === null) break
    cells.push({ text: match[1] ?? '', value: match[2]?.replaceAll('""', '"') ?? null })
  }
  return cells
}

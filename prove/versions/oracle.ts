/** What a version's rows are, and what each reader is shown of them: evaluated here, by nothing of the runtime. */
import { type Mask, maskFor, mayRead, type Reader } from './readers.ts'
import type { Source, SourceRow } from './source.ts'
import { type Check, type Condition, keyOf, type SourceColumn, type TypeName, type Version } from './version.ts'

/** As answers tell it. */
export type Cell = string | number | null
export type Row = Readonly<Record<string, Cell>>

export interface Content {
  readonly version: Version
  /** In clear. */
  readonly rows: readonly Row[]
}

/** What a run of the version makes. */
export interface Outcome {
  readonly rows: readonly Row[]
  /** Before checks put any aside, and without those that are kept. */
  readonly made: readonly Row[]
  /** Whether a check, a key that stands twice, or a value that is missing keeps the rows from being published. */
  readonly isBlocked: boolean
  /** Whether it is a key that stands twice. */
  readonly isTwice: boolean
}

/** @param former what is there, whose rows stay where the version keeps what it has no more */
export function outcomeOf(version: Version, source: Source, former: Content | null): Outcome {
  const made = rowsOf(version, source)
  const failing = (onError: Check['onError']) => version.checks.filter((check) => check.onError === onError)
  const isFailing = made.some((row) => failing('block').some((check) => !meets(row, check)))
  const isTwice = new Set(made.map((row) => keyText(version, row))).size < made.length
  const isMissing = made.some((row) => version.columns.some(({ name, nullable }) => !nullable && row[name] === null))
  const isBlocked = isFailing || isTwice || isMissing
  const good = made.filter((row) => failing('quarantine').every((check) => meets(row, check)))
  if (!version.keepsMissing || former === null) return { rows: good, made, isBlocked, isTwice }
  const keys = new Set(good.map((row) => keyText(version, row)))
  const kept = former.rows.filter((row) => !keys.has(keyText(version, row)))
  return { rows: [...good, ...kept.map((row) => inShapeOf(version, row))], made, isBlocked, isTwice }
}

export const keyText = (version: Version, row: Row): string =>
  JSON.stringify(keyOf(version).map(({ name }) => row[name]))

const inShapeOf = ({ columns }: Version, row: Row): Row =>
  Object.fromEntries(columns.map(({ name }) => [name, row[name] ?? null]))

function meets(row: Row, { kind, column, least, values }: Check): boolean {
  const value = row[column] as Cell
  return kind === 'range' ? Number(value) >= least : values.includes(String(value))
}

function rowsOf(version: Version, { rows, places }: Source): readonly Row[] {
  const taken = rows.filter(
    (row) =>
      holds(version.where, row) && holds(version.filter, row) && (version.join !== 'inner' || places.has(row.grp)),
  )
  const groups: readonly (readonly SourceRow[])[] = version.isGrouped
    ? [...Map.groupBy(taken, ({ grp }) => grp).values()]
    : taken.map((row) => [row])
  return groups.map((group) =>
    Object.fromEntries(
      version.columns.map(({ name, of, made, type }) => [name, cast(madeOf(made, of, group, places), of, type)]),
    ),
  )
}

/** No value is no truth. */
function holds(condition: Condition | null, row: SourceRow): boolean {
  if (condition === null) return true
  const value = row[condition.column]
  if (value === null) return false
  if (condition.operator === '<>') return value !== condition.value
  return condition.operator === '>=' ? value >= condition.value : value <= condition.value
}

function madeOf(
  made: Version['columns'][number]['made'],
  of: SourceColumn,
  group: readonly SourceRow[],
  places: Source['places'],
): Cell {
  const [first] = group as readonly [SourceRow]
  const value = first[of]
  switch (made) {
    case 'copy':
      return value
    case 'upper':
      return value === null ? null : String(value).toUpperCase()
    case 'twice':
      return value === null ? null : Number(value) * 2
    case 'region':
      return places.get(first.grp) ?? null
    case 'count':
      return group.length
    case 'sum': {
      const values = group.flatMap((row) => (row.score === null ? [] : [row.score]))
      return values.length === 0 ? null : values.reduce((sum, one) => sum + one, 0)
    }
    case 'newest':
      return group.map(({ seen }) => seen).reduce((newest, one) => (one > newest ? one : newest))
  }
}

function cast(value: Cell, of: SourceColumn, type: TypeName): Cell {
  if (value === null) return null
  if (of === 'price') return priceAs(Number(value), type)
  if (of === 'seen' && type !== 'string') return type === 'date' ? String(value).slice(0, 10) : `${value}.000000`
  if (type === 'string') return String(value)
  if (type.startsWith('decimal')) return Number(value).toFixed(type.endsWith('1)') ? 1 : 2)
  return Number(value)
}

/** Halves go away from zero. */
function priceAs(hundredths: number, type: TypeName): Cell {
  if (type === 'double') return hundredths / 100
  if (type !== 'decimal(9,1)') return `${Math.floor(hundredths / 100)}.${String(hundredths % 100).padStart(2, '0')}`
  const tenths = Math.floor((hundredths + 5) / 10)
  return `${Math.floor(tenths / 10)}.${tenths % 10}`
}

/** In place of a pseudonym: which values are equal is told, and what they are is not known here. */
export const pseudonym = (classification: string, value: Cell): Cell =>
  value === null ? null : `#${classification}#${value}`

/** Null: it is not for this reader. */
export function shownTo(reader: Reader, { version, rows }: Content): readonly Row[] | null {
  if (!mayRead(reader, version.classification)) return null
  return rows.map((row) =>
    Object.fromEntries(
      version.columns.flatMap((column) => {
        const mask = maskFor(reader, column)
        if (mask === 'omit') return []
        const value = row[column.name] as Cell
        return [[column.name, mask === null ? value : masked(mask, column.classification as string, value)]]
      }),
    ),
  )
}

function masked(mask: Mask, classification: string, value: Cell): Cell {
  switch (mask) {
    case 'hash':
      return pseudonym(classification, value)
    case 'redact':
      return '[redacted]'
    case 'partial':
      return value === null || String(value).length <= 8 ? '******' : `******${String(value).slice(-4)}`
    default:
      return null
  }
}

/** Of an epoch of the past, by the stricter of then and now; null: the oracle says nothing of it. */
export function shownOfPast(reader: Reader, past: Content, now: Version): readonly Row[] | 'refused' | 'closed' | null {
  if (!mayRead(reader, past.version.classification) || !mayRead(reader, now.classification)) return 'closed'
  const isWhole = reader.clear === 'all' || reader.clear.length === 0
  // Columns of one source under other names take each other's classes: what of them is refused is not evaluated.
  const others = now.columns.filter(({ name }) => !past.version.columns.some((one) => one.name === name))
  const isRenamed = others.some(
    ({ of, classification }) => classification !== null && past.version.columns.some((one) => one.of === of),
  )
  if (!isWhole || isRenamed) return null
  const isLess = past.version.columns.some((column) => {
    const today = now.columns.find(({ name }) => name === column.name)
    const [made, wanted] = [maskFor(reader, column), today === undefined ? null : maskFor(reader, today)]
    return wanted !== null && made !== wanted && (made === null || made === 'hash' || made === 'partial')
  })
  return isLess ? 'refused' : shownTo(reader, past)
}

/** As plans tell it. */
export function shownAs(reader: Reader, version: Version | null, name: string): string {
  const column = version?.columns.find((one) => one.name === name)
  if (version === null || column === undefined) return 'absent'
  return mayRead(reader, version.classification) ? (maskFor(reader, column) ?? 'clear') : 'forbidden'
}

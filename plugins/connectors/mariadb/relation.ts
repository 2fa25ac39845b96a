/** What the catalog says of tables, and the SQL that asks it. */
import type { Column, DiscoveredTable } from '@sluice/sdk'
import { errnoOf } from './failure.ts'
import type { Session } from './session.ts'
import { qualified, quoteName, quoteText } from './sql.ts'
import { type Carriage, carriageOf } from './types.ts'

export interface RelationColumn {
  readonly name: string
  readonly ordinal: number
  readonly nullable: boolean
  readonly sourceType: string
  /** Left out where no columns are named, as the server does. */
  readonly isInvisible: boolean
  /** The server sets it to the time of every change that does not set it itself. */
  readonly isChangeTime: boolean
  /** What it is computed by; empty where it is stored as given. */
  readonly generation: string
  readonly carriage: Carriage
}

export interface Relation {
  readonly schema: string
  readonly name: string
  readonly kind: DiscoveredTable['kind']
  /** Null for views. */
  readonly engine: string | null
  readonly estimatedRows: number | null
  /** Seconds since 1970; null where the server does not know. */
  readonly createdS: number | null
  readonly primaryKey: readonly string[]
  /** Those that the login may read, in the table's order. */
  readonly columns: readonly RelationColumn[]
}

export interface RelationPage {
  readonly schemas: readonly string[]
  readonly after: readonly [string, string] | null
  readonly limit: number
}

const OFFERED = `TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED', 'VIEW')`
const FOREIGN_ENGINES = new Set(['FEDERATED', 'CONNECT', 'SPIDER', 'S3', 'OQGRAPH'])
const FACTS = `TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE, ENGINE, TABLE_ROWS, UNIX_TIMESTAMP(CREATE_TIME), CREATE_OPTIONS`

/** The next relations after `after`, in the order of their names' bytes; those of which nothing may be read have no columns. */
export async function listRelations(session: Session, { schemas, after, limit }: RelationPage): Promise<Relation[]> {
  const from =
    after === null
      ? ''
      : `AND (BINARY TABLE_SCHEMA > BINARY ${quoteText(after[0])}
          OR (BINARY TABLE_SCHEMA = BINARY ${quoteText(after[0])} AND BINARY TABLE_NAME > BINARY ${quoteText(after[1])}))`
  const rows = await session.query(
    `SELECT ${FACTS} FROM information_schema.TABLES WHERE TABLE_SCHEMA IN (${listOf(schemas)}) AND ${OFFERED} ${from}
     ORDER BY BINARY TABLE_SCHEMA, BINARY TABLE_NAME LIMIT ${limit}`,
  )
  const bySchema = Map.groupBy(rows, ([schema]) => schema ?? '')
  const found: Relation[] = []
  for (const [schema, own] of bySchema) {
    const names = own.map(([, name]) => name ?? '')
    const details = await detailsOf(session, schema, names)
    found.push(...own.map((row) => toRelation(row, details)))
  }
  return found
}

/** Null where there is none of that name; its `columns` are empty where the login may not read it. */
export async function findRelation(session: Session, schema: string, name: string): Promise<Relation | null> {
  const [row] = await session.query(
    `SELECT ${FACTS} FROM information_schema.TABLES WHERE TABLE_SCHEMA = ${quoteText(schema)}
     AND TABLE_NAME = ${quoteText(name)} AND BINARY TABLE_NAME = BINARY ${quoteText(name)} AND ${OFFERED}`,
  )
  return row === undefined ? null : toRelation(row, await detailsOf(session, schema, [name]))
}

/** As the shared schema has it. */
export function toColumn({ name, carriage, nullable }: RelationColumn): Column {
  return { name, type: carriage.type, nullable }
}

interface Details {
  readonly columns: ReadonlyMap<string, readonly RelationColumn[]>
  readonly keys: ReadonlyMap<string, readonly string[]>
}

/** Of tables of one schema: the catalog opens those alone that are named. */
async function detailsOf(session: Session, schema: string, names: readonly string[]): Promise<Details> {
  const own = `TABLE_SCHEMA = ${quoteText(schema)} AND TABLE_NAME ${names.length === 1 ? '=' : 'IN'} (${listOf(names)})`
  const columns = await session.query(
    `SELECT TABLE_NAME, ORDINAL_POSITION, COLUMN_NAME, IS_NULLABLE, LOWER(DATA_TYPE), COLUMN_TYPE, NUMERIC_PRECISION,
       NUMERIC_SCALE, EXTRA, GENERATION_EXPRESSION, COLLATION_NAME
     FROM information_schema.COLUMNS WHERE ${own} AND FIND_IN_SET('select', PRIVILEGES) > 0
     ORDER BY TABLE_NAME, ORDINAL_POSITION`,
  )
  const keys = await session.query(
    `SELECT TABLE_NAME, COLUMN_NAME FROM information_schema.STATISTICS WHERE ${own} AND INDEX_NAME = 'PRIMARY'
     ORDER BY TABLE_NAME, SEQ_IN_INDEX`,
  )
  const json = await jsonColumns(session, schema, columns)
  return {
    columns: grouped(columns, (row) => toRelationColumn(row, json.has(JSON.stringify([row[0], row[2]])))),
    keys: grouped(keys, ([, column]) => column ?? ''),
  }
}

/** MariaDB's JSON is a text of that collation whose values are checked; which ones are, a statement over them tells. */
async function jsonColumns(session: Session, schema: string, columns: readonly Texts[]): Promise<ReadonlySet<string>> {
  const found = new Set<string>()
  const candidates = columns.filter((row) => row[4] === 'longtext' && row[10] === 'utf8mb4_bin')
  for (const [table, own] of Map.groupBy(candidates, ([name]) => name ?? '')) {
    const names = own.map((row) => row[2] ?? '')
    // A view that names what is gone is listed all the same; who reads it is told.
    const json = await session.jsonAmong(names.map(quoteName), qualified({ schema, name: table })).catch(unlessRefused)
    for (const [at, name] of names.entries()) if (json[at]) found.add(JSON.stringify([table, name]))
  }
  return found
}

function unlessRefused(error: unknown): readonly boolean[] {
  if (errnoOf(error) === null) throw error
  return []
}

type Texts = readonly (string | null)[]

function toRelation(row: Texts, details: Details): Relation {
  const [schema, name, type, engine, rows, created, options] = row
  const columns = details.columns.get(name ?? '') ?? []
  const readable = new Set(columns.map((column) => column.name))
  const key = details.keys.get(name ?? '') ?? []
  const isForeign = FOREIGN_ENGINES.has((engine ?? '').toUpperCase())
  const kind = / ?partitioned/.test(options ?? '') ? 'partitioned_table' : isForeign ? 'foreign_table' : 'table'
  return {
    schema: schema ?? '',
    name: name ?? '',
    kind: type === 'VIEW' ? 'view' : kind,
    engine: engine ?? null,
    estimatedRows: numberOf(rows),
    createdS: numberOf(created),
    // A key of which a part cannot be read identifies nothing.
    primaryKey: key.every((column) => readable.has(column)) ? key : [],
    columns,
  }
}

function toRelationColumn(row: Texts, isJson: boolean): RelationColumn {
  const [, ordinal, column, nullable, type, declared, precision, scale, extra, generation] = row
  const name = column ?? ''
  return {
    name,
    ordinal: Number(ordinal),
    nullable: nullable !== 'NO',
    sourceType: declared ?? '',
    isInvisible: /invisible/i.test(extra ?? ''),
    isChangeTime: /on update current_timestamp/i.test(extra ?? ''),
    generation: generation ?? '',
    carriage: carriageOf({
      name: type ?? '',
      declared: declared ?? '',
      precision: numberOf(precision),
      scale: numberOf(scale),
      isJson,
    }),
  }
}

function grouped<T>(rows: readonly Texts[], make: (row: Texts) => T): ReadonlyMap<string, readonly T[]> {
  const groups = new Map<string, T[]>()
  for (const row of rows) {
    const name = row[0] ?? ''
    const group = groups.get(name) ?? []
    group.push(make(row))
    groups.set(name, group)
  }
  return groups
}

function numberOf(text: string | null | undefined): number | null {
  return text == null ? null : Number(text)
}

function listOf(names: readonly string[]): string {
  return names.map(quoteText).join(', ')
}

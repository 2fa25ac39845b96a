/** How the rows of a logged table are shaped, and how each of its values is carried, as a read of the table has it. */
import type { ChangeStream, TableSchema } from '@sluice/sdk'
import type { QueryResultRow } from 'pg'
import { baseOf } from '../relation.ts'
import type { Session } from '../session.ts'
import { type Carriage, carriageOf, type SourceType } from '../types.ts'
import type { LoggedColumn } from './pgoutput.ts'

export interface ShapedColumn {
  readonly name: string
  /** Its place in the log's rows. */
  readonly place: number
  readonly typeOid: number
  readonly modifier: number
  /** As SQL names it; null where the type is gone. */
  readonly sourceType: string | null
  readonly carriage: Carriage
  /** Of an enumerated type, as they are now. */
  readonly labels: ReadonlySet<string> | null
  readonly nullable: boolean
}

export interface Shape {
  readonly oid: number
  readonly width: number
  readonly columns: readonly ShapedColumn[]
  /** Indexes in `columns`, in the key's order. */
  readonly key: readonly number[]
  readonly schema: TableSchema
}

/**
 * Values are read as what their domain is made of: its checks may ask what this session does not see, and let stand what broke
 * them before they were there. A list of a domain's values is one of those that the domain is made of.
 */
const TYPES = `SELECT asked.place::int AS place, coalesce((
      SELECT format_type(made.typarray, base.modifier) FROM ${baseOf('t.typelem', '-1')} JOIN pg_type made ON made.oid = base.oid
      WHERE t.typcategory = 'A' AND made.typarray <> 0 AND base.oid <> t.typelem), format_type(base.oid, base.modifier)) AS source_type,
    t.typname::text AS name, t.typnamespace = 'pg_catalog'::regnamespace AS builtin, t.typtype::text AS kind,
    t.typcategory::text AS category, base.modifier,
    CASE WHEN t.typtype = 'e' THEN ARRAY(SELECT e.enumlabel::text FROM pg_enum e WHERE e.enumtypid = t.oid) END AS labels
  FROM unnest($1::oid[], $2::int4[]) WITH ORDINALITY asked(oid, modifier, place)
  CROSS JOIN ${baseOf('asked.oid', 'asked.modifier')}
  JOIN pg_type t ON t.oid = base.oid`

const COLUMNS = `SELECT a.attname::text AS name, NOT a.attnotnull AS nullable,
    has_column_privilege(a.attrelid, a.attnum, 'SELECT') AS readable
  FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
  WHERE a.attrelid = $1::oid AND a.attnum > 0 AND NOT a.attisdropped`

interface TypeRow extends SourceType {
  readonly place: number
  readonly source_type: string
  readonly labels: readonly string[] | null
}

interface ColumnRow {
  readonly name: string
  readonly nullable: boolean
  readonly readable: boolean
}

const AS_TEXT: Carriage = { type: 'string' }

export async function shapeOf(
  session: Session,
  oid: number,
  logged: readonly LoggedColumn[],
  primaryKey: readonly string[],
): Promise<Shape> {
  const types = await session.query<TypeRow>(TYPES, [
    logged.map((one) => one.typeOid),
    logged.map((one) => one.modifier),
  ])
  const byPlace = new Map(types.map((type) => [type.place - 1, type]))
  const today = new Map((await session.query<ColumnRow>(COLUMNS, [oid])).map((one) => [one.name, one]))
  const columns = logged.flatMap((one, place): ShapedColumn[] => {
    const type = byPlace.get(place)
    const now = today.get(one.name)
    if (now?.readable === false) return []
    return [
      {
        ...one,
        place,
        sourceType: type?.source_type ?? null,
        carriage: type ? carriageOf(type) : AS_TEXT,
        labels: type?.labels ? new Set(type.labels) : null,
        nullable: !primaryKey.includes(one.name) && (now?.nullable ?? true),
      },
    ]
  })
  const key = primaryKey.map((name) => columns.findIndex((column) => column.name === name))
  return {
    oid,
    width: logged.length,
    columns,
    key,
    schema: {
      columns: columns.map(({ name, carriage, nullable }) => ({ name, type: carriage.type, nullable })),
      primaryKey,
    },
  }
}

const NOW = `SELECT c.oid::text AS oid, a.attname::text AS name, a.atttypid::text AS type_oid, a.atttypmod AS modifier
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
  JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
  WHERE n.nspname = $1 AND c.relname = $2 ORDER BY a.attnum`

interface NowRow {
  readonly oid: string
  readonly name: string
  readonly type_oid: string
  readonly modifier: number
}

/** As the catalog has it now; null where there is no such table. */
export async function shapeNow(session: Session, { schema, table, primaryKey }: ChangeStream): Promise<Shape | null> {
  const rows = await session.query<NowRow & QueryResultRow>(NOW, [schema, table])
  const [first] = rows
  if (!first) return null
  const columns = rows.map(({ name, type_oid, modifier }) => ({ name, typeOid: Number(type_oid), modifier }))
  return shapeOf(session, Number(first.oid), columns, primaryKey)
}

/** Whether rows that do not come say something else in the later shape. */
export function mustReread(former: Shape, later: Shape): boolean {
  if (former.oid !== later.oid) return true
  const known = new Map(former.columns.map((column) => [column.name, column]))
  return later.columns.some((column) => {
    const was = known.get(column.name)
    return !was || was.typeOid !== column.typeOid || was.modifier !== column.modifier
  })
}

export function isSameShape(one: Shape, other: Shape): boolean {
  return (
    one.oid === other.oid &&
    one.width === other.width &&
    JSON.stringify(one.columns.map(factsOf)) === JSON.stringify(other.columns.map(factsOf))
  )
}

/** Of the same table, by columns of the same names and types. */
export function isAlike(one: Shape, other: Shape): boolean {
  const facts = ({ oid, columns }: Shape) =>
    JSON.stringify([oid, columns.map(({ name, typeOid, modifier }) => [name, typeOid, modifier])])
  return facts(one) === facts(other)
}

function factsOf({ name, place, typeOid, modifier, nullable }: ShapedColumn): unknown {
  return [name, place, typeOid, modifier, nullable]
}

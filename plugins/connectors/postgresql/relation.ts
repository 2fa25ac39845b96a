/** What the catalog says of tables, and the SQL that asks it. */
import type { Column, DiscoveredTable, LogicalType } from '@sluice/sdk'
import type { Session } from './session.ts'
import { type Carriage, carriageOf } from './types.ts'

export interface RelationColumn {
  readonly name: string
  readonly ordinal: number
  readonly nullable: boolean
  readonly sourceType: string
  readonly carriage: Carriage
}

export interface Relation {
  readonly oid: string
  readonly schema: string
  readonly name: string
  readonly kind: DiscoveredTable['kind']
  readonly estimatedRows: number | null
  readonly primaryKey: readonly string[]
  /** Those that the login may read, in the table's order. */
  readonly columns: readonly RelationColumn[]
}

const KINDS = {
  r: 'table',
  p: 'partitioned_table',
  v: 'view',
  m: 'materialized_view',
  f: 'foreign_table',
} as const satisfies Readonly<Record<string, DiscoveredTable['kind']>>

interface RelationRow {
  readonly oid: string
  readonly schema: string
  readonly name: string
  readonly kind: keyof typeof KINDS
  readonly estimate: number | null
  readonly primary_key: readonly string[]
}

interface ColumnRow {
  readonly oid: string
  readonly ordinal: number
  readonly name: string
  readonly nullable: boolean
  readonly source_type: string
  readonly type_name: string
  readonly builtin: boolean
  readonly type_kind: string
  readonly category: string
  readonly modifier: number
}

/** Rows of a partitioned table lie in its partitions; only newer servers keep their sum on the parent. */
const ESTIMATE = `CASE c.relkind
    WHEN 'v' THEN NULL
    WHEN 'p' THEN (
      WITH RECURSIVE part(oid) AS (
        SELECT c.oid UNION ALL SELECT i.inhrelid FROM pg_inherits i JOIN part ON i.inhparent = part.oid)
      SELECT CASE WHEN bool_or(k.reltuples < 0) THEN NULL ELSE sum(k.reltuples) END
      FROM part JOIN pg_class k ON k.oid = part.oid WHERE k.relkind <> 'p')
    ELSE nullif(c.reltuples, -1)
  END::float8`

const RELATION = `c.oid::text AS oid, n.nspname::text AS schema, c.relname::text AS name, c.relkind::text AS kind,
  ${ESTIMATE} AS estimate,
  ARRAY(
    SELECT a.attname::text FROM pg_index i
    CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY AS key(attnum, place)
    JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = key.attnum
    WHERE i.indrelid = c.oid AND i.indisprimary AND key.place <= i.indnkeyatts ORDER BY key.place
  ) AS primary_key`

const READABLE = `has_schema_privilege(n.oid, 'USAGE') AND has_any_column_privilege(c.oid, 'SELECT')`

/** A partition is read through its table; what an extension brought along is not the tenant's data. */
const OFFERED = `c.relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT c.relispartition
  AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema' AND ${READABLE}
  AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.deptype = 'e'
    AND ((d.classid = 'pg_class'::regclass AND d.objid = c.oid)
      OR (d.classid = 'pg_namespace'::regclass AND d.objid = n.oid)))`

const PAGE = `SELECT ${RELATION} FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
  WHERE ${OFFERED} AND ($1::text[] IS NULL OR n.nspname = ANY ($1))
    AND ($2::text IS NULL OR (n.nspname::text COLLATE "C", c.relname::text COLLATE "C") > ($2, $3))
  ORDER BY n.nspname::text COLLATE "C", c.relname::text COLLATE "C" LIMIT $4`

const ONE = `SELECT ${RELATION} FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
  WHERE n.nspname = $1 AND c.relname = $2 AND c.relkind IN ('r', 'p', 'v', 'm', 'f')`

const COUNT = `SELECT count(*)::int AS count FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
  WHERE ${OFFERED} AND ($1::text[] IS NULL OR n.nspname = ANY ($1))`

/** SQL, as `base`: the type itself, or what a domain is made of in the end. */
export function baseOf(oid: string, modifier: string): string {
  return `LATERAL (
    WITH RECURSIVE domain(oid, modifier) AS (
      SELECT ${oid}, ${modifier}
      UNION ALL
      SELECT d.typbasetype, d.typtypmod FROM domain JOIN pg_type d ON d.oid = domain.oid WHERE d.typtype = 'd')
    SELECT domain.oid, domain.modifier FROM domain JOIN pg_type b ON b.oid = domain.oid WHERE b.typtype <> 'd') base`
}

/** Since PostgreSQL 18 a NOT NULL constraint may exist before old rows have been looked at. */
const COLUMNS = `SELECT a.attrelid::text AS oid, a.attnum::int AS ordinal, a.attname::text AS name,
    NOT a.attnotnull OR EXISTS (SELECT FROM pg_constraint k WHERE k.conrelid = a.attrelid AND k.contype = 'n'
      AND NOT k.convalidated AND a.attnum = ANY (k.conkey)) AS nullable,
    format_type(a.atttypid, a.atttypmod) AS source_type, t.typname::text AS type_name,
    t.typnamespace = 'pg_catalog'::regnamespace AS builtin, t.typtype::text AS type_kind,
    t.typcategory::text AS category, base.modifier
  FROM pg_attribute a
  CROSS JOIN ${baseOf('a.atttypid', 'a.atttypmod')}
  JOIN pg_type t ON t.oid = base.oid
  WHERE a.attrelid = ANY ($1::oid[]) AND a.attnum > 0 AND NOT a.attisdropped
    AND has_column_privilege(a.attrelid, a.attnum, 'SELECT')
  ORDER BY a.attrelid, a.attnum`

/** The next tables after `after`, in the order of their names' bytes. */
export async function listRelations(
  session: Session,
  page: {
    readonly schemas: readonly string[] | null
    readonly after: readonly [string, string] | null
    readonly limit: number
  },
): Promise<readonly Relation[]> {
  const [schema, name] = page.after ?? [null, null]
  return withColumns(session, await session.query<RelationRow>(PAGE, [page.schemas, schema, name, page.limit]))
}

/** Null where there is none of that name; its `columns` are empty where the login may not read it. */
export async function findRelation(session: Session, schema: string, name: string): Promise<Relation | null> {
  const relations = await withColumns(session, await session.query<RelationRow>(ONE, [schema, name]))
  return relations[0] ?? null
}

export async function countReadable(session: Session, schemas: readonly string[] | null): Promise<number> {
  const rows = await session.query<{ readonly count: number }>(COUNT, [schemas])
  return rows[0]?.count ?? 0
}

/** As the shared schema has it. */
export function toColumn(column: RelationColumn): Column & { readonly type: LogicalType } {
  return { name: column.name, type: column.carriage.type, nullable: column.nullable }
}

async function withColumns(session: Session, rows: readonly RelationRow[]): Promise<readonly Relation[]> {
  if (rows.length === 0) return []
  const columns = await session.query<ColumnRow>(COLUMNS, [rows.map((row) => row.oid)])
  const byTable = Map.groupBy(columns, (column) => column.oid)
  return rows.map((row) => toRelation(row, byTable.get(row.oid) ?? []))
}

function toRelation(row: RelationRow, columns: readonly ColumnRow[]): Relation {
  const readable = new Set(columns.map((column) => column.name))
  return {
    oid: row.oid,
    schema: row.schema,
    name: row.name,
    kind: KINDS[row.kind],
    estimatedRows: row.estimate,
    // A key of which a part cannot be read identifies nothing.
    primaryKey: row.primary_key.every((name) => readable.has(name)) ? row.primary_key : [],
    columns: columns.map(toRelationColumn),
  }
}

function toRelationColumn(row: ColumnRow): RelationColumn {
  return {
    name: row.name,
    ordinal: row.ordinal,
    nullable: row.nullable,
    sourceType: row.source_type,
    carriage: carriageOf({
      name: row.type_name,
      builtin: row.builtin,
      kind: row.type_kind,
      category: row.category,
      modifier: row.modifier,
    }),
  }
}

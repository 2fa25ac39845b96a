/** What rows say, and who sees them, beyond the columns: it changes without one row being written. */
import type { Relation, RelationColumn } from './relation.ts'
import type { Session } from './session.ts'

export interface Meaning {
  /** Equal as long as rows that were read once say the same, and are those that the login sees; empty: nothing but columns. */
  readonly facts: string
  /** False where the rows that the login sees hang on more than what can be compared. */
  readonly holds: boolean
}

/** Labels of enumerated types, and attributes of composite ones, in the columns and in whatever their types are made of. */
const TYPES = `WITH RECURSIVE used(oid) AS (
    SELECT a.atttypid FROM pg_attribute a
    WHERE a.attrelid = $1::oid AND a.attname = ANY ($2::name[]) AND NOT a.attisdropped
    UNION
    SELECT part.oid FROM used JOIN pg_type t ON t.oid = used.oid
    CROSS JOIN LATERAL (
      SELECT t.typelem UNION ALL SELECT t.typbasetype
      UNION ALL SELECT r.rngsubtype FROM pg_range r WHERE r.rngtypid = t.oid
      UNION ALL SELECT a.atttypid FROM pg_attribute a
        WHERE a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped) part(oid)
    WHERE part.oid <> 0)
  SELECT coalesce(md5(string_agg(fact, chr(10) ORDER BY fact COLLATE "C")), '') AS facts FROM (
    SELECT format('label %s %s', e.oid, e.enumlabel) FROM used JOIN pg_enum e ON e.enumtypid = used.oid
    UNION ALL
    SELECT format('attribute %s %s %s %s', a.attrelid, a.attnum, a.attname, a.atttypid)
    FROM used JOIN pg_type t ON t.oid = used.oid JOIN pg_attribute a ON a.attrelid = t.typrelid
    WHERE a.attnum > 0 AND NOT a.attisdropped) said(fact)`

/**
 * The row policies that hold for the login. One that asks other tables, functions or the clock may show other rows at any
 * time: what the catalog says of it is not all that it says.
 */
const POLICIES = `SELECT coalesce(md5(string_agg(concat_ws(chr(10), p.polname, p.polpermissive, said.expression), chr(10)
      ORDER BY p.polname COLLATE "C")), 'none') AS facts,
    coalesce(bool_or(p.polqual::text ~ 'SUBLINK|FUNCEXPR'
      OR said.expression ~ 'CURRENT_DATE|CURRENT_TIME|LOCALTIME'), false) AS depends
  FROM pg_policy p CROSS JOIN LATERAL (SELECT pg_get_expr(p.polqual, p.polrelid)) said(expression)
  WHERE p.polrelid = $1::oid AND p.polcmd IN ('r', '*') AND EXISTS (
    SELECT FROM unnest(p.polroles) role WHERE role = 0 OR pg_has_role(role, 'USAGE'))`

export async function meaningOf(
  session: Session,
  relation: Relation,
  columns: readonly RelationColumn[],
): Promise<Meaning> {
  const names = columns.map(({ name }) => name)
  const [types] = await session.query<{ readonly facts: string }>(TYPES, [relation.oid, names])
  const [secured] = await session.query<{ readonly active: boolean }>('SELECT row_security_active($1::oid) AS active', [
    relation.oid,
  ])
  if (secured?.active !== true) return { facts: types?.facts ?? '', holds: true }
  const [policies] = await session.query<{ readonly facts: string; readonly depends: boolean }>(POLICIES, [
    relation.oid,
  ])
  return { facts: `${types?.facts} ${policies?.facts}`, holds: policies?.depends === false }
}

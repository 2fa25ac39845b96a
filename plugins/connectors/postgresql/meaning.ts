/** What rows say, and who sees them, beyond the columns: it changes without one row being written. */
import type { QueryResultRow } from 'pg'
import type { Relation, RelationColumn } from './relation.ts'
import type { Session } from './session.ts'
import { TYPE_PARTS } from './type-parts.ts'

export interface Meaning {
  /** Equal as long as rows that were read once say the same, and are those that the login sees; empty: nothing but columns. */
  readonly facts: string
  /** False where the rows that the login sees hang on more than what can be compared. */
  readonly holds: boolean
}

/** From here on objects are not PostgreSQL's own. */
const FIRST_OID = 16384

/** Labels of enumerated types, and attributes of composite ones, in the columns and in whatever their types are made of. */
const TYPES = `WITH RECURSIVE used(oid) AS (
    SELECT a.atttypid FROM pg_attribute a
    WHERE a.attrelid = $1::oid AND a.attname = ANY ($2::name[]) AND NOT a.attisdropped
    UNION
    SELECT part.oid FROM used JOIN pg_type t ON t.oid = used.oid
    CROSS JOIN LATERAL ${TYPE_PARTS}
    WHERE part.oid <> 0)
  SELECT coalesce(md5(string_agg(fact, chr(10) ORDER BY fact COLLATE "C")), '') AS facts,
    EXISTS (SELECT FROM used JOIN pg_type t ON t.oid = used.oid
      WHERE t.typnamespace = 'pg_catalog'::regnamespace AND t.typname ~ '^reg') AS named
  FROM (
    SELECT format('label %s %s', e.oid, e.enumlabel) FROM used JOIN pg_enum e ON e.enumtypid = used.oid
    UNION ALL
    SELECT format('attribute %s %s %s %s', a.attrelid, a.attnum, a.attname, a.atttypid)
    FROM used JOIN pg_type t ON t.oid = used.oid JOIN pg_attribute a ON a.attrelid = t.typrelid
    WHERE a.attnum > 0 AND NOT a.attisdropped) said(fact)`

/** What columns are computed by whenever they are read. */
const COMPUTED = `SELECT coalesce(md5(string_agg(format('%s %s', a.attnum, pg_get_expr(d.adbin, d.adrelid)), chr(10)
      ORDER BY a.attnum)), '') AS facts
  FROM pg_attribute a JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
  WHERE a.attrelid = $1::oid AND a.attname = ANY ($2::name[]) AND NOT a.attisdropped AND to_jsonb(a) ->> 'attgenerated' <> ''`

/** A policy's condition that asks other tables, functions or the clock, be it by an operator. */
const ASKS_MORE = `(p.polqual::text ~ 'SUBLINK|FUNCEXPR' OR said.expression ~ 'CURRENT_DATE|CURRENT_TIME|LOCALTIME'
    OR EXISTS (SELECT FROM regexp_matches(p.polqual::text, ':opfuncid (\\d+)', 'g') asked(oid)
      JOIN pg_proc f ON f.oid::text = asked.oid[1] WHERE f.oid >= ${FIRST_OID} AND f.provolatile <> 'i'))`

/**
 * What a view shows beyond the rows that lie below it: its definition and those of all views that it is made of, their
 * functions, and of the tables the labels of their types and their row policies, whomever those are for.
 */
const BELOW = `WITH RECURSIVE below(oid) AS (
    SELECT $1::oid
    UNION
    SELECT d.refobjid FROM below JOIN pg_rewrite r ON r.ev_class = below.oid
    JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid AND d.refclassid = 'pg_class'::regclass),
  policy AS (
    SELECT p.*, said.expression, ${ASKS_MORE} AS depends
    FROM below JOIN pg_class c ON c.oid = below.oid AND c.relrowsecurity JOIN pg_policy p ON p.polrelid = c.oid
    CROSS JOIN LATERAL (SELECT pg_get_expr(p.polqual, p.polrelid)) said(expression)
    WHERE p.polcmd IN ('r', '*'))
  SELECT md5(string_agg(fact, chr(10) ORDER BY fact COLLATE "C")) AS facts,
    EXISTS (SELECT FROM policy WHERE depends) AS depends
  FROM (
    SELECT format('view %s %s %s %s', c.oid, c.relowner, c.reloptions, pg_get_viewdef(c.oid))
    FROM below JOIN pg_class c ON c.oid = below.oid WHERE c.relkind IN ('v', 'm')
    UNION ALL
    SELECT format('table %s %s %s %s', c.oid, c.relowner, c.relrowsecurity, c.relforcerowsecurity)
    FROM below JOIN pg_class c ON c.oid = below.oid WHERE c.relkind IN ('r', 'p', 'f')
    UNION ALL
    SELECT format('policy %s %s %s %s %s', p.polrelid, p.polname, p.polpermissive, p.expression, (
      SELECT string_agg(format('%s %s', role, role <> 0 AND pg_has_role(role, 'USAGE')), ',' ORDER BY role)
      FROM unnest(p.polroles) role))
    FROM policy p
    UNION ALL
    SELECT format('function %s %s', f.oid, md5(f.prosrc)) FROM below JOIN pg_rewrite r ON r.ev_class = below.oid
    JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid AND d.refclassid = 'pg_proc'::regclass
    JOIN pg_proc f ON f.oid = d.refobjid AND f.oid >= ${FIRST_OID}
    UNION ALL
    SELECT format('label %s %s', e.oid, e.enumlabel) FROM below JOIN pg_attribute a ON a.attrelid = below.oid
    JOIN pg_type t ON t.oid = a.atttypid JOIN pg_enum e ON e.enumtypid IN (t.oid, t.typelem, t.typbasetype)
    UNION ALL
    SELECT format('computed %s %s %s', a.attrelid, a.attnum, pg_get_expr(d.adbin, d.adrelid)) FROM below
    JOIN pg_attribute a ON a.attrelid = below.oid AND to_jsonb(a) ->> 'attgenerated' <> ''
    JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum) said(fact)`

/**
 * The row policies that hold for the login. One that asks other tables, functions or the clock may show other rows at any
 * time: what the catalog says of it is not all that it says.
 */
const POLICIES = `SELECT coalesce(md5(string_agg(concat_ws(chr(10), p.polname, p.polpermissive, said.expression), chr(10)
      ORDER BY p.polname COLLATE "C")), 'none') AS facts,
    coalesce(bool_or(${ASKS_MORE}), false) AS depends
  FROM pg_policy p CROSS JOIN LATERAL (SELECT pg_get_expr(p.polqual, p.polrelid)) said(expression)
  WHERE p.polrelid = $1::oid AND p.polcmd IN ('r', '*') AND EXISTS (
    SELECT FROM unnest(p.polroles) role WHERE role = 0 OR pg_has_role(role, 'USAGE'))`

interface Facts {
  readonly facts: string | null
  readonly depends?: boolean
  /** Whether values are written by names of the catalog, which change by themselves. */
  readonly named?: boolean
}

/** Where nothing but columns is concerned, the facts are as former versions told them. */
export async function meaningOf(
  session: Session,
  relation: Relation,
  columns: readonly RelationColumn[],
): Promise<Meaning> {
  const names = columns.map(({ name }) => name)
  const ask = async (sql: string, values: readonly unknown[]) =>
    (await session.query<Facts & QueryResultRow>(sql, values))[0]
  const found = [await ask(TYPES, [relation.oid, names])]
  const [secured] = await session.query<{ readonly active: boolean }>('SELECT row_security_active($1::oid) AS active', [
    relation.oid,
  ])
  if (secured?.active === true) found.push(await ask(POLICIES, [relation.oid]))
  const isView = relation.kind === 'view' || relation.kind === 'materialized_view'
  const computed = await ask(isView ? BELOW : COMPUTED, isView ? [relation.oid] : [relation.oid, names])
  if (computed?.facts) found.push(computed)
  return {
    facts: found.map((one) => one?.facts ?? '').join(' '),
    holds: found.every((one) => one?.depends !== true && one?.named !== true),
  }
}

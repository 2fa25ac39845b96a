/** Which tables the log can tell, and why not the others. */
import type { ChangeStream, RefusedStream } from '@sluice/sdk'
import { escapeIdentifier } from 'pg'
import type { Session } from '../session.ts'

interface TableFacts {
  readonly oid: string
  readonly kind: string
  readonly persistence: string
  readonly identity: string
  readonly leaf_identities: readonly string[]
  readonly secured: boolean
  readonly readable: boolean
  readonly owned: boolean
  readonly generated: readonly string[]
  /** Columns of the identity in effect, sorted; null where there is none. */
  readonly identity_key: readonly string[] | null
  /** Of each unique index that always holds and takes no null, sorted. */
  readonly unique_keys: readonly (readonly string[])[]
}

const KEY_OF = `ARRAY(SELECT a.attname::text FROM unnest(i.indkey::int2[]) WITH ORDINALITY k(attnum, place)
    JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum WHERE k.place <= i.indnkeyatts ORDER BY 1)`

const FACTS = `SELECT c.oid::text AS oid, c.relkind::text AS kind, c.relpersistence::text AS persistence,
    c.relreplident::text AS identity, row_security_active(c.oid) AS secured,
    has_any_column_privilege(c.oid, 'SELECT') AS readable, pg_has_role(c.relowner, 'USAGE') AS owned,
    ARRAY(SELECT l.relreplident::text FROM pg_partition_tree(c.oid) p JOIN pg_class l ON l.oid = p.relid WHERE p.isleaf) AS leaf_identities,
    ARRAY(SELECT a.attname::text FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
      AND a.attgenerated <> '') AS generated,
    (SELECT to_jsonb(${KEY_OF}) FROM pg_index i WHERE i.indrelid = c.oid AND i.indisvalid AND i.indimmediate
      AND ((c.relreplident = 'd' AND i.indisprimary) OR (c.relreplident = 'i' AND i.indisreplident)) LIMIT 1) AS identity_key,
    coalesce((SELECT jsonb_agg(${KEY_OF}) FROM pg_index i WHERE i.indrelid = c.oid AND i.indisunique AND i.indisvalid
      AND i.indimmediate AND i.indpred IS NULL AND i.indexprs IS NULL
      AND NOT EXISTS (SELECT FROM unnest(i.indkey::int2[]) WITH ORDINALITY k(attnum, place)
        JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
        WHERE k.place <= i.indnkeyatts AND NOT a.attnotnull)), '[]') AS unique_keys
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname = $2`

export interface Judged {
  readonly stream: ChangeStream
  readonly owned: boolean
  readonly isPartitioned: boolean
}

export async function judge(session: Session, stream: ChangeStream): Promise<Judged | RefusedStream> {
  const { schema, table } = stream
  const name = `${escapeIdentifier(schema)}.${escapeIdentifier(table)}`
  const refuse = (code: string, reason: string, remedy: string): RefusedStream => ({
    schema,
    table,
    code,
    reason,
    remedy,
  })
  const [facts] = await session.query<TableFacts>(FACTS, [schema, table])
  if (!facts?.readable) {
    return refuse(
      'source_table_missing',
      'there is no such table that the login may read',
      'Check its name, and GRANT SELECT on it.',
    )
  }
  if ((facts.kind !== 'r' && facts.kind !== 'p') || facts.persistence !== 'p') {
    return refuse(
      'changes_not_logged',
      'views, foreign and unlogged tables are not in the log',
      'Read it in full or incremental mode.',
    )
  }
  if (facts.secured) {
    return refuse(
      'changes_row_security',
      'the login sees some of its rows only, and the log has them all',
      'Read it in full or incremental mode, or give the login BYPASSRLS.',
    )
  }
  if (facts.generated.length > 0) {
    return refuse(
      'changes_generated_columns',
      `the log leaves out its computed columns: ${facts.generated.join(', ')}`,
      'Read it in full or incremental mode.',
    )
  }
  const problem = identityProblem(facts, [...stream.primaryKey].sort())
  if (problem !== null) {
    return refuse(
      'changes_no_identity',
      problem,
      `ALTER TABLE ${name} ADD PRIMARY KEY (…), then ALTER TABLE ${name} REPLICA IDENTITY DEFAULT.`,
    )
  }
  return { stream, owned: facts.owned, isPartitioned: facts.kind === 'p' }
}

export function isRefusal(one: Judged | RefusedStream): one is RefusedStream {
  return 'code' in one
}

function identityProblem(facts: TableFacts, key: readonly string[]): string | null {
  if (key.length === 0) return 'its rows have no key to be found by'
  const identities = facts.kind === 'p' ? facts.leaf_identities : [facts.identity]
  if (identities.includes('n')) return 'its replica identity is NOTHING: the log does not tell which row was changed'
  if (facts.kind === 'p' && identities.some((one) => one !== facts.identity)) {
    return 'its partitions have other replica identities than itself'
  }
  if (facts.identity === 'f') {
    return facts.unique_keys.some((one) => isSame(sorted(one), key)) ? null : 'no unique index enforces the key'
  }
  if (facts.identity_key === null) return 'it has no primary key, and no other replica identity'
  return isSame(sorted(facts.identity_key), key)
    ? null
    : `the log tells its rows by ${facts.identity_key.join(', ')}, another key`
}

function sorted(names: readonly string[]): readonly string[] {
  return [...names].sort()
}

function isSame(one: readonly string[], other: readonly string[]): boolean {
  return one.length === other.length && one.every((name, index) => name === other[index])
}

/** Which tables the log can tell, and why not the others. */
import type { ChangeStream, RefusedStream } from '@sluice/sdk'
import { escapeIdentifier } from 'pg'
import { findRelation } from '../relation.ts'
import type { Session } from '../session.ts'
import { GENERATED_SINCE, type ServerFacts } from './able.ts'

interface TableFacts {
  readonly oid: string
  readonly kind: string
  readonly persistence: string
  readonly owner: string
  readonly owner_is_superuser: boolean
  readonly owned: boolean
  readonly secured: boolean
  readonly readable: boolean
  readonly parent: boolean
  readonly generated: readonly { readonly name: string; readonly kind: string }[]
  /** Of the table, or of each of its partitions that holds rows. */
  readonly identities: readonly Identity[]
  /** Of each unique index that always holds and takes no null. */
  readonly unique_keys: readonly (readonly string[])[]
}

interface Identity {
  readonly name: string
  readonly kind: string
  readonly logged: boolean
  /** Columns of the index in effect; null where there is none. */
  readonly key: readonly string[] | null
}

const KEY_OF = `ARRAY(SELECT a.attname::text FROM unnest(i.indkey::int2[]) WITH ORDINALITY k(attnum, place)
    JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum WHERE k.place <= i.indnkeyatts ORDER BY k.place)`

const FACTS = `SELECT c.oid::text AS oid, c.relkind::text AS kind, c.relpersistence::text AS persistence,
    pg_get_userbyid(c.relowner)::text AS owner,
    (SELECT r.rolsuper FROM pg_roles r WHERE r.oid = c.relowner) AS owner_is_superuser, pg_has_role(c.relowner, 'USAGE') AS owned,
    row_security_active(c.oid) AS secured,
    has_schema_privilege(n.oid, 'USAGE') AND has_any_column_privilege(c.oid, 'SELECT') AS readable,
    c.relkind = 'r' AND EXISTS (SELECT FROM pg_inherits h WHERE h.inhparent = c.oid) AS parent,
    coalesce((SELECT jsonb_agg(jsonb_build_object('name', a.attname, 'kind', a.attgenerated)) FROM pg_attribute a
      WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated <> ''), '[]') AS generated,
    (SELECT coalesce(jsonb_agg(jsonb_build_object('name', l.oid::regclass::text, 'kind', l.relreplident,
        'logged', l.relkind = 'r' AND l.relpersistence = 'p', 'key', (
          SELECT to_jsonb(${KEY_OF}) FROM pg_index i WHERE i.indrelid = l.oid AND i.indisvalid AND i.indimmediate
            AND ((l.relreplident = 'd' AND i.indisprimary) OR (l.relreplident = 'i' AND i.indisreplident)) LIMIT 1))), '[]')
      FROM (SELECT c.oid AS relid WHERE c.relkind = 'r'
        UNION ALL SELECT p.relid FROM pg_partition_tree(c.oid) p WHERE c.relkind = 'p' AND p.isleaf) part
      JOIN pg_class l ON l.oid = part.relid) AS identities,
    coalesce((SELECT jsonb_agg(${KEY_OF}) FROM pg_index i WHERE i.indrelid = c.oid AND i.indisunique AND i.indisvalid
      AND i.indimmediate AND i.indpred IS NULL AND i.indexprs IS NULL
      AND NOT EXISTS (SELECT FROM unnest(i.indkey::int2[]) WITH ORDINALITY k(attnum, place)
        JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
        WHERE k.place <= i.indnkeyatts AND NOT a.attnotnull)), '[]') AS unique_keys
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname = $2`

interface Setting {
  /** Those that the connection offers; null: all. */
  readonly schemas: readonly string[] | null
  readonly facts: ServerFacts
  /** What may be logged is decided by whoever made the publication; null: by this login. */
  readonly publication: { readonly generated: boolean } | null
}

type Reason = Pick<RefusedStream, 'code' | 'reason' | 'remedy'>

/** Null where the log can tell it. */
export async function judge(session: Session, stream: ChangeStream, setting: Setting): Promise<RefusedStream | null> {
  const { schema, table } = stream
  const reason = await reasonAgainst(session, stream, setting)
  return reason === null ? null : { schema, table, ...reason }
}

export function qualifiedName({ schema, table }: { readonly schema: string; readonly table: string }): string {
  return `${escapeIdentifier(schema)}.${escapeIdentifier(table)}`
}

const OTHER_MODE = 'Read it by mode full or incremental.'

async function reasonAgainst(session: Session, stream: ChangeStream, setting: Setting): Promise<Reason | null> {
  if (setting.schemas !== null && !setting.schemas.includes(stream.schema)) {
    return {
      code: 'source_schema_not_offered',
      reason: 'its schema is not among those that this connection offers',
      remedy: 'Add the schema to the setting "schemas", or read another table.',
    }
  }
  const [table] = `${stream.schema}${stream.table}`.includes('\0')
    ? []
    : await session.query<TableFacts & Record<string, unknown>>(FACTS, [stream.schema, stream.table])
  if (!table?.readable) {
    return {
      code: 'source_table_missing',
      reason: 'there is no such table that the login may read',
      remedy: `Check its name; if it is there, run GRANT SELECT ON ${qualifiedName(stream)} TO ${escapeIdentifier(setting.facts.login)}; as its owner.`,
    }
  }
  return kindProblem(table) ?? visibilityProblem(table, stream, setting) ?? keyProblem(session, table, stream)
}

function kindProblem(table: TableFacts): Reason | null {
  if (
    (table.kind !== 'r' && table.kind !== 'p') ||
    table.persistence !== 'p' ||
    table.identities.some(({ logged }) => !logged)
  ) {
    return {
      code: 'changes_not_logged',
      reason: 'rows of views, of unlogged and of foreign tables are not in the log',
      remedy: OTHER_MODE,
    }
  }
  if (!table.parent) return null
  return {
    code: 'changes_inherited',
    reason: 'other tables inherit from it: a read of it has their rows, and the log tells each table by itself',
    remedy: `Name the tables that hold the rows, one by one. Or read it by mode full or incremental.`,
  }
}

function visibilityProblem(table: TableFacts, stream: ChangeStream, { facts, publication }: Setting): Reason | null {
  const { login, version } = facts
  if (table.secured) {
    return {
      code: 'changes_row_security',
      reason: 'the login sees some of its rows only, and the log has them all',
      remedy: `Run ALTER ROLE ${escapeIdentifier(login)} BYPASSRLS; as a superuser. Or read it by mode full or incremental.`,
    }
  }
  const logsStored = publication?.generated ?? version >= GENERATED_SINCE
  const left = table.generated.filter(({ kind }) => kind !== 's' || !logsStored)
  if (left.length > 0) {
    return {
      code: 'changes_generated_columns',
      reason: `the log leaves out what is computed: ${left.map(({ name }) => name).join(', ')}`,
      remedy: `PostgreSQL 18 can log columns that are generated and stored. Or read it by mode full or incremental.`,
    }
  }
  if (table.owned || publication !== null) return null
  return {
    code: 'changes_not_owner',
    reason: 'only who owns a table may let the log tell it',
    remedy: ownerRemedy(table, stream, login),
  }
}

/** Never to lend a connection's login the rights of a superuser. */
function ownerRemedy(table: TableFacts, stream: ChangeStream, login: string): string {
  const [owner, reader] = [escapeIdentifier(table.owner), escapeIdentifier(login)]
  if (!table.owner_is_superuser) return `Run GRANT ${owner} TO ${reader}; as a superuser or as ${owner}.`
  return `Run ALTER TABLE ${qualifiedName(stream)} OWNER TO ${reader}; as a superuser, as its owner ${owner} is one. Or read it by mode full or incremental.`
}

async function keyProblem(session: Session, table: TableFacts, stream: ChangeStream): Promise<Reason | null> {
  const refuse = (reason: string, remedy: string): Reason => ({ code: 'changes_no_identity', reason, remedy })
  const name = qualifiedName(stream)
  const addKey = `Run ALTER TABLE ${name} ADD PRIMARY KEY (…); with the columns that tell its rows apart. Or read it by mode full or incremental.`
  const key = stream.primaryKey
  if (key.length === 0) return refuse('its rows have no key to be found by', addKey)
  for (const identity of table.identities) {
    const whose = table.identities.length > 1 ? `of ${identity.name} ` : ''
    if (identity.kind === 'n') {
      return refuse(
        `the replica identity ${whose}is NOTHING: the log does not tell which row was changed`,
        `Run ALTER TABLE ${table.identities.length > 1 ? identity.name : name} REPLICA IDENTITY DEFAULT;`,
      )
    }
    if (identity.kind !== 'f' && identity.key === null)
      return refuse(`there is no key ${whose}that the log tells rows by`, addKey)
    if (identity.kind !== 'f' && !isSame(identity.key ?? [], key)) {
      return refuse(
        `the log tells rows ${whose}by ${identity.key?.join(', ')}, and the key asked for is ${key.join(', ')}`,
        `Name that key in the manifest, or run ALTER TABLE ${name} REPLICA IDENTITY FULL;`,
      )
    }
  }
  if (!table.unique_keys.some((one) => isSame(one, key))) {
    return refuse(`no unique index enforces that ${key.join(', ')} tells its rows apart`, addKey)
  }
  return typeProblem(session, stream)
}

/** The log gives a key as text where nothing else is known of the row: it has to be spelled as a read spells it. */
async function typeProblem(session: Session, { schema, table, primaryKey }: ChangeStream): Promise<Reason | null> {
  const relation = await findRelation(session, schema, table)
  const columns = new Map(relation?.columns.map((column) => [column.name, column]))
  const unread = primaryKey.filter((name) => !columns.has(name))
  if (unread.length > 0) {
    return {
      code: 'source_key_not_read',
      reason: `the login may not read ${unread.join(', ')} of its key`,
      remedy: `Let its owner run GRANT SELECT ON ${qualifiedName({ schema, table })} to this login.`,
    }
  }
  const odd = primaryKey.filter((name) => columns.get(name)?.carriage.express)
  if (odd.length === 0) return null
  return {
    code: 'changes_key_type',
    reason: `its key has lists, records or money: ${odd.join(', ')}`,
    remedy: OTHER_MODE,
  }
}

function isSame(one: readonly string[], other: readonly string[]): boolean {
  return one.length === other.length && one.every((name) => other.includes(name))
}

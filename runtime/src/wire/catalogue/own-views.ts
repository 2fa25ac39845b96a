/**
 * What of the catalogue's relations tells other than its caller may know, in place of it what he may: the server's databases as a
 * view, under the same name in a schema that tools take for the server's own; and his session's cursors, prepared statements
 * and settings, which the PostgreSQL of the catalogue does not have, as parts of the statement.
 */
import { quoteText } from '@sluice/engine'
import { textOf, type Word } from '../sql/words.ts'
import type { SessionCall } from './session-calls.ts'

/** Clients take it for the server's own. */
const SCHEMA = 'information_schema'
/** Of all databases of a server. */
const VIEWS: ReadonlySet<string> = new Set(['pg_database', 'pg_db_role_setting', 'pg_shdepend'])

export interface OpenCursor {
  readonly name: string
  /** That declared it. */
  readonly statement: string
  readonly createdAt: Date
}

export interface PreparedStatement extends OpenCursor {
  readonly parameterOids: readonly number[]
  /** Null: not known yet. */
  readonly resultOids: readonly number[] | null
  /** By PREPARE, and not by a message. */
  readonly isFromSql: boolean
}

export interface ToldSetting {
  readonly name: string
  readonly value: string
  readonly unit: string | null
  readonly canChange: boolean
}

/** What a session tells of itself. */
export interface SessionView {
  cursors(): readonly OpenCursor[]
  statements(): readonly PreparedStatement[]
  settings(): readonly ToldSetting[]
  /** The expression of a call's value. */
  valueOf(call: SessionCall): string
}

/** In the order of their columns. */
const PARTS: Readonly<Record<string, (session: SessionView) => string>> = {
  pg_cursors: (session) => cursorsSql(session.cursors()),
  pg_prepared_statements: (session) => statementsSql(session.statements()),
  pg_settings: (session) => settingsSql(session.settings()),
}

/** The text that the catalogue's PostgreSQL is given of a statement, when it is known how its session is. */
export function ownText(
  given: readonly Word[],
  calls: ReadonlyMap<Word, SessionCall>,
): (session: SessionView) => string {
  const isOf = (at: number, relation: string): boolean => {
    const word = words[at]
    return word !== undefined && (word.kind === 'name' || word.kind === 'quoted') && word.value === relation
  }
  const isSchemaOf = (at: number, relation: string): boolean =>
    isOf(at, 'pg_catalog') && words[at + 1]?.text === '.' && isOf(at + 2, relation)
  const isView = (word: Word | undefined): boolean =>
    word !== undefined && (word.kind === 'name' || word.kind === 'quoted') && VIEWS.has(word.value)
  const words = withoutSettingsCall(given)
  const parts = Object.keys(PARTS).filter((relation) => words.some((_, at) => isOf(at, relation)))
  const written = (session: SessionView, word: Word, at: number): string => {
    const call = calls.get(word)
    if (call !== undefined) return `(select ${session.valueOf(call)} as ${call.function})`
    if (isOf(at, 'pg_catalog') && words[at + 1]?.text === '.' && isView(words[at + 2])) return SCHEMA
    // Of the statement's own parts there is no schema.
    if (parts.some((part) => isSchemaOf(at, part) || isSchemaOf(at - 1, part))) return ''
    const before = words[at - 1]
    const isNamed = before?.text === '.' || (before?.kind === 'name' && before.value === 'as')
    if (isOf(at, 'current_catalog') && word.kind === 'name' && !isNamed) {
      return '(select pg_catalog.current_database() as current_catalog)'
    }
    // Behind itself it is another name, and in front of a column it is what FROM calls so.
    const isOther = isNamed || words[at + 1]?.text === '.' || before?.value === word.value
    return isView(word) && !isOther ? `${SCHEMA}.${word.text}` : word.text
  }
  return (session) => {
    const text = textOf(words, (word, at) => written(session, word, at))
    if (parts.length === 0) return text
    const [, begin = '', rest = text] = /^(with(?:\s+recursive)?\s)?([^]*)$/i.exec(text) ?? []
    const own = parts.map((part) => PARTS[part]?.(session)).join(', ')
    return `${begin || 'with '}${own}${begin === '' ? ' ' : ', '}${rest}`
  }
}

/** `FROM pg_show_all_settings()` is of what `pg_settings` is made. */
function withoutSettingsCall(words: readonly Word[]): readonly Word[] {
  const isCall = (at: number): boolean =>
    words[at]?.value === 'pg_show_all_settings' && words[at + 1]?.text === '(' && words[at + 2]?.text === ')'
  return words.flatMap((word, at) => {
    if (isCall(at)) return [{ ...word, text: 'pg_settings'.padEnd(word.text.length), value: 'pg_settings' }]
    return isCall(at - 1) || isCall(at - 2) ? [] : [word]
  })
}

/** `columns` are names with what stands for a value where there is no row. */
function partSql(name: string, columns: Readonly<Record<string, string>>, rows: readonly string[]): string {
  const none = `select ${Object.values(columns).join(', ')} where false`
  const all = rows.length === 0 ? none : `values ${rows.map((row) => `(${row})`).join(', ')}`
  return `${name}(${Object.keys(columns).join(', ')}) as (${all})`
}

const instantSql = (at: Date): string => `${quoteText(at.toISOString())}::timestamptz`

function cursorsSql(cursors: readonly OpenCursor[]): string {
  const flags = { is_holdable: 'false', is_binary: 'false', is_scrollable: 'false' }
  const columns = { name: 'null::text', statement: 'null::text', ...flags, creation_time: 'null::timestamptz' }
  const rows = cursors.map(
    ({ name, statement, createdAt }) =>
      `${quoteText(name)}, ${quoteText(statement)}, false, false, false, ${instantSql(createdAt)}`,
  )
  return partSql('pg_cursors', columns, rows)
}

function statementsSql(statements: readonly PreparedStatement[]): string {
  const columns = {
    name: 'null::text',
    statement: 'null::text',
    prepare_time: 'null::timestamptz',
    parameter_types: 'null::regtype[]',
    result_types: 'null::regtype[]',
    from_sql: 'false',
    generic_plans: '0::bigint',
    custom_plans: '0::bigint',
  }
  const types = (oids: readonly number[] | null) => `${oids === null ? 'null' : `'{${oids.join()}}'`}::oid[]::regtype[]`
  const rows = statements.map(
    ({ name, statement, createdAt, parameterOids, resultOids, isFromSql }) =>
      `${quoteText(name)}, ${quoteText(statement)}, ${instantSql(createdAt)}, ${types(parameterOids)}, ${types(resultOids)}, ${isFromSql}, 0::bigint, 0::bigint`,
  )
  return partSql('pg_prepared_statements', columns, rows)
}

/** Where none was set, names are looked for in all namespaces. */
export const DEFAULT_PATH_SQL = "pg_catalog.array_to_string(pg_catalog.current_schemas(false), ', ')"

function settingsSql(settings: readonly ToldSetting[]): string {
  const text = 'null::text'
  const columns = {
    name: text,
    setting: text,
    unit: text,
    category: text,
    short_desc: text,
    extra_desc: text,
    context: text,
    vartype: text,
    source: text,
    min_val: text,
    max_val: text,
    enumvals: 'null::text[]',
    boot_val: text,
    reset_val: text,
    sourcefile: text,
    sourceline: 'null::integer',
    pending_restart: 'false',
  }
  const rows = settings.map(({ name, value, unit, canChange }) => {
    const setting = name === 'search_path' && value === '' ? DEFAULT_PATH_SQL : quoteText(value)
    const kind = unit === null ? 'string' : 'integer'
    const own = [quoteText(name), setting, unit === null ? text : quoteText(unit), "'Session'", "''", text]
    const more = [`'${canChange ? 'user' : 'internal'}'`, `'${kind}'`, "'session'", text, text, 'null::text[]']
    return [...own, ...more, setting, setting, text, 'null::integer', 'false'].join(', ')
  })
  return partSql('pg_settings', columns, rows)
}

/** A server's one database is the tenant's own. The name of the real one, which is a hash, is `current_catalog`. */
export const OWN_VIEWS_SQL = `
create view ${SCHEMA}.pg_database as
  select oid, pg_catalog.current_database() as datname, datdba, encoding, datlocprovider, false as datistemplate,
    true as datallowconn, dathasloginevt, datconnlimit, datfrozenxid, datminmxid, dattablespace, datcollate, datctype,
    datlocale, daticurules, datcollversion, null::aclitem[] as datacl
  from pg_catalog.pg_database where datname = current_catalog;
create view ${SCHEMA}.pg_db_role_setting as select * from pg_catalog.pg_db_role_setting where false;
create view ${SCHEMA}.pg_shdepend as select * from pg_catalog.pg_shdepend where false;

${[...VIEWS].map((view) => `grant select on ${SCHEMA}.${view} to public`).join(';\n')}`

/**
 * What of the catalogue's relations tells other than its caller may know, in place of it what he may: the server's databases as a
 * view, under the same name in a schema that tools take for the server's own; and the cursors of his session, which the
 * PostgreSQL of the catalogue does not have, as a part of the statement.
 */
import { quoteText } from '@sluice/engine'
import { textOf, type Word } from '../sql/words.ts'

const SCHEMA = 'information_schema'
const VIEW = 'pg_database'
const CURSORS = 'pg_cursors'

export interface OpenCursor {
  readonly name: string
  /** That declared it. */
  readonly statement: string
  readonly createdAt: Date
}

/** The text that the catalogue's PostgreSQL is given of a statement, when it is known which cursors there are. */
export function ownText(words: readonly Word[]): (cursors: readonly OpenCursor[]) => string {
  const isOf = (at: number, relation: string): boolean => {
    const word = words[at]
    return word !== undefined && (word.kind === 'name' || word.kind === 'quoted') && word.value === relation
  }
  const isSchemaOf = (at: number, relation: string): boolean =>
    isOf(at, 'pg_catalog') && words[at + 1]?.text === '.' && isOf(at + 2, relation)
  const text = textOf(words, ({ text }, at) => {
    if (isSchemaOf(at, VIEW)) return SCHEMA
    // Of the statement's own part there is no schema.
    if (isSchemaOf(at, CURSORS) || isSchemaOf(at - 1, CURSORS)) return ''
    const before = words[at - 1]
    const isNamed = before?.text === '.' || (before?.kind === 'name' && before.value === 'as')
    return isOf(at, VIEW) && !isNamed ? `${SCHEMA}.${text}` : text
  })
  if (!words.some((_, at) => isOf(at, CURSORS))) return () => text
  const [, begin = '', rest = text] = /^(with(?:\s+recursive)?\s)?([^]*)$/i.exec(text) ?? []
  return (cursors) => `${begin || 'with '}${cursorsSql(cursors)}${begin === '' ? ' ' : ', '}${rest}`
}

function cursorsSql(cursors: readonly OpenCursor[]): string {
  const rows = cursors.map(
    ({ name, statement, createdAt }) =>
      `(${quoteText(name)}, ${quoteText(statement)}, false, false, false, ${quoteText(createdAt.toISOString())}::timestamptz)`,
  )
  const none = 'select null::text, null::text, false, false, false, null::timestamptz where false'
  const columns = 'name, statement, is_holdable, is_binary, is_scrollable, creation_time'
  return `${CURSORS}(${columns}) as (${rows.length === 0 ? none : `values ${rows.join(', ')}`})`
}

/** A server's one database is the tenant's own. The name of the real one, which is a hash, is `current_catalog`. */
export const OWN_VIEWS_SQL = `
create view ${SCHEMA}.pg_database as
  select oid, pg_catalog.current_database() as datname, datdba, encoding, datlocprovider, false as datistemplate,
    true as datallowconn, dathasloginevt, datconnlimit, datfrozenxid, datminmxid, dattablespace, datcollate, datctype,
    datlocale, daticurules, datcollversion, null::aclitem[] as datacl
  from pg_catalog.pg_database where datname = current_catalog;
grant select on ${SCHEMA}.pg_database to public`

/**
 * What of the catalogue's relations tells more than its caller may know, as a view that tells what he may: under the same name,
 * in a schema that tools take for the server's own.
 */
import type { Word } from '../sql/words.ts'

const SCHEMA = 'information_schema'
const VIEWS: ReadonlySet<string> = new Set(['pg_database'])

/** Of the words of a statement each as the catalogue's PostgreSQL is given it. */
export function ownText(words: readonly Word[]): (word: Word, at: number) => string {
  const isView = (at: number): boolean => {
    const word = words[at]
    return word !== undefined && (word.kind === 'name' || word.kind === 'quoted') && VIEWS.has(word.value)
  }
  return ({ text, value }, at) => {
    const before = words[at - 1]
    if (value === 'pg_catalog' && words[at + 1]?.text === '.' && isView(at + 2)) return SCHEMA
    const isNamed = before?.text === '.' || (before?.kind === 'name' && before.value === 'as')
    return isView(at) && !isNamed ? `${SCHEMA}.${text}` : text
  }
}

/** A server's one database is the tenant's own. The name of the real one, which is a hash, is `current_catalog`. */
export const OWN_VIEWS_SQL = `
create view ${SCHEMA}.pg_database as
  select oid, pg_catalog.current_database() as datname, datdba, encoding, datlocprovider, false as datistemplate,
    true as datallowconn, dathasloginevt, datconnlimit, datfrozenxid, datminmxid, dattablespace, datcollate, datctype,
    datlocale, daticurules, datcollversion, null::aclitem[] as datacl
  from pg_catalog.pg_database where datname = current_catalog;
grant select on ${SCHEMA}.pg_database to public`

/**
 * Which of the rows that are tried again may be merged: SQL over what they are, what the raw table has, and the keys that the
 * source has. None of them takes the place of a newer row.
 */
import { type EngineStep, quoteName, quoteText, sqlType } from '@sluice/engine'
import { MARKS } from '@sluice/iceberg'
import type { TableSchema } from '@sluice/sdk'

/**
 * `apply`: it is merged. `older`: the table, or the rows themselves, have a newer one of its key. `gone`: the source has no row
 * of its key. `same`: the table has a row of its key with the same cursor, so that nobody can say which is newer.
 */
export const VERDICTS = ['apply', 'older', 'gone', 'same'] as const
export type Verdict = (typeof VERDICTS)[number]

export interface VerdictRequest {
  /** What `judgeRows` wrote. */
  readonly file: string
  readonly schema: TableSchema
  readonly cursorColumn: string
  readonly rows: number
  /** The keys that the source has now are to be read from `KEYS`. */
  readonly sweeps: boolean
  /** Rows of the table end with marks. */
  readonly marks: boolean
}

/** Names of the job's tables: what the raw table has, and the keys of its source. */
export const BASE = 'replay_base'
export const KEYS = 'replay_source'

const ROWS = 'replay_rows'
const PRESENT = 'replay_present'
const HELD = 'replay_held'
const JUDGED = 'replay_judged'
/** No source has a column of that name. */
const PLACE = quoteName('  place  ')

/** The last step gives place and verdict of each row. */
export function verdictSteps(request: VerdictRequest): readonly EngineStep[] {
  const { schema, sweeps, rows } = request
  const key = schema.primaryKey
  const keys = key.map(quoteName).join(', ')
  return [
    { sql: `CREATE TEMP TABLE ${ROWS} AS ${rowsSql(request)}` },
    ...(sweeps
      ? [{ sql: `CREATE TEMP TABLE ${PRESENT} AS SELECT ${keys} FROM ${KEYS} SEMI JOIN ${ROWS} USING (${keys})` }]
      : []),
    { sql: `CREATE TEMP TABLE ${HELD} AS ${heldSql(request)}` },
    { sql: `CREATE TEMP TABLE ${JUDGED} AS ${judgedSql(request)}` },
    { sql: `SELECT ${PLACE}, verdict FROM ${JUDGED} ORDER BY ${PLACE}`, rows: 'collect', maxRows: Math.max(1, rows) },
  ]
}

/** The rows that are merged. */
export function appliedSql({ schema, marks }: VerdictRequest): string {
  const columns = schema.columns.map(({ name }) => `r.${quoteName(name)}`)
  const all = marks ? [...columns, `NULL AS ${quoteName(MARKS.name)}`] : columns
  return `SELECT ${all.join(', ')} FROM ${ROWS} r JOIN ${JUDGED} j USING (${PLACE}) WHERE j.verdict = 'apply'`
}

const MAX_LINE_BYTES = 1024 * 1024

function rowsSql({ file, schema }: VerdictRequest): string {
  const types = schema.columns.map(
    ({ name, type }) => `${quoteText(name)}: ${quoteText(type === 'binary' ? 'VARCHAR' : sqlType(type))}`,
  )
  const values = schema.columns.map(({ name, type }) =>
    type === 'binary' ? `unhex(substr(${quoteName(name)}, 3)) AS ${quoteName(name)}` : quoteName(name),
  )
  return `SELECT ${[PLACE, ...values].join(', ')} FROM read_csv(${quoteText(file)},
    auto_detect = false, header = false, delim = ',', quote = '"', escape = '"', new_line = '\\n', nullstr = '',
    allow_quoted_nulls = false, strict_mode = true, parallel = false, max_line_size = ${MAX_LINE_BYTES},
    buffer_size = ${2 * MAX_LINE_BYTES}, columns = {'  place  ': 'INTEGER', ${types.join(', ')}})`
}

function heldSql({ schema, cursorColumn }: VerdictRequest): string {
  const keys = schema.primaryKey.map(quoteName).join(', ')
  // The cursor may be a part of the key.
  return `SELECT ${keys}, ${quoteName(cursorColumn)} AS held_cursor, true AS held FROM ${BASE} SEMI JOIN ${ROWS} USING (${keys})`
}

/** Of several rows of one key the newest counts, of those with one cursor the one that came last. No cursor is the oldest. */
function judgedSql({ schema, cursorColumn, sweeps }: VerdictRequest): string {
  const same = (other: string) =>
    schema.primaryKey.map((name) => `r.${quoteName(name)} = ${other}.${quoteName(name)}`).join(' AND ')
  const cursor = `r.${quoteName(cursorColumn)}`
  const keys = schema.primaryKey.map((name) => `r.${quoteName(name)}`).join(', ')
  const gone = sweeps ? `WHEN NOT EXISTS (SELECT 1 FROM ${PRESENT} p WHERE ${same('p')}) THEN 'gone'` : ''
  return `SELECT r.${PLACE}, CASE
      ${gone}
      WHEN row_number() OVER (PARTITION BY ${keys} ORDER BY ${cursor} DESC NULLS LAST, r.${PLACE} DESC) > 1 THEN 'older'
      WHEN h.held AND ${cursor} IS NOT DISTINCT FROM h.held_cursor THEN 'same'
      WHEN h.held AND h.held_cursor IS NOT NULL AND (${cursor} IS NULL OR ${cursor} < h.held_cursor) THEN 'older'
      ELSE 'apply' END AS verdict
    FROM ${ROWS} r LEFT JOIN ${HELD} h ON ${same('h')}`
}

/**
 * Which of the rows that are tried again may be merged: SQL over what they are, what the raw table has, and the keys that the
 * source has. None of them takes the place of a newer row.
 */
import { type EngineStep, quoteName, quoteText, sqlType } from '@sluice/engine'
import { MARKS } from '@sluice/iceberg'
import type { TableSchema } from '@sluice/sdk'
import { OWN_COLUMNS } from './judged-rows.ts'

/**
 * `apply`: it is merged. `older`: the table, or the rows themselves, have a newer one of its key. `gone`: the source has no row
 * of its key, or had none since. `same`: the table has a row of its key with the same cursor, so that nobody can say which is newer.
 */
export const VERDICTS = ['apply', 'older', 'gone', 'same'] as const
export type Verdict = (typeof VERDICTS)[number]

export interface VerdictRequest {
  /** What `judgeRows` wrote. */
  readonly file: string
  readonly schema: TableSchema
  readonly cursorColumn: string
  /** Those that the raw table has by the same type. */
  readonly unchanged: ReadonlySet<string>
  readonly rows: number
  /** The keys that the source has now are to be read from `KEYS`. */
  readonly sweeps: boolean
  /** Rows of the table end with marks, and of the job's table `BASE`, too. */
  readonly marks: boolean
}

/** Names of the job's tables: what the raw table has, and the keys of its source. */
export const BASE = 'replay_base'
export const KEYS = 'replay_source'

const ROWS = 'replay_rows'
const PRESENT = 'replay_present'
const HELD = 'replay_held'
const JUDGED = 'replay_judged'
const PLACE = quoteName(OWN_COLUMNS.place)
const CHOSEN = quoteName(OWN_COLUMNS.chosen)
const LACKS = quoteName(OWN_COLUMNS.lacks)

/** The last step gives place and verdict of each row. */
export function verdictSteps(request: VerdictRequest): readonly EngineStep[] {
  const { schema, sweeps, rows } = request
  const keys = schema.primaryKey.map(quoteName).join(', ')
  const present = `SELECT ${keys} FROM ${KEYS} SEMI JOIN ${ROWS} USING (${keys})`
  return [
    { sql: `CREATE TEMP TABLE ${ROWS} AS ${rowsSql(request)}` },
    ...(sweeps ? [{ sql: `CREATE TEMP TABLE ${PRESENT} AS ${present}` }] : []),
    { sql: `CREATE TEMP TABLE ${HELD} AS SELECT * FROM ${BASE} SEMI JOIN ${ROWS} USING (${keys})` },
    { sql: `CREATE TEMP TABLE ${JUDGED} AS ${judgedSql(request)}` },
    { sql: `SELECT ${PLACE}, verdict FROM ${JUDGED} ORDER BY ${PLACE}`, rows: 'collect', maxRows: Math.max(1, rows) },
  ]
}

/** The rows that are merged. */
export function appliedSql({ schema, marks }: VerdictRequest): string {
  const columns = schema.columns.map(({ name }) => `r.${quoteName(name)}`)
  const all = marks ? [...columns, `NULL AS ${quoteName(MARKS.name)}`] : columns
  return `SELECT ${all.join(', ')} FROM ${ROWS} r JOIN ${JUDGED} j USING (${PLACE}) WHERE j.verdict = 'apply' AND r.${CHOSEN}`
}

const MAX_LINE_BYTES = 1024 * 1024

function rowsSql({ file, schema }: VerdictRequest): string {
  const own = [
    [OWN_COLUMNS.place, 'INTEGER'],
    [OWN_COLUMNS.chosen, 'BOOLEAN'],
    [OWN_COLUMNS.lacks, 'VARCHAR'],
  ] as const
  const columns = schema.columns.map(({ name, type }) => [name, type === 'binary' ? 'VARCHAR' : sqlType(type)] as const)
  const types = [...own, ...columns].map(([name, type]) => `${quoteText(name)}: ${quoteText(type)}`)
  const values = schema.columns.map(({ name, type }) =>
    type === 'binary' ? `unhex(substr(${quoteName(name)}, 3)) AS ${quoteName(name)}` : quoteName(name),
  )
  return `SELECT ${[PLACE, CHOSEN, LACKS, ...values].join(', ')} FROM read_csv(${quoteText(file)},
    auto_detect = false, header = false, delim = ',', quote = '"', escape = '"', new_line = '\\n', nullstr = '',
    allow_quoted_nulls = false, strict_mode = true, parallel = false, max_line_size = ${MAX_LINE_BYTES},
    buffer_size = ${2 * MAX_LINE_BYTES}, columns = {${types.join(', ')}})`
}

/**
 * Of several rows of one key the newest counts, of those with one cursor the one that came last; no cursor is the oldest. A row
 * that came without a value was in the table when it was put aside: whatever the table has in its place came later.
 */
function judgedSql(request: VerdictRequest): string {
  const { schema, cursorColumn, sweeps } = request
  const same = (other: string) =>
    schema.primaryKey.map((name) => `r.${quoteName(name)} = ${other}.${quoteName(name)}`).join(' AND ')
  const cursor = quoteName(cursorColumn)
  const held = `h.${quoteName(schema.primaryKey[0] as string)} IS NOT NULL`
  const keys = schema.primaryKey.map((name) => `r.${quoteName(name)}`).join(', ')
  const gone = sweeps ? `WHEN NOT EXISTS (SELECT 1 FROM ${PRESENT} p WHERE ${same('p')}) THEN 'gone'` : ''
  return `SELECT r.${PLACE}, CASE
      WHEN row_number() OVER (PARTITION BY ${keys} ORDER BY r.${cursor} DESC NULLS LAST, r.${PLACE} DESC) > 1 THEN 'older'
      WHEN r.${LACKS} IS NOT NULL THEN CASE WHEN NOT (${held}) THEN 'gone' WHEN ${isThatRow(request)} THEN 'apply' ELSE 'older' END
      ${gone}
      WHEN ${held} AND r.${cursor} IS NOT DISTINCT FROM h.${cursor} THEN 'same'
      WHEN ${held} AND h.${cursor} IS NOT NULL AND (r.${cursor} IS NULL OR r.${cursor} < h.${cursor}) THEN 'older'
      ELSE 'apply' END AS verdict
    FROM ${ROWS} r LEFT JOIN ${HELD} h ON ${same('h')}`
}

/** Whether what the table has is the row itself, without the values that it lacks. */
function isThatRow({ schema, unchanged, marks }: VerdictRequest): string {
  if (!marks) return 'false'
  const columns = schema.columns.filter(({ name }) => unchanged.has(name)).map(({ name }) => name)
  const equal = columns.map((name) => {
    const [own, theirs] = [`r.${quoteName(name)}`, `h.${quoteName(name)}`]
    return `(${own} IS NOT DISTINCT FROM ${theirs} OR json_contains(r.${LACKS}::JSON, to_json(${quoteText(name)})))`
  })
  return [`h.${quoteName(MARKS.name)} = r.${LACKS}`, ...equal].join(' AND ')
}

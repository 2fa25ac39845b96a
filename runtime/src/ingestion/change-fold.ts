/**
 * What a piece of a log comes to: of each key the last state, or that it is gone. All of it is SQL over files of CSV, so
 * that no row crosses JavaScript.
 *
 * A *life* is the states of a row under one key, from its insert, or from when it came from another key, to its end.
 * Values that the log leaves out are those of the life's former states, then of the life that it came from, then of the
 * table as it was. What a row lacks of a column goes with its value: whoever told the one told the other.
 */
import { type EngineStep, quoteName, quoteText, sqlType } from '@sluice/engine'
import { MARKS } from '@sluice/iceberg'
import type { Column, TableSchema } from '@sluice/sdk'
import type { ToldKinds } from './told-kinds.ts'

/** Rows of one shape, in a file: what `ChangeSpool` writes. */
export interface LogSegment {
  readonly file: string
  readonly columns: readonly Column[]
  /** Its rows end with the names of columns that they lack. */
  readonly marks: boolean
}

export interface FoldRequest {
  /** In the order of the log. */
  readonly segments: readonly LogSegment[]
  /** The table's columns afterwards. */
  readonly schema: TableSchema
  /** The columns that the table has; null: it is empty by now, or was never written. */
  readonly base: readonly string[] | null
  /** Rows are to have the column `MARKS`; those of `BASE` have it. */
  readonly marks: boolean
  /**
   * The table was read whole after the log's begin, so that the log tells some of what the table has: a key that was
   * given up and taken anew may be either row there.
   */
  readonly isFresh: boolean
  /** Of the rows in the segments. Where they turn out to be of others, they count as unknown. */
  readonly kinds: ToldKinds
}

export interface Fold {
  readonly steps: readonly EngineStep[]
  /** The rows that there are, by key one. */
  readonly changed: string
  /** The keys that are gone; null: none is. */
  readonly gone: string | null
  /** Whether the steps read `BASE`. */
  readonly readsBase: boolean
}

/** The table as it was, for the job of the fold. */
export const BASE = 'log_base'

const ROWS = 'log_rows'
const PLACES = 'log_places'
const LAST = 'log_last'
const LIVES = 'log_lives'
const CHAINS = 'log_chains'
const KNOWN = 'log_known'
const WANTED = 'log_wanted'
const HELD = 'log_held'
const FOUND = 'log_found'
const LACKS = quoteName(MARKS.name)

/** No source has such names, whatever it calls its columns. */
const OWN = { op: '  op  ', seq: '  seq  ', unchanged: '  unchanged  ', from: '  from  ' } as const
const PLACED = { arrival: '  arrival  ', rank: '  rank  ' } as const
export const OWN_NAMES: ReadonlySet<string> = new Set([...Object.values(OWN), ...Object.values(PLACED)])

/** The results of the fold's collecting step. */
export interface FoldCounts {
  readonly changed: number
  readonly gone: number
  /** Rows with values that neither the log nor the table has: the table is to be read whole. */
  readonly unknown: number
  /** Rows of the log that say that one is gone, and are the last of their key; those that cannot be carried are no such. */
  readonly deleted: number
  /** Rows of the log after which the same key or a truncation comes. */
  readonly superseded: number
}

export function foldCounts(row: readonly unknown[] | undefined): FoldCounts {
  const [changed = 0, gone = 0, unknown = 0, deleted = 0, superseded = 0] = (row ?? []).map(Number)
  return { changed, gone, unknown, deleted, superseded }
}

export function foldLog(request: FoldRequest): Fold {
  const { schema, segments, kinds } = request
  const [only, ...more] = segments
  if (kinds.isPlain && only !== undefined && more.length === 0) return foldPlain(only, request)
  const key = schema.primaryKey
  const others = schema.columns.filter(({ name }) => !key.includes(name))
  return {
    steps: [
      ...arrive(request),
      ...place(schema),
      { sql: livesSql(key.length) },
      { sql: chainsSql(key.length) },
      { sql: knownSql(request, others) },
      ...foundSteps(request, others),
      { sql: countSql(request, others), rows: 'collect' },
    ],
    changed: changedSql(request, others),
    gone: `SELECT ${key.map((name, at) => `k${at} AS ${quoteName(name)}`).join(', ')} FROM ${LAST} WHERE op IN ('d', 'r')`,
    readsBase: request.base !== null,
  }
}

const ARRIVAL = quoteName(PLACED.arrival)
const RANK = quoteName(PLACED.rank)

/** Where each row stands for itself, the last of its key is all that counts. Of few rows, each statement more takes longer than they do. */
function foldPlain(segment: LogSegment, { schema, marks, kinds }: FoldRequest): Fold {
  const [op, seq, unchanged] = [OWN.op, OWN.seq, OWN.unchanged].map(quoteName) as [string, string, string]
  const key = schema.primaryKey.map(quoteName)
  const newest = `row_number() OVER (PARTITION BY ${key.join(', ')} ORDER BY ${seq} DESC, ${ARRIVAL} DESC)`
  // Whose key cannot be carried says nothing of a row.
  const rows = `CREATE TEMP TABLE ${ROWS} AS SELECT *, ${newest} AS ${RANK}
    FROM (SELECT *, row_number() OVER () AS ${ARRIVAL} FROM (${segmentSql(segment, schema, marks)}))
    WHERE NOT (${op} = 'r' AND ${key[0]} IS NULL)`
  const isLast = `FROM ${ROWS} WHERE ${RANK} = 1`
  const count = (condition: string) => `count(*) FILTER (WHERE ${condition})`
  const isGone = `${op} IN ('d', 'r')`
  const isKnown = `(${op} = 'u' AND ${unchanged} IS NULL${kinds.hasGone ? ` OR ${isGone}` : ''})`
  const last = `${RANK} = 1`
  const counts = [
    count(`${last} AND ${op} = 'u'`),
    count(`${last} AND ${isGone}`),
    count(`NOT ${isKnown}`),
    count(`${last} AND ${op} = 'd'`),
    count(`NOT ${last} AND ${op} IN ('u', 'd')`),
  ]
  const columns = [...schema.columns.map(({ name }) => quoteName(name)), ...(marks ? [LACKS] : [])]
  return {
    steps: [{ sql: rows }, { sql: `SELECT ${counts.join(', ')} FROM ${ROWS}`, rows: 'collect' }],
    changed: `SELECT ${columns.join(', ')} ${isLast} AND ${op} = 'u'`,
    gone: kinds.hasGone ? `SELECT ${key.join(', ')} ${isLast} AND ${isGone}` : null,
    readsBase: false,
  }
}

/** Rows that have a column no more come without it; those that had it not yet have null there. */
function arrive({ segments, schema, marks }: FoldRequest): readonly EngineStep[] {
  const own = Object.values(OWN).map((name) => `${quoteName(name)} VARCHAR`)
  const columns = schema.columns.map(({ name, type }) => `${quoteName(name)} ${sqlType(type)}`)
  return [
    { sql: `CREATE TEMP TABLE ${ROWS} (${[...own, ...columns, ...(marks ? [`${LACKS} VARCHAR`] : [])].join(', ')})` },
    ...segments.map((segment) => ({ sql: `INSERT INTO ${ROWS} ${segmentSql(segment, schema, marks)}` })),
  ]
}

const MAX_LINE_BYTES = 16 * 1024 * 1024

function segmentSql({ file, columns, marks }: LogSegment, schema: TableSchema, keepsMarks: boolean): string {
  const own = Object.values(OWN)
  const named = [
    ...own.map((name) => ({ name, type: 'string' as const })),
    ...columns,
    ...(marks ? [{ name: MARKS.name, type: 'string' as const }] : []),
  ]
  const types = named.map(
    ({ name, type }) => `${quoteText(name)}: ${quoteText(type === 'binary' ? 'VARCHAR' : sqlType(type))}`,
  )
  const values = schema.columns.map(({ name, type }) => {
    const there = columns.find((column) => column.name === name)
    const value = there?.type === 'binary' ? `unhex(substr(${quoteName(name)}, 3))` : quoteName(name)
    const cell = there?.type === type ? value : `CAST(${there === undefined ? 'NULL' : value} AS ${sqlType(type)})`
    return `${cell} AS ${quoteName(name)}`
  })
  const lacks = keepsMarks ? [marks ? LACKS : `CAST(NULL AS VARCHAR) AS ${LACKS}`] : []
  return `SELECT ${[...own.map(quoteName), ...values, ...lacks].join(', ')} FROM read_csv(${quoteText(file)},
    auto_detect = false, header = false, delim = ',', quote = '"', escape = '"', new_line = '\\n', nullstr = '',
    allow_quoted_nulls = false, strict_mode = true, parallel = false, max_line_size = ${MAX_LINE_BYTES},
    buffer_size = ${2 * MAX_LINE_BYTES}, columns = {${types.join(', ')}})`
}

/** The key as texts of the log, in the types of the table. */
const fromKey = ({ columns, primaryKey }: TableSchema): readonly string[] =>
  primaryKey.map((name, at) => {
    const type = columns.find((column) => column.name === name)?.type ?? 'string'
    const text = `json_extract_string(${quoteName(OWN.from)}, '$[${at}]')`
    return type === 'binary' ? `unhex(substr(${text}, 3))` : `CAST(${text} AS ${sqlType(type)})`
  })

const keys = (count: number, letter = 'k', alias = ''): readonly string[] =>
  Array.from({ length: count }, (_, at) => `${alias}${letter}${at}`)
const sameKeys = (count: number, left: string, right: string): string =>
  Array.from({ length: count }, (_, at) => `${left}${at} = ${right}${at}`).join(' AND ')

/** What was before the last truncation is no more, and a reject without its key says nothing of a row. */
function place(schema: TableSchema): readonly EngineStep[] {
  const key = schema.primaryKey
  const own = [
    ...key.map((name, at) => `${quoteName(name)} AS k${at}`),
    ...fromKey(schema).map((sql, at) => `${sql} AS f${at}`),
  ]
  const order = `row_number() OVER (ORDER BY ${quoteName(OWN.seq)}, rowid)`
  const partition = keys(key.length).join(', ')
  return [
    {
      sql: `CREATE TEMP TABLE ${PLACES} AS SELECT rowid AS at, ${order} AS ord, ${quoteName(OWN.op)} AS op,
        ${quoteName(OWN.unchanged)} IS NOT NULL AS partial, ${quoteName(OWN.from)} IS NOT NULL AS moved, ${own.join(', ')}
        FROM ${ROWS}`,
    },
    { sql: `DELETE FROM ${PLACES} WHERE ord <= coalesce((SELECT max(ord) FROM ${PLACES} WHERE op = 't'), 0)` },
    { sql: `DELETE FROM ${PLACES} WHERE op = 'r' AND k0 IS NULL` },
    {
      sql: `CREATE TEMP TABLE ${LAST} AS SELECT * FROM ${PLACES}
        QUALIFY row_number() OVER (PARTITION BY ${partition} ORDER BY ord DESC) = 1`,
    },
  ]
}

/**
 * Each state with the life that it is of, which goes by the place where it began. None where no last state is told in part: the
 * others stand for themselves, and following the lives of millions of rows takes more memory than all else here.
 */
function livesSql(count: number): string {
  const by = keys(count).join(', ')
  return `CREATE TEMP TABLE ${LIVES} AS
    SELECT *, max(CASE WHEN begins THEN ord END) OVER (PARTITION BY ${by} ORDER BY ord ROWS UNBOUNDED PRECEDING) AS life
    FROM (
      SELECT *, op = 'u' AND (moved OR lag(op) OVER (PARTITION BY ${by} ORDER BY ord) IS DISTINCT FROM 'u') AS begins
      FROM ${PLACES} WHERE (SELECT count(*) > 0 FROM ${LAST} WHERE op = 'u' AND partial))
    WHERE op = 'u'`
}

/** Of each last state that is told in part: the lives that its row has had, the newest first. */
function chainsSql(count: number): string {
  const heads = `SELECT h.life, h.moved, ${keys(count, 'k', 'h.').join(', ')}, ${keys(count, 'f', 'h.').join(', ')},
      CASE WHEN h.moved THEN p.life END AS former
    FROM (SELECT * FROM ${LIVES} WHERE begins) h
    ASOF LEFT JOIN (SELECT * FROM ${LIVES} WHERE begins) p ON ${sameKeys(count, 'h.f', 'p.k')} AND h.ord > p.ord`
  return `CREATE TEMP TABLE ${CHAINS} AS
    WITH RECURSIVE heads AS MATERIALIZED (${heads}),
      chain AS (
        SELECT s.ord AS last, s.life, 0 AS depth FROM ${LIVES} s SEMI JOIN (SELECT ord FROM ${LAST} WHERE op = 'u' AND partial) l
          ON l.ord = s.ord
        UNION ALL
        SELECT c.last, h.former, c.depth + 1 FROM chain c JOIN heads h ON h.life = c.life WHERE h.former IS NOT NULL)
    SELECT c.last, c.life, c.depth, h.moved, ${keys(count, 'k', 'h.').join(', ')}, ${keys(count, 'f', 'h.').join(', ')}
    FROM chain c JOIN heads h ON h.life = c.life`
}

/** Whether a mark names the column. Of one that cannot be understood nobody knows what its row lacks: it may be any. */
const lacksSql = (mark: string, column: string): string =>
  `CASE WHEN ${mark} IS NULL THEN false WHEN json_valid(${mark})
    THEN coalesce(list_contains(from_json(${mark}, '["VARCHAR"]'), ${quoteText(column)}), true) ELSE true END`

/** By last state the values that the log has, `has` beside each, and whether its row lacks it. */
function knownSql({ marks }: FoldRequest, others: readonly Column[]): string {
  const values = others.flatMap(({ name }, at) => {
    const tells = `NOT coalesce(list_contains(p.unchanged, ${quoteText(name)}), false)`
    const column = `r.${quoteName(name)}`
    return [
      `arg_max_null(${column}, p.ord) FILTER (WHERE ${tells}) AS c${at}`,
      `bool_or(${tells}) AS has${at}`,
      ...(marks ? [`arg_max(${lacksSql(`r.${LACKS}`, name)}, p.ord) FILTER (WHERE ${tells}) AS lacks${at}`] : []),
    ]
  })
  return `CREATE TEMP TABLE ${KNOWN} AS
    SELECT ${['p.last', ...values].join(', ')}
    FROM (
      SELECT c.last, s.ord, s.at, from_json(u.${quoteName(OWN.unchanged)}, '["VARCHAR"]') AS unchanged
      FROM ${CHAINS} c JOIN ${LIVES} s ON s.life = c.life AND s.ord <= c.last JOIN ${ROWS} u ON u.rowid = s.at) p
      JOIN ${ROWS} r ON r.rowid = p.at
    GROUP BY p.last`
}

/**
 * By last state the row of the table that it goes on from: `found` of it, `k` its key there. By rule that is the row of
 * the key that the first of its lives came from, or had. In a table that is newer than that, it may lie under its last
 * key already, and another row under the first.
 */
function foundSteps({ schema, base, marks, isFresh }: FoldRequest, others: readonly Column[]): readonly EngineStep[] {
  const key = schema.primaryKey
  if (base === null) return [{ sql: `CREATE TEMP TABLE ${FOUND} AS SELECT last, false AS found FROM ${KNOWN}` }]
  const based = (alias: string, letter: string) =>
    key.map((name, at) => `${alias}.${quoteName(name)} = w.${letter}${at}`).join(' AND ')
  // Of the one row that is there twice, under either key, each value is the same.
  const values = others.flatMap(({ name }, at) =>
    base.includes(name)
      ? [`CASE WHEN takes = 'root' THEN b.${quoteName(name)} ELSE o.${quoteName(name)} END AS b${at}`]
      : [],
  )
  if (marks) values.push(`CASE WHEN takes = 'root' THEN b.${LACKS} ELSE o.${LACKS} END AS lacks`)
  const taken = isFresh
    ? `CASE WHEN NOT w.moves THEN CASE WHEN root_there THEN 'root' END
        WHEN own_there AND NOT w.own_before THEN 'own'
        WHEN root_there AND NOT own_there AND NOT w.root_after THEN 'root' END`
    : `CASE WHEN root_there THEN 'root' END`
  const found = `CREATE TEMP TABLE ${FOUND} AS
    WITH looked AS (
      SELECT w.*, b.${quoteName(key[0] as string)} IS NOT NULL AS root_there,
        o.${quoteName(key[0] as string)} IS NOT NULL AS own_there
      FROM ${WANTED} w LEFT JOIN ${HELD} b ON ${based('b', 'r')} LEFT JOIN ${HELD} o ON ${based('o', 'k')}),
    chosen AS (SELECT *, ${taken.replaceAll('w.', '')} AS takes FROM looked)
    SELECT ${['c.last', 'c.takes IS NOT NULL AS found', ...values].join(', ')}
    FROM chosen c LEFT JOIN ${HELD} b ON c.takes = 'root' AND ${based('b', 'r').replaceAll('w.', 'c.')}
      LEFT JOIN ${HELD} o ON c.takes = 'own' AND ${based('o', 'k').replaceAll('w.', 'c.')}`
  return [{ sql: wantedSql(key.length) }, { sql: heldSql(key) }, { sql: found }]
}

/** By last state its keys in the table: `r` of the first of its lives, or where that came from, and `k`, its last. */
function wantedSql(count: number): string {
  const root = keys(count, 'f').map(
    (name, at) => `arg_max(CASE WHEN moved THEN ${name} ELSE k${at} END, depth) AS r${at}`,
  )
  const own = keys(count).map((name) => `arg_min(${name}, depth) AS ${name}`)
  const same = keys(count).map((name) => `e.${name} = wanted.${name}`)
  const sameRoot = keys(count).map((name, at) => `e.${name} = wanted.r${at}`)
  return `CREATE TEMP TABLE ${WANTED} AS
    SELECT *, EXISTS (SELECT 1 FROM ${PLACES} e WHERE ${same.join(' AND ')} AND e.ord < wanted.entered) AS own_before,
      EXISTS (SELECT 1 FROM ${PLACES} e WHERE ${sameRoot.join(' AND ')} AND e.op = 'u' AND e.ord > wanted.first_life)
        AS root_after
    FROM (
      SELECT last, bool_or(moved) AS moves, arg_min(life, depth) AS entered, arg_max(life, depth) AS first_life,
        ${[...root, ...own].join(', ')} FROM ${CHAINS} GROUP BY last) wanted`
}

/** The table's rows under any of these keys. It is read once, and where its bounds tell that none is there, not at all. */
function heldSql(key: readonly string[]): string {
  const [roots, own] = [keys(key.length, 'r'), keys(key.length)].map((names) => names.join(', '))
  const same = key.map((name, at) => `b.${quoteName(name)} = w.r${at}`).join(' AND ')
  return `CREATE TEMP TABLE ${HELD} AS SELECT b.* FROM ${BASE} b
    SEMI JOIN (SELECT ${roots} FROM ${WANTED} UNION SELECT ${own} FROM ${WANTED}) w ON ${same}`
}

function countSql({ base }: FoldRequest, others: readonly Column[]): string {
  // A column that the table has not is null in all its rows.
  const missing = others.flatMap(({ name }, at) => (base === null || base.includes(name) ? [`NOT k.has${at}`] : []))
  const lacks = missing.length === 0 ? 'false' : `(${missing.join(' OR ')})`
  return `SELECT (SELECT count(*) FROM ${LAST} WHERE op = 'u'), (SELECT count(*) FROM ${LAST} WHERE op IN ('d', 'r')),
    (SELECT count(*) FROM ${KNOWN} k JOIN ${FOUND} f ON f.last = k.last WHERE NOT f.found AND ${lacks}),
    (SELECT count(*) FROM ${LAST} WHERE op = 'd'),
    (SELECT count(*) FROM ${ROWS} r ANTI JOIN ${LAST} l ON l.at = r.rowid WHERE r.${quoteName(OWN.op)} IN ('u', 'd'))`
}

function changedSql({ schema, base, marks }: FoldRequest, others: readonly Column[]): string {
  const whole = schema.columns.map(({ name }) => `r.${quoteName(name)}`)
  const parts = schema.columns.map(({ name }) => {
    const at = others.findIndex((column) => column.name === name)
    if (at < 0) return `l.k${schema.primaryKey.indexOf(name)} AS ${quoteName(name)}`
    const former = base?.includes(name) ? `f.b${at}` : 'NULL'
    return `CASE WHEN k.has${at} THEN k.c${at} ELSE ${former} END AS ${quoteName(name)}`
  })
  if (marks) {
    whole.push(`r.${LACKS}`)
    parts.push(`${partMark(base, others)} AS ${LACKS}`)
  }
  return `SELECT ${whole.join(', ')} FROM ${ROWS} r JOIN ${LAST} l ON l.at = r.rowid WHERE l.op = 'u' AND NOT l.partial
    UNION ALL
    SELECT ${parts.join(', ')} FROM ${LAST} l JOIN ${KNOWN} k ON k.last = l.ord JOIN ${FOUND} f ON f.last = l.ord`
}

/** Each value's own: of one that was told by who told it, of any other by the table's row. */
function partMark(base: FoldRequest['base'], others: readonly Column[]): string {
  const named = others.map(({ name }, at) => {
    const former = base?.includes(name) ? lacksSql('f.lacks', name) : 'false'
    return `CASE WHEN CASE WHEN k.has${at} THEN k.lacks${at} ELSE ${former} END THEN ${quoteText(name)} END`
  })
  const names = `list_filter([${named.join(', ')}]::VARCHAR[], lambda name: name IS NOT NULL)`
  return `CASE WHEN len(${names}) > 0 THEN to_json(${names})::VARCHAR END`
}

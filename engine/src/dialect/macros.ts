/**
 * What PostgreSQL has and the engine has not, or says otherwise, as macros. Their names are none that a statement may call: they
 * are put there by the rewriting alone, and what they are given has been judged as all of the statement is. They are put in place
 * of a call by the engine, argument for argument, so that an argument which stands twice is worked out once by it.
 */
import type { DuckDBConnection } from '@duckdb/node-api'
import { execute } from '../child/duckdb.ts'
import type { TreeNode } from '../guard/tree.ts'
import { quoteName } from '../sql-text.ts'

const PREFIX = 'pg:'

/** An error of a statement's values, by its SQLSTATE: `fromDriver` reads it. */
const fails = (sqlState: string): string => `error('postgresql:${sqlState}')`

/** `x` worked out before `body`, which calls it "pg:once". Names of a lambda would hide columns of a statement, and so are none. */
const once = (body: string): string => `list_transform([x], lambda "pg:once": ${body})[1]`

/** Of doubles, halves go to the even number, and of decimals away from nought. */
const ROUND = `CASE WHEN typeof(x) IN ('DOUBLE', 'FLOAT') AND abs(x % 1) = 0.5 THEN trunc(x) + trunc(x) % 2 ELSE round(x) END`

const MACROS = {
  matches: ['s, p', "regexp_matches(s, p, 's')"],
  matches_anycase: ['s, p', "regexp_matches(s, p, 'si')"],
  /** Of a pattern that is only known when the statement runs: with brackets or escapes it would have to be taken apart. */
  similar: [
    's, p',
    `CASE WHEN regexp_matches(p, '[\\\\\\[]') THEN ${fails('0A000')}
      ELSE regexp_full_match(s, replace(replace(regexp_replace(p, '([.^$])', '\\\\\\1', 'g'), '%', '.*'), '_', '.'), 's') END`,
  ],
  nonzero: ['x', `CASE WHEN x = 0 THEN ${fails('22012')} ELSE x END`],
  /** The same of what holds macros itself: they would all stand twice, and what they hold four times. */
  nonzero_once: ['x', once(`CASE WHEN "pg:once" = 0 THEN ${fails('22012')} ELSE "pg:once" END`)],
  quotient: ['a, b', `trunc(a // CASE WHEN b = 0 THEN ${fails('22012')} ELSE b END)`],
  round: ['x', ROUND],
  /** Of a value that no function takes: PostgreSQL says why, the engine gives NaN or an error of its own. */
  logarithm: ['x', `CASE WHEN x <= 0 THEN ${fails('2201E')} ELSE x END`],
  rooted: ['x', `CASE WHEN x < 0 THEN ${fails('2201F')} ELSE x END`],
  seconds: ['part', 'CAST(part AS DECIMAL(24,0)) * 0.000001'],
  /** Of doubles the digits that they are told by, which are what they mean there as well. */
  numeric: [
    'x',
    `CASE WHEN typeof(x) IN ('DOUBLE', 'FLOAT') THEN CAST(CAST(x AS VARCHAR) AS DECIMAL(38,15)) ELSE CAST(x AS DECIMAL(38,15)) END`,
  ],
  /** The text of a number, of a double with so many places as the format says: halves go to the even digit. */
  places: [
    'x, f',
    `CASE WHEN typeof(x) IN ('DOUBLE', 'FLOAT') THEN printf(f, CAST(x AS DOUBLE)) ELSE CAST(x AS VARCHAR) END`,
  ],
  as_text: [
    'x',
    `CASE WHEN typeof(x) IN ('DOUBLE', 'FLOAT') THEN regexp_replace(CAST(x AS VARCHAR), '\\.0$', '') ELSE CAST(x AS VARCHAR) END`,
  ],
  /** In a row of others, truth is told by its first letter. */
  part: [
    'x',
    `CASE WHEN typeof(x) = 'BOOLEAN' THEN left(CAST(x AS VARCHAR), 1)
      WHEN typeof(x) IN ('DOUBLE', 'FLOAT') THEN regexp_replace(CAST(x AS VARCHAR), '\\.0$', '') ELSE CAST(x AS VARCHAR) END`,
  ],
  power: [
    'a, b',
    `CASE WHEN a = 0 AND b < 0 OR a < 0 AND b <> trunc(b) THEN ${fails('2201F')}
      WHEN isinf(CAST(power(a, b) AS DOUBLE)) AND NOT isinf(CAST(a AS DOUBLE)) AND NOT isinf(CAST(b AS DOUBLE)) THEN ${fails('22003')} ELSE power(a, b) END`,
  ],
  exp: ['x', `CASE WHEN isinf(exp(x)) AND NOT isinf(CAST(x AS DOUBLE)) THEN ${fails('22003')} ELSE exp(x) END`],
  trunc_years: ['unit, t', `date_trunc(unit, t - to_years(1)) + to_years(1)`],
  type_name: [
    'x',
    `CASE WHEN typeof(x) LIKE 'DECIMAL%' OR typeof(x) = 'HUGEINT' THEN 'numeric' ELSE CASE typeof(x) WHEN 'VARCHAR' THEN 'text' WHEN 'DOUBLE' THEN 'double precision'
      WHEN 'FLOAT' THEN 'real' WHEN 'TIMESTAMP' THEN 'timestamp without time zone' WHEN 'TIME' THEN 'time without time zone' WHEN 'BLOB' THEN 'bytea'
      WHEN '"NULL"' THEN 'unknown' ELSE lower(typeof(x)) END END`,
  ],
  octets: ['x', `CASE WHEN typeof(x) = 'BLOB' THEN octet_length(CAST(x AS BLOB)) ELSE strlen(CAST(x AS VARCHAR)) END`],
  without: ['a, x', 'list_filter(a, lambda "pg:one": "pg:one" IS DISTINCT FROM x)'],
  joined_with: [
    'a, d, n',
    'array_to_string(list_transform(a, lambda "pg:one": coalesce(CAST("pg:one" AS VARCHAR), n)), d)',
  ],
  hexed: ['x', 'lower(to_hex(x))'],
  whole: ['part', 'CAST(part AS DECIMAL(18,0))'],
  milliseconds: ['part', 'CAST(part AS DECIMAL(24,0)) * 0.001'],
  substring: [
    's, f, n',
    `CASE WHEN n < 0 THEN ${fails('22011')} ELSE substring(s, greatest(f, 1), greatest(least(f, 1) - 1 + n, 0)) END`,
  ],
  substring_from: ['s, f', 'substring(s, greatest(f, 1))'],
  /** The part in parentheses, where there are any. */
  substring_matching: ['s, p', "CASE WHEN regexp_matches(s, p, 's') THEN regexp_extract(s, p, 0, 's') END"],
  substring_group: ['s, p', "CASE WHEN regexp_matches(s, p, 's') THEN regexp_extract(s, p, 1, 's') END"],
  split_part: [
    's, d, n',
    `CASE WHEN n = 0 THEN ${fails('22023')} WHEN d = '' THEN CASE WHEN abs(n) = 1 THEN s ELSE '' END ELSE split_part(s, d, n) END`,
  ],
  initcap: [
    's',
    `array_to_string(list_transform(regexp_extract_all(s, '[\\pL\\pN]+|[^\\pL\\pN]+'),
      lambda w: upper(left(w, 1)) || lower(substring(w, 2))), '')`,
  ],
  replace: ['s, f, t', "CASE WHEN f = '' THEN s ELSE replace(s, f, t) END"],
  pad_left: ['s, n, p', "CASE WHEN p = '' THEN left(s, greatest(n, 0)) ELSE lpad(s, greatest(n, 0), p) END"],
  pad_right: ['s, n, p', "CASE WHEN p = '' THEN left(s, greatest(n, 0)) ELSE rpad(s, greatest(n, 0), p) END"],
  repeat: ['s, n', 'repeat(s, greatest(n, 0))'],
  width_bucket: [
    'x, low, high, n',
    `CASE WHEN low = high OR n <= 0 THEN ${fails('2201G')}
      WHEN low < high THEN CASE WHEN x < low THEN 0 WHEN x >= high THEN n + 1 ELSE CAST(floor((x - low) * n / (high - low)) AS INTEGER) + 1 END
      ELSE CASE WHEN x > low THEN 0 WHEN x <= high THEN n + 1 ELSE CAST(floor((low - x) * n / (low - high)) AS INTEGER) + 1 END END`,
  ],
  date_bin: ['stride, t, origin', 'time_bucket(stride, t, origin)'],
  trunc_in_zone: ['unit, t, zone', 'timezone(zone, date_trunc(unit, timezone(zone, t)))'],
  json_type: [
    'j',
    `CASE json_type(j) WHEN 'VARCHAR' THEN 'string' WHEN 'NULL' THEN 'null' WHEN 'OBJECT' THEN 'object' WHEN 'ARRAY' THEN 'array'
      WHEN 'BOOLEAN' THEN 'boolean' ELSE CASE WHEN j IS NOT NULL THEN 'number' END END`,
  ],
  /** Digits in the places of `whole`, which may have commas between them; `bare` leaves blanks and noughts at the end out. */
  number_text: [
    'x, whole, leastwhole, scale, leastfraction, bare, haspoint',
    once(
      `CASE WHEN "pg:once" IS NULL THEN NULL WHEN length(WHOLE_TEXT) > length(PLACES) THEN repeat(' ', 1 - bare) || regexp_replace(whole, '[09]', '#', 'g') || CASE WHEN haspoint = 1 THEN '.' || repeat('#', scale) ELSE '' END
      ELSE CASE WHEN bare = 1 THEN CASE WHEN "pg:once" < 0 THEN '-' ELSE '' END || CASE WHEN "pg:once" = 0 AND leastwhole = 0 AND leastfraction = 0 THEN '0' ELSE '' END || DIGITS || FRACTION
        ELSE lpad(CASE WHEN "pg:once" < 0 THEN '-' ELSE ' ' END || DIGITS || FRACTION, CAST(length(whole) + 1 + CASE WHEN haspoint = 1 THEN scale + 1 ELSE 0 END AS INTEGER), ' ') END END`
        .replaceAll(
          'FRACTION',
          `CASE WHEN haspoint = 0 THEN '' ELSE '.' || left(FRAC_TEXT, leastfraction) || rtrim(substring(FRAC_TEXT, leastfraction + 1), CASE WHEN bare = 1 THEN '0' ELSE '' END) END`,
        )
        .replaceAll(
          'DIGITS',
          `CASE WHEN contains(whole, ',') THEN list_transform([PADDED], lambda "pg:padded":
            array_to_string(list_transform(range(1, length(whole) + 1), lambda "pg:one": CASE WHEN substring(whole, "pg:one", 1) = ','
            THEN CASE WHEN trim(left("pg:padded", length(replace(left(whole, "pg:one"), ',', '')))) = '' THEN '' ELSE ',' END
            ELSE trim(substring("pg:padded", length(replace(left(whole, "pg:one"), ',', '')), 1)) END), ''))[1] ELSE trim(PADDED) END`,
        )
        .replaceAll(
          'PADDED',
          `lpad(lpad(WHOLE_TEXT, CAST(greatest(leastwhole, length(WHOLE_TEXT)) AS INTEGER), '0'), CAST(length(PLACES) AS INTEGER), ' ')`,
        )
        .replaceAll('PLACES', `replace(whole, ',', '')`)
        .replaceAll('WHOLE_TEXT', `ltrim(split_part(CAST(abs("pg:once") AS VARCHAR), '.', 1), '0')`)
        .replaceAll('FRAC_TEXT', `split_part(CAST(abs("pg:once") AS VARCHAR), '.', 2)`),
    ),
  ],
  only_if: ['known, x', 'CASE WHEN known IS NULL THEN NULL ELSE x END'],
} as const satisfies Readonly<Record<string, readonly [string, string]>>

export type MacroName = keyof typeof MACROS

export const macro = (name: MacroName): string => `${PREFIX}${name}`

export const MACRO_NAMES: ReadonlySet<string> = new Set(Object.keys(MACROS).map((name) => `${PREFIX}${name}`))

/** Whether a statement has called what only the rewriting may. */
export const isReserved = (name: string): boolean => name.toLowerCase().startsWith(PREFIX)

const made = new WeakMap<DuckDBConnection, Set<string>>()

/** Those that a tree calls, each once for a connection: all of them would cost a process more than its first statement. */
export async function makeMacros(connection: DuckDBConnection, tree: TreeNode): Promise<void> {
  const own = made.get(connection) ?? new Set()
  made.set(connection, own)
  for (const name of calledIn(tree)) {
    if (own.has(name)) continue
    const [parameters, body] = MACROS[name]
    await execute(connection, `CREATE MACRO ${quoteName(macro(name))}(${parameters}) AS ${body}`)
    own.add(name)
  }
}

/** Whether anything in it is called by the rewriting. */
export const holdsMacro = (value: unknown): boolean => calledIn(value).length > 0

function calledIn(value: unknown): readonly MacroName[] {
  if (typeof value !== 'object' || value === null) return []
  const called = String((value as TreeNode).function_name ?? '')
  const own = MACRO_NAMES.has(called) ? [called.slice(PREFIX.length) as MacroName] : []
  return [...own, ...Object.values(value).flatMap(calledIn)]
}

import {
  type DuckDBArrayType,
  type DuckDBDecimalType,
  type DuckDBListType,
  type DuckDBMapType,
  type DuckDBStructType,
  type DuckDBType,
  DuckDBTypeId,
  type DuckDBUnionType,
} from '@duckdb/node-api'
import { SluiceError } from '@sluice/sdk'
import { quoteName, quoteText } from '../sql-text.ts'
import type { JsonFlavour } from './encode-value.ts'

/** Of lists and maps in each other: for each more DuckDB plans twice as long, and for twenty longer than a statement may take. */
export const MAX_LISTS = 10

/**
 * The encoding of `encoderFor` as SQL, so that DuckDB writes streamed rows itself: faster, and with its errors (rows
 * that the driver streams to JavaScript just end where the statement fails). An expression is the JSON text of a
 * value, or NULL for null. Throws INVALID_DATA `sql_unsupported` for a type that is nested too deeply.
 */
export function jsonOf(type: DuckDBType, sql: string, flavour: JsonFlavour, depth = 0): string {
  if (depth > MAX_LISTS) throw tooNested()
  if (type.typeId === DuckDBTypeId.VARCHAR && type.alias === 'JSON') return jsonText(sql, flavour)
  return scalar(type, sql, 'quoted') ?? nested(type, sql, flavour, depth) ?? text(`(${sql})::VARCHAR`)
}

export function tooNested(): SluiceError {
  return new SluiceError('INVALID_DATA', `a column has more than ${MAX_LISTS} lists or maps in each other`, {
    code: 'sql_unsupported',
    remedy: 'Take it apart with unnest or flatten, or give it as to_json(column).',
  })
}

/** The same, and `null` for null. */
export function jsonOrNull(type: DuckDBType, sql: string, flavour: JsonFlavour, depth = 0): string {
  return `coalesce(${jsonOf(type, sql, flavour, depth)}, 'null')`
}

/** How the text of a value stands in its line where JSON has no literal for it: in quotes, or as it is. */
type Form = 'quoted' | 'bare'

function inForm(sql: string, form: Form): string {
  return form === 'quoted' ? `'"' || (${sql}) || '"'` : `(${sql})::VARCHAR`
}

function scalar(type: DuckDBType, sql: string, form: Form): string | null {
  const told = (text: string) => inForm(text, form)
  switch (type.typeId) {
    case DuckDBTypeId.BOOLEAN:
    case DuckDBTypeId.TINYINT:
    case DuckDBTypeId.SMALLINT:
    case DuckDBTypeId.INTEGER:
    case DuckDBTypeId.UTINYINT:
    case DuckDBTypeId.USMALLINT:
    case DuckDBTypeId.UINTEGER:
      return `(${sql})::VARCHAR`
    case DuckDBTypeId.BIGINT:
    case DuckDBTypeId.HUGEINT:
      return wholeNumber(sql, `BETWEEN -${MAX_SAFE} AND ${MAX_SAFE}`, form)
    case DuckDBTypeId.UBIGINT:
    case DuckDBTypeId.UHUGEINT:
      // Beside a signed number the largest would be cast to what cannot hold it.
      return wholeNumber(sql, `<= ${MAX_SAFE}::UBIGINT`, form)
    case DuckDBTypeId.FLOAT:
    case DuckDBTypeId.DOUBLE:
      return `CASE WHEN isfinite(${sql}) THEN ${type.typeId === DuckDBTypeId.FLOAT ? floatText(sql) : doubleText(sql)} WHEN isnan(${sql}) THEN ${told("'NaN'")}
        WHEN (${sql}) > 0 THEN ${told("'Infinity'")} WHEN (${sql}) < 0 THEN ${told("'-Infinity'")} END`
    case DuckDBTypeId.DECIMAL:
      return told(decimalText(type as DuckDBDecimalType, sql))
    case DuckDBTypeId.UUID:
    case DuckDBTypeId.BIT:
    case DuckDBTypeId.BIGNUM:
    case DuckDBTypeId.INTERVAL:
      return told(sql)
    case DuckDBTypeId.BLOB:
      return told(`to_base64(${sql})`)
    default:
      return time(type, sql, form)
  }
}

/** Without quotes all are told alike. */
function wholeNumber(sql: string, isSafe: string, form: Form): string {
  if (form === 'bare') return `(${sql})::VARCHAR`
  return `CASE WHEN (${sql}) ${isSafe} THEN (${sql})::VARCHAR ELSE ${inForm(sql, form)} END`
}

/**
 * The shortest digits as JavaScript writes them: a whole number without a point, and an exponent from 1e+21 on and below
 * 1e-6. DuckDB has one from 1e+16 on and below 0.0001, of two digits at least.
 */
function doubleText(sql: string, depth = 0): string {
  const text = `(${sql})::VARCHAR`
  const name = `digits${depth}`
  const moved = `CASE WHEN regexp_matches(${name}, 'e[+](1[6-9]|20)$') THEN ${name}::DECIMAL(38,0)::VARCHAR
    WHEN regexp_matches(${name}, 'e-0[56]$') THEN rtrim(${name}::DECIMAL(38,30)::VARCHAR, '0')
    ELSE replace(${name}, 'e-0', 'e-') END`
  // Most numbers are known by their value to have no exponent: each look at the text makes it once more.
  return `CASE WHEN abs(${sql}) BETWEEN 0.0001 AND ${MAX_PLAIN}
    THEN CASE WHEN (${sql}) = trunc(${sql}) THEN (${sql})::BIGINT::VARCHAR ELSE ${text} END
    WHEN NOT contains(${text}, 'e') THEN ${plainText(text)}
    ELSE list_transform([${provedText(sql)}], lambda ${name}: ${moved})[1] END`
}

/** Whole numbers of fifteen digits are exact, and far from where an exponent begins. */
const MAX_PLAIN = 999_999_999_999_999

function plainText(text: string): string {
  return `CASE WHEN suffix(${text}, '.0') THEN left(${text}, -2) ELSE ${text} END`
}

/** DuckDB's text of some powers of two, 2^81 for one, is that of another number, or of none. */
function provedText(sql: string): string {
  const text = `(${sql})::VARCHAR`
  const digits = (count: number) => `printf('%.${count - 1}e', ${sql})`
  const tried = [15, 16].map((count) => `WHEN ${digits(count)}::DOUBLE = (${sql}) THEN ${digits(count)}`)
  return `CASE WHEN TRY_CAST(${text} AS DOUBLE) = (${sql}) THEN ${text}
    ELSE regexp_replace(CASE ${tried.join(' ')} ELSE ${digits(17)} END, '[.]?0*e', 'e') END`
}

/**
 * As `toJsonValue` has it. DuckDB's own digits are sometimes more than it takes, but up to eight of them are the shortest ones
 * of numbers below 2^25: from there on, decimals of few digits lie in the middle between two floats.
 */
function floatText(sql: string): string {
  const text = `(${sql})::VARCHAR`
  const rounded = (places: string) => `printf('%.' || ${places} || 'e', (${sql})::DOUBLE)::DOUBLE`
  const places = `range(CASE WHEN abs(${sql}) >= ${2 ** -126} THEN 5 ELSE 0 END, 8)`
  const tried = `list_transform(${places}, lambda places: ${rounded('places')})`
  const shortest = `coalesce(list_filter(${tried}, lambda number: number::FLOAT = (${sql}))[1], ${rounded('8')})`
  const eightDigits = `length(${text}) <= CASE WHEN abs(${sql}) < 1 THEN 10 ELSE 9 END`
  return `CASE WHEN abs(${sql}) BETWEEN 0.001 AND ${2 ** 25 - 2} AND ${eightDigits} OR (${sql}) = 0 THEN ${plainText(text)}
    ELSE list_transform([${shortest}], lambda shortest: ${doubleText('shortest', 1)})[1] END`
}

/** DuckDB leaves out the zero before the point where a type has no digit there. */
function decimalText(type: DuckDBDecimalType, sql: string): string {
  const plain = `(${sql})::VARCHAR`
  return type.scale < type.width ? plain : `regexp_replace(${plain}, '^(-?)[.]', '\\10.')`
}

const MAX_SAFE = Number.MAX_SAFE_INTEGER

function time(type: DuckDBType, sql: string, form: Form): string | null {
  const told = (text: string) => inForm(text, form)
  switch (type.typeId) {
    case DuckDBTypeId.DATE:
      return told(inEra(sql, "DATE '0001-01-01'", `(${sql})::VARCHAR`, '-%m-%d'))
    case DuckDBTypeId.TIMESTAMP:
    case DuckDBTypeId.TIMESTAMP_S:
    case DuckDBTypeId.TIMESTAMP_MS:
      return told(timestamp(`(${sql})::TIMESTAMP`))
    case DuckDBTypeId.TIMESTAMP_NS:
      return told(nanoseconds(sql))
    case DuckDBTypeId.TIMESTAMP_TZ: {
      const utc = timestamp(`timezone('UTC', ${sql})`)
      return told(`${utc} || CASE WHEN isfinite(${sql}) THEN 'Z' ELSE '' END`)
    }
    case DuckDBTypeId.TIME:
    case DuckDBTypeId.TIME_NS:
      return told(clock(`(${sql})::VARCHAR`))
    case DuckDBTypeId.TIME_TZ: {
      const text = `(${sql})::VARCHAR`
      return told(`${clock(`regexp_extract(${text}, '^[0-9:.]+')`)} || regexp_extract(${text}, '[+-].*$')`)
    }
    default:
      return null
  }
}

/** `after`: how values are told from the first year on. Before it years are told as ISO 8601 does, with a year 0. */
function inEra(sql: string, first: string, after: string, before: string): string {
  const year = `printf(CASE WHEN year(${sql}) < 0 THEN '%07d' ELSE '%04d' END, year(${sql}))`
  return `CASE WHEN (${sql}) >= ${first} THEN ${after}
    WHEN isfinite(${sql}) THEN ${year} || strftime(${sql}, '${before}') ELSE (${sql})::VARCHAR END`
}

function timestamp(sql: string): string {
  const format = '-%m-%dT%H:%M:%S.%f'
  return inEra(sql, "TIMESTAMP '0001-01-01'", `strftime(${sql}, '%Y${format}')`, format)
}

/** Its years have four digits; as a TIMESTAMP it would be rounded. */
function nanoseconds(sql: string): string {
  const text = `(${sql})::VARCHAR`
  return `CASE WHEN isfinite(${sql}) THEN left(${text}, 10) || 'T' || ${clock(`substr(${text}, 12)`)} ELSE ${text} END`
}

/** Microseconds; more digits where there are more. */
function clock(text: string): string {
  return `CASE WHEN length(${text}) < 15 THEN rpad(CASE WHEN length(${text}) = 8 THEN ${text} || '.' ELSE ${text} END, 15, '0') ELSE ${text} END`
}

function nested(type: DuckDBType, sql: string, flavour: JsonFlavour, depth: number): string | null {
  switch (type.typeId) {
    case DuckDBTypeId.LIST:
      return list((type as DuckDBListType).valueType, sql, flavour, depth)
    case DuckDBTypeId.ARRAY: {
      const { valueType } = type as DuckDBArrayType
      // Of none, the list is empty.
      return `CASE WHEN (${sql}) IS NOT NULL THEN ${list(valueType, `list_concat([], ${sql})`, flavour, depth)} END`
    }
    case DuckDBTypeId.STRUCT:
      return struct(type as DuckDBStructType, sql, flavour, depth)
    case DuckDBTypeId.MAP:
      return map(type as DuckDBMapType, sql, flavour, depth)
    case DuckDBTypeId.UNION:
      return union(type as DuckDBUnionType, sql, flavour, depth)
    default:
      return null
  }
}

function list(item: DuckDBType, sql: string, flavour: JsonFlavour, depth: number): string {
  const name = `item${depth}`
  const each = `list_transform(${sql}, lambda ${name}: ${jsonOrNull(item, name, flavour, depth + 1)})`
  return `'[' || array_to_string(${each}, ',') || ']'`
}

/** Of members without names, as ROW makes them, an object would keep one. */
function struct(type: DuckDBStructType, sql: string, flavour: JsonFlavour, depth: number): string {
  const isNamed = type.entryNames.every((name) => name !== '')
  const members = type.entryNames.map((name, index) => {
    const value = `struct_extract_at(${sql}, ${index + 1})`
    const label = `${index === 0 ? '' : ','}${isNamed ? `${JSON.stringify(name)}:` : ''}`
    return `${quoteText(label)} || ${jsonOrNull(type.entryTypes[index] as DuckDBType, value, flavour, depth)}`
  })
  const [open, close] = isNamed ? ['{', '}'] : ['[', ']']
  return `CASE WHEN (${sql}) IS NOT NULL THEN '${open}' || ${members.join(' || ')} || '${close}' END`
}

function map(type: DuckDBMapType, sql: string, flavour: JsonFlavour, depth: number): string {
  const name = `entry${depth}`
  const key = jsonOf(type.keyType, `${name}.key`, flavour, depth + 1)
  const value = jsonOrNull(type.valueType, `${name}.value`, flavour, depth + 1)
  const [open, close] = type.keyType.typeId === DuckDBTypeId.VARCHAR ? ['{', '}'] : ['[', ']']
  const entry = open === '{' ? `${key} || ':' || ${value}` : `'[' || ${key} || ',' || ${value} || ']'`
  const entries = `list_transform(map_entries(${sql}), lambda ${name}: ${entry})`
  return `CASE WHEN (${sql}) IS NOT NULL THEN '${open}' || array_to_string(${entries}, ',') || '${close}' END`
}

function union(type: DuckDBUnionType, sql: string, flavour: JsonFlavour, depth: number): string {
  const cases = type.memberTags.map((tag, index) => {
    const member = type.memberTypes[index] as DuckDBType
    const value = jsonOrNull(member, `union_extract(${sql}, ${quoteText(tag)})`, flavour, depth)
    return `WHEN ${quoteText(tag)} THEN ${quoteText(`{"tag":${JSON.stringify(tag)},"value":`)} || ${value} || '}'`
  })
  return `CASE union_tag(${sql})::VARCHAR ${cases.join(' ')} END`
}

/**
 * DuckDB's JSON may hold NaN, infinities and trailing commas, which JSON has not, and what some of its casts make of lists
 * is no JSON at all: such a value stays text.
 */
function jsonText(sql: string, flavour: JsonFlavour): string {
  const plain = `(${sql})::VARCHAR`
  if (flavour === 'values') return text(plain)
  const suspect = `regexp_matches(${plain}, '(?i)nan|inf|,\\s*[\\]}]')`
  const bare = `regexp_replace(${plain}, '"(\\\\.|[^"\\\\])*"', '""', 'g')`
  const loose = `${suspect} AND regexp_matches(${bare}, '(?i)nan|inf|,\\s*[\\]}]')`
  return `CASE WHEN NOT json_valid(${plain}) OR ${loose} THEN ${text(plain)} ELSE translate(${plain}, chr(10) || chr(13), '  ') END`
}

function text(sql: string): string {
  return `to_json(${sql})::VARCHAR`
}

/** A CSV field's text: the JSON form without its quotes, nested values as JSON. */
export function csvCell(type: DuckDBType, sql: string): string {
  if (isText(type)) return `(${sql})::VARCHAR`
  if (NESTED.has(type.typeId)) return jsonOf(type, sql, 'json')
  return scalar(type, sql, 'bare') ?? inForm(sql, 'bare')
}

/** The same, but for timestamps: microseconds since 1970. */
export function countedCell(type: DuckDBType, sql: string): string {
  return COUNTED.has(type.typeId) ? `coalesce(epoch_us(${sql})::VARCHAR, (${sql})::VARCHAR)` : csvCell(type, sql)
}

/** Those that have no digits beyond. */
const COUNTED: ReadonlySet<DuckDBTypeId> = new Set([
  DuckDBTypeId.TIMESTAMP,
  DuckDBTypeId.TIMESTAMP_S,
  DuckDBTypeId.TIMESTAMP_MS,
  DuckDBTypeId.TIMESTAMP_TZ,
])

/** True where a field is quoted even if it need not be, so that the empty text is not taken for null. */
export function isText(type: DuckDBType): boolean {
  return type.typeId === DuckDBTypeId.VARCHAR || type.typeId === DuckDBTypeId.ENUM
}

const NESTED: ReadonlySet<DuckDBTypeId> = new Set([
  DuckDBTypeId.LIST,
  DuckDBTypeId.ARRAY,
  DuckDBTypeId.STRUCT,
  DuckDBTypeId.MAP,
  DuckDBTypeId.UNION,
])

/** The text of one cell that PostgreSQL's COPY reads back as the same value. */
export function postgresCell(type: DuckDBType, sql: string): string {
  switch (type.typeId) {
    case DuckDBTypeId.BLOB:
      return `'\\x' || lower(hex(${sql}))`
    case DuckDBTypeId.FLOAT:
    case DuckDBTypeId.DOUBLE:
      // See `provedText`: 17 digits are those of one number only.
      return `CASE WHEN abs(${sql}) >= 1e16 THEN printf('%.16e', (${sql})::DOUBLE) ELSE (${sql})::VARCHAR END`
    default:
      return sql
  }
}

/** The name of the n-th column behind the wrapper that gives every column a name of its own. */
export function cellName(index: number): string {
  return quoteName(`c${index}`)
}

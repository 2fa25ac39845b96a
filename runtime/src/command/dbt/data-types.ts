/** Types of warehouses as types of the lake. */
import { castLoss, isLogicalType, type LogicalType, parseDecimal } from '@sluice/sdk'

export interface LakeType {
  readonly type: LogicalType
  /** The warehouse does not say digits, or how large numbers become: what the transform gives says more. */
  readonly isVague?: boolean
}

const MOST_TEXT = 1000
const TEXT =
  words(`varchar char character bpchar text string nvarchar nchar ntext clob citext name enum fixedstring character_varying
  time timetz time_with_time_zone time_without_time_zone interval inet cidr macaddr xml geography geometry bit tinytext mediumtext longtext
  enum8 enum16 tsvector`)
const WHOLE = words(
  'tinyint smallint int2 int integer int4 mediumint utinyint usmallint int16 int32 uint8 uint16 smallserial serial byteint',
)
const LONG = words('bigint int8 int64 long uinteger uint32 bigserial')
const DOUBLE = words('double double_precision float8 float64')
const JSON_LIKE = words('json jsonb variant object array struct map row record super list union nested tuple')
const BINARY = words('bytea blob binary varbinary bytes longblob')
const ZONED = words('timestamptz timestamp_with_time_zone timestamp_tz timestamp_ltz')
const UNZONED =
  words(`timestamp_without_time_zone timestamp_ntz datetime datetime2 datetime64 smalldatetime timestamp_s timestamp_ms
  timestamp_ns`)
const DECIMAL = words('numeric decimal number bignumeric bigdecimal dec')

function words(text: string): ReadonlySet<string> {
  return new Set(text.split(/\s+/))
}

/** Of warehouses whose plain TIMESTAMP is an instant. */
const INSTANTS = words('bigquery spark databricks')
/** Whose FLOAT has 32 bits. */
const SHORT_FLOATS = words('duckdb spark databricks')
/** Whose INTEGER and the like have 38 digits or 64 bits. */
const WIDE = words('snowflake bigquery')

/** Null: none of the lake is alike. */
export function lakeType(written: string, adapter: string): LakeType | null {
  const text = written.slice(0, MOST_TEXT).trim().toLowerCase().replaceAll(/\s+/g, ' ')
  const inner = /^(?:nullable|lowcardinality)\((.*)\)$/.exec(text)?.[1]
  if (inner !== undefined) return lakeType(inner, adapter)
  if (/\[\d*\]$/.test(text) || /^(array|struct|map|row|list|tuple|nested|union|object)\s?[(<]/.test(text))
    return { type: 'json' }
  const match = /^([a-z_][a-z0-9_ ]*?) ?(?:\(([^()]*)\)(.*))?$/.exec(text)
  if (match === null) return /^enum\d*\(/.test(text) ? { type: 'string' } : null
  const [, head = '', digits = '', tail = ''] = match
  const name = `${head}${tail}`
    .trim()
    .replaceAll(' ', '_')
    .replace(/_not_null$/, '')
  return named(name, digits, adapter)
}

function named(name: string, digits: string, adapter: string): LakeType | null {
  if (TEXT.has(name)) return { type: 'string' }
  if (name === 'uuid') return { type: 'uuid' }
  if (name === 'bool' || name === 'boolean') return { type: 'boolean' }
  if (name === 'date' || name === 'date32') return { type: 'date' }
  if (name === 'timestamp') return { type: INSTANTS.has(adapter) ? 'timestamptz' : 'timestamp' }
  if (ZONED.has(name)) return { type: 'timestamptz' }
  if (UNZONED.has(name)) return { type: 'timestamp' }
  if (JSON_LIKE.has(name)) return { type: 'json' }
  if (BINARY.has(name)) return { type: 'binary' }
  return numeric(name, digits, adapter)
}

function numeric(name: string, digits: string, adapter: string): LakeType | null {
  if (name === 'int8' && adapter === 'clickhouse') return { type: 'integer' }
  if (WHOLE.has(name)) return WIDE.has(adapter) ? { type: 'long', isVague: true } : { type: 'integer' }
  if (LONG.has(name)) return { type: 'long' }
  if (DOUBLE.has(name)) return { type: 'double' }
  if (name === 'real' || name === 'float4' || name === 'float32')
    return { type: adapter === 'snowflake' ? 'double' : 'float' }
  if (name === 'float') return { type: SHORT_FLOATS.has(adapter) ? 'float' : 'double' }
  if (name === 'ubigint' || name === 'uint64') return { type: 'decimal(20,0)' }
  if (name === 'hugeint' || name === 'uhugeint' || name === 'int128') return { type: 'decimal(38,0)' }
  return DECIMAL.has(name) ? decimal(name, digits, adapter) : null
}

function decimal(name: string, digits: string, adapter: string): LakeType | null {
  if (digits === '') return { type: name.startsWith('big') ? 'decimal(38,18)' : plainDecimal(adapter), isVague: true }
  const [precision = '', scale = '0'] = digits.split(',').map((part) => part.trim())
  const type = `decimal(${precision},${scale})`
  return parseDecimal(type) === null ? null : { type: type as LogicalType }
}

function plainDecimal(adapter: string): LogicalType {
  if (adapter === 'duckdb') return 'decimal(18,3)'
  return adapter === 'snowflake' ? 'decimal(38,0)' : 'decimal(38,9)'
}

export interface GivenType {
  readonly type: LogicalType
  /** It has parts, and becomes a document. */
  readonly isNested?: boolean
}

/** What the engine gives, in the lake; see `ResultColumn`. */
export function givenType(given: string): GivenType {
  if (isLogicalType(given)) return { type: given }
  if (given === 'hugeint') return { type: 'decimal(38,0)' }
  if (/^(list|struct|map|union)</.test(given)) return { type: 'json', isNested: true }
  return { type: 'string' }
}

const NUMBER = /^(integer|long|hugeint|float|double|decimal\(.*\))$/

/**
 * The type of a column: what the warehouse says, where the values that the transform gives lose nothing by it; else what it
 * gives. Null where neither is known.
 */
export function columnType(said: LakeType | null, given: string | null): GivenType | null {
  if (given === null) return said
  const own = givenType(given)
  if (said === null || own.isNested) return own
  if (said.isVague && NUMBER.test(given)) return own
  return castLoss(given, said.type) === null ? { type: said.type } : own
}

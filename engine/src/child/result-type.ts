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

const SCALAR_NAMES: Readonly<Partial<Record<DuckDBTypeId, string>>> = {
  [DuckDBTypeId.BOOLEAN]: 'boolean',
  [DuckDBTypeId.TINYINT]: 'integer',
  [DuckDBTypeId.SMALLINT]: 'integer',
  [DuckDBTypeId.INTEGER]: 'integer',
  [DuckDBTypeId.UTINYINT]: 'integer',
  [DuckDBTypeId.USMALLINT]: 'integer',
  [DuckDBTypeId.UINTEGER]: 'long',
  [DuckDBTypeId.BIGINT]: 'long',
  [DuckDBTypeId.UBIGINT]: 'hugeint',
  [DuckDBTypeId.HUGEINT]: 'hugeint',
  [DuckDBTypeId.UHUGEINT]: 'hugeint',
  [DuckDBTypeId.BIGNUM]: 'bignum',
  [DuckDBTypeId.FLOAT]: 'float',
  [DuckDBTypeId.DOUBLE]: 'double',
  [DuckDBTypeId.VARCHAR]: 'string',
  [DuckDBTypeId.ENUM]: 'string',
  [DuckDBTypeId.BLOB]: 'binary',
  [DuckDBTypeId.BIT]: 'bit',
  [DuckDBTypeId.DATE]: 'date',
  [DuckDBTypeId.TIME]: 'time',
  [DuckDBTypeId.TIME_NS]: 'time',
  [DuckDBTypeId.TIME_TZ]: 'timetz',
  [DuckDBTypeId.TIMESTAMP]: 'timestamp',
  [DuckDBTypeId.TIMESTAMP_S]: 'timestamp',
  [DuckDBTypeId.TIMESTAMP_MS]: 'timestamp',
  [DuckDBTypeId.TIMESTAMP_NS]: 'timestamp',
  [DuckDBTypeId.TIMESTAMP_TZ]: 'timestamptz',
  [DuckDBTypeId.INTERVAL]: 'interval',
  [DuckDBTypeId.UUID]: 'uuid',
  [DuckDBTypeId.SQLNULL]: 'null',
}

/** The name of a result column's type: a logical type where one fits (see `ResultColumn`). */
export function resultTypeName(type: DuckDBType): string {
  if (type.typeId === DuckDBTypeId.VARCHAR && type.alias === 'JSON') return 'json'
  const nested = nestedTypeName(type)
  return nested ?? SCALAR_NAMES[type.typeId] ?? type.toString().toLowerCase()
}

function nestedTypeName(type: DuckDBType): string | null {
  switch (type.typeId) {
    case DuckDBTypeId.DECIMAL: {
      const decimal = type as DuckDBDecimalType
      return `decimal(${decimal.width},${decimal.scale})`
    }
    case DuckDBTypeId.LIST:
      return `list<${resultTypeName((type as DuckDBListType).valueType)}>`
    case DuckDBTypeId.ARRAY:
      return `list<${resultTypeName((type as DuckDBArrayType).valueType)}>`
    case DuckDBTypeId.STRUCT:
      return `struct<${structMembers(type as DuckDBStructType)}>`
    case DuckDBTypeId.MAP:
      return `map<${resultTypeName((type as DuckDBMapType).keyType)},${resultTypeName((type as DuckDBMapType).valueType)}>`
    case DuckDBTypeId.UNION:
      return `union<${unionMembers(type as DuckDBUnionType)}>`
    default:
      return null
  }
}

function structMembers(type: DuckDBStructType): string {
  return type.entryNames.map((name, index) => member(name, type.entryTypes[index])).join(',')
}

function unionMembers(type: DuckDBUnionType): string {
  return type.memberTags.map((tag, index) => member(tag, type.memberTypes[index])).join(',')
}

function member(name: string, type: DuckDBType | undefined): string {
  const plain = /^[A-Za-z_][A-Za-z0-9_]*$/.test(name) ? name : JSON.stringify(name)
  return `${plain}:${type ? resultTypeName(type) : 'null'}`
}

import { type LogicalType, typeName } from '@sluice/sdk'
import { RESERVED_COLUMNS_PREFIX } from '../names.ts'

/**
 * Iceberg's bucket hash (32-bit Murmur3, x86 variant, seed 0) as a DuckDB expression, because the engine has no such
 * function. `https://iceberg.apache.org/spec/#appendix-b-32-bit-hash-requirements` says which bytes each type hashes.
 */
const MASK = '4294967295::UBIGINT'

// Names of lambda parameters: a column of the same name would be taken instead, so they are reserved ones.
const BYTES = `${RESERVED_COLUMNS_PREFIX}bytes`
const BLOCK = `${RESERVED_COLUMNS_PREFIX}block`
const SUM = `${RESERVED_COLUMNS_PREFIX}sum`
const PART = `${RESERVED_COLUMNS_PREFIX}part`
const NUMBER = `${RESERVED_COLUMNS_PREFIX}number`

/** The non-negative bucket of a value, null for null. */
export function bucketSql(type: LogicalType, column: string, buckets: number): string {
  const hash = hashSql(type, column)
  return `CASE WHEN ${column} IS NULL THEN NULL ELSE ((${hash}) & 2147483647::UBIGINT) % ${buckets}::UBIGINT END`
}

function hashSql(type: LogicalType, column: string): string {
  switch (typeName(type)) {
    case 'integer':
    case 'long':
      return hashOfLong(`CAST(${column} AS BIGINT)`)
    case 'date':
      return hashOfLong(`date_diff('day', DATE '1970-01-01', ${column})`)
    case 'timestamp':
    case 'timestamptz':
      return hashOfLong(`epoch_us(${column})`)
    case 'uuid':
      return hashOfHex(`replace(CAST(${column} AS VARCHAR), '-', '')`)
    case 'binary':
    case 'string':
    case 'json':
      return hashOfHex(`hex(${column})`)
    case 'decimal':
      return hashOfHex(decimalHex(unscaledSql(column)))
    default:
      throw new Error(`there is no bucket hash for ${type}`)
  }
}

/** A decimal's digits without the point, as HUGEINT: exact where a multiplication would overflow the decimal. */
export function unscaledSql(column: string): string {
  return `CAST(replace(CAST(${column} AS VARCHAR), '.', '') AS HUGEINT)`
}

function hashOfLong(long: string): string {
  const blocks = `[CAST((${long}) & 4294967295 AS UBIGINT), CAST(((${long}) >> 32) & 4294967295 AS UBIGINT)]`
  return finish(mixBlocks(blocks), '8::UBIGINT')
}

function hashOfHex(hex: string): string {
  // `BYTES.h` are the bytes in hex. Whole blocks of four bytes, then the rest, which is mixed without rotating the sum.
  const size = `strlen(${BYTES}.h) // 2`
  const blocks = `list_transform(range(0, (${size}) // 4), lambda ${BLOCK}: ${blockAt(`${BLOCK} * 8`, 4)})`
  const rest = `CASE (${size}) % 4 WHEN 0 THEN 0::UBIGINT ${[1, 2, 3]
    .map((bytes) => `WHEN ${bytes} THEN ${bind(blockAt(`((${size}) // 4) * 8`, bytes), BLOCK, scramble(BLOCK))}`)
    .join(' ')} END`
  return bind(`{h: ${hex}}`, BYTES, finish(`xor(${mixBlocks(blocks)}, ${rest})`, `CAST(${size} AS UBIGINT)`))
}

/** Up to four bytes from a position in hex digits, as the little-endian number they are. */
function blockAt(position: string, bytes: number): string {
  const bigEndian = `CAST('0x' || substr(${BYTES}.h, ${position} + 1, ${bytes * 2}) AS UBIGINT)`
  const swapped = Array.from({ length: bytes }, (_, at) => `((${PART} >> ${8 * at}) & 255) << ${8 * (bytes - 1 - at)}`)
  return bind(bigEndian, PART, swapped.map((byte) => `(${byte})`).join(' | '))
}

/** The fewest big-endian two's complement bytes of a HUGEINT. */
function decimalHex(unscaled: string): string {
  const magnitude = `(CASE WHEN ${NUMBER}.u < 0 THEN -(${NUMBER}.u + 1) ELSE ${NUMBER}.u END)`
  const bytes = Array.from(
    { length: 15 },
    (_, i) => `WHEN ${magnitude} < ${2n ** BigInt(8 * i + 7)}::HUGEINT THEN ${i + 1}`,
  )
  const width = `(CASE ${bytes.join(' ')} ELSE 16 END)`
  const highest = (2n ** 128n - 1n).toString()
  const pattern = `(CASE WHEN ${NUMBER}.u < 0 THEN ${highest}::UHUGEINT - CAST(-(${NUMBER}.u + 1) AS UHUGEINT) ELSE CAST(${NUMBER}.u AS UHUGEINT) END)`
  return bind(`{u: ${unscaled}}`, NUMBER, `right(lpad(hex(${pattern}), 32, '0'), 2 * ${width})`)
}

function mixBlocks(blocks: string): string {
  const mixed = `((${rotate(`xor(${SUM}, ${scramble(BLOCK)})`, 13)}) * 5 + 3864292196::UBIGINT) & ${MASK}`
  return `list_reduce(${blocks}, lambda ${SUM}, ${BLOCK}: ${mixed}, 0::UBIGINT)`
}

function scramble(block: string): string {
  return `((${rotate(`((${block}) * 3432918353::UBIGINT) & ${MASK}`, 15)}) * 461845907::UBIGINT) & ${MASK}`
}

function rotate(value: string, bits: number): string {
  // The value stands here twice: to work a few products out again is much cheaper than a list for each row.
  return `(((${value}) << ${bits}) & ${MASK}) | ((${value}) >> ${32 - bits})`
}

function finish(sum: string, size: string): string {
  const avalanche = (value: string, shift: number, factor: string | null): string => {
    const folded = bind(value, PART, `xor(${PART}, ${PART} >> ${shift})`)
    return factor === null ? folded : `((${folded}) * ${factor}::UBIGINT) & ${MASK}`
  }
  const first = avalanche(`xor(${sum}, ${size})`, 16, '2246822507')
  return avalanche(avalanche(first, 13, '3266489909'), 16, null)
}

/** `let name = value in body`, so that a value which is needed twice is worked out once. */
function bind(value: string, name: string, body: string): string {
  return `list_transform([${value}], lambda ${name}: ${body})[1]`
}

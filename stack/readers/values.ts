/** Cells of every type: each extreme now and then, else anything. */
import type { LogicalType } from '@sluice/sdk'
import { type Cell, floatCell, kindOf, scaleOf } from './cells.ts'
import type { Random } from './random.ts'

const NULLS = 0.15
const EXTREMES = 0.35

export function randomCell(random: Random, type: LogicalType): Cell {
  if (random.chance(NULLS)) return null
  return random.chance(EXTREMES) ? random.pick(extremes(type)) : anything(random, type)
}

const FLOATS: Readonly<Record<'float' | 'double', readonly number[]>> = {
  float: [0, -0, Number.NaN, Infinity, -Infinity, 3.4028234663852886e38, -3.4028234663852886e38, 1.401298464324817e-45],
  double: [0, -0, Number.NaN, Infinity, -Infinity, Number.MAX_VALUE, -Number.MAX_VALUE, Number.MIN_VALUE],
}

const TEXTS = ['', ' ', "'", '"', 'NULL', '\n', '\\', 'a', 'A', 'ä€😀', '😀😀😀😀', '￿', '𐀀', 'z'.repeat(60), '{"a":1}']

function extremes(type: LogicalType): readonly string[] {
  switch (kindOf(type)) {
    case 'boolean':
      return ['true', 'false']
    case 'integer':
      return ['0', '-1', '2147483647', '-2147483648']
    case 'long':
      return ['0', '-1', '9007199254740993', '9223372036854775807', '-9223372036854775808']
    case 'decimal':
      return decimalExtremes(type)
    case 'float':
    case 'double':
      return FLOATS[type as 'float' | 'double'].map((value) => floatCell(value, type))
    case 'date':
      return ['0001-01-01', '1582-10-10', '1969-12-31', '1970-01-01', '2024-02-29', '9999-12-31']
    case 'timestamp':
      return instants('')
    case 'timestamptz':
      return instants('Z')
    case 'uuid':
      return ['00000000-0000-0000-0000-000000000000', 'ffffffff-ffff-ffff-ffff-ffffffffffff']
    case 'binary':
      return ['', '00', 'ff', '00ff00', 'c328', 'ff'.repeat(40)]
    case 'json':
      return ['null', '{}', '[]', '{"b":[1,2.50,{"c":"ä\\"\\n"}],"a":null}', '"text"', '1E400']
    default:
      return TEXTS
  }
}

function instants(zone: string): readonly string[] {
  const times = ['0001-01-01T00:00:00.000000', '1969-12-31T23:59:59.999999', '1970-01-01T00:00:00.000000']
  return [...times, '2024-02-29T12:34:56.000001', '9999-12-31T23:59:59.999999'].map((time) => time + zone)
}

function decimalExtremes(type: LogicalType): readonly string[] {
  const most = 10n ** BigInt(precisionOf(type)) - 1n
  return [0n, 1n, -1n, most, -most].map((unscaled) => plain(unscaled, scaleOf(type)))
}

const precisionOf = (type: LogicalType): number => Number(/\((\d+)/.exec(type)?.[1])

function plain(unscaled: bigint, scale: number): string {
  const digits = (unscaled < 0n ? -unscaled : unscaled).toString().padStart(scale + 1, '0')
  const text = scale === 0 ? digits : `${digits.slice(0, -scale)}.${digits.slice(-scale)}`
  return unscaled < 0n ? `-${text}` : text
}

function anything(random: Random, type: LogicalType): string {
  switch (kindOf(type)) {
    case 'integer':
      return BigInt.asIntN(random.pick([6, 32]), random.bits(32)).toString()
    case 'long':
      return BigInt.asIntN(random.pick([8, 64]), random.bits(64)).toString()
    case 'decimal': {
      const size = 10n ** BigInt(random.pick([3, precisionOf(type)]))
      return plain((random.bits(130) % (2n * size)) - size + 1n, scaleOf(type))
    }
    case 'float':
      return floatCell(Math.fround((random.integer(2000) - 1000) / 8), type)
    case 'double':
      return floatCell((random.integer(2_000_000) - 1_000_000) / 7, type)
    case 'date':
      return moment(random).slice(0, 10)
    case 'timestamp':
      return moment(random)
    case 'timestamptz':
      return `${moment(random)}Z`
    case 'uuid':
      return random
        .bits(128)
        .toString(16)
        .padStart(32, '0')
        .replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')
    case 'binary':
      return random
        .bits(8 * (1 + random.integer(12)))
        .toString(16)
        .padStart(2, '0')
        .replace(/^(.(..)*)$/, '0$1')
    case 'json':
      return JSON.stringify({ n: random.integer(1000), text: text(random) })
    case 'boolean':
      return random.chance(0.5) ? 'true' : 'false'
    default:
      return text(random)
  }
}

/** Within a few months, so that days and months hold several rows each. */
function moment(random: Random): string {
  const ms = Date.UTC(2023, 10, 1) + random.integer(120 * 86_400) * 1000
  return new Date(ms).toISOString().slice(0, 20) + String(random.integer(1_000_000)).padStart(6, '0')
}

function text(random: Random): string {
  return Array.from({ length: random.integer(6) }, () => random.pick(['a', 'b', 'ä', '€', '😀', ' ', "'"])).join('')
}

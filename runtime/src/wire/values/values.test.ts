import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { cutBatch } from '../protocol/row-batch.ts'
import type { WireError } from '../protocol/wire-error.ts'
import { columnsOf } from '../session/product-plan.ts'
import { resultNames, statementsOf, wordsOf } from '../sql/words.ts'
import { cellBinary } from './array-binary.ts'
import { withLists } from './array-constants.ts'
import { elementsInBinary, elementsInText } from './arrays.ts'
import { binaryOf, clockText, dateText, momentText, numericText } from './binary.ts'
import { columnOf, OID, toldAs } from './column-types.ts'
import { rowsOfCsv } from './csv-rows.ts'
import { castText, parameterOids, parameterPlaces, typedValueOf, valueOf } from './parameters.ts'

/** The cells of a message of a row. */
function cellsOf(row: Buffer): readonly (Buffer | null)[] {
  const cells: (Buffer | null)[] = []
  let at = 7
  for (let left = row.readUInt16BE(5); left > 0; left -= 1) {
    const length = row.readInt32BE(at)
    at += 4
    cells.push(length < 0 ? null : row.subarray(at, at + length))
    if (length > 0) at += length
  }
  return cells
}

async function* inPieces(bytes: Buffer, sizes: readonly number[]): AsyncGenerator<Uint8Array> {
  for (let at = 0, turn = 0; at < bytes.length; turn += 1) {
    const size = sizes[turn % sizes.length] ?? 1
    yield bytes.subarray(at, at + size)
    at += size
  }
}

const NAMES = resultNames([])
const textOf = (cell: Buffer | null): string | null => cell?.toString() ?? null

/** Read in parts of so many rows. */
async function cellsOfCsv(csv: Buffer, pieces: readonly number[], types: readonly string[], part: number) {
  const cells = await bytesOfCsv(csv, pieces, types, part, false)
  return cells.map((row) => row.map(textOf))
}

async function bytesOfCsv(
  csv: Buffer,
  pieces: readonly number[],
  types: readonly string[],
  part: number,
  isBinary: boolean,
) {
  const columns = types.map((type) => ({ column: columnOf({ name: 'x', type }, NAMES), isBinary }))
  const read: (Buffer | null)[][] = []
  for await (const batch of rowsOfCsv(inPieces(csv, pieces), columns)) {
    for (let left = batch; left.rows > 0; ) {
      const [taken, rest] = cutBatch(left, part)
      assert.equal(taken.rows, Math.min(part, left.rows))
      for (let all = taken; all.rows > 0; ) {
        const [row, others] = cutBatch(all, 1)
        read.push([...cellsOf(row.bytes)])
        all = others
      }
      left = rest
    }
  }
  return read
}

const quoted = (cell: string | null): string => (cell === null ? '' : `"${cell.replaceAll('"', '""')}"`)

describe('rows of CSV', () => {
  const cell = fc.option(fc.string({ unit: fc.constantFrom('a', '"', ',', '\n', '\r', 'é', '\\', ' ') }), { nil: null })
  const table = fc
    .integer({ min: 1, max: 4 })
    .chain((width) => fc.array(fc.array(cell, { minLength: width, maxLength: width }), { minLength: 1 }))
  const sizes = fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 4 })

  it('come back as they were, however they are cut into pieces and parts', async () => {
    await fc.assert(
      fc.asyncProperty(table, sizes, fc.integer({ min: 1, max: 5 }), async (rows, pieces, part) => {
        const types = (rows[0] ?? []).map(() => 'string')
        const lines = [types.map(() => 'a "name",\r\n'), ...rows].map((row) => `${row.map(quoted).join(',')}\n`)
        assert.deepEqual(await cellsOfCsv(Buffer.from(lines.join('')), pieces, types, part), rows)
      }),
    )
  })

  it('without an end are an error, and without one row are none', async () => {
    await assert.rejects(cellsOfCsv(Buffer.from('"x"\n"a'), [3], ['string'], 1), { sqlState: 'XX000' })
    for (const none of ['', '"x"\n', '"x"'])
      assert.deepEqual(await cellsOfCsv(Buffer.from(none), [2], ['string'], 1), [])
  })

  it('with a NUL character are an error, wherever it stands, and never a text that ends there', async () => {
    const withNul = fc.tuple(fc.string(), fc.string()).map((parts) => parts.join('\0'))
    await fc.assert(
      fc.asyncProperty(table, withNul, fc.nat(), sizes, fc.boolean(), async (rows, text, place, pieces, isBinary) => {
        const types = (rows[0] ?? []).map(() => 'string')
        const spoiled = rows.map((row, at) => (at === place % rows.length ? row.with(place % row.length, text) : row))
        const csv = [types, ...spoiled].map((row) => `${row.map(quoted).join(',')}\n`).join('')
        await assert.rejects(bytesOfCsv(Buffer.from(csv), pieces, types, 3, isBinary), { sqlState: '22021' })
      }),
      { numRuns: 50 },
    )
  })

  const digits = (count: number) => fc.stringMatching(new RegExp(`^[0-9]{${count}}$`))
  const day = fc.tuple(fc.constantFrom('2024', '0001', '0000', '-000043', '99999', ''), digits(2), digits(2))
  const date = fc.oneof(
    day.map(([year, month, of]) => `${year}-${month}-${of}`),
    fc.constantFrom('infinity', '-infinity'),
  )
  const fraction = fc.constantFrom('', '.000000', '.500000', '.123456', '.000001', '.100', '.123456789', '.000000000')
  const time = fc.tuple(digits(2), digits(2), digits(2), fraction).map((all) => `${all.slice(0, 3).join(':')}${all[3]}`)
  const moment = fc.oneof(
    fc.tuple(date, time).map((all) => all.join('T')),
    date,
  )
  const valuesOf: Readonly<Record<string, fc.Arbitrary<string>>> = {
    boolean: fc.constantFrom('true', 'false'),
    date,
    time,
    timestamp: moment,
    timestamptz: fc.tuple(moment, fc.constantFrom('Z', '')).map((all) => all.join('')),
    binary: fc.base64String(),
    json: fc.json(),
    interval: fc.constantFrom('1 month', '2 months 00:00:01'),
    'decimal(9,2)': fc.constantFrom('1.50', '-0.10'),
    double: fc.oneof(fc.double().map(String), fc.constantFrom('1e15', '-0', '0.0001', '0.00001', '123456789012345680')),
    float: fc.oneof(fc.float().map(String), fc.constantFrom('1000000', '100000', '-1234567')),
  }

  it('hold values as their columns write them, the usual ones and the others', async () => {
    const types = Object.keys(valuesOf)
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.tuple(...Object.values(valuesOf)), { minLength: 1 }),
        sizes,
        async (rows, pieces) => {
          const csv = [types, ...rows].map((row) => `${row.map(quoted).join(',')}\n`).join('')
          const expected = rows.map((row) =>
            row.map((cell, at) =>
              columnOf({ name: 'x', type: types[at] ?? '' }, NAMES)
                .write(Buffer.from(cell))
                .toString(),
            ),
          )
          assert.deepEqual(await cellsOfCsv(Buffer.from(csv), pieces, types, 3), expected)
        },
      ),
    )
  })
})

describe('moments that are counted', () => {
  const edges = [
    '0',
    '-1',
    '1',
    '999999',
    '1000000',
    '-1000000',
    '-1000001',
    '-62135596800000000',
    '-62135596800000001',
  ]
  const micros = fc.oneof(
    fc.bigInt({ min: -8_640_000_000_000_000_000n, max: 8_640_000_000_000_000_000n }),
    fc.bigInt({ min: -(10n ** 14n), max: 10n ** 16n }),
    fc.integer({ min: -3_000_000, max: 3_000_000 }).map((days) => BigInt(days) * 86_400_000_000n),
    fc.constantFrom(...edges, '253402300799999999', '253402300800000000', '951782400000000').map(BigInt),
  )

  /** By the calendar of JavaScript, as the engine tells it where it does not count. */
  function told(count: bigint): string {
    const rest = ((count % 1_000n) + 1_000n) % 1_000n
    const [day = '', clock = ''] = new Date(Number((count - rest) / 1_000n)).toISOString().slice(0, -1).split('T')
    const [, sign = '', year = '', monthAndDay] = /^([+-]?)0*([0-9]*)(-.*)$/.exec(day) ?? []
    const shown = sign === '-' ? `-${year.padStart(6, '0')}` : year.padStart(4, '0')
    return `${shown}${monthAndDay}T${clock}${String(rest).padStart(3, '0')}`
  }

  it('are the moments that are told, as text and in binary', async () => {
    const types = ['timestamp', 'timestamptz']
    await fc.assert(
      fc.asyncProperty(fc.array(micros, { minLength: 1 }), fc.boolean(), async (counts, isBinary) => {
        const read = (cells: (count: bigint) => readonly string[]) => {
          const csv = [types, ...counts.map(cells)].map((row) => `${row.join(',')}\n`).join('')
          return bytesOfCsv(Buffer.from(csv), [1_000], types, 3, isBinary)
        }
        const counted = await read((count) => [String(count), String(count)])
        assert.deepEqual(counted, await read((count) => [told(count), `${told(count)}Z`]))
      }),
      { numRuns: 500 },
    )
  })

  it('have no binary beyond the first moment that PostgreSQL counts', async () => {
    const csv = Buffer.from('"x"\n-9223372036854775807\n')
    assert.deepEqual(await cellsOfCsv(csv, [50], ['timestamp'], 1), [['290309-12-21 19:59:05.224193 BC']])
    await assert.rejects(bytesOfCsv(csv, [50], ['timestamp'], 1, true), { sqlState: '22008' })
  })
})

describe('rows in binary', () => {
  const pad = (value: number, digits: number) => String(value).padStart(digits, '0')
  const day = fc
    .date({ min: new Date('-050000-01-01T00:00:00Z'), max: new Date('+050000-12-31T00:00:00Z'), noInvalidDate: true })
    .map((at) =>
      at
        .toISOString()
        .slice(0, -14)
        .replace(/^[+]0*/, ''),
    )
  const number = (max: number, digits: number) => fc.integer({ min: 0, max }).map((value) => pad(value, digits))
  const clock = fc
    .tuple(number(23, 2), number(59, 2), number(59, 2), number(999_999, 6))
    .map(([hours, minutes, seconds, micros]) => `${hours}:${minutes}:${seconds}.${micros}`)
  const usualDay = fc.tuple(number(9_998, 4), number(11, 2), number(27, 2)).map(([year, month, of]) => {
    return `${pad(Number(year) + 1, 4)}-${pad(Number(month) + 1, 2)}-${pad(Number(of) + 1, 2)}`
  })
  const date = fc.oneof(
    day,
    usualDay,
    fc.constantFrom('2000-02-29', '1900-02-28', '0001-01-01', '9999-12-31', 'infinity', '-infinity'),
  )
  const finite = date.filter((text) => !text.endsWith('infinity'))
  const moment = fc.oneof(
    fc.tuple(finite, clock).map((all) => all.join('T')),
    fc.constantFrom(
      'infinity',
      '1999-12-31T23:59:59.999999',
      '2000-01-01T00:00:00.000000',
      '0001-01-01T00:00:00.000000',
    ),
  )
  const long = fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n })
  const decimal = fc
    .tuple(fc.constantFrom('', '-'), fc.bigInt({ min: 0n, max: 10n ** 38n - 1n }), fc.integer({ min: 0, max: 38 }))
    .map(([sign, value, scale]) => {
      const digits = value.toString().padStart(scale + 1, '0')
      const told = scale === 0 ? digits : `${digits.slice(0, -scale)}.${digits.slice(-scale)}`
      return `${value === 0n ? '' : sign}${told}`
    })
  const valuesOf: Readonly<Record<string, fc.Arbitrary<string>>> = {
    string: fc.string({ unit: 'grapheme' }),
    json: fc.json(),
    boolean: fc.constantFrom('true', 'false'),
    integer: fc.integer().map(String),
    long: fc.oneof(long, fc.maxSafeInteger()).map(String),
    float: fc.float({ noNaN: true }).map(String),
    double: fc.double().map(String),
    'decimal(38,9)': fc.oneof(decimal, fc.constantFrom('0', '0.000', '-10000.0001', '0.00001', '100000000')),
    hugeint: long.map((value) => String(value * 10n ** 19n)),
    binary: fc.base64String(),
    uuid: fc.uuid(),
    date,
    time: clock,
    timestamp: moment,
    timestamptz: moment.map((text) => (text === 'infinity' ? text : `${text}Z`)),
    interval: fc.constantFrom('1 month', '-1 day 00:00:01'),
  }

  it('hold what their columns write, in binary, the usual values and the others', async () => {
    const types = Object.keys(valuesOf)
    const sizes = fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 4 })
    const rows = fc.array(fc.tuple(...Object.values(valuesOf).map((value) => fc.option(value))), { minLength: 1 })
    await fc.assert(
      fc.asyncProperty(rows, sizes, async (told, pieces) => {
        const csv = [types, ...told].map((row) => `${row.map(quoted).join(',')}\n`).join('')
        const expected = told.map((row) =>
          row.map((cell, at) => {
            const { oid, write } = columnOf({ name: 'x', type: types[at] ?? '' }, NAMES)
            return cell === null ? null : binaryOf(oid, write(Buffer.from(cell))).toString('hex')
          }),
        )
        const cells = await bytesOfCsv(Buffer.from(csv), pieces, types, 3, true)
        assert.deepEqual(
          cells.map((row) => row.map((cell) => cell?.toString('hex') ?? null)),
          expected,
        )
      }),
    )
  })
})

describe('binary', () => {
  const digits = (most: number) =>
    fc.array(fc.integer({ min: 0, max: 9 }), { minLength: 1, maxLength: most }).map((all) => all.join(''))

  it('of a numeric is read back as the same digits', () => {
    fc.assert(
      fc.property(fc.constantFrom('', '-'), digits(30), fc.option(digits(20)), (sign, whole, fraction) => {
        const plain = whole.replace(/^0+(?=[0-9])/, '')
        const isZero = /^0*$/.test(plain + (fraction ?? ''))
        const text = `${isZero ? '' : sign}${plain}${fraction === null ? '' : `.${fraction}`}`
        assert.equal(numericText(binaryOf(OID.numeric, Buffer.from(text))), text)
      }),
    )
  })

  it('of days and moments is read back as the same instant', () => {
    const moment = fc.date({
      min: new Date('0001-01-02T00:00:00Z'),
      max: new Date('9999-12-30T00:00:00Z'),
      noInvalidDate: true,
    })
    fc.assert(
      fc.property(moment, fc.integer({ min: 0, max: 999 }), (at, micros) => {
        const text = `${at.toISOString().replace('T', ' ').replace('Z', '')}${String(micros).padStart(3, '0')}`
        assert.equal(momentText(binaryOf(OID.timestamp, Buffer.from(text)).readBigInt64BE()), text)
        assert.equal(dateText(binaryOf(OID.date, Buffer.from(text.slice(0, 10))).readInt32BE()), text.slice(0, 10))
        assert.equal(clockText(binaryOf(OID.time, Buffer.from(text.slice(11))).readBigInt64BE()), text.slice(11))
      }),
    )
  })
})

describe('binary of the rarer types', () => {
  const binary = (oid: number, text: string) => binaryOf(oid, Buffer.from(text)).toString('hex')

  // As a PostgreSQL 18 sends them.
  it('is that of a PostgreSQL', () => {
    assert.equal(binary(OID.interval, '1 year -2 days +03:04:05.5'), '00000002925cf460fffffffe0000000c')
    assert.equal(binary(OID.interval, '-1 mons +3 days -00:00:01'), 'fffffffffff0bdc000000003ffffffff')
    assert.equal(binary(OID.interval, '00:00:00'), '00000000000000000000000000000000')
    assert.equal(binary(OID.timetz, '12:00:00.5+05:30'), '0000000a0ef35120ffffb2a8')
    assert.equal(binary(OID.timetz, '12:00:00-05:30:15'), '0000000a0eebb00000004d67')
    assert.equal(binary(OID.varbit, '1011000111'), '0000000ab1c0')
    assert.equal(binary(OID.varbit, ''), '00000000')
    assert.equal(binary(OID.date, '5874897-12-31'), '7fda970c')
    assert.equal(binary(OID.date, '0001-12-31 BC'), 'fff4dbf8')
    assert.equal(binary(OID.date, '-infinity'), '80000000')
    assert.equal(binary(OID.timestamptz, 'infinity'), '7fffffffffffffff')
  })

  it('is refused of values that have none', () => {
    const bad: readonly (readonly [number, string])[] = [
      [OID.interval, '1 fortnight'],
      [OID.interval, ''],
      [OID.time, '12:00:00.123456789'],
      [OID.timestamp, '2024-01-01 00:00:00.123456789'],
      [OID.timestamp, '290309-12-22 00:00:00 BC'],
      [OID.date, '5877642-06-25 BC'],
      [OID.date, 'yesterday'],
      [OID.timetz, '12:00:00'],
    ]
    for (const [oid, text] of bad) assert.throws(() => binaryOf(oid, Buffer.from(text)), { sqlState: '22008' }, text)
    for (const text of ['1e5', 'x', '9'.repeat(140_000)])
      assert.throws(() => binaryOf(OID.numeric, Buffer.from(text)), { sqlState: '22003' }, text.slice(0, 9))
    assert.throws(() => binaryOf(600, Buffer.from('(1,2)')), { sqlState: '0A000' })
  })
})

describe('values', () => {
  const told = (type: string, text: string) => columnOf({ name: 'x', type }, NAMES).write(Buffer.from(text)).toString()

  it('are written as PostgreSQL writes them', () => {
    assert.equal(told('boolean', 'true'), 't')
    assert.equal(told('binary', 'AP8='), '\\x00ff')
    assert.equal(told('timestamp', '2024-02-29T10:00:00.500000'), '2024-02-29 10:00:00.5')
    assert.equal(told('timestamptz', '2024-02-29T10:00:00.000000Z'), '2024-02-29 10:00:00+00')
    assert.equal(told('timestamptz', 'infinity'), 'infinity')
    assert.equal(told('date', '-000043-03-15'), '0044-03-15 BC')
    assert.equal(told('timestamp', '0000-12-31T00:00:00.000000'), '0001-12-31 00:00:00 BC')
    assert.equal(told('time', '10:20:00.000000'), '10:20:00')
    assert.equal(told('interval', '1 year 2 months 00:00:01'), '1 year 2 mons 00:00:01')
    assert.equal(told('interval', '-1 month 1 day'), '-1 mons +1 day')
    assert.equal(told('interval', '-1 days 01:00:00'), '-1 days +01:00:00')
    assert.equal(told('interval', '-13 months'), '-1 years -1 mons')
    assert.equal(told('interval', '3 days -00:00:00.5'), '3 days -00:00:00.5')
    assert.equal(told('interval', '1000000:00:00'), '1000000:00:00')
  })

  // As a PostgreSQL 18 writes them.
  it('of floating point have an exponent where PostgreSQL begins with one', () => {
    const texts: Readonly<Record<string, readonly (readonly [string, string])[]>> = {
      double: [
        ['100000000000000', '100000000000000'],
        ['1000000000000000', '1e+15'],
        ['-123456789012345680', '-1.2345678901234568e+17'],
        ['1e+308', '1e+308'],
        ['0.0001', '0.0001'],
        ['0.000012', '1.2e-05'],
        ['5e-324', '5e-324'],
        ['-0', '-0'],
        ['NaN', 'NaN'],
        ['-Infinity', '-Infinity'],
      ],
      float: [
        ['100000', '100000'],
        ['1000000', '1e+06'],
        ['1234567.5', '1.2345675e+06'],
        ['3.4028235e+38', '3.4028235e+38'],
        ['1e-7', '1e-07'],
      ],
    }
    for (const [type, cases] of Object.entries(texts))
      for (const [text, expected] of cases) assert.equal(told(type, text), expected)
  })

  it('have the types that hold them', () => {
    const of = (type: string) => columnOf({ name: 'x', type }, NAMES).oid
    assert.deepEqual(
      ['long', 'hugeint', 'decimal(38,9)', 'list<integer>', 'list<struct<a:integer>>', 'json', 'uuid'].map(of),
      [20, 1700, 1700, 1007, 114, 114, 2950],
    )
    assert.equal(columnOf({ name: 'x', type: 'decimal(12,3)' }, NAMES).modifier, ((12 << 16) | 3) + 4)
  })

  it('of sums are told as bigint as far as they are ones', () => {
    const column = toldAs(columnOf({ name: 'sum', type: 'hugeint' }, NAMES), 'hugeint', OID.int8)
    const written = (text: string) => cellBinary(column.oid, column.write(Buffer.from(text))).readBigInt64BE()
    for (const value of [2n ** 63n - 1n, -(2n ** 63n), 0n]) assert.equal(written(String(value)), value)
    for (const value of [2n ** 63n, -(2n ** 63n) - 1n]) {
      assert.throws(
        () => written(String(value)),
        (error: WireError) => error.sqlState === '22003',
      )
    }
  })

  it('of lists are arrays, as text and in binary, of which a parameter is read again', () => {
    const elements = ['plain', '', 'null', 'a b', '{x}', 'a"b\\c', ',', 'é', null]
    const column = columnOf({ name: 'x', type: 'list<string>' }, NAMES)
    const text = column.write(Buffer.from(JSON.stringify(elements)))
    assert.equal(text.toString(), String.raw`{plain,"","null","a b","{x}","a\"b\\c",",",é,NULL}`)
    assert.deepEqual(elementsInText(text.toString()), elements)
    const told = elementsInBinary(OID.text, cellBinary(column.oid, text)).map((one) => one?.toString() ?? null)
    assert.deepEqual(told, elements)
    const written = (type: string, json: string) =>
      columnOf({ name: 'x', type }, NAMES).write(Buffer.from(json)).toString()
    assert.equal(written('list<long>', '["9007199254740993",-5,null]'), '{9007199254740993,-5,NULL}')
    assert.equal(written('list<boolean>', '[true,false]'), '{t,f}')
    assert.equal(written('list<timestamp>', '["2024-02-29T10:15:30.500000"]'), '{"2024-02-29 10:15:30.5"}')
    assert.equal(written('list<date>', '[]'), '{}')
    assert.deepEqual(elementsInBinary(OID.date, cellBinary(1182, Buffer.from('{}'))), [])
  })

  it('are called as PostgreSQL calls them, but where a name was chosen', () => {
    const named = (name: string, sql: string) => columnOf({ name, type: 'long' }, resultNames(wordsOf(sql))).name
    assert.equal(named('count_star()', 'select count(*) from a.b'), 'count')
    assert.equal(named('sum(x)', 'select sum(x) from a.b'), 'sum')
    assert.equal(named('sum(x)', 'select x as "sum(x)" from a.b'), 'sum(x)')
    assert.equal(named('price(eur)', 'select * from a.b'), 'price(eur)')
    assert.equal(named('sum(x)', 'select *, sum(x) from a.b'), 'sum')
  })

  it('are in as many columns as a message can tell', () => {
    const columns = Array.from({ length: 32_768 }, (_, at) => ({ name: `c${at}`, type: 'long', masked: false }))
    const names = resultNames(wordsOf('select * from a.b'))
    assert.equal(columnsOf({ columns: columns.slice(1) }, names).length, 32_767)
    assert.throws(() => columnsOf({ columns }, names), { sqlState: '54011' })
  })

  it('of parameters are read by their type, or refused', () => {
    const text = (value: string) => ({ format: 0, bytes: Buffer.from(value) }) as const
    assert.equal(valueOf(OID.int4, text('7')), 7)
    assert.equal(valueOf(OID.int8, text('9223372036854775807')), '9223372036854775807')
    assert.equal(valueOf(OID.bool, text('f')), false)
    assert.equal(valueOf(OID.text, { format: 0, bytes: null }), null)
    assert.throws(() => valueOf(OID.int4, text('7; drop')), { sqlState: '22P02' })
    assert.throws(() => valueOf(OID.int4, { format: 1, bytes: Buffer.alloc(3) }), { sqlState: '22P03' })
    assert.throws(() => valueOf(OID.text, { format: 0, bytes: Buffer.from([0xff]) }), { sqlState: '22021' })
    assert.deepEqual(
      parameterOids(wordsOf('select $1::bigint, cast($2 as timestamp with time zone), $3'), [0, 0]),
      [20, 1184, 0],
    )
    assert.deepEqual(parameterOids(wordsOf('select $1 as date'), []), [0])
  })

  it('of parameters are compared as what they are: cast to their own type, and no other', () => {
    const text = (value: string) => ({ format: 0, bytes: Buffer.from(value) }) as const
    for (const [oid, given, value, type] of [
      [OID.int4, '7', 7, 'INTEGER'],
      [OID.numeric, '-0.00040', '-0.00040', 'DECIMAL(5, 5)'],
      [OID.numeric, '12.5', '12.5', 'DECIMAL(3, 1)'],
      [OID.numeric, 'NaN', 'NaN', 'DOUBLE'],
      [OID.numeric, `1${'0'.repeat(38)}`, `1${'0'.repeat(38)}`, 'DOUBLE'],
      [OID.date, '2024-01-31 +02', '2024-01-31', 'DATE'],
      [OID.timestamp, '2024-01-31 10:00:00.5+02', '2024-01-31 10:00:00.5', 'TIMESTAMP'],
      [OID.timestamptz, '2024-01-31 10:00:00+02', '2024-01-31 10:00:00+02', 'TIMESTAMPTZ'],
      [OID.bytea, '\\x00fF', '\\x00\\xfF', 'BLOB'],
      [0, '2024-01-31', '2024-01-31', null],
    ] as const)
      assert.deepEqual(typedValueOf(oid, text(given)), { value, type }, given)
    assert.deepEqual(typedValueOf(OID.bytea, { format: 1, bytes: Buffer.from([1, 255]) }).value, '\\x01\\xff')
    assert.throws(() => typedValueOf(OID.bytea, text('x')), { sqlState: '22P02' })
    const sql = "select $2 as a, '$1', $1::date from x where b = $1 and cast($2 as int) > 1"
    assert.equal(
      castText(sql, parameterPlaces({ words: wordsOf(sql) }), ['DATE', 'INTEGER']),
      "select CAST($2 AS INTEGER) as a, '$1', $1::date from x where b = CAST($1 AS DATE) and cast($2 as int) > 1",
    )
    const places = 'select $1::numeric, cast($1 as decimal), $1::numeric(5,2), $1::numeric[], $1::numeric(5,2)[]'
    assert.equal(
      castText(places, parameterPlaces({ words: wordsOf(places) }), ['T']),
      'select CAST($1 AS T), CAST($1 AS T), $1::numeric(5,2), CAST($1 AS T), $1::numeric(5,2)[]',
    )
  })

  it('of parameters that are arrays are lists, whatever the texts in them are, and as hostile as they may be', () => {
    const [text, bytes] = [1009, (value: string) => Buffer.from(value)]
    const unit = fc.constantFrom(...'",\\{}[] a\n', 'NULL', 'é')
    const elements = fc.array(fc.option(fc.string({ unit, maxLength: 8 }), { nil: null }), { maxLength: 5 })
    const listed = (list: readonly (string | null)[]): string =>
      `[${list.map((one) => (one === null ? 'NULL' : `"${one.replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"`)).join(', ')}]`
    fc.assert(
      fc.property(elements, (list) => {
        const written = `{${listed(list).slice(1, -1)}}`
        assert.deepEqual(typedValueOf(text, { format: 0, bytes: bytes(written) }), {
          value: listed(list),
          type: 'VARCHAR[]',
        })
        const parts = list.map((one) => (one === null ? null : bytes(one)))
        const cells = parts.map((one) => {
          const length = Buffer.alloc(4)
          length.writeInt32BE(one?.length ?? -1)
          return Buffer.concat([length, one ?? Buffer.alloc(0)])
        })
        const head = Buffer.alloc(20)
        for (const [at, number] of [1, 0, 25, list.length, 1].entries()) head.writeInt32BE(number, at * 4)
        const binary = Buffer.concat([head, ...cells])
        assert.deepEqual(typedValueOf(text, { format: 1, bytes: binary }).value, listed(list))
        for (let end = 0; end < binary.length; end += 1)
          assert.throws(() => typedValueOf(text, { format: 1, bytes: binary.subarray(0, end) }), { sqlState: '22P03' })
      }),
    )
    fc.assert(
      fc.property(fc.string({ unit, maxLength: 30 }), (given) => {
        try {
          typedValueOf(text, { format: 0, bytes: bytes(given) })
        } catch (error) {
          assert.match(String((error as WireError).sqlState), /^(?:22P02|0A000)$/)
        }
      }),
    )
    assert.throws(() => typedValueOf(1007, { format: 0, bytes: bytes(`{${'1,'.repeat(500_000)}x}`) }), {
      sqlState: '22P02',
    })
    assert.throws(() => typedValueOf(text, { format: 0, bytes: bytes(`{"${'\\\\'.repeat(500_000)}`) }), {
      sqlState: '22P02',
    })
    assert.deepEqual(typedValueOf(1231, { format: 0, bytes: bytes('{10.5,-0.0004,NULL}') }).type, 'DECIMAL(6, 4)[]')
    assert.throws(() => typedValueOf(OID.int2, { format: 0, bytes: bytes('32768') }), { sqlState: '22003' })
    assert.throws(() => typedValueOf(1007, { format: 0, bytes: bytes('{{1}}') }), { sqlState: '0A000' })
  })

  it('of arrays in braces are what their escapes name, and escapes that name nothing are the statement’s own fault', () => {
    const listed = (text: string): string | undefined =>
      statementsOf(`SELECT E'{${text}}'::text[]`).map(withLists)[0]?.sql
    for (const [text, told] of [
      ['\\101\\x42\\u0043\\U00000044', 'ABCD'],
      ['\\xc3\\xa9\\303\\251\\u00e9', 'ééé'],
      ['\\ud83d\\ude00\\U0001f600', '\u{1f600}\u{1f600}'],
      ["it''s \\'", "it''s ''"],
    ] as const) {
      assert.equal(listed(text), `SELECT '["${told}"]'::text[]`, text)
    }
    const codes = fc.oneof(fc.integer({ min: 0, max: 0xffff_ffff }), fc.integer({ min: 0, max: 0x11_ffff }))
    const code = codes.map((one) => `\\U${one.toString(16).padStart(8, '0')}`)
    const escape = fc.oneof(code, fc.stringMatching(/^\\[xuU][0-9a-f]{0,4}$/), fc.stringMatching(/^\\[0-7]{1,4}$/))
    fc.assert(
      fc.property(fc.array(escape, { minLength: 1, maxLength: 4 }), (escapes) => {
        try {
          listed(escapes.join(''))
        } catch (error) {
          assert.match(String((error as WireError).sqlState), /^(?:22021|22025|42601|22P02|0A000)$/, String(error))
        }
      }),
    )
    for (const [text, sqlState] of [
      ['\\UFFFFFFFF', '42601'],
      ['\\ud800', '42601'],
      ['\\u12', '22025'],
      ['\\000', '22021'],
      ['\\xff', '22021'],
    ] as const) {
      assert.throws(() => listed(text), { sqlState }, text)
    }
  })
})

/** A server that speaks as much of PostgreSQL as its connector asks for, and then sends whatever a test wants. */
import { createServer, type Socket } from 'node:net'
import { type Attack, flood, floodAfter, GARBAGE, type HostileKind, type HostileSource } from './hostile-source.ts'

/** `rows` is in the middle of `COPY … TO STDOUT`. */
type Place = 'login' | 'query' | 'catalog' | 'rows'

const BACKEND_TYPES = [...'RKSZTDCENA123nsItGHWdcVv'] as const

/** A well-formed message of every type, as far as one can be well-formed alone. */
const BODIES: Readonly<Record<string, Buffer>> = {
  R: int32(0),
  K: Buffer.concat([int32(1), int32(2)]),
  S: Buffer.from('server_version\x0016.0\0'),
  Z: Buffer.from('I'),
  T: rowDescription([['a', 25]]),
  D: dataRow(['x']),
  C: Buffer.from('SELECT 1\0'),
  E: Buffer.from('SERROR\0C42P01\0Mnone\0\0'),
  N: Buffer.from('SNOTICE\0C00000\0Mnone\0\0'),
  A: Buffer.concat([int32(1), Buffer.from('channel\0payload\0')]),
  t: Buffer.concat([int16(1), int32(25)]),
  G: Buffer.concat([Buffer.from([0]), int16(1), int16(0)]),
  H: Buffer.concat([Buffer.from([0]), int16(1), int16(0)]),
  W: Buffer.concat([Buffer.from([0]), int16(1), int16(0)]),
  d: Buffer.from('"1"\n'),
  V: int32(-1),
  v: Buffer.concat([int32(0), int32(0)]),
}

function message(type: string, body: Buffer = BODIES[type] ?? Buffer.alloc(0), length = body.length + 4): Buffer {
  const header = Buffer.alloc(5)
  header.write(type, 0, 'latin1')
  header.writeUInt32BE(length >>> 0, 1)
  return Buffer.concat([header, body])
}

const TABLE_OID = '16384'
const TEXT = 25
const TEXTS = 1009
const BOOL = 16
const INT4 = 23
const FLOAT8 = 701

async function startHostilePostgresql(): Promise<HostileSource> {
  let attacking: { readonly place: string; readonly attack: Attack } | null = null
  const lines = new Set<Socket>()
  const server = createServer((line) => {
    lines.add(line)
    line.on('error', () => {}).on('close', () => lines.delete(line))
    converse(line, source, (place) => (attacking?.place === place ? attacking.attack : null))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const source: HostileSource = {
    port: (server.address() as { port: number }).port,
    columns: ['id'],
    message,
    attack: (place, attack) => {
      attacking = attack === null ? null : { place, attack }
    },
    stop: async () => {
      for (const line of lines) line.destroy()
      await new Promise((resolve) => server.close(resolve))
    },
  }
  return source
}

function converse(line: Socket, source: HostileSource, attackAt: (place: Place) => Attack | null): void {
  let unread = Buffer.alloc(0)
  let isIn = false
  let isTakenOver = false
  let text = ''
  const take = (place: Place): boolean => {
    const attack = attackAt(place)
    if (attack === null) return false
    isTakenOver = true
    attack(line)
    return true
  }
  line.on('data', (chunk) => {
    unread = Buffer.concat([unread, chunk])
    while (!isTakenOver) {
      const headerBytes = isIn ? 5 : 4
      if (unread.length < headerBytes) return
      const length = unread.readInt32BE(headerBytes - 4) + (isIn ? 1 : 0)
      if (unread.length < length) return
      const one = unread.subarray(0, length)
      unread = unread.subarray(length)
      if (!isIn) {
        isIn = true
        if (!take('login')) line.write(Buffer.concat([message('R'), message('K'), message('Z')]))
      } else if (one[0] === 'P'.charCodeAt(0)) {
        text = cString(one, one.indexOf(0, 5) + 1)
      } else if (one[0] === 'S'.charCodeAt(0)) {
        if (!take('catalog')) line.write(catalogAnswer(text, source.columns))
      } else if (one[0] === 'Q'.charCodeAt(0)) {
        const sql = cString(one, 5)
        if (sql.startsWith('COPY')) {
          line.write(Buffer.concat([message('H'), message('d'), message('d')]))
          if (!take('rows'))
            line.write(Buffer.concat([message('c'), message('C', Buffer.from('COPY 2\0')), message('Z')]))
        } else if (sql.includes('server_version')) {
          const answer = [
            message('T', rowDescription([['version', TEXT]])),
            message('D', dataRow(['16.0'])),
            message('C'),
          ]
          if (!take('catalog')) line.write(Buffer.concat([...answer, message('Z')]))
        } else if (!take('query')) {
          line.write(Buffer.concat([message('C', Buffer.from('BEGIN\0')), message('Z')]))
        }
      }
    }
  })
}

function catalogAnswer(sql: string, columns: readonly string[]): Buffer {
  const [description, rows] = catalogRows(sql, columns)
  const data = rows.map((row) => message('D', dataRow(row)))
  return Buffer.concat([
    message('1'),
    message('2'),
    message('T', rowDescription(description)),
    ...data,
    message('C'),
    message('Z'),
  ])
}

type Described = readonly (readonly [name: string, type: number])[]

function catalogRows(
  sql: string,
  columns: readonly string[],
): readonly [Described, readonly (readonly (string | null)[])[]] {
  if (sql.includes('attrelid') && sql.includes('ordinal')) {
    const described: Described = [
      ['oid', TEXT],
      ['ordinal', INT4],
      ['name', TEXT],
      ['nullable', BOOL],
      ['source_type', TEXT],
      ['type_name', TEXT],
      ['builtin', BOOL],
      ['type_kind', TEXT],
      ['category', TEXT],
      ['modifier', INT4],
    ]
    const rows = columns.map((name, index) => [
      TABLE_OID,
      String(index + 1),
      name,
      't',
      'text',
      'text',
      't',
      'b',
      'S',
      '-1',
    ])
    return [described, rows]
  }
  if (sql.includes('primary_key')) {
    const described: Described = [
      ['oid', TEXT],
      ['schema', TEXT],
      ['name', TEXT],
      ['kind', TEXT],
      ['estimate', FLOAT8],
      ['primary_key', TEXTS],
    ]
    return [described, [[TABLE_OID, 'public', 't', 'r', '2', '{}']]]
  }
  return [[['count', FLOAT8]], [['1']]]
}

function rowDescription(columns: Described): Buffer {
  const fields = columns.map(([name, type]) =>
    Buffer.concat([Buffer.from(`${name}\0`), int32(0), int16(0), int32(type), int16(-1), int32(-1), int16(0)]),
  )
  return Buffer.concat([int16(columns.length), ...fields])
}

function dataRow(values: readonly (string | null)[]): Buffer {
  const cells = values.map((value) => {
    if (value === null) return int32(-1)
    const bytes = Buffer.from(value)
    return Buffer.concat([int32(bytes.length), bytes])
  })
  return Buffer.concat([int16(values.length), ...cells])
}

function cString(bytes: Buffer, from: number): string {
  return bytes.toString('utf8', from, bytes.indexOf(0, from))
}

function int16(value: number): Buffer {
  const bytes = Buffer.alloc(2)
  bytes.writeInt16BE(value)
  return bytes
}

function int32(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeInt32BE(value)
  return bytes
}

export const hostilePostgresql: HostileKind = {
  plugin: '@sluice/connectors/postgresql',
  schema: 'public',
  start: startHostilePostgresql,
  bodies: Object.fromEntries(BACKEND_TYPES.map((type) => [type, BODIES[type] ?? Buffer.alloc(0)])),
  places: ['login', 'query', 'catalog', 'rows'],
  lengths: { 'of length zero': 0, 'of negative length': -1, 'announced as 2 GiB': 0x7fffffff },
  endless: [
    [
      'rows without end where the catalog was asked for',
      'catalog',
      'discover',
      () => flood(message('D', Buffer.alloc(64 * 1024))),
    ],
    ['notices without end', 'rows', 'read', () => flood(Buffer.concat(Array(500).fill(message('N'))))],
    ['a message of 2 GiB that comes', 'query', 'discover', () => floodAfter(message('D', GARBAGE, 0x7fffffff))],
    ['a row of 4 GiB that comes', 'rows', 'read', () => floodAfter(message('d', GARBAGE, 0xfffffff0))],
    ['an error without fields', 'login', 'check', () => (line) => line.write(message('E', Buffer.alloc(0)))],
    ['silence', 'query', 'check', () => () => {}],
    ['silence', 'catalog', 'discover', () => () => {}],
    ['silence', 'rows', 'read', () => () => {}],
  ],
  names: [
    ...['a"b', "a'b", 'a\nb', 'a\tb', '\u202egnp.exe', '\u0007bell', '\u001b[31mred', ' '],
    ...['ä'.repeat(31), '$1'],
  ],
  mostColumns: 10_000,
}

/** A server that speaks as much of PostgreSQL as its connector asks for, and then sends whatever a test wants. */
import { createServer, type Socket } from 'node:net'

/** Where in the conversation it turns hostile: `rows` is in the middle of `COPY … TO STDOUT`. */
export type Place = 'login' | 'query' | 'catalog' | 'rows'
export const PLACES = ['login', 'query', 'catalog', 'rows'] as const

/** Takes the line over. */
export type Attack = (line: Socket) => void

export interface HostileSource {
  readonly port: number
  /** From the next connection on; null: none. */
  attack(place: Place, attack: Attack | null): void
  /** What discover and read find. */
  columns: readonly string[]
  stop(): Promise<void>
}

export const BACKEND_TYPES = [...'RKSZTDCENA123nsItGHWdcVv'] as const

/** A well-formed message of every type, as far as one can be well-formed alone. */
export const BODIES: Readonly<Record<string, Buffer>> = {
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

export function message(
  type: string,
  body: Buffer = BODIES[type] ?? Buffer.alloc(0),
  length = body.length + 4,
): Buffer {
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

export async function startHostileSource(): Promise<HostileSource> {
  let attacking: { readonly place: Place; readonly attack: Attack } | null = null
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

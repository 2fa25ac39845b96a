/** A server that speaks as much of MariaDB as its connector asks for, and then sends whatever a test wants. */
import { createServer, type Socket } from 'node:net'
import { type Attack, floodAfter, GARBAGE, type HostileKind, type HostileSource } from './hostile-source.ts'

/** `rows` is in the middle of the answer to a SELECT. */
type Place = 'greeting' | 'login' | 'query' | 'catalog' | 'rows'

const NEVER_ENDS = 0xfffffe

const ERROR = Buffer.concat([Buffer.from([0xff, 0x7a, 0x04]), Buffer.from('#42S02none')])
const END = Buffer.from([0xfe, 0, 0, 2, 0])
const OK = Buffer.from([0, 0, 0, 2, 0, 0, 0])

/** A well-formed message of every type, as far as one can be well-formed alone. */
const BODIES: Readonly<Record<string, Buffer>> = {
  greeting: greeting(),
  ok: OK,
  error: ERROR,
  'an error without a state': Buffer.from([0xff, 0x15]),
  end: END,
  'a count of columns': Buffer.from([1]),
  'a count of 8,000 columns': Buffer.from([0xfc, 0x40, 0x1f]),
  'a count of 2^64 columns': Buffer.from([0xfe, 255, 255, 255, 255, 255, 255, 255, 255]),
  column: description('c'),
  row: row(['x']),
  'a row of null': Buffer.from([0xfb]),
  'a value of 16 MiB that is not there': Buffer.from([0xfd, 255, 255, 255]),
  'a request for a file': Buffer.from('\xfb/etc/passwd', 'latin1'),
  'another method of login': Buffer.from('\xfemysql_clear_password\0', 'latin1'),
  'a method that nobody knows': Buffer.from('\xfedialog\0Your PIN?', 'latin1'),
  'more of a login': Buffer.from([1, 4]),
  empty: Buffer.alloc(0),
}

async function startHostileMariadb(): Promise<HostileSource> {
  let attacking: { readonly place: string; readonly attack: Attack } | null = null
  const lines = new Set<Socket>()
  const spoken = { sequence: 0 }
  const source: HostileSource = {
    port: 0,
    columns: ['id'],
    message: (_, body = Buffer.alloc(0), length = body.length) => framed(spoken, body, length),
    attack: (place, attack) => {
      attacking = attack === null ? null : { place, attack }
    },
    stop: async () => {
      for (const line of lines) line.destroy()
      await new Promise((resolve) => server.close(resolve))
    },
  }
  const server = createServer((line) => {
    lines.add(line)
    line.on('error', () => {}).on('close', () => lines.delete(line))
    converse(
      line,
      source,
      (place) => {
        if (attacking?.place !== place) return null
        return attacking.attack
      },
      spoken,
    )
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return Object.assign(source, { port: (server.address() as { port: number }).port })
}

interface Spoken {
  /** Of the next message, on the line that was spoken on last. */
  sequence: number
}

function framed(spoken: Spoken, body: Buffer, length = body.length): Buffer {
  const header = Buffer.alloc(4)
  header.writeUIntLE(Math.min(length, 0xffffff), 0, 3)
  header[3] = spoken.sequence
  spoken.sequence = (spoken.sequence + 1) & 255
  return Buffer.concat([header, body])
}

function converse(
  line: Socket,
  source: HostileSource,
  attackAt: (place: Place) => Attack | null,
  spoken: Spoken,
): void {
  let unread = Buffer.alloc(0)
  let isIn = false
  let isTakenOver = false
  const say = (place: Place | null, bodies: readonly Buffer[]) => {
    const attack = place === null ? null : attackAt(place)
    if (attack === null) {
      line.write(Buffer.concat(bodies.map((body) => framed(spoken, body))))
      return
    }
    isTakenOver = true
    attack(line)
  }
  spoken.sequence = 0
  say('greeting', [greeting()])
  line.on('data', (chunk) => {
    unread = Buffer.concat([unread, chunk])
    while (!isTakenOver && unread.length >= 4) {
      const length = unread.readUIntLE(0, 3) + 4
      if (unread.length < length) return
      const payload = unread.subarray(4, length)
      spoken.sequence = ((unread[3] ?? 0) + 1) & 255
      unread = unread.subarray(length)
      if (!isIn) {
        isIn = true
        say('login', [OK])
      } else if (payload[0] === 3) {
        for (const said of answers(payload.toString('utf8', 1), source.columns)) say(...said)
      } else {
        line.end()
      }
    }
  })
}

type Said = readonly [place: Place | null, bodies: readonly Buffer[]]

function answers(sql: string, columns: readonly string[]): readonly Said[] {
  if (sql.includes('INNODB_TRX')) return [['query', table(['age'], [['0']])]]
  if (sql.includes('information_schema.TABLES')) {
    const found = ['public', 't', 'BASE TABLE', 'InnoDB', '2', '1', '']
    return [['catalog', table(['s', 'n', 't', 'e', 'r', 'c', 'o'], [found])]]
  }
  if (sql.includes('information_schema.COLUMNS')) {
    const rows = columns.map((name, at) => ['t', String(at + 1), name, 'YES', 'text', 'text', null, null, '', null, ''])
    return [['catalog', table(['t', 'p', 'n', 'y', 'd', 'c', 'a', 'b', 'e', 'g', 'l'], rows)]]
  }
  if (sql.includes('information_schema.STATISTICS')) return [['catalog', table(['t', 'c'], [])]]
  if (sql.includes('LIMIT 0')) return [['query', table(['1'], [])]]
  if (!sql.includes(' AS t')) return [['query', [OK]]]
  const cells = columns.map(() => 'x')
  // The attack comes after the first row.
  return [
    [null, table(columns, [cells]).slice(0, -1)],
    ['rows', [row(cells), END]],
  ]
}

function table(names: readonly string[], rows: readonly (readonly (string | null)[])[]): readonly Buffer[] {
  return [lengthOf(names.length), ...names.map(description), END, ...rows.map(row), END]
}

function greeting(): Buffer {
  const [low, high] = [0xa20e, 0x0008]
  return Buffer.concat([
    Buffer.from('\x0a10.11.0-MariaDB\0'),
    Buffer.from([7, 0, 0, 0]),
    Buffer.from('12345678\0'),
    Buffer.from([low & 255, low >> 8, 45, 2, 0, high & 255, high >> 8, 21]),
    Buffer.alloc(10),
    Buffer.from('123456789012\0mysql_native_password\0'),
  ])
}

function description(name: string): Buffer {
  const texts = ['def', 'public', 't', 't', name, name].map(text)
  return Buffer.concat([...texts, Buffer.from([12, 45, 0, 0, 0, 0, 0, 0xfd, 0, 0, 0, 0, 0])])
}

function row(values: readonly (string | null)[]): Buffer {
  return Buffer.concat(values.map((value) => (value === null ? Buffer.from([0xfb]) : text(value))))
}

function text(value: string): Buffer {
  const bytes = Buffer.from(value)
  return Buffer.concat([lengthOf(bytes.length), bytes])
}

function lengthOf(value: number): Buffer {
  return value < 0xfb ? Buffer.from([value]) : Buffer.from([0xfc, value & 255, value >> 8])
}

export const hostileMariadb: HostileKind = {
  plugin: '@sluice/connectors/mariadb',
  schema: 'public',
  start: startHostileMariadb,
  bodies: BODIES,
  places: ['greeting', 'login', 'query', 'catalog', 'rows'],
  lengths: { 'of length zero': 0, 'announced as 1 MiB': 1 << 20, 'announced as 16 MiB': NEVER_ENDS },
  endless: [
    ['a catalog without end', 'catalog', 'discover', floodOf([[1], description('c'), END], row(['x'.repeat(65_000)]))],
    ['columns without end', 'catalog', 'discover', floodOf([[0xfc, 0x40, 0x1f]], description('c'.repeat(60_000)))],
    [
      'rows without end, each of 16 MiB',
      'rows',
      'read',
      (source) => floodAfter(source.message('', GARBAGE, NEVER_ENDS)),
    ],
    ['a row of packets without end', 'rows', 'read', (source) => floodOf([], Buffer.alloc(0xffffff, 'x'))(source)],
    [
      'a message of 16 MiB that comes',
      'query',
      'check',
      (source) => floodAfter(source.message('', GARBAGE, NEVER_ENDS)),
    ],
    ['methods of login without end', 'login', 'check', floodOf([], BODIES['another method of login'] as Buffer)],
    ['silence', 'greeting', 'check', () => () => {}],
    ['silence', 'query', 'check', () => () => {}],
    ['silence', 'catalog', 'discover', () => () => {}],
    ['silence', 'rows', 'read', () => () => {}],
  ],
  names: [
    ...['a"b', "a'b", 'a`b', 'a\nb', 'a\tb', '\u202egnp.exe', '\u0007bell', '\u001b[31mred', ' '],
    ...['ä'.repeat(64), '\\'],
  ],
  mostColumns: 4_000,
}

/** Messages that are numbered in turn, so that nobody is spared the next one. */
function floodOf(start: readonly (Buffer | readonly number[])[], next: Buffer): (source: HostileSource) => Attack {
  return (source) => (line) => {
    for (const body of start) line.write(source.message('', Buffer.from(body)))
    const more = () => {
      while (!line.destroyed && line.write(source.message('', next))) {
        // Until it is full.
      }
    }
    line.on('drain', more)
    more()
  }
}

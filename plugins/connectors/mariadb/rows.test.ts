import assert from 'node:assert/strict'
import type { Socket } from 'node:net'
import { PassThrough } from 'node:stream'
import { test } from 'node:test'
import type { ReadEvent } from '@sluice/sdk'
import type { RelationColumn } from './relation.ts'
import { Rows } from './rows.ts'
import type { CellKind } from './types.ts'
import { Garbled, Packets } from './wire/packets.ts'

const column = (name: string, kind: CellKind): RelationColumn => ({
  ...{ name, ordinal: 1, nullable: true, sourceType: '', isInvisible: false, isChangeTime: false, generation: '' },
  carriage: { type: 'string', kind },
})

const COLUMNS = [column('id', 'text'), column('body', 'text'), column('bytes', 'bytes'), column('day', 'date')]

function packet(sequence: number, ...cells: readonly (string | null)[]): Buffer {
  const body = Buffer.concat(
    cells.map((cell) => {
      if (cell === null) return Buffer.from([0xfb])
      const bytes = Buffer.from(cell)
      const length = bytes.length < 0xfb ? [bytes.length] : [0xfc, bytes.length & 255, bytes.length >> 8]
      return Buffer.concat([Buffer.from(length), bytes])
    }),
  )
  const header = Buffer.alloc(4)
  header.writeUIntLE(body.length, 0, 3)
  header[3] = sequence
  return Buffer.concat([header, body])
}

const END = (sequence: number) => Buffer.from([5, 0, 0, sequence, 0xfe, 0, 0, 2, 0])

async function read(chunks: readonly Buffer[]): Promise<{ readonly csv: string; readonly rejects: readonly string[] }> {
  const line = new PassThrough()
  const packets = new Packets(line as unknown as Socket)
  const rows = new Rows({ columns: COLUMNS, primaryKey: ['id'], optional: new Set(), marks: false })
  const events: ReadEvent[] = []
  for (const chunk of chunks) line.write(chunk)
  line.end()
  for await (const event of rows.take(packets)) events.push(event)
  return {
    csv: Buffer.concat(events.flatMap((event) => (event.kind === 'csv' ? [event.chunk] : []))).toString(),
    rejects: events.flatMap((event) => (event.kind === 'reject' ? [`${event.key?.['id']} ${event.column}`] : [])),
  }
}

const LONG = 'ä"'.repeat(9000)
const SENT = Buffer.concat([
  packet(0, '1', 'a"b', '\n', '2024-02-29'),
  packet(1, '2', null, '', '2024-00-10'),
  packet(2, '3', LONG, null, null),
  END(3),
])
const CSV = `"1","a""b","\\x0a","2024-02-29"\n"3","${LONG.replaceAll('"', '""')}",,\n`

test('rows come whole wherever the pieces that they come in end', async () => {
  for (const size of [1, 2, 3, 7, 64, 8192, SENT.length]) {
    const pieces = Array.from({ length: Math.ceil(SENT.length / size) }, (_, at) =>
      SENT.subarray(at * size, (at + 1) * size),
    )
    assert.deepEqual(await read(pieces), { csv: CSV, rejects: ['2 day'] }, `pieces of ${size}`)
  }
})

test('what is no row is refused, and never read as one', async () => {
  const wrong = {
    'a row with a cell too few': packet(0, '1', 'a', 'b'),
    'a row with a cell too many': packet(0, '1', 'a', 'b', null, 'c'),
    'a value that is longer than its row': Buffer.from([2, 0, 0, 0, 200, 65]),
    'a number that is not in turn': packet(7, '1', 'a', 'b', null),
  }
  for (const [what, bytes] of Object.entries(wrong)) {
    await assert.rejects(read([bytes, END(1)]), Garbled, what)
  }
})

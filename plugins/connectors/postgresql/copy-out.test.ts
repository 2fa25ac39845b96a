import assert from 'node:assert/strict'
import { PassThrough } from 'node:stream'
import { test } from 'node:test'
import type { Connection } from 'pg'
import { type CopyItem, CopyOut, isRefused } from './copy-out.ts'

function message(type: string, body: string): Buffer {
  const bytes = Buffer.from(body)
  const header = Buffer.alloc(5)
  header.write(type, 0, 'latin1')
  header.writeUInt32BE(bytes.length + 4, 1)
  return Buffer.concat([header, bytes])
}

/** A line whose driver knows three messages: the end of a command, the end of the cycle, an error. */
function lineTo(copy: CopyOut) {
  const stream = new PassThrough()
  let tail = Buffer.alloc(0)
  const driver = (chunk: Buffer) => {
    tail = Buffer.concat([tail, chunk])
    for (;;) {
      const length = tail.length < 5 ? Number.POSITIVE_INFINITY : 1 + tail.readUInt32BE(1)
      if (tail.length < length) return
      const type = tail.toString('latin1', 0, 1)
      if (type === 'C') copy.handleCommandComplete({ text: tail.toString('utf8', 5, length) })
      if (type === 'Z') copy.handleReadyForQuery()
      if (type === 'E') copy.handleError(new Error('as the driver would make it'))
      tail = tail.subarray(length)
    }
  }
  stream.on('data', driver)
  const connection = { stream, query: () => undefined } as unknown as Connection
  copy.submit(connection)
  return stream
}

async function collect(copy: CopyOut): Promise<{ text: string; refused: (readonly [string, string])[] }> {
  const items: CopyItem[] = []
  for await (const item of copy) items.push(item)
  const chunks = items.flatMap((item) => (isRefused(item) ? [] : [item]))
  const refused = items.filter(isRefused).map(({ columns, csv }) => [columns.join(' '), csv.toString()] as const)
  return { text: Buffer.concat(chunks).toString(), refused }
}

const JUDGED = Buffer.concat([
  message('H', '\0\0\x02\0\0\0\0'),
  message('d', ',"1","ä""\n"\n'),
  message('N', 'SNOTICE\0'),
  message('d', '"12 14","a value that is not carried"\n'),
  message('d', ',\n'),
  message('S', 'name\0value\0'),
  message('d', `,"${'x'.repeat(50)}"\n`),
  message('c', ''),
  message('C', 'COPY 4'),
  message('Z', 'I'),
])

test('rows come out whole, wherever the network cuts them', async () => {
  for (let size = 1; size < JUDGED.length; size += 1) {
    const copy = new CopyOut('', { judged: true })
    const stream = lineTo(copy)
    const collected = collect(copy)
    for (let at = 0; at < JUDGED.length; at += size) stream.write(Buffer.from(JUDGED.subarray(at, at + size)))
    assert.deepEqual(
      await collected,
      { text: `"1","ä""\n"\n\n"${'x'.repeat(50)}"\n`, refused: [['12 14', '"a value that is not carried"\n']] },
      `pieces of ${size}`,
    )
    assert.deepEqual([copy.rows, copy.rejects, copy.running], [3, 1, false])
  }
})

test('rows that are not judged keep their first byte', async () => {
  const copy = new CopyOut('', { judged: false })
  const stream = lineTo(copy)
  const collected = collect(copy)
  stream.write(
    Buffer.concat([
      message('d', ',"b"\n'),
      message('d', '"a",\n'),
      message('c', ''),
      message('C', 'COPY 2'),
      message('Z', 'I'),
    ]),
  )
  assert.deepEqual(await collected, { text: ',"b"\n"a",\n', refused: [] })
})

test('a count other than the server’s is an error', async () => {
  const copy = new CopyOut('', { judged: false })
  const stream = lineTo(copy)
  const collected = collect(copy)
  stream.write(Buffer.concat([message('d', '"a"\n'), message('c', ''), message('C', 'COPY 2'), message('Z', 'I')]))
  await assert.rejects(collected, /another number of rows/)
})

test('an error of the server comes after the rows before it', async () => {
  const copy = new CopyOut('', { judged: false })
  const stream = lineTo(copy)
  const seen: string[] = []
  const reading = (async () => {
    for await (const item of copy) seen.push(String(item))
  })()
  stream.write(Buffer.concat([message('d', '"a"\n'), message('E', 'SERROR\0\0'), message('Z', 'E')]))
  await assert.rejects(reading, /as the driver would make it/)
  assert.equal(seen.length, 1)
})

test('a slow reader makes the line wait', async () => {
  const copy = new CopyOut('', { judged: false })
  const stream = lineTo(copy)
  const row = message('d', `"${'x'.repeat(64 * 1024)}"\n`)
  let sent = 0
  while (!stream.isPaused() && sent < 1000) {
    stream.write(Buffer.from(row))
    sent += 1
    await new Promise(setImmediate)
  }
  assert.ok(sent * row.length < 2 << 20, `${sent} rows were taken in`)
  stream.write(Buffer.concat([message('c', ''), message('C', `COPY ${sent}`), message('Z', 'I')]))
  const { text } = await collect(copy)
  assert.equal(text.length, sent * (row.length - 5))
})

import assert from 'node:assert/strict'
import { PassThrough } from 'node:stream'
import { test } from 'node:test'
import type { Connection } from 'pg'
import { LogStream } from './stream.ts'

function open(): { readonly socket: PassThrough; readonly log: LogStream } {
  const socket = new PassThrough()
  socket.on('data', () => undefined).on('error', () => undefined)
  const log = new LogStream('START_REPLICATION')
  log.submit({ stream: socket, query: () => undefined } as unknown as Connection)
  return { socket, log }
}

const message = (type: string, body: Buffer) => {
  const head = Buffer.alloc(5)
  head.write(type)
  head.writeUInt32BE(body.length + 4, 1)
  return Buffer.concat([head, body])
}
const data = (text: string) => message('d', Buffer.concat([Buffer.from('w'), Buffer.alloc(24), Buffer.from(text)]))

test('messages come whole, however the bytes were cut', async () => {
  const bytes = Buffer.concat([message('W', Buffer.alloc(3)), data('one'), message('N', Buffer.from('x')), data('two')])
  for (const size of [1, 2, 7, bytes.length]) {
    const { socket, log } = open()
    for (let at = 0; at < bytes.length; at += size) socket.write(bytes.subarray(at, at + size))
    const seen: string[] = []
    for await (const item of log) {
      seen.push(item.kind === 'data' ? item.body.toString() : item.kind)
      if (seen.length === 2) break
    }
    assert.deepEqual(seen, ['one', 'two'])
    socket.destroy()
  }
})

test('lengths that lie and messages of no log end the reading at once', async () => {
  const lies = [
    Buffer.from('d\0\0\0\0x'),
    Buffer.from('d\x7f\xff\xff\xff', 'latin1'),
    message('d', Buffer.alloc(0)),
    message('d', Buffer.from('w')),
    message('d', Buffer.from('k')),
    message('d', Buffer.from('zzzz')),
  ]
  for (const bytes of lies) {
    const { socket, log } = open()
    socket.write(bytes)
    await assert.rejects(log[Symbol.asyncIterator]().next(), /^Error: the server sent/)
    assert.ok(socket.destroyed)
  }
})

test('a server that says nothing any more ends the reading, one that is waited for or has news does not', async () => {
  const { socket, log } = open()
  const next = log[Symbol.asyncIterator]().next()
  log.expectNews(1)
  socket.write(data('news'))
  await next
  log.expectNews(1)
  socket.pause()
  log.expectNews(1)
  log.expectNews(1)
  assert.ok(!socket.destroyed)
  socket.resume()
  log.expectNews(1)
  assert.ok(!socket.destroyed, 'it has all the time again')
  log.expectNews(1)
  assert.ok(socket.destroyed)
  await assert.rejects(log[Symbol.asyncIterator]().next(), { name: 'OutOfTime' })
})

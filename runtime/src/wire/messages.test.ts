/** Messages of the protocol as no driver sends them, and bytes that are none: each is answered as it has to be, and harms no one else. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:net'
import { after, before, describe, it } from 'node:test'
import fc from 'fast-check'
import type { RunningWire } from './listener.ts'
import { Frames } from './protocol/frames.ts'
import { clientOf, openWire, person, tokens } from './wire.fixture.ts'

let wire: RunningWire

before(async () => {
  tokens.set('good', person('acme'))
  wire = await openWire()
})
after(() => wire.stop(1_000))

describe('what others send', () => {
  const startup = (...settings: readonly string[]): Buffer => {
    const body = Buffer.concat([
      Buffer.from([0, 3, 0, 0]),
      Buffer.from(settings.map((text) => `${text}\0`).join('')),
      Buffer.from([0]),
    ])
    const length = Buffer.alloc(4)
    length.writeInt32BE(body.length + 4)
    return Buffer.concat([length, body])
  }
  const message = (type: string, body: Buffer, length = body.length + 4): Buffer => {
    const head = Buffer.alloc(5)
    head.write(type)
    head.writeInt32BE(length, 1)
    return Buffer.concat([head, body])
  }

  /** Sends the bytes, and waits until the server has closed. */
  async function throwAt(bytes: Buffer, isAll = true): Promise<Buffer> {
    const socket = connect({ host: '127.0.0.1', port: wire.port })
    const heard: Buffer[] = []
    socket.on('error', () => undefined).on('data', (chunk: Buffer) => heard.push(chunk))
    if (isAll) socket.end(bytes)
    else socket.write(bytes)
    await once(socket, 'close')
    return Buffer.concat(heard)
  }

  const texts = (...all: readonly string[]) => Buffer.from(all.map((text) => `${text}\0`).join(''))
  const parse = (name: string, sql: string) => message('P', Buffer.concat([texts(name, sql), Buffer.alloc(2)]))
  const bind = (statement: string) => message('B', Buffer.concat([texts('', statement), Buffer.alloc(6)]))
  const execute = (rows: number) => message('E', Buffer.from([0, 0, 0, 0, rows]))
  const sync = message('S', Buffer.alloc(0))
  const login = Buffer.concat([startup('user', 'vera', 'database', 'acme'), message('p', Buffer.from('good\0'))])

  /** Types of the messages that answer these, after the login; errors with their state. */
  async function answersTo(...parts: readonly Buffer[]): Promise<readonly string[]> {
    const heard = await throwAt(Buffer.concat([login, ...parts, message('X', Buffer.alloc(0))]), false)
    const frames = new Frames(() => 2 ** 20)
    frames.push(heard)
    const types: string[] = []
    for (let frame = frames.next(); frame !== null; frame = frames.next()) {
      types.push(frame.type === 'E' ? (/\0C(\w{5})\0/.exec(frame.body.toString())?.[1] ?? '') : frame.type)
    }
    return types.slice(types.indexOf('Z') + 1)
  }

  it('is not done after an error, until the next Sync', async () => {
    const query = message('Q', texts('SHOW server_encoding'))
    assert.deepEqual(await answersTo(bind('nothing'), query, sync, query), ['26000', 'Z', 'T', 'D', 'C', 'Z'])
  })

  it('keeps no names without end, tells of parameters of cursors, and ends portals with their transaction', async () => {
    assert.deepEqual(await answersTo(parse('n'.repeat(256), 'SHOW server_encoding'), sync), ['42622', 'Z'])
    const described = message('D', texts('Sa'))
    const declared = await throwAt(
      Buffer.concat([
        login,
        parse('a', 'DECLARE c CURSOR FOR SELECT $1::bigint'),
        described,
        sync,
        message('X', Buffer.alloc(0)),
      ]),
      false,
    )
    assert.ok(declared.includes(message('t', Buffer.from([0, 1, 0, 0, 0, 20]))))
    const [begin, commit] = ['BEGIN', 'COMMIT'].map((sql) => message('Q', texts(sql)))
    const shows = [parse('', 'SHOW server_encoding'), bind('')]
    assert.deepEqual(await answersTo(begin as Buffer, ...shows, sync, commit as Buffer, execute(0), sync), [
      'C',
      'Z',
      '1',
      '2',
      'Z',
      'C',
      'Z',
      '34000',
      'Z',
    ])
  })

  it('cancels nothing where nothing is done, and the portal goes on', async () => {
    const socket = connect({ host: '127.0.0.1', port: wire.port })
    let heard = Buffer.alloc(0)
    socket.on('data', (chunk: Buffer) => {
      heard = Buffer.concat([heard, chunk])
    })
    const until = async (part: Buffer): Promise<void> => {
      while (!heard.includes(part)) await once(socket, 'data')
    }
    socket.write(
      Buffer.concat([login, parse('', 'SHOW server_encoding'), bind(''), execute(1), message('H', Buffer.alloc(0))]),
    )
    await until(message('s', Buffer.alloc(0)))
    const key = heard.subarray(heard.indexOf(Buffer.from([0x4b, 0, 0, 0, 12])) + 5).subarray(0, 8)
    const cancel = Buffer.alloc(8)
    cancel.writeInt32BE(16)
    cancel.writeInt32BE(80_877_102, 4)
    await throwAt(Buffer.concat([cancel, key]))
    socket.write(Buffer.concat([execute(1), sync]))
    await until(message('C', texts('SHOW')))
    socket.destroy()
  })

  it('neither ends nor stops a session beside it', async () => {
    const beside = clientOf(wire, 'good')
    await beside.connect()
    const type = fc.constantFrom(...'QPBDEFCSHXpdfcZz')
    const length = fc.oneof(fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 }), fc.integer({ min: 0, max: 64 }))
    const part = fc.tuple(type, fc.uint8Array({ maxLength: 64 }), fc.option(length, { nil: undefined }))
    const hostile = fc.oneof(
      fc.uint8Array({ maxLength: 64 }).map((bytes) => Buffer.from(bytes)),
      fc
        .array(part, { maxLength: 5 })
        .map((parts) =>
          Buffer.concat([login, ...parts.map(([letter, bytes, told]) => message(letter, Buffer.from(bytes), told))]),
        ),
    )
    await fc.assert(
      fc.asyncProperty(hostile, async (bytes) => {
        await throwAt(bytes)
        assert.deepEqual((await beside.query('SHOW server_encoding')).rows[0], { server_encoding: 'UTF8' })
      }),
      { numRuns: 150 },
    )
    await beside.end()
  })

  it('is refused where it is longer than it may be, before it is kept', async () => {
    const endless = Buffer.from([0x7f, 0xff, 0xff, 0xff, 0, 3, 0, 0])
    assert.match((await throwAt(endless)).toString('latin1'), /08P01/)
    const start = startup('user', 'vera', 'database', 'acme')
    const password = message('p', Buffer.alloc(0), 100_000)
    assert.match((await throwAt(Buffer.concat([start, password]))).toString('latin1'), /08P01/)
    const query = message('Q', Buffer.alloc(0), 2 ** 30)
    const all = Buffer.concat([login, query])
    assert.match((await throwAt(all)).toString('latin1'), /08P01/)
  })

  it('is answered N to TLS and GSSAPI where there is none, and nothing to cancels of nobody', async () => {
    const request = (code: number): Buffer => {
      const bytes = Buffer.alloc(8)
      bytes.writeInt32BE(8)
      bytes.writeInt32BE(code, 4)
      return bytes
    }
    assert.equal((await throwAt(request(80_877_103))).toString('latin1')[0], 'N')
    assert.equal((await throwAt(request(80_877_104))).toString('latin1')[0], 'N')
    const cancel = Buffer.concat([Buffer.from([0, 0, 0, 16]), request(80_877_102).subarray(4), Buffer.alloc(8)])
    assert.equal((await throwAt(cancel)).length, 0)
  })
})

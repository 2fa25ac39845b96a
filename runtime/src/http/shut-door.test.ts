import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { it } from 'node:test'
import koffi from 'koffi'
import { until } from '../../../test/until.ts'
import { passOverConnections } from './shut-door.ts'

const [AF_INET, SOCK_STREAM, SOCK_NONBLOCK] = [2, 1, 0x800]
const [SOL_SOCKET, SO_ATTACH_FILTER, SO_DETACH_FILTER] = [1, 26, 27]

/** A connection whose client has asked for it, and does not hear the kernel's answer before it is told to listen. */
class HalfMade {
  readonly #libc = koffi.load(null)
  readonly #setOption = this.#libc.func('int setsockopt(int fd, int level, int name, void *value, uint32_t length)')
  readonly #fd: number

  constructor(port: number) {
    this.#fd = this.#libc.func('int socket(int family, int type, int protocol)')(
      AF_INET,
      SOCK_STREAM | SOCK_NONBLOCK,
      0,
    )
    const keepNothing = Buffer.from([0x06, 0, 0, 0, 0, 0, 0, 0])
    const program = Buffer.alloc(16)
    program.writeUInt16LE(1)
    program.writeBigUInt64LE(BigInt(koffi.address(keepNothing)), 8)
    assert.equal(this.#setOption(this.#fd, SOL_SOCKET, SO_ATTACH_FILTER, program, program.length), 0)
    const address = Buffer.from([AF_INET, 0, port >> 8, port & 0xff, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0])
    this.#libc.func('int connect(int fd, void *address, uint32_t length)')(this.#fd, address, address.length)
  }

  listen(): void {
    assert.equal(this.#setOption(this.#fd, SOL_SOCKET, SO_DETACH_FILTER, Buffer.alloc(4), 4), 0)
  }

  send(text: string): void {
    const bytes = Buffer.from(text)
    const send = this.#libc.func('long send(int fd, void *bytes, size_t length, int flags)')
    assert.equal(Number(send(this.#fd, bytes, bytes.length, 0)), bytes.length)
  }

  close(): void {
    this.#libc.func('int close(int fd)')(this.#fd)
  }
}

it('lets connections that are being made be made, and passes over later attempts', {
  skip: process.platform !== 'linux',
}, async () => {
  const met: Socket[] = []
  const server = createServer((socket) => met.push(socket))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const halfMade = new HalfMade(port)
  assert.equal(passOverConnections(server), true)
  const later = connect(port, '127.0.0.1')
  const refused = once(later, 'connect').then(
    () => assert.fail('it was connected'),
    (error: NodeJS.ErrnoException) => error.code,
  )
  halfMade.listen()
  // The kernel answers again after a second.
  await until('the connection is made', () => met.length > 0)
  const [socket] = met as [Socket]
  halfMade.send('hello')
  assert.equal(String(await once(socket, 'data')), 'hello')
  halfMade.close()
  await once(socket, 'close')
  assert.equal(met.length, 1)
  server.close()
  assert.equal(await refused, 'ECONNREFUSED')
})

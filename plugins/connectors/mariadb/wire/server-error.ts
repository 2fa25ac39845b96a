import { Fields } from './fields.ts'

/** The server's verdict, without its words: they hold values, names and SQL. */
export class ServerError extends Error {
  override readonly name = 'ServerError'
  readonly errno: number
  readonly sqlState: string

  constructor(errno: number, sqlState: string) {
    super(`error ${errno} of the server`)
    this.errno = errno
    this.sqlState = sqlState
  }

  /** Of a packet that begins with 0xff. */
  static of(packet: Buffer): ServerError {
    const fields = new Fields(packet, 1)
    const errno = fields.number(2)
    const hasState = fields.left >= 6 && packet[3] === '#'.charCodeAt(0)
    return new ServerError(errno, hasState ? packet.toString('latin1', 4, 9) : '')
  }
}

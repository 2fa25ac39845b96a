import type { Libc, NativeFunction } from './libc.ts'

/** Hands an open descriptor to another process, over a socket that both hold (SCM_RIGHTS of unix(7)). */

const SOL_SOCKET = 1
const SCM_RIGHTS = 1
const MSG_DONTWAIT = 0x40
const MSG_CMSG_CLOEXEC = 0x40000000
/** `struct msghdr`, `struct iovec` and `struct cmsghdr` with one descriptor, of 64-bit Linux. */
const MESSAGE_BYTES = 56
const VECTOR_BYTES = 16
const CONTROL_BYTES = 24
const CONTROL_USED = 20n
const DESCRIPTOR_AT = 16

export class DescriptorLine {
  readonly #libc: Libc
  readonly #send: NativeFunction
  readonly #receive: NativeFunction
  // Kept, because the kernel is given their addresses. One byte goes along: without any, nothing is sent.
  readonly #data = Buffer.alloc(1)
  readonly #vector = Buffer.alloc(VECTOR_BYTES)
  readonly #control = Buffer.alloc(CONTROL_BYTES)
  readonly #message = Buffer.alloc(MESSAGE_BYTES)

  constructor(libc: Libc) {
    this.#libc = libc
    this.#send = libc.func('long sendmsg(int socket, void *message, int flags)')
    this.#receive = libc.func('long recvmsg(int socket, void *message, int flags)')
  }

  /** The receiver gets a copy; the sender closes its own. Never waits: throws where the receiver takes none. */
  send(socket: number, descriptor: number): void {
    this.#prepare()
    this.#control.writeBigUInt64LE(CONTROL_USED, 0)
    this.#control.writeInt32LE(SOL_SOCKET, 8)
    this.#control.writeInt32LE(SCM_RIGHTS, 12)
    this.#control.writeInt32LE(descriptor, DESCRIPTOR_AT)
    if (Number(this.#send(socket, this.#message, MSG_DONTWAIT)) === this.#data.length) return
    throw new Error(`a descriptor could not be handed over: errno ${this.#libc.errno()}`)
  }

  /** The oldest that was sent and has not been taken. Throws where there is none. */
  receive(socket: number): number {
    this.#prepare()
    const received = Number(this.#receive(socket, this.#message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC))
    if (received === this.#data.length && this.#control.readInt32LE(12) === SCM_RIGHTS) {
      return this.#control.readInt32LE(DESCRIPTOR_AT)
    }
    throw new Error(`no descriptor was handed over: errno ${this.#libc.errno()}`)
  }

  #prepare(): void {
    this.#control.fill(0)
    this.#message.fill(0)
    this.#vector.writeBigUInt64LE(this.#libc.addressOf(this.#data), 0)
    this.#vector.writeBigUInt64LE(BigInt(this.#data.length), 8)
    this.#message.writeBigUInt64LE(this.#libc.addressOf(this.#vector), 16)
    this.#message.writeBigUInt64LE(1n, 24)
    this.#message.writeBigUInt64LE(this.#libc.addressOf(this.#control), 32)
    this.#message.writeBigUInt64LE(BigInt(CONTROL_BYTES), 40)
  }
}
